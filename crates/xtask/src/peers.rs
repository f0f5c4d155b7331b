//! Programs on the published clients of Danube, in `tests/peers`: what existing applications are to a broker.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::program;
use crate::workspace::Workspace;

/// Builds them all, and returns the directory that they are in.
pub(crate) fn build(workspace: &Workspace) -> Result<PathBuf, String> {
    let sources = workspace.root.join("tests").join("peers");
    let built = workspace.target.join("peers");
    let _alone = alone()?;
    rust(workspace, &sources, &built)?;
    python(&sources, &built.join("python"))?;
    Ok(built)
}

/// The Rust client's build writes into the folder of its source, which all builds of this user share: one at a time.
#[expect(clippy::disallowed_methods, reason = "a development tool that guards other programs")]
fn alone() -> Result<std::fs::File, String> {
    let path = std::env::temp_dir().join("danube-peers.lock");
    let lock = std::fs::File::create(&path).and_then(|lock| lock.lock().map(|()| lock));
    lock.map_err(|error| format!("cannot lock {}: {error}", path.display()))
}

fn rust(workspace: &Workspace, sources: &Path, built: &Path) -> Result<(), String> {
    let manifest = sources.join("rust").join("Cargo.toml");
    let mut command = workspace.cargo("build");
    command.args(["--release", "--manifest-path"]).arg(manifest);
    program(command.env("CARGO_TARGET_DIR", built))
}

fn python(sources: &Path, environment: &Path) -> Result<(), String> {
    let python = environment.join("bin").join("python");
    if !python.exists() {
        program(Command::new("python3").args(["-m", "venv"]).arg(environment))?;
    }
    let requirements = sources.join("python").join("requirements.txt");
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    program(Command::new(python).args(install).arg(requirements))
}
