//! The project's own commands: `cargo xtask check`, `test`, `peers`, `fix`, `sim`, `soak`.
//!
//! `check` says yes or no to a change within minutes, starts no servers and never writes to the tree; `test` is
//! `check` and then every test there is. Reading order: [`check`], [`tidy`] with the rules that no other tool
//! knows, [`testing`] with [`needs`], [`peers`] and [`libtest`], and [`run`], which all of them use to run other programs.

mod check;
mod console;
mod libtest;
mod needs;
mod peers;
mod programs;
mod run;
mod testing;
mod tidy;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const HELP: &str = "\
cargo xtask test            everything: check, then all tests; ends with `N passed, N failed`

  check                     format, lints, tidy, documentation; minutes, no servers, writes nothing
  tidy                      the part of check that takes seconds
  test                      check, install what the tests need, build the release binary, run all tests
  peers                     build the programs on existing clients that tests run
  fix                       format, and apply what clippy can mend by itself
  sim --seeds N [--layer log|broker] [--seed S] [--start S] [--mutant NAME] [--jobs N]
                            run the simulator over seeds
  soak NAME | --list        run one of the long tests
  help                      this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        return misuse("no command given");
    };
    if matches!(command.as_str(), "help" | "--help" | "-h") {
        console::line(HELP.trim_end());
        return ExitCode::SUCCESS;
    }
    if !rest.is_empty() && matches!(command.as_str(), "check" | "test" | "peers" | "fix") {
        return misuse(&format!("`{command}` takes no arguments, got `{}`", rest.join(" ")));
    }
    let workspace = match Workspace::open() {
        Ok(workspace) => workspace,
        Err(error) => {
            console::problem(&error);
            return ExitCode::FAILURE;
        }
    };
    match command.as_str() {
        "check" => check::command(&workspace),
        "tidy" => check::tidy_command(&workspace),
        "test" => testing::command(&workspace),
        "peers" => programs::peers(&workspace),
        "fix" => programs::fix(&workspace),
        "sim" => programs::sim(&workspace, rest),
        "soak" => programs::soak(&workspace, rest),
        _ => misuse(&format!("unknown command `{command}`")),
    }
}

fn misuse(text: &str) -> ExitCode {
    console::problem(&format!("{text}\nhint: cargo xtask help"));
    ExitCode::from(2)
}
