//! `cargo xtask test`: the checks, then every test of the workspace against the release binary.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::libtest::Suites;
use crate::run::{Tally, stream};
use crate::workspace::Workspace;
use crate::{check, console, needs, peers, run};

/// Runs everything. The last line is `N passed, N failed`; it fails if anything failed or no test ran.
pub(crate) fn command(workspace: &Workspace) -> ExitCode {
    let mut tally = Tally::default();
    check::steps(workspace, &mut tally);
    tally.prepare("needs", needs::install);
    let binary = tally.prepare("build", || build(workspace)).flatten();
    let peers = tally.prepare("peers", || peers::build(workspace));
    console::line("==> tests");
    match tests(workspace, binary, peers) {
        Ok(suites) => {
            suites.count(&mut tally);
            console::line("");
            suites.show();
        }
        Err(text) => tally.fail("tests", text),
    }
    tally.show_failures();
    console::line(&format!("\n{} passed, {} failed", tally.passed, tally.failed));
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Builds the release binary that the end-to-end tests run.
fn build(workspace: &Workspace) -> Result<Option<PathBuf>, String> {
    let Some(package) = workspace.package_of_binary("danube") else {
        return Ok(None);
    };
    run::program(workspace.cargo("build").args(["--release", "--package", package]))?;
    Ok(Some(workspace.target.join("release").join("danube")))
}

/// Runs the tests of all crates. Failed tests are no error here: they are in the suites.
fn tests(
    workspace: &Workspace,
    binary: Option<PathBuf>,
    peers: Option<PathBuf>,
) -> Result<Suites, String> {
    let mut command = workspace.cargo("test");
    command.args(["--workspace", "--no-fail-fast"]).env("CARGO_TERM_COLOR", "never");
    if let Some(binary) = binary {
        command.env("DANUBE_BIN", binary);
    }
    if let Some(peers) = peers {
        command.env("DANUBE_PEERS", peers);
    }
    let mut suites = Suites::default();
    let success = stream(&mut command, |line| suites.line(line))?;
    suites.end(success);
    Ok(suites)
}
