//! The machine against a broker that keeps its promise behind a network that keeps none.

use std::collections::{BTreeMap, HashMap, HashSet};

use proptest::prelude::*;

use super::*;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A copy of a batch on its way.
#[derive(Clone, Copy, Debug)]
struct Copy {
    send: Send,
    records: u32,
}

/// A topic as the module's text describes it.
struct Broker {
    log: Vec<BatchId>,
    epoch: u32,
    expected: Sequence,
    taken: HashMap<(u32, u32), BatchId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Ack(Sequence),
    Refused(Sequence, Refusal),
}

const SEQUENCE_REFUSAL: Refusal =
    Refusal { outcome: Outcome::Definite, is_retryable: false, breaks_sequence: true };

impl Broker {
    fn new() -> Broker {
        Broker { log: Vec::new(), epoch: 0, expected: Sequence::ZERO, taken: HashMap::new() }
    }

    /// Takes the copy, unless `fault` refuses it.
    fn append(&mut self, copy: Copy, fault: Option<Refusal>) -> Answer {
        let Number { epoch, base } = copy.send.number;
        if let Some(taken) = self.taken.get(&(epoch, base.get())) {
            assert_eq!(*taken, copy.send.id, "two batches under one number");
            return match fault {
                Some(refusal) => Answer::Refused(base, refusal),
                None => Answer::Ack(base),
            };
        }
        let expected = if epoch > self.epoch { Sequence::ZERO } else { self.expected };
        if epoch < self.epoch || base != expected {
            return Answer::Refused(base, SEQUENCE_REFUSAL);
        }
        match fault {
            Some(refusal) if refusal.outcome == Outcome::Definite => Answer::Refused(base, refusal),
            fault => {
                self.epoch = epoch;
                self.expected = base.plus(copy.records);
                self.taken.insert((epoch, base.get()), copy.send.id);
                self.log.push(copy.send.id);
                fault.map_or(Answer::Ack(base), |refusal| Answer::Refused(base, refusal))
            }
        }
    }
}

/// A step of the world.
#[derive(Clone, Debug)]
enum Step {
    Push {
        records: u32,
    },
    Send,
    /// The next copy on the open connection reaches the broker.
    Arrive {
        fault: Option<Refusal>,
    },
    /// The next answer reaches the machine.
    Answer,
    CutOff,
    /// The broker ends the topic on this stream; what has not arrived is not taken.
    End,
    Open,
    /// A copy of a connection that was cut off reaches the broker after all.
    ArriveLate {
        which: usize,
    },
    Wait {
        milliseconds: u64,
    },
    OpenRefused,
}

