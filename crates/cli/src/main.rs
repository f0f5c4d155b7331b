//! The binary `danube`: words on a terminal.
//!
//! Each command is a module in [`commands`] that takes its arguments and says what happened through [`terminal`], the one way to
//! standard output and standard error. Data goes to standard output, everything else to standard error; the exit code is 0
//! for done, 1 for failed, 2 for misuse; whoever closes the pipe has seen enough, which is success.
//!
//! Reading order: [`arguments`], [`terminal`], [`failure`], then the commands.

mod arguments;
mod commands;
mod failure;
mod logs;
mod signals;
mod terminal;
mod time;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use failure::Result;

/// Threads for tasks, at least.
const WORKERS_MIN: usize = 2;

fn main() -> ExitCode {
    terminal::finish(Arguments::parse_all().and_then(run))
}

/// Runs a command on a runtime of its own.
fn run(arguments: Arguments) -> Result<()> {
    logs::start(&arguments.command);
    // Not one alone: a short write of the log may take long on one of them.
    let workers = std::thread::available_parallelism()
        .map_or(WORKERS_MIN, |count| count.get().max(WORKERS_MIN));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    let runtime = runtime.map_err(|error| failure::failed("cannot start threads", &error))?;
    let result = runtime.block_on(command(arguments.command));
    // It ends with the process: a thread may be waiting for input that never comes, and those of a broker that is ended without
    // a stop would panic without it.
    std::mem::forget(runtime);
    result
}

async fn command(command: Command) -> Result<()> {
    match command {
        Command::Server(options) => commands::server::run(options).await,
        Command::Produce(options) => commands::produce::run(options).await,
        Command::Consume(options) => commands::consume::run(options).await,
        Command::Read(options) => commands::read::run(options).await,
        Command::Topic(command) => commands::topic::run(command).await,
        Command::Subscription(command) => commands::subscription::run(command).await,
        Command::Bench(command) => commands::bench::run(command).await,
        Command::Config(command) => commands::config::run(command),
        Command::Inspect(command) => commands::inspect::run(command),
    }
}
