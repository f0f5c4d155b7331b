//! The engine against a plain model that keeps every record by itself and knows the rules of `docs/delivery.md`.

mod model;

use proptest::prelude::*;

use self::model::{Event, World};
use super::*;

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => prop::collection::vec(0u8..6, 1..9).prop_map(Event::Publish),
        3 => (0u8..4, prop_oneof![Just(u64::MAX), 0u64..9], 0u8..4)
            .prop_map(|(consumer, credit, filter)| Event::Join { consumer, credit, filter }),
        2 => (0u8..4).prop_map(Event::Leave),
        1 => (0u8..4, 0u8..4).prop_map(|(consumer, filter)| Event::Expect { consumer, filter }),
        2 => (0u8..4, 1u64..9).prop_map(|(consumer, records)| Event::Grant { consumer, records }),
        1 => (0u8..4, any::<bool>()).prop_map(|(consumer, room)| Event::Room { consumer, room }),
        8 => (0u64..40, 1u64..12, 0u8..8)
            .prop_map(|(first, count, of)| Event::Acknowledge { first, count, of }),
        3 => (0u64..40, 0u8..8, 0u64..9_000)
            .prop_map(|(offset, of, delay)| Event::Refuse { offset, of, delay }),
        1 => (0u64..40, 0u8..8).prop_map(|(offset, of)| Event::Reject { offset, of }),
        4 => (1u64..6_000).prop_map(Event::Wait),
        1 => (0u64..20, 1u64..9).prop_map(|(first, count)| Event::Missing { first, count }),
        1 => (0u64..40).prop_map(Event::Seek),
        2 => Just(Event::Save),
        1 => (0u8..3).prop_map(Event::Policy),
    ]
}