struct World {
    machine: Machine,
    broker: Broker,
    now: Duration,
    next_id: u64,
    records: HashMap<BatchId, u32>,
    requests: VecDeque<Copy>,
    answers: VecDeque<Answer>,
    late: Vec<Copy>,
    fates: BTreeMap<BatchId, Fate>,
    released: HashSet<BatchId>,
    is_open: bool,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            machine: Machine::new(Backoff::new(seed)),
            broker: Broker::new(),
            now: Duration::ZERO,
            next_id: 0,
            records: HashMap::new(),
            requests: VecDeque::new(),
            answers: VecDeque::new(),
            late: Vec::new(),
            fates: BTreeMap::new(),
            released: HashSet::new(),
            is_open: false,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push { records } => {
                let id = BatchId(self.next_id);
                self.next_id += 1;
                self.records.insert(id, records);
                self.machine.push(id, records, self.now + TIMEOUT);
            }
            Step::Send => {
                if let Some(send) = self.machine.next_send(self.now) {
                    assert!(!self.released.contains(&send.id), "sent what was released");
                    self.requests.push_back(Copy { send, records: self.records[&send.id] });
                }
            }
            Step::Arrive { fault } => {
                if let Some(copy) = self.requests.pop_front() {
                    let answer = self.broker.append(copy, fault);
                    self.answers.push_back(answer);
                }
            }
            Step::Answer => match self.answers.pop_front() {
                None => {}
                Some(Answer::Ack(base)) => {
                    self.machine.acked(base).expect("answers come in order");
                }
                Some(Answer::Refused(base, refusal)) => {
                    self.machine.refused(base, refusal, self.now).expect("answers come in order");
                }
            },
            Step::CutOff => {
                if std::mem::take(&mut self.is_open) {
                    self.late.extend(self.requests.drain(..));
                    self.answers.clear();
                    self.machine.cut_off();
                }
            }
            Step::End => {
                if std::mem::take(&mut self.is_open) {
                    while !self.answers.is_empty() {
                        self.step(Step::Answer);
                    }
                    self.requests.clear();
                    self.machine.ended();
                }
            }
            Step::Open => {
                if !std::mem::replace(&mut self.is_open, true) {
                    self.machine.opened(TopicId::new([1; 16]));
                }
            }
            Step::ArriveLate { which } => {
                if !self.late.is_empty() {
                    let copy = self.late.swap_remove(which % self.late.len());
                    self.broker.append(copy, None);
                }
            }
            Step::Wait { milliseconds } => self.now += Duration::from_millis(milliseconds),
            Step::OpenRefused => {
                if !self.is_open {
                    self.machine.fail_all();
                }
            }
        }
        self.machine.expire(self.now);
        while let Some(event) = self.machine.next_event() {
            match event {
                Event::Settled(id, fate) => {
                    assert_eq!(self.fates.insert(id, fate), None, "settled twice");
                    assert!(!self.released.contains(&id), "settled after it was released");
                }
                Event::Released(id) => assert!(self.released.insert(id), "released twice"),
            }
        }
    }

    /// The faults end: all that is awaited is settled, and what comes then is stored. At last every late copy arrives.
    fn heal(&mut self) {
        let after = BatchId(self.next_id);
        self.step(Step::Push { records: 1 });
        for _ in 0..100_000 {
            if self.fates.len() as u64 == self.next_id && self.machine.is_quiet() {
                break;
            }
            self.step(Step::Open);
            self.step(Step::Send);
            self.step(Step::Arrive { fault: None });
            self.step(Step::Answer);
            let can_send = self.machine.can_send(self.now) && self.machine.has_waiting();
            if self.requests.is_empty() && self.answers.is_empty() && !can_send {
                let wake_at = self.machine.wake_at(self.now).unwrap_or(self.now);
                self.now = self.now.max(wake_at);
            }
        }
        assert_eq!(self.fates.len() as u64, self.next_id, "some were never settled");
        assert_eq!(self.fates[&after], Fate::Stored, "sent without faults");
        while !self.late.is_empty() {
            self.step(Step::ArriveLate { which: 0 });
        }
    }

    fn check(&self) {
        let log = &self.broker.log;
        assert!(log.is_sorted_by(|a, b| a < b), "stored twice or out of order: {log:?}");
        let stored: HashSet<_> = log.iter().collect();
        for (id, fate) in &self.fates {
            match fate {
                Fate::Stored => assert!(stored.contains(id), "{id:?} was acknowledged and is lost"),
                Fate::Refused(Outcome::Definite) | Fate::TimedOut(Outcome::Definite) => {
                    assert!(!stored.contains(id), "{id:?} failed for certain and is stored");
                }
                Fate::Refused(Outcome::Unknown)
                | Fate::TimedOut(Outcome::Unknown)
                | Fate::Untraceable => {}
            }
        }
    }
}

fn any_fault() -> impl Strategy<Value = Option<Refusal>> {
    let refusal = (any::<bool>(), any::<bool>()).prop_map(|(is_definite, is_retryable)| Refusal {
        outcome: if is_definite { Outcome::Definite } else { Outcome::Unknown },
        is_retryable,
        breaks_sequence: false,
    });
    prop_oneof![4 => Just(None), 1 => refusal.prop_map(Some)]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u32..4).prop_map(|records| Step::Push { records }),
        8 => Just(Step::Send),
        6 => any_fault().prop_map(|fault| Step::Arrive { fault }),
        6 => Just(Step::Answer),
        1 => Just(Step::CutOff),
        1 => Just(Step::End),
        2 => Just(Step::Open),
        2 => any::<usize>().prop_map(|which| Step::ArriveLate { which }),
        3 => (0_u64..300).prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => Just(Step::Wait { milliseconds: 4_000 }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever the network does: nothing is lost that was acknowledged, nothing is stored twice or out of order, and
    /// nothing is stored that failed for certain.
    #[test]
    fn nothing_lost_doubled_reordered_or_revived(
        seed in any::<u64>(),
        steps in prop::collection::vec(any_step(), 0..250),
        open_refused in prop::option::of(0_usize..250),
    ) {
        let mut world = World::new(seed);
        for (at, step) in steps.into_iter().enumerate() {
            if open_refused == Some(at) {
                world.step(Step::OpenRefused);
            }
            world.step(step);
        }
        world.heal();
        world.check();
    }
}

fn refusal(outcome: Outcome, is_retryable: bool) -> Option<Refusal> {
    Some(Refusal { outcome, is_retryable, breaks_sequence: false })
}

fn run(steps: impl IntoIterator<Item = Step>) -> World {
    let mut world = World::new(1);
    steps.into_iter().for_each(|step| world.step(step));
    world.heal();
    world.check();
    world
}

fn push() -> Step {
    Step::Push { records: 1 }
}

#[test]
fn a_batch_refused_for_good_fails_alone_and_those_behind_it_are_stored() {
    let fault = refusal(Outcome::Definite, false);
    let world = run([
        push(),
        push(),
        push(),
        Step::Open,
        Step::Send,
        Step::Send,
        Step::Send,
        Step::Arrive { fault },
    ]);
    assert_eq!(world.fates[&BatchId(0)], Fate::Refused(Outcome::Definite));
    assert_eq!(world.broker.log, [BatchId(1), BatchId(2), BatchId(3)]);
    assert_eq!(world.broker.epoch, 1);
}

