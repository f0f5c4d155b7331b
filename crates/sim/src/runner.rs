//! Runs the world of a seed, and says what came of it.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt::{self, Write};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Once;

use danube_env::sim::{self, Trace, World};

use crate::broker;
use crate::log;
use crate::options::Options;
use crate::oracle::{Counts, Rule, Violation};

/// Lines of the trace that are shown of a seed that failed.
const LINES_SHOWN: usize = 40;
/// What every line of a scene begins with; lines of disks do not.
const EVENT: char = '[';

/// What came of one world.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How much happened.
    pub counts: Counts,
    /// What was broken, in the order in which it was found.
    pub violations: Vec<Violation>,
}

/// What runs in a world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layer {
    /// The logs of one broker alone.
    #[default]
    Log,
    /// A whole broker, with its metadata.
    Broker,
}

/// Which world is run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What runs in it.
    pub layer: Layer,
    /// What it follows from.
    pub seed: u64,
    /// A bug that is planted in the product.
    pub mutant: Option<&'static str>,
}

/// A run with its trace.
#[derive(Debug)]
pub struct Traced {
    /// What came of it.
    pub outcome: Outcome,
    /// A hash over all that happened.
    pub hash: u64,
    /// Every event, and every operation of a disk.
    pub lines: Vec<String>,
}

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

impl Run {
    /// The world of `seed`, without a planted bug.
    pub fn new(layer: Layer, seed: u64) -> Self {
        Self { layer, seed, mutant: None }
    }

    /// Runs it.
    pub fn run(&self) -> Outcome {
        self.run_in(|_| {}).outcome
    }

    /// Runs it, and keeps a line of everything that happens.
    pub fn trace(&self) -> Traced {
        self.run_in(Trace::keep_lines)
    }

    /// Runs it twice more; something is wrong if the two differ.
    pub fn differs(&self) -> Option<Violation> {
        let (first, second) = (self.trace(), self.trace());
        if first.hash == second.hash {
            return None;
        }
        let equal = first.lines.iter().zip(&second.lines).take_while(|(one, other)| one == other);
        let at = equal.count();
        let what = format!(
            "the same seed runs otherwise from event {at} on: {:?}, then {:?}",
            first.lines.get(at),
            second.lines.get(at)
        );
        Some(Violation::new(Rule::Alive, what))
    }

    fn run_in(&self, prepare: impl FnOnce(&Trace)) -> Traced {
        catch_panics();
        #[cfg(feature = "mutants")]
        danube_log::plant(self.mutant);
        #[cfg(not(feature = "mutants"))]
        assert!(self.mutant.is_none(), "this build has no planted bugs");
        let mut trace = Trace::default();
        IS_RUNNING.set(true);
        let ran = catch_unwind(AssertUnwindSafe(|| {
            sim::run(self.seed, |world| {
                trace = world.trace().clone();
                prepare(&trace);
                let options = Options::new(self.seed);
                let outcome: Pin<Box<dyn Future<Output = Outcome>>> = match self.layer {
                    Layer::Log => Box::pin(log::run(world, options)),
                    Layer::Broker => Box::pin(broker::run(world, options)),
                };
                outcome
            })
        }));
        IS_RUNNING.set(false);
        #[cfg(feature = "mutants")]
        danube_log::plant(None);
        let outcome = ran.unwrap_or_else(|panic| {
            let said = take_panic().unwrap_or_else(|| text(&*panic));
            let violations = vec![Violation::new(Rule::Alive, format!("the world ends: {said}"))];
            Outcome { violations, ..Outcome::default() }
        });
        take_panic();
        Traced { outcome, hash: trace.hash(), lines: trace.lines() }
    }

    /// What to do to see it again.
    pub fn command(&self) -> String {
        let mutant = self.mutant.map(|name| format!(" --mutant {name}")).unwrap_or_default();
        format!("cargo xtask sim --layer {} --seed {} --trace{mutant}", self.layer, self.seed)
    }

    /// A failed run, told to people: runs it again for its last lines.
    pub fn explain(&self, outcome: &Outcome) -> String {
        let traced = self.trace();
        let events: Vec<_> = traced
            .lines
            .iter()
            .filter(|line| line.starts_with(EVENT))
            .map(String::as_str)
            .collect();
        let shown = &events[events.len().saturating_sub(LINES_SHOWN)..];
        let mut told = format!("seed {} broke a promise ({})\n", self.seed, self.layer);
        let mut line = |text: &dyn fmt::Display| {
            writeln!(told, "{text}").expect("writing to a string can't fail");
        };
        line(&Options::new(self.seed));
        shown.iter().for_each(|event| line(event));
        outcome.violations.iter().take(5).for_each(|violation| line(violation));
        line(&self.command());
        told
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Log => "log",
            Self::Broker => "broker",
        })
    }
}

impl FromStr for Layer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "log" => Ok(Self::Log),
            "broker" => Ok(Self::Broker),
            _ => Err(format!("no layer is called `{text}`: there are log and broker")),
        }
    }
}

/// Enters an event in the trace of a world.
pub(crate) fn note(world: &World, event: fmt::Arguments<'_>) {
    let at = world.elapsed().as_micros();
    world.trace().note(format_args!("{EVENT}{:>5}.{:06}] {event}", at / 1_000_000, at % 1_000_000));
}

/// What the last panic of this thread said.
pub(crate) fn take_panic() -> Option<String> {
    PANIC.take()
}

/// Panics inside a world are kept for its outcome and not shown.
fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if IS_RUNNING.get() {
                PANIC.set(Some(panic.to_string()));
            } else {
                before(panic);
            }
        }));
    });
}

fn text(panic: &(dyn Any + Send)) -> String {
    match panic.downcast_ref::<String>() {
        Some(text) => text.clone(),
        None => panic.downcast_ref::<&str>().copied().unwrap_or("a panic").to_owned(),
    }
}
