//! Whether an acknowledgement comes behind the sync that it promises, by the system calls of the broker (P1).
//!
//! One producer sends lone messages, each after the acknowledgement of the one before. In the trace of the broker each
//! acknowledgement is a write of an HTTP/2 frame of kind DATA to a socket. Between two of them there must be, in this
//! order: a write to the journal or a segment that ended, an `fdatasync` that began after it, and its return.

use danube_client::{Durability, Message};

use crate::broker::{Broker, Options};
use crate::{Measured, Native};

/// What the broker does that matters here, in the order of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// A write to the hot tier returned.
    Written,
    /// An `fdatasync` of the hot tier began, in this thread.
    SyncBegan(u32),
    /// The thread's sync returned without an error.
    Synced(u32),
    /// An acknowledgement is about to be written to a socket.
    Acknowledging,
}

/// How many of the acknowledgements were covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// Acknowledgements behind a sync that covers them.
    pub synced: usize,
    /// Acknowledgements without one.
    pub bare: usize,
}

/// Sends lone messages to a broker under `strace`.
///
/// # Panics
///
/// If an acknowledgement at `disk` was not covered by a sync; or all at `page_cache` were, because then this test can't
/// tell.
#[must_use]
pub fn run(durability: Durability, messages: usize) -> Measured {
    let covered = trace(durability, messages);
    assert!(covered.synced + covered.bare >= messages, "only {covered:?} in the trace");
    if durability.waits_for_disk() {
        assert_eq!(covered.bare, 0, "acknowledged before the sync: {covered:?}");
    } else {
        assert!(covered.bare > messages / 2, "nothing is told apart: {covered:?}");
    }
    Measured::default().with("behind a sync", covered.synced).with("without a sync", covered.bare)
}

fn trace(durability: Durability, messages: usize) -> Covered {
    let scratch = tempfile::tempdir().expect("temporary directory can be created");
    let path = scratch.path().join("trace");
    let calls = "trace=fdatasync,fsync,pwrite64,pwritev,pwritev2,write,writev,sendto,sendmsg";
    let strace = ["strace", "-D", "-f", "-y", "-x", "-s", "512", "-e", calls, "-o"];
    let mut wrapper = strace.map(str::to_owned).to_vec();
    wrapper.push(path.display().to_string());
    let options = Options { wrapper, ..Options::default() };
    let mut broker = Broker::start(options);
    let native = Native::of(&broker);
    let producer = native.producer("/default/lone", durability);
    for number in 0..messages {
        let message = Message { payload: number.to_string().into(), ..Message::default() };
        assert_eq!(native.send_all(&producer, [message]), [number as u64]);
    }
    broker.stop();
    covered(&read(&path))
}

/// Counts. The first DATA frame answers the opening, and so is no acknowledgement.
fn covered(trace: &str) -> Covered {
    let mut covered = Covered { synced: 0, bare: 0 };
    let mut written = false;
    let mut syncing: Vec<u32> = Vec::new();
    let mut is_covered = false;
    let mut is_open = false;
    for call in trace.lines().flat_map(calls_of) {
        match call {
            Call::Written => written = true,
            Call::SyncBegan(thread) if written => syncing.push(thread),
            Call::SyncBegan(_) => {}
            Call::Synced(thread) => is_covered |= syncing.contains(&thread),
            Call::Acknowledging => {
                if is_open && is_covered {
                    covered.synced += 1;
                } else if is_open {
                    covered.bare += 1;
                }
                is_open = true;
                (written, is_covered) = (false, false);
                syncing.clear();
            }
        }
    }
    covered
}

/// What a line of the trace says; several of it for a write of several frames.
fn calls_of(line: &str) -> Vec<Call> {
    let Some((thread, call)) = line.split_once(' ') else { return Vec::new() };
    let Ok(thread) = thread.parse::<u32>() else { return Vec::new() };
    let call = call.trim_start();
    let is_hot = call.contains(".seg>") || call.contains(".jnl>");
    let has_ended = !call.ends_with("<unfinished ...>");
    let is_good = !call.contains(" = -1");
    if call.starts_with("fdatasync(") && is_hot {
        let began = [Call::SyncBegan(thread)];
        let ended = (has_ended && is_good).then_some(Call::Synced(thread));
        began.into_iter().chain(ended).collect()
    } else if call.starts_with("<... fdatasync resumed>") && is_good {
        vec![Call::Synced(thread)]
    } else if is_good
        && (call.starts_with("<... pwrite") || (call.starts_with("pwrite") && is_hot && has_ended))
    {
        vec![Call::Written]
    } else if call.contains("<socket:") || call.contains("<TCP") {
        data_frames(&bytes_in(call)).map(|()| Call::Acknowledging).collect()
    } else {
        Vec::new()
    }
}

/// The bytes that a call writes: of all its strings, each `"\x00\x01…"`.
fn bytes_in(call: &str) -> Vec<u8> {
    let strings = call.split('"').skip(1).step_by(2);
    let digits = strings.flat_map(|string| string.split("\\x").skip(1));
    digits.map_while(|digits| u8::from_str_radix(digits, 16).ok()).collect()
}

/// One for each HTTP/2 DATA frame that is not empty (RFC 9113, section 4.1: length 3 bytes, type 1, flags 1, stream 4).
fn data_frames(mut bytes: &[u8]) -> impl Iterator<Item = ()> {
    let mut count = 0;
    while let [high, middle, low, kind, _, _, _, _, _, rest @ ..] = bytes {
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        count += usize::from(*kind == 0 && length > 0);
        bytes = rest.get(length..).unwrap_or_default();
    }
    std::iter::repeat_n((), count)
}

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("no trace: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = r#"9 writev(12<socket:[7]>, [{iov_base="\x00\x00\x02\x00\x00\x00\x00\x00\x01\x0a\x0b", iov_len=11}], 1) = 11"#;
    const PING: &str = r#"9 write(12<socket:[7]>, "\x00\x00\x00\x04\x01\x00\x00\x00\x00", 9) = 9"#;
    const WRITE: &str =
        r#"8 pwritev(5</d/wal/journal/00000001.jnl>, [{iov_base="\x44"}], 1, 4096) = 4096"#;
    const SYNC: &str = "8 fdatasync(5</d/wal/journal/00000001.jnl>) = 0";

    fn check(lines: &[&str]) -> (usize, usize) {
        let Covered { synced, bare } = covered(&lines.join("\n"));
        (synced, bare)
    }

    #[test]
    fn an_acknowledgement_behind_its_sync_is_covered() {
        assert_eq!(check(&[DATA, WRITE, SYNC, PING, DATA]), (1, 0));
    }

    #[test]
    fn one_before_its_sync_is_not() {
        assert_eq!(check(&[DATA, WRITE, DATA, SYNC]), (0, 1));
        let (began, ended) = (
            "8 fdatasync(5</d/wal/journal/1.jnl> <unfinished ...>",
            "8 <... fdatasync resumed>) = 0",
        );
        assert_eq!(check(&[DATA, WRITE, began, DATA, ended]), (0, 1));
        assert_eq!(check(&[DATA, WRITE, began, ended, DATA]), (1, 0));
    }

    #[test]
    fn a_sync_that_began_before_the_write_or_failed_covers_nothing() {
        assert_eq!(check(&[DATA, SYNC, WRITE, DATA]), (0, 1));
        let failed = "8 fdatasync(5</d/wal/journal/1.jnl>) = -1 EIO (Input/output error)";
        assert_eq!(check(&[DATA, WRITE, failed, DATA]), (0, 1));
    }
}
