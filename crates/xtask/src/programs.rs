//! `fix`, `sim` and `soak`: other programs of the workspace, run with the right arguments.

use std::process::{Command, ExitCode};

use crate::workspace::Workspace;
use crate::{console, needs, peers};

/// Formats, and lets clippy mend what it can. The only command that writes to the tree.
pub(crate) fn fix(workspace: &Workspace) -> ExitCode {
    let clippy = ["--workspace", "--all-targets", "--fix", "--allow-dirty", "--allow-staged"];
    let mended = status(workspace.cargo("clippy").args(clippy));
    if mended != ExitCode::SUCCESS {
        return mended;
    }
    status(workspace.cargo("fmt").arg("--all"))
}

/// Builds the programs on existing clients.
pub(crate) fn peers(workspace: &Workspace) -> ExitCode {
    match needs::install().and_then(|()| peers::build(workspace)) {
        Ok(built) => {
            console::line(&built.display().to_string());
            ExitCode::SUCCESS
        }
        Err(error) => {
            console::problem(&error);
            ExitCode::FAILURE
        }
    }
}

/// Runs the simulator; its arguments are its own.
pub(crate) fn sim(workspace: &Workspace, arguments: &[String]) -> ExitCode {
    status(
        workspace.cargo("run").args(["--release", "--package", "danube-sim", "--"]).args(arguments),
    )
}

/// Runs one of the long tests, or lists them. They are about the release binary.
pub(crate) fn soak(workspace: &Workspace, arguments: &[String]) -> ExitCode {
    let built = status(workspace.cargo("build").args(["--release", "--package", "danube-cli"]));
    if built != ExitCode::SUCCESS {
        return built;
    }
    let program = ["--release", "--package", "danube-e2e", "--bin", "soak", "--"];
    status(workspace.cargo("run").args(program).args(arguments))
}

/// Runs a program on this terminal and takes over its exit code.
fn status(command: &mut Command) -> ExitCode {
    match command.status() {
        Ok(status) => {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            code.map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            console::problem(&format!("cannot run {:?}: {error}", command.get_program()));
            ExitCode::FAILURE
        }
    }
}
