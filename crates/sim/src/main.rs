//! `danube-sim`: runs seeds, and says whether a promise was broken.

mod arguments;
mod console;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use danube_sim::{Options, Outcome, Run};

use self::arguments::{Arguments, Task};

const HELP: &str = "\
danube-sim --seeds 1000     run seeds 0 to 999; exit code 1 if a promise was broken

  --seeds N                 how many seeds; they are divided among the layers
  --layer log|broker        run only this layer; without it --seed is of the logs
  --start S                 the first one (0)
  --seed S [--trace]        run one seed; with every event, and every operation of its disk
  --mutant NAME             with a bug planted: stop at the first seed that finds it, exit code 1 if none does
  --twice                   run each seed twice, and compare
  --jobs J                  on so many threads (1)
  --list-mutants            the bugs that can be planted
";

/// How often progress is shown.
const PROGRESS: Duration = Duration::from_secs(5);
/// Failed seeds that are explained.
const EXPLAINED_MAX: u64 = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments::parse(&arguments) {
        Ok(Task::Help) => console::line(HELP.trim_end()),
        Ok(Task::ListMutants) => arguments::mutants().iter().for_each(|name| console::line(name)),
        Ok(Task::One { run, trace }) => return one(&run, trace),
        Ok(Task::Many(arguments)) => return many(&arguments),
        Err(error) => {
            console::problem(&format!("{error}\nhint: danube-sim --help"));
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn one(run: &Run, shows_trace: bool) -> ExitCode {
    console::line(&Options::new(run.seed).to_string());
    let traced = run.trace();
    if shows_trace {
        traced.lines.iter().for_each(|line| console::line(line));
    }
    let outcome = traced.outcome;
    console::line(&format!("{:?}", outcome.counts));
    if outcome.violations.is_empty() {
        console::line(&format!("seed {} kept all promises", run.seed));
        return ExitCode::SUCCESS;
    }
    if !shows_trace {
        console::line(&run.explain(&outcome));
    }
    outcome.violations.iter().for_each(|violation| console::line(&violation.to_string()));
    ExitCode::FAILURE
}

/// The seeds that are left, and what came of those that are done.
struct Work {
    next: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    is_over: AtomicBool,
    acked: AtomicU64,
    crashes: AtomicU64,
    shown: Mutex<Instant>,
}

fn many(arguments: &Arguments) -> ExitCode {
    let start = now();
    let work = Work {
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        is_over: AtomicBool::new(false),
        acked: AtomicU64::new(0),
        crashes: AtomicU64::new(0),
        shown: Mutex::new(start),
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| work_off(arguments, &work));
        }
    });
    let (done, failed) = (work.done.into_inner(), work.failed.into_inner());
    let seconds = (now() - start).as_secs_f64();
    console::line(&format!(
        "{done} seeds, {failed} broke a promise; {} batches acknowledged, {} crashes; {seconds:.1} s, {:.0} seeds/s",
        work.acked.into_inner(),
        work.crashes.into_inner(),
        done as f64 / seconds,
    ));
    let is_good = (failed == 0) == arguments.mutant.is_none();
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn work_off(arguments: &Arguments, work: &Work) {
    while !work.is_over.load(Ordering::Relaxed) {
        let number = work.next.fetch_add(1, Ordering::Relaxed);
        if number >= arguments.seeds {
            return;
        }
        let run = arguments.run(number);
        let mut outcome = run.run();
        if arguments.twice {
            outcome.violations.extend(run.differs());
        }
        let done = work.done.fetch_add(1, Ordering::Relaxed) + 1;
        work.acked.fetch_add(outcome.counts.acked, Ordering::Relaxed);
        work.crashes.fetch_add(outcome.counts.crashes, Ordering::Relaxed);
        if !outcome.violations.is_empty() {
            failed(arguments, work, &run, &outcome);
        }
        let mut shown = work.shown.lock().expect("nothing panics while it holds it");
        if now() - *shown >= PROGRESS {
            *shown = now();
            let failed = work.failed.load(Ordering::Relaxed);
            console::line(&format!(
                "{done} of {} seeds, {failed} broke a promise",
                arguments.seeds
            ));
        }
    }
}

fn failed(arguments: &Arguments, work: &Work, run: &Run, outcome: &Outcome) {
    let before = work.failed.fetch_add(1, Ordering::Relaxed);
    if arguments.mutant.is_some() {
        work.is_over.store(true, Ordering::Relaxed);
    }
    if before < EXPLAINED_MAX {
        console::line(&run.explain(outcome));
    } else if let Some(violation) = outcome.violations.first() {
        console::line(&format!("seed {} ({}): {violation}", run.seed, run.layer));
    }
}

#[expect(clippy::disallowed_methods, reason = "how long the machine takes, outside of all worlds")]
fn now() -> Instant {
    Instant::now()
}