fn kinds() -> impl Strategy<Value = SubscriptionType> {
    use SubscriptionType::*;
    prop_oneof![1 => Just(Exclusive), 1 => Just(Failover), 1 => Just(Shared), 3 => Just(KeyShared)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn every_delivery_keeps_the_rules(
        kind in kinds(),
        max_unacked in 1u64..12,
        events in prop::collection::vec(events(), 1..80),
    ) {
        let mut world = World::new(kind, max_unacked);
        for event in events {
            world.event(event);
        }
        world.finish();
    }

    #[test]
    fn the_same_events_give_the_same_actions(
        kind in kinds(),
        events in prop::collection::vec(events(), 1..40),
    ) {
        let run = || {
            let mut world = World::new(kind, 8);
            events.iter().for_each(|event| world.event(event.clone()));
            world.actions
        };
        prop_assert_eq!(run(), run());
    }
}

/// A consumer without credit holds back its key; sixteen times the window later nothing more is read, though another
/// consumer could take the next key. With room for one more it is.
#[test]
fn what_is_held_back_bounds_what_is_read() {
    for (held_back, is_delivered) in [(15, true), (16, false)] {
        let mut world = World::new(SubscriptionType::KeyShared, 1);
        world.event(Event::Join { consumer: 3, credit: 0, filter: 1 });
        (0..held_back).for_each(|_| world.event(Event::Publish(vec![0])));
        world.event(Event::Join { consumer: 0, credit: u64::MAX, filter: 2 });
        world.event(Event::Publish(vec![3]));
        assert_eq!(!world.actions.is_empty(), is_delivered, "behind {held_back}");
    }
}

fn id(number: u64) -> ConsumerId {
    ConsumerId::new(number).unwrap()
}

fn range(start: u64, end: u64) -> Range<Offset> {
    Offset::new(start)..Offset::new(end)
}

fn engine(kind: SubscriptionType, policy: FailurePolicy) -> Engine {
    let promise = Promise::AtLeastOnce;
    let absence = SECOND * 60;
    let settings =
        Settings { kind, promise, max_unacked_messages: 1000, policy, absence, pace: None };
    Engine::new(settings, Cursor::new(Offset::ZERO))
}

fn join(engine: &mut Engine, consumer: u64, credit: u64) {
    join_for(engine, consumer, credit, &[], SECOND);
}

fn join_for(engine: &mut Engine, consumer: u64, credit: u64, filters: &[&str], now: Duration) {
    let name = format!("c{consumer}");
    let filters = filters.iter().map(|filter| Filter::new(filter)).collect();
    engine.join(Joining { id: id(consumer), name: &name, credit, filters }, now);
}

/// Consumer, first offset, end, count of deliveries.
fn deliveries(engine: &mut Engine, now: Duration) -> Vec<(u64, u64, u64, u32)> {
    let mut deliveries = Vec::new();
    while let Some(action) = engine.poll(now) {
        let Action::Deliver(delivery) = action else { panic!("{action:?}") };
        let Delivery { consumer, range, deliveries: count } = delivery;
        deliveries.push((consumer.get(), range.start.get(), range.end.get(), count));
    }
    deliveries
}

const SECOND: Duration = Duration::from_secs(1);

/// One late message is delivered again, once per time-out, and nothing else is.
#[test]
fn only_the_late_message_comes_again() {
    let policy = FailurePolicy { ack_timeout_ms: 2000, ..FailurePolicy::default() };
    let mut engine = engine(SubscriptionType::Shared, policy);
    join(&mut engine, 1, u64::MAX);
    join(&mut engine, 2, u64::MAX);
    engine.offer(range(0, 200));
    assert_eq!(deliveries(&mut engine, SECOND), [(1, 0, 100, 1), (2, 100, 200, 1)]);
    engine.acknowledge(range(1, 200), None, SECOND);
    for (second, count) in [(3, 2), (5, 3), (7, 4)] {
        assert_eq!(engine.next_timer(), Some(SECOND * second));
        let late = deliveries(&mut engine, SECOND * second);
        assert!(matches!(late[..], [(_, 0, 1, again)] if again == count), "{late:?}");
    }
    engine.acknowledge(range(0, 1), None, SECOND);
    assert_eq!((engine.cursor().floor(), engine.next_timer()), (Offset::new(200), None));
}

/// A consumer that takes a second for each message, and holds more of them than it can deal with within the time-out.
#[test]
fn a_slow_consumer_that_comes_on_is_not_late() {
    let policy = FailurePolicy { ack_timeout_ms: 2000, ..FailurePolicy::default() };
    let mut engine = engine(SubscriptionType::Exclusive, policy);
    join(&mut engine, 1, u64::MAX);
    engine.offer(range(0, 50));
    assert_eq!(deliveries(&mut engine, SECOND), [(1, 0, 50, 1)]);
    for message in 0..40 {
        let now = SECOND * (message as u32 + 2);
        assert_eq!(deliveries(&mut engine, now), []);
        engine.acknowledge(range(message, message + 1), None, now);
    }
    // It stops at the 41st: then that is late, and what waits behind it.
    assert_eq!(deliveries(&mut engine, SECOND * 42), []);
    assert_eq!(deliveries(&mut engine, SECOND * 43), [(1, 40, 50, 2)]);
}

/// What retention removed leaves the window, and a late acknowledgement of it changes nothing.
#[test]
fn messages_that_are_gone_leave_the_window() {
    let mut engine = engine(SubscriptionType::Exclusive, FailurePolicy::default());
    engine.set_max_unacked_messages(10);
    join(&mut engine, 1, u64::MAX);
    engine.offer(range(0, 10));
    assert_eq!(deliveries(&mut engine, SECOND).len(), 1);
    assert_eq!(engine.wants(), 0);
    engine.acknowledge(range(3, 5), None, SECOND);
    engine.refuse(Offset::new(8), None, 60_000, "later", SECOND);
    assert_eq!(engine.not_in_flight(range(0, 10)), [range(8, 9)]);
    assert_eq!(engine.not_in_flight(range(4, 8)), []);
    engine.missing(range(0, 10));
    assert_eq!((engine.wants(), engine.in_flight()), (10, 0));
    engine.offer(range(10, 15));
    assert_eq!(deliveries(&mut engine, SECOND), [(1, 10, 15, 1)]);
    engine.acknowledge(range(3, 4), None, SECOND);
    engine.acknowledge(range(20, 30), None, SECOND);
    assert_eq!((engine.cursor().floor(), engine.in_flight()), (Offset::new(10), 5));
}

/// An acknowledgement of an earlier delivery does not count for what was not delivered again.
#[test]
fn a_late_acknowledgement_moves_no_cursor_that_was_set_back() {
    let mut engine = engine(SubscriptionType::Exclusive, FailurePolicy::default());
    join(&mut engine, 1, u64::MAX);
    engine.offer(range(0, 900));
    deliveries(&mut engine, SECOND);
    engine.acknowledge(range(0, 500), None, SECOND);
    engine.seek(Offset::new(100));
    engine.acknowledge(range(500, 900), None, SECOND);
    assert_eq!(engine.cursor().floor(), Offset::new(100));
    engine.offer(range(0, 300));
    assert_eq!(deliveries(&mut engine, SECOND), [(1, 100, 300, 1)]);
    engine.acknowledge(range(100, 900), None, SECOND);
    assert_eq!(engine.cursor().floor(), Offset::new(300));
}

/// A key moves only when its earlier messages are settled; keys without any move at once.
#[test]
fn a_key_moves_when_its_earlier_messages_are_settled() {
    let mut engine = engine(SubscriptionType::KeyShared, FailurePolicy::default());
    let keys: Vec<_> = (0..10).map(|key| format!("key-{key}")).collect();
    let offer = |engine: &mut Engine, from: u64, to: u64| {
        let record = |at: u64| (Offset::new(at), keys[at as usize % 10].as_bytes());
        engine.offer_records(range(from, to), (from..to).map(record));
    };
    join(&mut engine, 1, u64::MAX);
    offer(&mut engine, 0, 500);
    assert_eq!(deliveries(&mut engine, SECOND), [(1, 0, 500, 1)]);
    join(&mut engine, 2, u64::MAX);
    offer(&mut engine, 500, 510);
    let at_once = deliveries(&mut engine, SECOND);
    assert!(at_once.iter().all(|delivery| delivery.0 == 1), "{at_once:?}");
    let moved = 10 - at_once.iter().map(|(_, start, end, _)| end - start).sum::<u64>();
    assert!((1..10).contains(&moved), "{moved} keys are to move");
    engine.acknowledge(range(0, 499), None, SECOND);
    let after = deliveries(&mut engine, SECOND);
    assert!(after.iter().all(|delivery| delivery.0 == 2), "{after:?}");
    engine.acknowledge(range(499, 510), None, SECOND);
    deliveries(&mut engine, SECOND);
    engine.acknowledge(range(499, 510), None, SECOND);
    assert_eq!(engine.cursor().floor(), Offset::new(510));
}

#[test]
fn a_blocked_key_holds_back_itself_alone() {
    let policy = FailurePolicy { max_redelivery_count: 0, ..FailurePolicy::default() };
    let mut engine = engine(SubscriptionType::KeyShared, policy);
    join(&mut engine, 1, u64::MAX);
    let record = |at: u64| (Offset::new(at), if at.is_multiple_of(2) { &b"a"[..] } else { b"b" });
    engine.offer_records(range(0, 4), (0..4).map(record));
    deliveries(&mut engine, SECOND);
    engine.refuse(Offset::ZERO, None, 0, "bad", SECOND);
    let reason = "bad".to_owned();
    let blocked = Action::Blocked { offset: Offset::ZERO, deliveries: 1, reason };
    assert_eq!(engine.poll(SECOND), Some(blocked));
    engine.offer_records(range(4, 8), (4..8).map(record));
    assert_eq!(deliveries(&mut engine, SECOND), [(1, 5, 6, 1), (1, 7, 8, 1)]);
    engine.set_policy(FailurePolicy {
        poison: danube_model::PoisonPolicy::Drop,
        ..FailurePolicy { max_redelivery_count: 0, ..FailurePolicy::default() }
    });
    assert_eq!(engine.poll(SECOND), Some(Action::Dropped { offset: Offset::ZERO, deliveries: 1 }));
    assert_eq!(deliveries(&mut engine, SECOND), [(1, 4, 5, 1), (1, 6, 7, 1)]);
}

#[test]
fn at_most_once_settles_what_it_hands_out() {
    let mut engine = engine(SubscriptionType::Exclusive, FailurePolicy::default());
    engine.settings.promise = Promise::AtMostOnce;
    join(&mut engine, 1, 5);
    engine.offer(range(0, 8));
    assert_eq!(deliveries(&mut engine, SECOND), [(1, 0, 5, 1)]);
    engine.leave(id(1), SECOND);
    join(&mut engine, 2, 5);
    assert_eq!(deliveries(&mut engine, SECOND), [(2, 5, 8, 1)]);
    assert_eq!((engine.cursor().floor(), engine.next_timer()), (Offset::new(8), None));
}

fn offer_keys(engine: &mut Engine, from: u64, keys: &[&str]) {
    let records = (from..).zip(keys).map(|(at, key)| (Offset::new(at), key.as_bytes()));
    engine.offer_records(range(from, from + keys.len() as u64), records);
}

/// What a consumer held and what came while it was gone waits for it, and holds up nobody else; its time over, it is skipped.
#[test]
fn a_consumer_that_is_briefly_gone_misses_nothing() {
    let mut engine = engine(SubscriptionType::KeyShared, FailurePolicy::default());
    engine.set_max_unacked_messages(2);
    join_for(&mut engine, 1, u64::MAX, &["a*"], SECOND);
    join_for(&mut engine, 2, u64::MAX, &["b*"], SECOND);
    offer_keys(&mut engine, 0, &["b", "b", "b"]);
    assert_eq!(deliveries(&mut engine, SECOND), [(2, 0, 2, 1)]);
    offer_keys(&mut engine, 3, &["a", "c"]);
    engine.leave(id(2), SECOND);
    // The window is free for the others.
    assert_eq!(deliveries(&mut engine, SECOND), [(1, 3, 4, 1)]);
    engine.acknowledge(range(3, 4), None, SECOND);
    assert_eq!(engine.cursor().floor(), Offset::ZERO);

    join_for(&mut engine, 2, u64::MAX, &["b*"], SECOND * 60);
    assert_eq!(deliveries(&mut engine, SECOND * 60), [(2, 0, 2, 2)]);
    engine.acknowledge(range(0, 2), None, SECOND * 60);
    assert_eq!(deliveries(&mut engine, SECOND * 60), [(2, 2, 3, 1)]);
    engine.leave(id(2), SECOND * 60);
    assert_eq!(engine.next_timer(), Some(SECOND * 120));
    assert_eq!(deliveries(&mut engine, SECOND * 119), []);
    assert_eq!(engine.cursor().floor(), Offset::new(2));
    assert_eq!(deliveries(&mut engine, SECOND * 120), []);
    assert_eq!((engine.cursor().floor(), engine.next_timer()), (Offset::new(5), None));
}

/// While nobody is there nothing is skipped; the time of those that are gone begins when the first one comes back.
#[test]
fn time_without_consumers_does_not_count() {
    let mut engine = engine(SubscriptionType::KeyShared, FailurePolicy::default());
    engine.expect("c2", vec![Filter::new("b*")], SECOND);
    engine.expect("c1", vec![Filter::new("b*")], SECOND);
    assert_eq!(engine.next_timer(), None);
    join_for(&mut engine, 1, u64::MAX, &["a*"], SECOND * 1000);
    offer_keys(&mut engine, 0, &["b", "c", "a"]);
    assert_eq!(deliveries(&mut engine, SECOND * 1059), [(1, 2, 3, 1)]);
    engine.acknowledge(range(2, 3), None, SECOND * 1059);
    assert_eq!(engine.cursor().settled().collect::<Vec<_>>(), [range(1, 3)]);
    // One that registers with other filters is expected with these.
    engine.expect("c2", vec![Filter::new("d*")], SECOND * 1059);
    assert_eq!(engine.cursor().floor(), Offset::new(3));
    assert_eq!(engine.next_timer(), Some(SECOND * 1119));
}

#[test]
fn the_time_of_an_absent_consumer_ends_though_another_comes_and_goes() {
    let mut engine = engine(SubscriptionType::KeyShared, FailurePolicy::default());
    engine.expect("c2", vec![Filter::new("b*")], SECOND);
    for (comes, goes, ends) in [(10, 50, 70), (51, 65, 71), (66, 80, 72)] {
        join_for(&mut engine, 1, u64::MAX, &["a*"], SECOND * comes);
        assert_eq!(engine.next_timer(), Some(SECOND * ends));
        engine.leave(id(1), SECOND * goes);
    }
}

/// A subscription that rests while nobody uses it goes on with what its engine knew.
#[test]
fn what_is_left_of_the_time_of_absent_consumers_goes_on_in_the_next_engine() {
    let mut first = engine(SubscriptionType::KeyShared, FailurePolicy::default());
    first.expect("c2", vec![Filter::new("b*")], SECOND);
    join_for(&mut first, 1, u64::MAX, &["a*"], SECOND * 10);
    first.leave(id(1), SECOND * 50);
    first.expect("c3", vec![Filter::new("c*")], SECOND * 55);
    let left: Vec<_> = first.absences().collect();
    assert_eq!(left, [("c2", SECOND * 20), ("c1", SECOND * 60), ("c3", SECOND * 60)]);
    let mut next = engine(SubscriptionType::KeyShared, FailurePolicy::default());
    for (name, left) in [("c9", Duration::ZERO), ("c2", SECOND * 20), ("c1", SECOND * 60)] {
        next.expect_for(left, name, vec![Filter::new("b*")], SECOND * 300);
    }
    assert_eq!(next.absences().count(), 2);
    join_for(&mut next, 1, u64::MAX, &["a*"], SECOND * 400);
    assert_eq!(next.next_timer(), Some(SECOND * 420));
}

/// Many consumers that come back to what they held get no more at once than may be delivered.
#[test]
fn consumers_that_come_back_keep_to_the_window() {
    let mut engine = engine(SubscriptionType::KeyShared, FailurePolicy::default());
    engine.set_max_unacked_messages(2);
    join(&mut engine, 9, 0);
    for (consumer, key) in [(1, "a"), (2, "b"), (3, "c")] {
        join_for(&mut engine, consumer, u64::MAX, &[key], SECOND);
    }
    engine.leave(id(9), SECOND * 2);
    for (consumer, key) in [(1, "a"), (2, "b"), (3, "c")] {
        let from = engine.next_offset().get();
        offer_keys(&mut engine, from, &[key, key]);
        assert_eq!(deliveries(&mut engine, SECOND), [(consumer, from, from + 2, 1)]);
        engine.leave(id(consumer), SECOND * 2);
    }
    for (consumer, key) in [(1, "a"), (2, "b"), (3, "c")] {
        join_for(&mut engine, consumer, u64::MAX, &[key], SECOND * 2);
    }
    for _ in 0..3 {
        let again = deliveries(&mut engine, SECOND * 2);
        assert_eq!(engine.in_flight(), 2);
        again.iter().for_each(|(_, start, end, _)| {
            engine.acknowledge(range(*start, *end), None, SECOND * 2);
        });
    }
    assert_eq!(engine.cursor().floor(), Offset::new(6));
}

/// Records that a subscription hands out in so much time at 1,000 a second: each is refused once, and acknowledged when it
/// comes again.
fn paced(kind: SubscriptionType, consumers: u64, time: Duration) -> u64 {
    use SubscriptionType::*;
    let policy = FailurePolicy { base_redelivery_delay_ms: 1, ..FailurePolicy::default() };
    let mut engine = engine(kind, policy);
    engine.settings.pace = Pace::new(1_000, Duration::ZERO);
    (1..=consumers).for_each(|consumer| join(&mut engine, consumer, u64::MAX));
    let (mut now, mut handed_out) = (Duration::ZERO, 0);
    while now < time {
        for (_, start, end, count) in deliveries(&mut engine, now) {
            handed_out += end - start;
            match count {
                1 => (start..end).for_each(|offset| {
                    engine.refuse(Offset::new(offset), None, 0, "", now);
                }),
                _ => engine.acknowledge(range(start, end), None, now),
            }
        }
        assert_eq!(engine.wants() == 0, engine.is_paced(), "nothing is read for later");
        while engine.wants() > 0 {
            let next = engine.next_offset().get();
            match kind {
                KeyShared => offer_keys(&mut engine, next, &["a", "b", "c"]),
                Exclusive | Shared | Failover => engine.offer(range(next, next + 3)),
            }
        }
        if engine.is_paced() {
            now = engine.next_timer().expect("more is to come").max(now);
        }
    }
    handed_out
}

#[test]
fn every_kind_keeps_to_its_pace_redeliveries_included() {
    use SubscriptionType::*;
    for (kind, consumers) in [(Exclusive, 1), (Failover, 2), (Shared, 3), (KeyShared, 3)] {
        let handed_out = paced(kind, consumers, SECOND * 5);
        assert!((4_900..=5_200).contains(&handed_out), "{kind:?}: {handed_out}");
    }
}
