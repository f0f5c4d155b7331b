//! The disk as a judge: a log that syncs as it should survives it, one that forgets a sync does not.

use std::io;
use std::path::Path;

use danube_env::disk::{Disk, Open};
use danube_env::sim::Generator;

use super::{CUT, SECTOR, disk_with_dir, path};

/// A log of one-sector records in files of four, written as it should be, or with one fault.
struct TinyLog {
    syncs_dir: bool,
    syncs_data: bool,
}

impl TinyLog {
    /// Appends records until an error. Returns how many were acknowledged.
    fn append(&self, disk: &dyn Disk, first: u64) -> u64 {
        let mut acknowledged = first;
        while self.append_one(disk, acknowledged).is_ok() {
            acknowledged += 1;
        }
        acknowledged
    }

    fn append_one(&self, disk: &dyn Disk, number: u64) -> io::Result<()> {
        let path = path(&format!("log-{:04}", number / 4));
        let file = if number.is_multiple_of(4) {
            let file = disk.open(&path, Open::Replace)?;
            if self.syncs_dir {
                disk.sync_dir(Path::new("/dir"))?;
            }
            file
        } else {
            disk.open(&path, Open::Write)?
        };
        let mut record = [0; SECTOR];
        record[..8].copy_from_slice(&(number + 1).to_be_bytes());
        file.write_at(&[&record], number % 4 * SECTOR as u64)?;
        if self.syncs_data { file.sync_data() } else { Ok(()) }
    }

    /// Counts the records that can be read without a hole.
    fn recover(&self, disk: &dyn Disk) -> u64 {
        let mut number = 0_u64;
        loop {
            let Ok(file) = disk.open(&path(&format!("log-{:04}", number / 4)), Open::Read) else {
                return number;
            };
            let mut record = [0; 8];
            let read = file.read_at(&mut record, number % 4 * SECTOR as u64).unwrap();
            if read < 8 || u64::from_be_bytes(record) != number + 1 {
                return number;
            }
            number += 1;
        }
    }

    /// The seeds under which an acknowledged record is lost.
    fn losses(&self, seeds: u64) -> usize {
        (0..seeds)
            .filter(|&seed| {
                let (disk, _) = disk_with_dir(seed);
                let generator = Generator::derive(seed, "crashes");
                let mut acknowledged = 0;
                (0..5).any(|_| {
                    disk.crash_at(generator.below(20), CUT);
                    acknowledged = self.append(&*disk.mount(), acknowledged);
                    let recovered = self.recover(&*disk.restart());
                    let lost = recovered < acknowledged;
                    acknowledged = recovered;
                    lost
                })
            })
            .count()
    }
}

#[test]
fn a_log_that_syncs_loses_nothing_and_one_that_forgets_is_caught() {
    assert_eq!(TinyLog { syncs_dir: true, syncs_data: true }.losses(2000), 0);
    assert!(TinyLog { syncs_dir: false, syncs_data: true }.losses(100) > 20);
    assert!(TinyLog { syncs_dir: true, syncs_data: false }.losses(100) > 20);
}
