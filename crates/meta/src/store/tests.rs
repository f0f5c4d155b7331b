//! The store against a model: random work, and a crash at every change of the disk.

use std::collections::BTreeMap;

use bytes::Bytes;
use danube_env::sim::{
    self, Crash, Fault, Generator, Machine, Operation, Survival, World, is_crashed,
};

use super::entry::{Entry, EntryId, EntryKind};
use super::fields::Fields;
use super::recover::{self, Contents};
use super::snapshot::Snapshot;
use super::vote::Vote;
use super::*;

mod damage;

const DIR: &str = "/data/raft";
const FILE_BYTES: u64 = 4096;

/// What the disk was asked to hold, and what was acknowledged of it.
#[derive(Clone)]
struct Model {
    /// All entries that may be there, by index.
    entries: BTreeMap<u64, Entry>,
    /// Entries below this index are acknowledged.
    acknowledged: u64,
    /// Entries from this index on may be gone.
    kept: u64,
    vote: Vote,
    next_vote: Vote,
    /// Index of the last stored snapshot, and of one that may be stored.
    snapshot: Option<u64>,
    next_snapshot: Option<u64>,
    term: u64,
}

impl Model {
    fn new() -> Model {
        let vote = Vote::none(1);
        Model {
            entries: BTreeMap::new(),
            acknowledged: 0,
            kept: 0,
            vote,
            next_vote: vote,
            snapshot: None,
            next_snapshot: None,
            term: 1,
        }
    }

    fn next_index(&self) -> u64 {
        self.acknowledged
    }

    fn id(&self, index: u64) -> EntryId {
        self.entries[&index].id
    }

    /// Does one random thing to the store; what it returns without error is acknowledged.
    fn step(&mut self, store: &mut Store, random: &Generator) -> Result<()> {
        match random.below(10) {
            0..6 => self.append(store, random),
            6 => {
                let committed = random.one_in(2);
                self.next_vote = Vote { member: 1, term: self.term, node: 1, committed };
                store.save_vote(&self.next_vote)?;
                self.vote = self.next_vote;
                Ok(())
            }
            7 => self.truncate(store, random),
            _ => self.snapshot(store, random),
        }
    }

    fn append(&mut self, store: &mut Store, random: &Generator) -> Result<()> {
        let group: Vec<_> = (0..1 + random.below(4))
            .map(|at| {
                // Few sizes, so that what is written later often ends where something older begins.
                let length = random.below(4) as usize * 400;
                let id = EntryId { index: self.next_index() + at, term: self.term, node: 1 };
                let payload = Bytes::from(vec![random.next() as u8; length]);
                Entry { id, kind: EntryKind::Commands, payload }
            })
            .collect();
        self.entries.split_off(&self.next_index());
        self.entries.extend(group.iter().map(|entry| (entry.id.index, entry.clone())));
        store.append(&group)?;
        self.acknowledged = self.next_index() + group.len() as u64;
        self.kept = self.acknowledged;
        Ok(())
    }

    fn truncate(&mut self, store: &mut Store, random: &Generator) -> Result<()> {
        let lowest = self.snapshot.map_or(0, |last| last + 1);
        let from = self.next_index() - random.below(4).min(self.next_index() - lowest);
        self.term += 1;
        self.kept = from;
        store.truncate(from)?;
        self.acknowledged = from;
        self.entries.split_off(&from);
        Ok(())
    }

    fn snapshot(&mut self, store: &mut Store, random: &Generator) -> Result<()> {
        let Some(newest) = self.next_index().checked_sub(1) else { return Ok(()) };
        let last = newest - random.below(3).min(newest);
        if self.snapshot.is_some_and(|snapshot| snapshot >= last) {
            return Ok(());
        }
        self.next_snapshot = Some(last);
        assert!(store.save_snapshot(&snapshot_of(self.id(last)))?);
        self.snapshot = Some(last);
        store.purge(self.id(last))
    }