#[test]
fn what_was_cut_off_is_sent_again_under_its_number_and_stored_once() {
    let world = run([
        push(),
        push(),
        Step::Open,
        Step::Send,
        Step::Send,
        Step::Arrive { fault: None },
        Step::CutOff,
    ]);
    assert_eq!(world.broker.log, [BatchId(0), BatchId(1), BatchId(2)]);
    assert_eq!(world.broker.epoch, 0);
    assert!(world.fates.values().all(|fate| *fate == Fate::Stored));
}

#[test]
fn a_batch_that_may_be_stored_never_fails_for_certain() {
    let world = run([
        push(),
        push(),
        Step::Open,
        Step::Send,
        Step::Send,
        Step::CutOff,
        Step::Open,
        Step::Send,
        Step::Arrive { fault: refusal(Outcome::Definite, false) },
        Step::Answer,
    ]);
    assert_eq!(world.fates[&BatchId(0)], Fate::Refused(Outcome::Unknown));
}

/// The first was never stored, so neither was the second, although its own answer is missing.
#[test]
fn behind_a_batch_that_was_never_stored_nothing_is_in_doubt() {
    let world = run([
        push(),
        push(),
        Step::Open,
        Step::Send,
        Step::Send,
        Step::Arrive { fault: refusal(Outcome::Definite, true) },
        Step::Answer,
        Step::CutOff,
        Step::Open,
        Step::Wait { milliseconds: 100 },
        Step::Send,
        Step::Send,
        Step::Arrive { fault: refusal(Outcome::Definite, false) },
    ]);
    assert_eq!(world.fates[&BatchId(0)], Fate::Refused(Outcome::Definite));
    assert_eq!(world.fates[&BatchId(1)], Fate::Stored);
}

/// While the second is asked for, late copies of both may still arrive: under a new number it could be stored twice.
#[test]
fn a_batch_that_may_be_stored_is_not_renumbered() {
    let mut world = run([
        push(),
        push(),
        Step::Open,
        Step::Send,
        Step::Send,
        Step::CutOff,
        Step::Open,
        Step::Send,
        Step::Arrive { fault: refusal(Outcome::Definite, false) },
        Step::Answer,
        Step::Wait { milliseconds: 100 },
        Step::Send,
        Step::Arrive { fault: None },
        Step::Answer,
        Step::ArriveLate { which: 0 },
        Step::ArriveLate { which: 0 },
    ]);
    assert_eq!(world.fates[&BatchId(1)], Fate::Untraceable);
    world.step(push());
    world.heal();
    world.check();
}

#[test]
fn what_nobody_waits_for_is_let_go_and_never_sent_again() {
    let mut world = World::new(1);
    let steps = [push(), Step::Open, Step::Send, Step::CutOff, Step::Wait { milliseconds: 20_000 }];
    steps.into_iter().for_each(|step| world.step(step));
    assert_eq!(world.fates[&BatchId(0)], Fate::TimedOut(Outcome::Unknown));
    assert!(world.released.contains(&BatchId(0)));
    world.heal();
    assert_eq!(world.broker.log, [BatchId(1)]);
}

#[test]
fn a_new_epoch_waits_for_the_one_before() {
    let mut world = World::new(1);
    // Both are refused; when they are sent again, the first is in flight while the second runs out of time.
    for step in [
        push(),
        Step::Wait { milliseconds: 1 },
        push(),
        push(),
        Step::Open,
        Step::Send,
        Step::Send,
        Step::Arrive { fault: refusal(Outcome::Definite, true) },
        Step::Arrive { fault: None },
        Step::Answer,
        Step::Answer,
        Step::Wait { milliseconds: 9_990 },
        Step::Send,
        Step::Wait { milliseconds: 100 },
    ] {
        world.step(step);
    }
    push_and_expect_nothing_sent(&mut world);
    world.heal();
    world.check();
}

fn push_and_expect_nothing_sent(world: &mut World) {
    world.step(push());
    assert_eq!(world.machine.next_send(world.now), None);
}

#[test]
fn another_topic_under_the_name_gets_only_what_can_t_be_in_the_old_one() {
    let mut world = World::new(1);
    for step in [push(), push(), Step::Open, Step::Send, Step::CutOff] {
        world.step(step);
    }
    world.broker = Broker::new();
    world.late.clear();
    world.machine.opened(TopicId::new([2; 16]));
    world.is_open = true;
    world.heal();
    world.check();
    assert_eq!(world.fates[&BatchId(0)], Fate::Untraceable);
    assert_eq!(world.broker.log, [BatchId(1), BatchId(2)]);
}

#[test]
fn an_answer_to_what_was_not_sent_is_refused() {
    let mut world = World::new(1);
    for step in [push(), Step::Open, Step::Send] {
        world.step(step);
    }
    let other = Sequence::new(5).expect("in range");
    assert_eq!(world.machine.acked(other), Err(UnexpectedAnswer));
}
