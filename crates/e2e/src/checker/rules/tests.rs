//! The checker itself: histories made by hand, each bad in one way.

use std::ops::Range;

use super::*;
use crate::checker::{Drained, History};

const TOPIC: &str = "/default/a";

fn id(sequence: u64) -> MessageId {
    MessageId::new("p", sequence)
}

/// A drain of the given offsets and messages of producer `p`.
fn drain(records: &[(u64, u64)]) -> Drain {
    let record =
        |&(offset, sequence): &(u64, u64)| Drained { offset, message: Ok(id(sequence)), key: None };
    Drain { start: 0, records: records.iter().map(record).collect(), gaps: vec![] }
}

fn with_gap(mut drain: Drain, gap: Range<u64>) -> Drain {
    drain.gaps.push(gap);
    drain
}

fn run(history: &History, drain: Drain, expectation: Expectation) -> Vec<Rule> {
    let drains = BTreeMap::from([(TOPIC.to_owned(), drain)]);
    let verdict = check(&history.events(), &drains, expectation);
    let mut rules: Vec<Rule> = verdict.violations.iter().map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

fn strict(history: &History, drain: Drain) -> Vec<Rule> {
    run(history, drain, Expectation::default())
}

/// Three messages, acknowledged one after the other at 0, 1, 2.
fn three() -> History {
    let history = History::new(1);
    for sequence in 0..3 {
        history.invoked(&id(sequence), TOPIC, None);
        history.ok(&id(sequence), sequence);
    }
    history
}

fn receive(history: &History, offset: u64, sequence: u64) {
    history.received("r", TOPIC, offset, &history.payload(&id(sequence), None, 0));
}

#[test]
fn a_good_history_passes() {
    let history = three();
    history.fault("kill -9");
    history.invoked(&id(3), TOPIC, None);
    history.unknown(&id(3), "connection lost");
    history.invoked(&id(4), TOPIC, None);
    history.failed(&id(4), "storage full");
    receive(&history, 1, 1);
    let asked = Expectation { ok_min: 3, faults_min: 1, ..Expectation::default() };
    assert_eq!(run(&history, drain(&[(0, 0), (1, 1), (2, 2)]), asked), []);
    // An unknown message may be there as well.
    assert_eq!(run(&history, drain(&[(0, 0), (1, 1), (2, 2), (3, 3)]), asked), []);
}

#[test]
fn i1_a_lost_ack_is_found() {
    assert_eq!(strict(&three(), drain(&[(0, 0), (1, 1)])), [Rule::NoLostAck]);
    let drains = BTreeMap::new();
    assert!(!check(&three().events(), &drains, Expectation::default()).is_good());
}

#[test]
fn i1_an_ack_at_another_offset_is_lost() {
    let history = History::new(1);
    history.invoked(&id(0), TOPIC, None);
    history.ok(&id(0), 0);
    history.invoked(&id(1), TOPIC, None);
    history.unknown(&id(1), "time-out");
    let found = strict(&history, drain(&[(0, 1), (1, 0)]));
    assert!(found.contains(&Rule::NoLostAck), "{found:?}");
}

#[test]
fn i1_a_loss_is_excused_only_in_a_gap_and_only_where_allowed() {
    let gap = with_gap(drain(&[(0, 0)]), 1..9);
    assert_eq!(strict(&three(), gap.clone()), [Rule::NoLostAck]);
    let lossy = Expectation { loss: Loss::InGaps, ..Expectation::default() };
    assert_eq!(run(&three(), gap, lossy), []);
    assert_eq!(run(&three(), drain(&[(0, 0)]), lossy), [Rule::NoLostAck]);
}

#[test]
fn i2_a_message_that_nobody_sent_is_found() {
    let phantom = drain(&[(0, 0), (1, 1), (2, 2), (3, 77)]);
    assert_eq!(strict(&three(), phantom), [Rule::NoPhantom]);
}

#[test]
fn i2_a_definitely_refused_message_that_appears_is_found() {
    let history = three();
    history.invoked(&id(3), TOPIC, None);
    history.failed(&id(3), "storage full");
    assert_eq!(strict(&history, drain(&[(0, 0), (1, 1), (2, 2), (3, 3)])), [Rule::NoPhantom]);
    // A refusal after an unknown attempt proves nothing about that attempt.
    history.invoked(&id(4), TOPIC, None);
    history.unknown(&id(4), "time-out");
    history.invoked(&id(4), TOPIC, None);
    history.failed(&id(4), "storage full");
    assert_eq!(strict(&history, drain(&[(0, 0), (1, 1), (2, 2), (3, 4)])), []);
}

#[test]
fn i2_a_damaged_message_is_found() {
    let history = three();
    history.received("r", TOPIC, 0, b"garbled");
    let mut damaged = drain(&[(0, 0), (1, 1), (2, 2)]);
    assert_eq!(strict(&history, damaged.clone()), [Rule::NoPhantom]);
    damaged.records[1].message = Err("not text".to_owned());
    assert!(strict(&three(), damaged).contains(&Rule::NoPhantom));
}

#[test]
fn i2_a_message_in_another_topic_is_found() {
    let history = three();
    history.invoked(&id(3), "/default/b", None);
    history.unknown(&id(3), "time-out");
    assert_eq!(strict(&history, drain(&[(0, 0), (1, 1), (2, 2), (3, 3)])), [Rule::NoPhantom]);
}

#[test]
fn i3_two_messages_at_one_offset_are_found() {
    let history = three();
    history.invoked(&id(3), TOPIC, None);
    history.unknown(&id(3), "time-out");
    receive(&history, 2, 3);
    let found = strict(&history, drain(&[(0, 0), (1, 1), (2, 2)]));
    assert!(found.contains(&Rule::OneValuePerOffset), "{found:?}");
}

#[test]
fn i3_a_message_stored_twice_is_found_unless_it_was_sent_twice() {
    let twice = drain(&[(0, 0), (1, 1), (2, 2), (3, 2)]);
    let tolerant = Expectation { duplicates: Duplicates::OfRetries, ..Expectation::default() };
    assert_eq!(strict(&three(), twice.clone()), [Rule::OneValuePerOffset]);
    assert_eq!(run(&three(), twice.clone(), tolerant), [Rule::OneValuePerOffset]);
    let history = three();
    history.invoked(&id(2), TOPIC, None);
    history.unknown(&id(2), "time-out");
    assert_eq!(run(&history, twice.clone(), tolerant), []);
    assert_eq!(strict(&history, twice), [Rule::OneValuePerOffset]);
}

#[test]
fn i4_a_hole_is_found_and_a_gap_is_none() {
    let history = three();
    let hole = drain(&[(0, 0), (1, 1), (2, 2), (9, 3)]);
    history.invoked(&id(3), TOPIC, None);
    history.unknown(&id(3), "time-out");
    assert_eq!(strict(&history, hole.clone()), [Rule::Dense]);
    assert_eq!(strict(&history, with_gap(hole.clone(), 3..9)), []);
    assert_eq!(strict(&history, with_gap(hole.clone(), 3..8)), [Rule::Dense]);
    assert_eq!(strict(&history, with_gap(hole, 2..9)), [Rule::Dense]);
}

#[test]
fn i4_a_late_start_is_found_unless_it_was_trimmed() {
    let late = Drain { start: 2, ..drain(&[(2, 2)]) };
    let found = strict(&three(), late.clone());
    assert!(found.contains(&Rule::Dense), "{found:?}");
    let trimmed = Expectation { trimmed: true, ..Expectation::default() };
    assert_eq!(run(&three(), late, trimmed), []);
}

#[test]
fn i4_records_out_of_order_are_found() {
    let mut swapped = drain(&[(0, 0), (1, 1), (2, 2)]);
    swapped.records.swap(0, 1);
    assert!(strict(&three(), swapped).contains(&Rule::Dense));
}

#[test]
fn i5_an_offset_below_an_earlier_ack_is_found() {
    let history = History::new(1);
    let (a, b) = (MessageId::new("a", 0), MessageId::new("b", 0));
    history.invoked(&a, TOPIC, None);
    history.ok(&a, 1);
    history.invoked(&b, TOPIC, None);
    history.ok(&b, 0);
    let record =
        |offset, message: &MessageId| Drained { offset, message: Ok(message.clone()), key: None };
    let drain = Drain { records: vec![record(0, &b), record(1, &a)], ..Drain::default() };
    assert_eq!(strict(&history, drain.clone()), [Rule::AckOrder]);

    // Sent at the same time, any order is right.
    let history = History::new(1);
    history.invoked(&a, TOPIC, None);
    history.invoked(&b, TOPIC, None);
    history.ok(&a, 1);
    history.ok(&b, 0);
    assert_eq!(strict(&history, drain), []);
}

#[test]
fn i5_and_i6_a_producers_messages_out_of_order_are_found() {
    let history = History::new(1);
    history.invoked(&id(0), TOPIC, Some("k"));
    history.invoked(&id(1), TOPIC, Some("k"));
    history.ok(&id(1), 0);
    history.ok(&id(0), 1);
    let found = strict(&history, drain(&[(0, 1), (1, 0)]));
    assert_eq!(found, [Rule::AckOrder, Rule::PerKeyOrder]);
}

#[test]
fn i6_keys_are_ordered_each_by_itself() {
    let history = History::new(1);
    history.invoked(&id(0), TOPIC, Some("a"));
    history.invoked(&id(1), TOPIC, Some("b"));
    history.unknown(&id(0), "time-out");
    history.unknown(&id(1), "time-out");
    assert_eq!(strict(&history, drain(&[(0, 1), (1, 0)])), []);
}

#[test]
fn i12_a_message_that_was_seen_and_is_gone_is_found() {
    let history = three();
    history.invoked(&id(3), TOPIC, None);
    history.unknown(&id(3), "connection lost");
    receive(&history, 3, 3);
    assert_eq!(strict(&history, drain(&[(0, 0), (1, 1), (2, 2)])), [Rule::VisibleAfterDurable]);
}

#[test]
fn an_answer_to_nothing_is_found() {
    let history = three();
    history.ok(&id(9), 9);
    assert_eq!(strict(&history, drain(&[(0, 0), (1, 1), (2, 2)])), [Rule::NoPhantom]);
}

#[test]
fn a_run_in_which_nothing_happened_proves_nothing() {
    let good = drain(&[(0, 0), (1, 1), (2, 2)]);
    let more = Expectation { ok_min: 4, ..Expectation::default() };
    assert_eq!(run(&three(), good.clone(), more), [Rule::NotVacuous]);
    let fault = Expectation { faults_min: 1, ..Expectation::default() };
    assert_eq!(run(&three(), good, fault), [Rule::NotVacuous]);
}

#[test]
fn a_verdict_shows_the_events_around_the_first_violation() {
    let drains = BTreeMap::from([(TOPIC.to_owned(), drain(&[(0, 0), (1, 1)]))]);
    let verdict = check(&three().events(), &drains, Expectation::default());
    let shown = verdict.to_string();
    assert!(
        shown.contains("I1 no lost ack: p-2 was acknowledged at /default/a 2: nothing is there"),
        "{shown}"
    );
    assert!(shown.contains(">       5 ok p-2 at 2"), "{shown}");
}
