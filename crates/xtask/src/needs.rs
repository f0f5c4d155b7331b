//! What the tests need of the system, and how it is installed where it is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::console;
use crate::run::program;

/// A program that tests call, and the Debian package that has it.
struct Need {
    program: &'static str,
    package: &'static str,
    /// What it is needed for, shown when it cannot be installed.
    purpose: &'static str,
}

/// Everything that is not in a Rust toolchain or a minimal Debian.
const NEEDS: [Need; 6] = [
    Need { program: "strace", package: "strace", purpose: "failing system calls" },
    Need { program: "mkfs.ext4", package: "e2fsprogs", purpose: "power cuts on ext4" },
    Need { program: "mkfs.xfs", package: "xfsprogs", purpose: "power cuts on XFS" },
    Need { program: "losetup", package: "mount", purpose: "file systems in a file" },
    Need { program: "protoc", package: "protobuf-compiler", purpose: "the existing Rust client" },
    Need { program: PYTHON, package: "python3-venv", purpose: "the existing Python client" },
];

const PYTHON: &str = "python3";

/// Installs what is missing. Fails, with the command to run, where that needs rights this user lacks.
pub(crate) fn install() -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // System programs lie where an ordinary user's PATH does not look.
    let directories: Vec<PathBuf> =
        std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    let missing = missing(&NEEDS, |program| {
        let is_there = directories.iter().any(|directory| directory.join(program).exists());
        is_there && (program != PYTHON || makes_environments())
    });
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().map(|need| need.package).collect();
    for need in &missing {
        console::line(&format!("missing: {} ({})", need.program, need.purpose));
    }
    let by_hand = format!("hint: as root: apt-get install {}", packages.join(" "));
    if !is_root() || !Path::new("/usr/bin/apt-get").exists() {
        return Err(format!("the tests need {}\n{by_hand}", packages.join(", ")));
    }
    program(&mut apt(&["update"])).map_err(|text| format!("{text}\n{by_hand}"))?;
    let install = ["install", "--yes", "--no-install-recommends"];
    program(apt(&install).args(&packages)).map_err(|text| format!("{text}\n{by_hand}"))
}

fn missing(needs: &[Need], is_there: impl Fn(&str) -> bool) -> Vec<&Need> {
    needs.iter().filter(|need| !is_there(need.program)).collect()
}

/// Debian has Python without what makes virtual environments.
fn makes_environments() -> bool {
    let output = Command::new(PYTHON).args(["-c", "import ensurepip, venv"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.arg("--quiet").args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_is_installed() {
        let found = missing(&NEEDS, |program| program != "strace");
        assert_eq!(found.iter().map(|need| need.package).collect::<Vec<_>>(), ["strace"]);
        assert!(missing(&NEEDS, |_| true).is_empty());
    }
}
