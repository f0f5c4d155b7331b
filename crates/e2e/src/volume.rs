//! File systems in a file, whose power can be cut; and small ones that fill up.
//!
//! A cut is ext4's and XFS's own shutdown: from then on nothing reaches the file, and what was not flushed before is
//! gone after the next mount, as after a loss of power. Needs root, loop devices and `xfs_io`, all of which
//! `cargo xtask test` checks for or installs. Where a machine lacks them the tests fail and say so: a promise about
//! power cuts that nobody tried would be none.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::wait::within;

/// A volume is unmounted within this time once its users are gone.
const UNMOUNT_MAX: Duration = Duration::from_secs(20);

/// Which file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ext4 with its defaults.
    Ext4,
    /// XFS with its defaults; not below 300 MiB.
    Xfs,
    /// Memory. Its power can't be cut.
    Tmpfs,
}

/// A mounted file system. Dropping it unmounts it and removes what is behind it.
pub struct Volume {
    scratch: TempDir,
    /// `/dev/loopN`; none for memory.
    device: Option<String>,
    is_mounted: bool,
}

impl Volume {
    /// Makes one of `bytes` bytes and mounts it.
    ///
    /// # Panics
    ///
    /// If this machine or user can't, with what it takes.
    #[must_use]
    pub fn new(kind: Kind, bytes: u64) -> Self {
        let scratch = tempfile::Builder::new().prefix("danube-volume-").tempdir();
        let scratch = scratch.expect("temporary directory can be created");
        let mut volume = Self { scratch, device: None, is_mounted: false };
        make_directory(&volume.path());
        if kind == Kind::Tmpfs {
            run(
                "mount",
                &["-t", "tmpfs", "-o", &format!("size={bytes}"), "danube", &volume.mount_point()],
            );
            volume.is_mounted = true;
            return volume;
        }
        let image = volume.scratch.path().join("image").display().to_string();
        run("truncate", &["--size", &bytes.to_string(), &image]);
        match kind {
            Kind::Xfs => run("mkfs.xfs", &["-q", &image]),
            Kind::Ext4 | Kind::Tmpfs => run("mkfs.ext4", &["-q", "-F", &image]),
        };
        volume.device = Some(run("losetup", &["--find", "--show", &image]).trim().to_owned());
        volume.mount();
        volume
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.scratch.path().join("mount")
    }

    /// Cuts the power. Files stay open, but nothing written reaches the disk any more.
    ///
    /// # Panics
    ///
    /// If it can't be done.
    pub fn cut(&self) {
        // `-x`: expert mode. Without `-f` the log is not flushed.
        run("xfs_io", &["-x", "-c", "shutdown", &self.mount_point()]);
    }

    /// Makes every write and sync hang until the answer is dropped. Whoever hangs can't be killed meanwhile.
    ///
    /// # Panics
    ///
    /// If it can't be done.
    #[must_use]
    pub fn freeze(&self) -> Frozen<'_> {
        run("fsfreeze", &["--freeze", &self.mount_point()]);
        Frozen(self)
    }

    /// Unmounts and mounts it again: after a cut, what was flushed before it is there. Nobody may use it meanwhile.
    ///
    /// # Panics
    ///
    /// If somebody uses it, or it can't be mounted.
    pub fn remount(&mut self) {
        self.unmount();
        self.mount();
    }

    fn mount(&mut self) {
        let device = self.device.clone().expect("only file systems in a file are mounted again");
        run("mount", &[&device, &self.mount_point()]);
        self.is_mounted = true;
    }

    fn unmount(&mut self) {
        // The kernel may hold files of a process that has just been killed for a moment.
        let mount_point = self.mount_point();
        within(UNMOUNT_MAX, "unmount", || try_run("umount", &[&mount_point]).ok());
        self.is_mounted = false;
    }

    fn mount_point(&self) -> String {
        self.path().display().to_string()
    }
}

/// A volume on which everything hangs as long as this is held.
pub struct Frozen<'a>(&'a Volume);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        // Also on the way out of a panic: nothing that hangs there would ever end.
        let _ = try_run("fsfreeze", &["--unfreeze", &self.0.mount_point()]);
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Also on the way out of a panic: never leave mounts or loop devices behind.
        if self.is_mounted && try_run("umount", &[&self.mount_point()]).is_err() {
            let _ = try_run("umount", &["--lazy", &self.mount_point()]);
        }
        if let Some(device) = &self.device {
            let _ = try_run("losetup", &["--detach", device]);
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> String {
    try_run(program, arguments).unwrap_or_else(|error| {
        panic!(
            "{error}\nhint: the tests of full disks and power cuts need root, loop devices, and the programs that \
             `cargo xtask test` installs"
        )
    })
}

fn try_run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let found = find(program);
    let output = Command::new(&found).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{program} {} failed: {}", arguments.join(" "), said.trim_end()))
    }
}

/// System programs lie where an ordinary user's PATH does not look.
fn find(program: &str) -> PathBuf {
    let places = ["/usr/sbin", "/sbin"].map(|place| Path::new(place).join(program));
    places.into_iter().find(|place| place.exists()).unwrap_or_else(|| program.into())
}

#[expect(clippy::disallowed_methods, reason = "the harness works on real files")]
fn make_directory(path: &Path) {
    std::fs::create_dir_all(path).expect("a directory can be made in a temporary one");
}
