//! Where the binary under test is.

use std::path::PathBuf;

/// Names the binary under test; `cargo xtask test` sets it.
pub const VARIABLE: &str = "DANUBE_BIN";

/// The binary `danube`: what [`VARIABLE`] names, or the release build beside the running program.
///
/// # Panics
///
/// If it is not there.
#[must_use]
pub fn danube() -> PathBuf {
    let path = std::env::var_os(VARIABLE).map_or_else(built, PathBuf::from);
    assert!(
        path.is_file(),
        "{} is missing\nhint: cargo build --release, or name the binary in {VARIABLE}",
        path.display()
    );
    path
}

fn built() -> PathBuf {
    target().join("release").join("danube")
}

/// Names the directory of the programs in `tests/peers`; `cargo xtask test` sets it.
pub const PEERS_VARIABLE: &str = "DANUBE_PEERS";

/// Where the programs in `tests/peers` are built: what [`PEERS_VARIABLE`] names, or beside the running program.
#[must_use]
pub fn peers() -> PathBuf {
    std::env::var_os(PEERS_VARIABLE).map_or_else(|| target().join("peers"), PathBuf::from)
}

/// A test runs from `target/<profile>/deps`, other programs from `target/<profile>`.
fn target() -> PathBuf {
    let program = std::env::current_exe().expect("the system knows what it runs");
    let in_deps = program.parent().is_some_and(|dir| dir.ends_with("deps"));
    let target = program.ancestors().nth(if in_deps { 3 } else { 2 });
    target.expect("it lies in a target directory").to_owned()
}
