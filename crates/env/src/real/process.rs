//! What the kernel says of this process.

use std::fs;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::process::{Process, Usage};

/// By `/proc`, `getrlimit(2)` and the clock of processor time.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealProcess;

const DESCRIPTORS: &str = "/proc/self/fd";

impl Process for RealProcess {
    fn usage(&self) -> Usage {
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        let open_files_max = getrlimit(Resource::Nofile).current;
        Usage {
            resident_bytes: resident_bytes(),
            processor_time: Duration::new(
                spent.tv_sec.unsigned_abs(),
                u32::try_from(spent.tv_nsec).unwrap_or(0),
            ),
            open_files: open_files(open_files_max),
            open_files_max,
        }
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[expect(clippy::disallowed_methods, reason = "what is listed is no disk")]
fn open_files(limit: Option<u64>) -> Option<u64> {
    // Since Linux 6.2 the directory's size says how many there are, and asking for it takes none.
    let size = fs::metadata(DESCRIPTORS).ok()?.len();
    if size > 0 {
        return Some(size);
    }
    match fs::read_dir(DESCRIPTORS) {
        // The one that lists them is among them.
        Ok(entries) => Some((entries.count() as u64).saturating_sub(1)),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => limit,
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_uses_is_seen() {
        let before = RealProcess.usage();
        let held: Vec<_> = (0..100).map(|_| tempfile::tempfile().unwrap()).collect();
        let after = RealProcess.usage();
        assert!(after.open_files.unwrap() >= before.open_files.unwrap() + 50, "{after:?}");
        assert!(after.resident_bytes.unwrap() > 1 << 20 && !after.processor_time.is_zero());
        assert_eq!(after.open_files_max, getrlimit(Resource::Nofile).current);
        drop(held);
    }
}
