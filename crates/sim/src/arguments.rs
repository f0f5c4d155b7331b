//! The words on the command line.

use danube_sim::{Layer, Run};

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Task {
    Help,
    ListMutants,
    One { run: Run, trace: bool },
    Many(Arguments),
}

/// Many seeds.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) start: u64,
    /// None: all in turn.
    pub(crate) layer: Option<Layer>,
    pub(crate) seeds: u64,
    pub(crate) mutant: Option<&'static str>,
    pub(crate) jobs: usize,
    /// Each is run twice and compared.
    pub(crate) twice: bool,
}

impl Arguments {
    /// The `number`-th world. Planted bugs are in the log, and found there if nothing else is asked for.
    pub(crate) fn run(&self, number: u64) -> Run {
        let layer = self.layer.or(self.mutant.map(|_| Layer::Log));
        let (layer, at) = match layer {
            Some(layer) => (layer, number),
            None if number.is_multiple_of(2) => (Layer::Log, number / 2),
            None => (Layer::Broker, number / 2),
        };
        Run { layer, seed: self.start + at, mutant: self.mutant }
    }
}

/// The bugs that can be planted.
pub(crate) fn mutants() -> &'static [&'static str] {
    #[cfg(feature = "mutants")]
    return &danube_log::MUTANTS;
    #[cfg(not(feature = "mutants"))]
    return &[];
}

/// Parses all arguments; an error says what is wrong with them.
pub(crate) fn parse(arguments: &[String]) -> Result<Task, String> {
    let mut many =
        Arguments { start: 0, layer: None, seeds: 1000, mutant: None, jobs: 1, twice: false };
    let (mut seed, mut trace) = (None, false);
    let mut rest = arguments.iter();
    while let Some(name) = rest.next() {
        let mut value = || rest.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--help" | "-h" => return Ok(Task::Help),
            "--list-mutants" => return Ok(Task::ListMutants),
            "--twice" => many.twice = true,
            "--trace" => trace = true,
            "--seed" => seed = Some(number(name, value()?)?),
            "--seeds" => many.seeds = number(name, value()?)?,
            "--layer" => many.layer = Some(value()?.parse()?),
            "--start" => many.start = number(name, value()?)?,
            "--jobs" => many.jobs = number(name, value()?)?.clamp(1, 1024) as usize,
            "--mutant" => many.mutant = Some(mutant(value()?)?),
            _ => return Err(format!("unknown argument `{name}`")),
        }
    }
    match seed {
        Some(seed) => {
            let layer = many.layer.unwrap_or_default();
            Ok(Task::One { run: Run { layer, seed, mutant: many.mutant }, trace })
        }
        None if trace => Err("--trace needs --seed".to_owned()),
        None => Ok(Task::Many(many)),
    }
}

fn number(name: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{name} takes a number, not `{value}`"))
}

fn mutant(value: &str) -> Result<&'static str, String> {
    let known = mutants().iter().find(|name| **name == value);
    known.copied().ok_or_else(|| format!("no planted bug is called `{value}`"))
}
