//! `cargo xtask check`: format, lints, tidy, documentation. It never writes to the tree.

use std::process::ExitCode;

use crate::run::{Tally, program};
use crate::workspace::Workspace;
use crate::{console, tidy};

/// Runs tidy alone: seconds, while one works.
pub(crate) fn tidy_command(workspace: &Workspace) -> ExitCode {
    let mut tally = Tally::default();
    tidy_step(workspace, &mut tally);
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all checks, and shows the failures again at the end.
pub(crate) fn command(workspace: &Workspace) -> ExitCode {
    let mut tally = Tally::default();
    steps(workspace, &mut tally);
    tally.show_failures();
    console::line(&format!("\n{} passed, {} failed", tally.passed, tally.failed));
    if tally.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The four checks, each counted as one.
pub(crate) fn steps(workspace: &Workspace, tally: &mut Tally) {
    tally.step("fmt", || program(workspace.cargo("fmt").args(["--all", "--check"])));
    tally.step("clippy", || {
        let mut clippy = workspace.cargo("clippy");
        program(clippy.args(["--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    tidy_step(workspace, tally);
    tally.step("docs", || {
        let mut doc = workspace.cargo("doc");
        // The documentation is for those who work on the code, so it shows what is private, too.
        doc.args(["--workspace", "--no-deps", "--document-private-items"]);
        program(doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"))
    });
}

fn tidy_step(workspace: &Workspace, tally: &mut Tally) {
    tally.step("tidy", || {
        let problems = tidy::run(workspace)?;
        problems.iter().for_each(|problem| console::line(problem));
        if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
    });
}