    /// Checks what a start found, and takes it as acknowledged.
    fn check(&mut self, contents: &Contents, context: &str) {
        let vote = *contents.vote().unwrap_or(&self.vote);
        assert!(vote == self.vote || vote == self.next_vote, "{context}: {vote:?}");
        let snapshot = contents.snapshot().map(|(snapshot, _)| snapshot.last.index);
        assert!(
            snapshot == self.snapshot || snapshot == self.next_snapshot,
            "{context}: {snapshot:?}"
        );
        if let Some((snapshot, _)) = contents.snapshot() {
            assert_eq!(*snapshot, snapshot_of(self.id(snapshot.last.index)), "{context}");
        }
        let found: Vec<_> = contents.entries().map(|(_, _, entry)| entry.clone()).collect();
        let begin = contents.entry_before_log().map_or(0, |before| before.index + 1);
        let covered = snapshot.map_or(0, |last| last + 1);
        assert!(begin <= covered, "{context}: hole between {covered} and {begin}");
        for (index, entry) in (begin..).zip(&found) {
            assert_eq!(Some(entry), self.entries.get(&index), "{context}");
        }
        let end = begin + found.len() as u64;
        let expected = self.acknowledged.min(self.kept);
        assert!(end >= expected, "{context}: {expected} entries were kept, the log ends at {end}");
        self.acknowledged = end;
        self.kept = end;
        self.entries.split_off(&end);
        (self.vote, self.next_vote) = (vote, vote);
        (self.snapshot, self.next_snapshot) = (snapshot, snapshot);
        self.term += 1;
    }
}

fn snapshot_of(last: EntryId) -> Snapshot {
    Snapshot::build(last, |out| out.extend((0..2000).map(|at| (at ^ last.index) as u8)))
}

/// Starts, does `steps`, and stops at the first error.
fn work(env: &Env, model: &mut Model, random: &Generator, steps: u64, context: &str) -> Result<()> {
    let contents = recover::read(&*env.disk, DIR.as_ref())?;
    model.check(&contents, context);
    let vote = model.vote;
    let mut store = contents.settle(env, &vote, FILE_BYTES)?;
    (0..steps).try_for_each(|_| model.step(&mut store, random))
}

fn works(env: &Env, model: &mut Model, random: &Generator, steps: u64, context: &str) {
    let worked = work(env, model, random, steps, context);
    worked.unwrap_or_else(|error| panic!("{context}: {error:?}"));
}

fn is_down(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if is_crashed(&**source))
}

fn machine(world: &World) -> Machine {
    let machine = world.machine("broker");
    machine.env().disk.create_dir_all("/data".as_ref()).unwrap();
    machine.env().disk.sync_dir("/".as_ref()).unwrap();
    machine
}

/// Crashes at change `at` of some work, and checks what survives. False if the work has fewer changes.
fn survives_crash_at(seed: u64, at: u64, crash: Crash) -> bool {
    let context = &format!("seed {seed}, {crash:?} at change {at}");
    sim::run(seed ^ (at << 20), |world| async move {
        let (machine, random, mut model) = (machine(&world), Generator::new(seed), Model::new());
        machine.disk().crash_at(at, crash);
        match work(&machine.env(), &mut model, &random, 25, context) {
            Ok(()) => return false,
            Err(error) => assert!(is_down(&error), "{context}: {error}"),
        }
        // The start after the crash is cut short too, then there is one that works on.
        let env = machine.restart().await;
        machine.disk().crash_at(random.below(8), crash);
        if let Err(error) = work(&env, &mut model, &random, 3, context) {
            assert!(is_down(&error), "{context}: {error}");
        }
        works(&machine.restart().await, &mut model, &random, 10, context);
        machine.crash(Crash::PowerCut(Survival::Nothing));
        works(&machine.restart().await, &mut model, &random, 0, context);
        true
    })
}

#[test]
fn what_was_acknowledged_survives_a_crash_at_every_change() {
    let cuts = [Survival::Chance, Survival::Nothing, Survival::Everything].map(Crash::PowerCut);
    for (seeds, crashes) in [(0..6, &cuts[..]), (6..8, &[Crash::Kill])] {
        for seed in seeds {
            for crash in crashes {
                let changes = (0..).take_while(|at| survives_crash_at(seed, *at, *crash)).count();
                assert!(changes > 50, "seed {seed} has only {changes} changes");
            }
        }
    }
}

/// After a failed sync the page cache shows what the disk does not have. The next start must not build on it.
#[test]
fn what_was_acknowledged_survives_a_sync_that_lied() {
    for operation in [Operation::SyncData, Operation::SyncDir] {
        for (seed, nth) in (0..30).flat_map(|seed| (0..40).map(move |nth| (seed, nth))) {
            let context = &format!("seed {seed}, {operation:?} {nth}");
            sim::run(seed * 1000 + nth, |world| async move {
                let (machine, random, mut model) =
                    (machine(&world), Generator::new(seed), Model::new());
                machine.disk().plan(Fault::nth(operation, nth));
                let _ = work(&machine.env(), &mut model, &random, 25, context);
                let env = machine.restart().await;
                machine.disk().clear_plan();
                works(&env, &mut model, &random, 5, context);
                machine.crash(Crash::PowerCut(Survival::Nothing));
                works(&machine.restart().await, &mut model, &random, 0, context);
            });
        }
    }
}
