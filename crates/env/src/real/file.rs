//! An open file of the real disk.

use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Advice, fadvise, fdatasync, fstat, ftruncate};
use rustix::io::{ReadWriteFlags, pread, preadv2, pwritev, retry_on_intr};

use crate::File;

/// Bytes asked for by one probe of the page cache: never more than one page, see [`RealFile::is_resident`].
const PROBE_BYTES: u64 = 4096;

/// A file descriptor; reads and writes are positioned, so that threads share it freely.
#[derive(Debug)]
pub(super) struct RealFile(pub(super) OwnedFd);

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            let at = position.saturating_add(filled as u64);
            let read = retry_on_intr(|| pread(&self.0, &mut buf[filled..], at))?;
            if read == 0 {
                break;
            }
            filled += read;
        }
        Ok(filled)
    }

    fn write_at(&self, parts: &[&[u8]], position: u64) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> =
            parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)).collect();
        let mut rest = slices.as_mut_slice();
        let mut position = position;
        while !rest.is_empty() {
            // Hands the kernel as many parts as it takes in one call.
            let written = retry_on_intr(|| pwritev(&self.0, rest, position))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            position += written as u64;
            IoSlice::advance_slices(&mut rest, written);
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(fstat(&self.0)?.st_size.unsigned_abs())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(retry_on_intr(|| ftruncate(&self.0, len))?)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(retry_on_intr(|| fdatasync(&self.0))?)
    }

    /// `RWF_NOWAIT` reads what is in the page cache and nothing else; but a miss, or a hit on a page that the
    /// kernel marked for read-ahead, starts reading what lies *behind* it. So the range is probed from its end to
    /// its beginning, page by page, and the first miss ends it: no probe finds what an earlier one brought in.
    fn is_resident(&self, position: u64, len: u64) -> bool {
        let Some(end) = position.checked_add(len) else { return false };
        // Only the missing page itself is then read ahead. A hint, so that its failure does not matter.
        let _ = fadvise(&self.0, 0, None, Advice::Random);
        let mut probed = end;
        let mut resident = true;
        while resident && probed > position {
            let from = ((probed - 1) / PROBE_BYTES * PROBE_BYTES).max(position);
            resident = is_page_resident(&self.0, from, probed);
            probed = from;
        }
        let _ = fadvise(&self.0, 0, None, Advice::Normal);
        resident
    }

    fn forget_cached(&self) {
        // A hint: nothing to be done about a failure.
        let _ = fadvise(&self.0, 0, None, Advice::DontNeed);
    }

    fn write_back(&self, position: u64, len: u64) {
        // The kernel begins to write the range before it lets go of what is clean in it, and of that there is nothing.
        let _ = fadvise(&self.0, position, NonZeroU64::new(len), Advice::DontNeed);
    }
}

/// Whether `from..end`, within one page, comes from the page cache. False on any error: some file systems do not
/// know `RWF_NOWAIT`.
fn is_page_resident(file: impl AsFd, from: u64, end: u64) -> bool {
    let mut page = [0; PROBE_BYTES as usize];
    let wanted = (end - from) as usize;
    let mut buffers = [IoSliceMut::new(&mut page[..wanted])];
    let read = retry_on_intr(|| preadv2(&file, &mut buffers, from, ReadWriteFlags::NOWAIT));
    read == Ok(wanted)
}
