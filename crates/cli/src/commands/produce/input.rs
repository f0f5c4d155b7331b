//! Payloads from standard input or from files, read by a thread of its own.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use danube_env::disk::Open;
use danube_env::{Disk, Env};
use danube_model::caps;
use memchr::memchr_iter;
use tokio::sync::mpsc;

use crate::failure::{Failure, Result};

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;
/// Chunks that are read ahead.
const CHUNKS_MAX: usize = 8;
/// The largest payload that there can be; no line and no file is longer.
const PAYLOAD_BYTES_MAX: usize = caps::MESSAGE_BYTES_MAX;

/// Some payloads, in order.
pub(super) type Chunk = Result<Vec<Bytes>>;

/// Each line of standard input, without its newline.
pub(super) fn lines(env: &Env) -> mpsc::Receiver<Chunk> {
    let (chunks, receiver) = mpsc::channel(CHUNKS_MAX);
    env.spawn.blocking(Box::new(move || {
        read_lines(&mut io::stdin().lock(), |chunk| chunks.blocking_send(chunk).is_ok());
    }));
    receiver
}

/// The content of each file.
pub(super) fn files(env: &Env, paths: Vec<PathBuf>) -> mpsc::Receiver<Chunk> {
    let (chunks, receiver) = mpsc::channel(1);
    let disk = env.disk.clone();
    env.spawn.blocking(Box::new(move || {
        for path in paths {
            let content = read_file(&*disk, &path).map(|content| vec![content]);
            if chunks.blocking_send(content).is_err() {
                return;
            }
        }
    }));
    receiver
}

/// Hands on the lines of `input` as they come, until `hand_on` returns false.
fn read_lines(input: &mut impl Read, mut hand_on: impl FnMut(Chunk) -> bool) {
    let mut buffer = BytesMut::new();
    loop {
        let held = buffer.len();
        buffer.resize(held + READ_BYTES, 0);
        let read = match input.read(&mut buffer[held..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => {
                hand_on(Err(Failure::new(format!("cannot read standard input: {error}"))));
                return;
            }
            Ok(0) => {
                buffer.truncate(held);
                if !buffer.is_empty() {
                    hand_on(Ok(vec![buffer.freeze()]));
                }
                return;
            }
            Ok(read) => read,
        };
        buffer.truncate(held + read);
        let lines = cut_lines(&mut buffer, held);
        if !lines.is_empty() && !hand_on(Ok(lines)) {
            return;
        }
        if buffer.len() > PAYLOAD_BYTES_MAX {
            hand_on(Err(too_large("a line")));
            return;
        }
    }
}

/// Takes the whole lines from the front of a buffer; there is no newline in its first `searched` bytes.
fn cut_lines(buffer: &mut BytesMut, searched: usize) -> Vec<Bytes> {
    let ends: Vec<usize> =
        memchr_iter(b'\n', &buffer[searched..]).map(|at| searched + at).collect();
    let mut start = 0;
    let cut = |end: usize| {
        let mut line = buffer.split_to(end + 1 - start).freeze();
        start = end + 1;
        line.truncate(line.len() - 1);
        line
    };
    ends.into_iter().map(cut).collect()
}

fn read_file(disk: &dyn Disk, path: &Path) -> Result<Bytes> {
    let shown = path.display();
    let cannot = |error: io::Error| Failure::new(format!("cannot read {shown}: {error}"));
    let file = disk.open(path, Open::Read).map_err(cannot)?;
    let len = file.len().map_err(cannot)?;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    if len > PAYLOAD_BYTES_MAX {
        return Err(too_large(&shown.to_string()));
    }
    let mut content = BytesMut::zeroed(len);
    let read = file.read_at(&mut content, 0).map_err(cannot)?;
    content.truncate(read);
    Ok(content.freeze())
}

fn too_large(what: &str) -> Failure {
    Failure::new(format!("{what} is longer than {PAYLOAD_BYTES_MAX} bytes, the largest message"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its pieces one by one.
    struct Pieces<'a>(Vec<&'a [u8]>);

    impl Read for Pieces<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn chunks(pieces: &[&[u8]]) -> Vec<Vec<Vec<u8>>> {
        let mut chunks = Vec::new();
        read_lines(&mut Pieces(pieces.to_vec()), |chunk| {
            chunks.push(chunk.unwrap().iter().map(|line| line.to_vec()).collect());
            true
        });
        chunks
    }

    #[test]
    fn lines_are_cut_wherever_reads_end() {
        let all = b"one\n\ntwo\r\nthree";
        let expected: Vec<Vec<u8>> =
            [&b"one"[..], b"", b"two\r", b"three"].map(<[u8]>::to_vec).into();
        for cut in 1..all.len() {
            let (first, second) = all.split_at(cut);
            assert_eq!(chunks(&[first, second]).concat(), expected, "cut at {cut}");
        }
        assert_eq!(chunks(&[b"a\n"]), [[b"a"]]);
        assert!(chunks(&[]).is_empty());
    }

    #[test]
    fn whole_lines_do_not_wait_for_more_input() {
        assert_eq!(chunks(&[b"a\nb", b"c\n"]), [[b"a".to_vec()], [b"bc".to_vec()]]);
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let mut last = Ok(Vec::new());
        read_lines(&mut io::repeat(b'x'), |chunk| {
            last = chunk;
            true
        });
        assert_eq!(last.unwrap_err(), too_large("a line"));
    }
}
