//! Properties of `apply`, over random commands on few names, so that most meet what others left.

use std::collections::{BTreeMap, BTreeSet};

use danube_model::{
    BrokerId, Chunk, ConsumerId, ConsumerName, DiskId, Durability, Epoch, ErrorKind, FailurePolicy,
    Offset, PoisonPolicy, SubscriptionType, TimeMs,
};
use proptest::prelude::*;

use super::*;
use crate::codec;
use crate::command::*;
use crate::refusal::Refusal;

fn id(number: u8) -> TopicId {
    TopicId::new([number; 16])
}

/// Few, so that they meet again.
fn small() -> impl Strategy<Value = u8> {
    0u8..16
}

fn names() -> impl Strategy<Value = TopicName> {
    const NAMES: &[&str] = &[
        "/default/a",
        "/default/b",
        "/other/a",
        "/default/a-part-0",
        "/default/b-part-1",
        "/gone/x",
    ];
    prop::sample::select(NAMES).prop_map(|name| name.parse().unwrap())
}

fn new_ids() -> impl Strategy<Value = NewTopics> {
    prop_oneof![
        small().prop_map(|number| NewTopics::Plain(id(number))),
        small().prop_map(|number| NewTopics::Partition(id(number))),
        prop::collection::vec(small().prop_map(id), 0..4).prop_map(NewTopics::Partitioned),
    ]
}

fn deliveries() -> impl Strategy<Value = Delivery> {
    prop_oneof![Just(Delivery::NonReliable), Just(Delivery::Reliable(Durability::Disk))]
}

fn changes() -> impl Strategy<Value = Change<u64>> {
    prop_oneof![Just(Change::Keep), Just(Change::Reset), any::<u64>().prop_map(Change::Set)]
}

fn subscription_names() -> impl Strategy<Value = SubscriptionName> {
    prop::sample::select(&["s", "t"][..]).prop_map(|name| name.parse().unwrap())
}

fn consumer_names() -> impl Strategy<Value = ConsumerName> {
    prop::sample::select(&["one", "two"][..]).prop_map(|name| name.parse().unwrap())
}

fn offsets() -> impl Strategy<Value = Offset> {
    prop_oneof![20 => 0..30_000u64, 1 => Just(u64::MAX)].prop_map(Offset::new)
}

fn chunk(index: u64, from: u64) -> Chunk {
    let first = Chunk::range_of(index).start + from;
    Chunk::encode(index, [first..first + 10]).unwrap()
}

fn subscription_commands() -> impl Strategy<Value = Command> {
    let at = TimeMs::new(1);
    let which = || (small().prop_map(id), subscription_names());
    let consumers = || (1u64..9).prop_map(|id| ConsumerId::new(id).unwrap());
    prop_oneof![
        4 => (which(), offsets(), 0u64..3).prop_map(
            move |((topic, subscription), start, subscriptions_max)| CreateSubscription {
                topic,
                subscription,
                kind: SubscriptionType::Shared,
                start,
                policy: FailurePolicy::default(),
                subscriptions_max,
                at,
            }.into()),
        1 => which().prop_map(
            |(topic, subscription)| DeleteSubscription { topic, subscription }.into()),
        1 => (which(), changes(), any::<bool>()).prop_map(
            |((topic, subscription), max_unacked_messages, drop)| {
                let policy = FailurePolicy { poison: PoisonPolicy::Drop, ..Default::default() };
                let policy = drop.then_some(policy);
                UpdateSubscription { topic, subscription, policy, max_unacked_messages }.into()
            }),
        1 => (which(), offsets()).prop_map(|((topic, subscription), floor)|
            SeekSubscription { topic, subscription, floor }.into()),
        4 => prop::collection::vec((which(), 0u32..2, 0u64..3, offsets(), 0u64..3), 1..4).prop_map(
            |cursors| {
                let cursors = cursors.into_iter().map(
                    |((topic, subscription), epoch, incarnation, floor, index)| SaveCursor {
                        topic,
                        epoch: Epoch::new(epoch).unwrap(),
                        subscription,
                        incarnation,
                        floor,
                        chunks: vec![(index, chunk(index, floor.get() % 100))],
                    });
                SaveCursors { cursors: cursors.collect() }.into()
            }),
        3 => (which(), consumer_names(), consumers()).prop_map(
            move |((topic, subscription), name, consumer)| {
                let filters = vec!["a*".to_owned()];
                RegisterConsumer { topic, subscription, name, consumer, filters, at }.into()
            }),
        1 => prop::collection::vec(consumers(), 0..3)
            .prop_map(|consumers| ForgetConsumers { consumers }.into()),
    ]
}

/// Commands as they may be proposed; identities and epochs are filled in from the state by [`aim`].
fn commands() -> impl Strategy<Value = Command> {
    let at = TimeMs::new(1);
    let namespaces = prop::sample::select(&["default", "other", "empty"][..]);
    let namespaces = namespaces.prop_map(|name| name.parse::<Namespace>().unwrap());
    let brokers = (1u64..3).prop_map(BrokerId::new);
    let disks = (0u8..2).prop_map(|number| DiskId::new([number; 16]));
    prop_oneof![
        1 => Just(FormCluster { cluster: ClusterId::new([1; 16]), name: "c".into(), at }.into()),
        2 => (brokers.clone(), disks.clone())
            .prop_map(move |(broker, disk)| StartSession { broker, disk, at }.into()),
        3 => namespaces.clone().prop_map(move |namespace| CreateNamespace { namespace, at }.into()),
        1 => namespaces.prop_map(|namespace| DeleteNamespace { namespace }.into()),
        6 => (names(), new_ids(), deliveries()).prop_map(move |(topic, ids, delivery)| {
            let settings = TopicSettings::default();
            CreateTopic { topic, ids, delivery, settings, at }.into()
        }),
        2 => (names(), any::<bool>(), changes()).prop_map(|(topic, level, change)| UpdateTopic {
            topic,
            durability: level.then_some(Durability::PageCache),
            retention_ms: change,
            retention_bytes: Change::Keep,
            message_bytes_max: change,
        }.into()),
        2 => names().prop_map(move |topic| DeleteTopic { topic, at }.into()),
        6 => (brokers, disks, prop::collection::vec((small(), any::<bool>(), 0u32..2), 0..4))
            .prop_map(|(broker, disk, topics)| {
                let topics = topics.into_iter().map(|(topic, give_up, behind)| OpenTopic {
                    topic: id(topic),
                    expected: Epoch::new(behind).unwrap(),
                    stored: give_up.then(|| Epoch::new(2 * behind).unwrap()),
                    other_disk: if give_up { OtherDisk::GiveUp } else { OtherDisk::Refuse },
                });
                OpenTopics { broker, disk, topics: topics.collect() }.into()
            }),
        4 => (small(), 0u32..3, 0u64..6, any::<bool>()).prop_map(|(topic, epoch, steps, odd)| {
            let ceiling = Offset::new(steps * CEILING_STEP + u64::from(odd));
            RaiseCeiling { topic: id(topic), epoch: Epoch::new(epoch).unwrap(), ceiling }.into()
        }),
        1 => prop::collection::vec(small().prop_map(id), 0..3)
            .prop_map(|topics| ForgetDeleted { topics }.into()),
        12 => subscription_commands(),
    ]
}

/// Turns small numbers in a command into identities and epochs that exist, so that it has something to do.
fn aim(state: &State, mut command: Command) -> Command {
    let topic = |number: TopicId| {
        let known: Vec<_> = state.topics().collect();
        let at = usize::from(number.as_bytes()[0]);
        known.get(at % (known.len() + 1)).map(|topic| Topic::clone(topic))
    };
    let aim_at = |wanted: &mut TopicId| {
        if let Some(topic) = topic(*wanted) {
            *wanted = topic.id;
        }
    };
    let aimed = match &mut command {
        Command::CreateSubscription(create) => Some(&mut create.topic),
        Command::DeleteSubscription(delete) => Some(&mut delete.topic),
        Command::UpdateSubscription(update) => Some(&mut update.topic),
        Command::SeekSubscription(seek) => Some(&mut seek.topic),
        Command::RegisterConsumer(register) => Some(&mut register.topic),
        Command::FormCluster(_)
        | Command::StartSession(_)
        | Command::CreateNamespace(_)
        | Command::DeleteNamespace(_)
        | Command::CreateTopic(_)
        | Command::UpdateTopic(_)
        | Command::DeleteTopic(_)
        | Command::OpenTopics(_)
        | Command::RaiseCeiling(_)
        | Command::ForgetDeleted(_)
        | Command::SaveCursors(_)
        | Command::ForgetConsumers(_) => None,
    };
    aimed.into_iter().for_each(aim_at);
    if let Command::SaveCursors(save) = &mut command {
        save.cursors.iter_mut().for_each(|cursor| aim_at(&mut cursor.topic));
    }
    if let Command::OpenTopics(open) = &mut command {
        for wanted in &mut open.topics {
            if let Some(topic) = topic(wanted.topic) {
                let expected = topic.epoch.get().saturating_sub(wanted.expected.get());
                (wanted.topic, wanted.expected) = (topic.id, Epoch::new(expected).unwrap());
            }
        }
    }
    if let Command::RaiseCeiling(raise) = &mut command
        && let Some(topic) = topic(raise.topic)
    {
        let epoch = topic.epoch.get().saturating_sub(raise.epoch.get().saturating_sub(1));
        (raise.topic, raise.epoch) = (topic.id, Epoch::new(epoch).unwrap());
    }
    command
}

/// What must hold in every state.
fn check(state: &State) {
    assert_eq!(state.names.len(), state.topics.len());
    for topic in state.topics.values() {
        assert_eq!(state.topic(&topic.name), Some(topic));
        assert!(state.has_namespace(&topic.name.namespace()), "{} is in no namespace", topic.name);
        assert!(state.partitioned(&topic.name).is_none(), "{} is base and topic", topic.name);
        assert!(!state.deleted.contains_key(&topic.id));
        assert!(topic.ceiling.get().is_multiple_of(CEILING_STEP));
        assert!(topic.resume_at <= topic.ceiling);
        assert_eq!(topic.owner().is_some(), topic.epoch > Epoch::ZERO);
        let of = topic.name.partition_of();
        assert_eq!(topic.partition.as_ref().map(|part| (part.base.clone(), part.index)), of);
    }
    for (name, topic) in state.partitioned_topics() {
        let last = state.partitions(name).last().and_then(|last| last.partition.clone());
        assert_eq!(last.map(|last| last.index + 1), Some(topic.partitions));
    }
    let mut consumers = 0;
    for (topic, subscriptions) in &state.subscriptions {
        assert!(state.topics.contains_key(topic), "{topic} is gone and has subscriptions");
        for (name, subscription) in subscriptions {
            assert_eq!((subscription.topic, &subscription.name), (*topic, name));
            assert!(subscription.incarnation > 0 && subscription.floor <= Offset::MAX);
            let floor = Chunk::index_of(subscription.floor);
            assert!(subscription.settled.keys().all(|index| *index >= floor));
            for consumer in subscription.consumers.values() {
                assert_eq!(state.subscription_of(consumer.id), Some(subscription));
                consumers += 1;
            }
        }
    }
    assert_eq!(state.consumers.len(), consumers);
    let in_namespaces = state.namespaces().flat_map(|(name, _)| state.topics_in(name)).count();
    assert_eq!(in_namespaces, state.topic_count());
}

/// What a refused command would have changed it did not, and what was given once is never given again.
fn check_step(before: &State, after: &State, command: &Command, result: &Result<Outcome, Refusal>) {
    if result.is_err() {
        assert_eq!(before, after, "{command:?} was refused and changed something");
    }
    for (id, topic) in &before.topics {
        match after.topics.get(id) {
            Some(now) => {
                assert!(now.epoch >= topic.epoch && now.ceiling >= topic.ceiling);
                assert!(now.resume_at >= topic.resume_at);
                assert_eq!((&now.name, now.created), (&topic.name, topic.created));
            }
            None => {
                assert!(after.deleted.contains_key(id), "{} is gone without a trace", topic.name)
            }
        }
    }
    for subscription in before.subscriptions.values().flat_map(BTreeMap::values) {
        let now = after.subscription(&subscription.topic, &subscription.name);
        let Some(now) = now.filter(|now| now.incarnation == subscription.incarnation) else {
            continue;
        };
        assert!(now.floor >= subscription.floor, "a cursor went back without a seek");
        assert_eq!((now.kind, now.created), (subscription.kind, subscription.created));
    }
    for id in after.topics.keys().filter(|id| !before.topics.contains_key(id)) {
        assert!(!before.deleted.contains_key(id), "{id} was given again");
    }
    if let (Command::OpenTopics(open), Ok(Outcome::OpenTopics(openings))) = (command, result) {
        check_openings(before, after, open, openings);
    }
}

fn check_openings(
    before: &State,
    after: &State,
    open: &OpenTopics,
    openings: &[Result<Opening, Refusal>],
) {
    for (wanted, opening) in open.topics.iter().zip(openings) {
        let Ok(opening) = opening else { continue };
        let (topic, now) = (&before.topics[&wanted.topic], &after.topics[&wanted.topic]);
        // One command may open a topic twice.
        let is_first = topic.epoch.next().unwrap() == opening.epoch;
        assert!(opening.epoch > topic.epoch, "an opening took no new epoch");
        assert!(!is_first || wanted.expected == topic.epoch);
        assert!(topic.owner().is_none_or(|owner| owner == open.broker), "taken from its owner");
        assert_eq!((now.owner(), now.disk), (Some(open.broker), Some(open.disk)));
        let same_disk = topic.disk.is_none_or(|disk| disk == open.disk);
        assert!(
            same_disk || opening.resume_at >= topic.ceiling,
            "offsets of another disk may come again"
        );
        assert!(!now.is_reliable() || opening.resume_at < opening.ceiling);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn every_state_that_commands_lead_to_is_sound(commands in prop::collection::vec(commands(), 1..60)) {
        let mut state = State::default();
        let mut done = Vec::new();
        let commands = beginnings().into_iter().chain(commands);
        for command in commands {
            let command = aim(&state, command);
            let before = state.clone();
            let result = state.apply(&command);
            check_step(&before, &state, &command, &result);
            check(&state);
            done.push((command, result));
        }
        // The same commands give the same everywhere, bytes included, from any snapshot on.
        let middle = done.len() / 2;
        let mut other = State::default();
        for (at, (command, result)) in done.iter().enumerate() {
            if at == middle {
                other = through_a_snapshot(&other);
            }
            let decoded: Command = codec::decode(&codec::encode(command)).unwrap();
            prop_assert_eq!(&decoded, command);
            prop_assert_eq!(&other.apply(&decoded), result);
        }
        prop_assert_eq!(&other, &state);
        prop_assert_eq!(codec::encode(&other), codec::encode(&state));
    }
}

fn through_a_snapshot(state: &State) -> State {
    let members = codec::Members { voters: vec![BTreeSet::from([1])], nodes: BTreeMap::new() };
    let body = codec::Body { members, members_at: None, state: state.clone() };
    codec::decode_body(&codec::encode(&body)).unwrap().state
}

/// Form a cluster with namespace `default` and broker 1 on disk 1.
fn beginnings() -> [Command; 3] {
    let at = TimeMs::new(5);
    let cluster = ClusterId::new([9; 16]);
    let (broker, disk) = (BrokerId::new(1), DiskId::new([1; 16]));
    [
        FormCluster { cluster, name: "test".into(), at }.into(),
        CreateNamespace { namespace: "default".parse().unwrap(), at }.into(),
        StartSession { broker, disk, at }.into(),
    ]
}

fn formed() -> State {
    let mut state = State::default();
    beginnings().iter().for_each(|command| drop(state.apply(command).unwrap()));
    state
}

fn create(state: &mut State, topic: &str, ids: NewTopics) -> Result<Outcome, Refusal> {
    let create = CreateTopic {
        topic: topic.parse().unwrap(),
        ids,
        delivery: Delivery::Reliable(Durability::Disk),
        settings: TopicSettings::default(),
        at: TimeMs::new(6),
    };
    state.apply(&create.into())
}

fn open(
    state: &mut State,
    disk: u8,
    expected: u32,
    other_disk: OtherDisk,
) -> Result<Opening, Refusal> {
    let expected = Epoch::new(expected).unwrap();
    open_as(state, disk, OpenTopic { topic: id(1), expected, stored: None, other_disk })
}

fn open_as(state: &mut State, disk: u8, topic: OpenTopic) -> Result<Opening, Refusal> {
    let (disk, topics) = (DiskId::new([disk; 16]), vec![topic]);
    match state.apply(&OpenTopics { broker: BrokerId::new(1), disk, topics }.into()) {
        Ok(Outcome::OpenTopics(mut openings)) => openings.remove(0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_partition_alone_is_neither_deleted_nor_changed() {
    let mut state = formed();
    create(&mut state, "/default/t", NewTopics::Partitioned(vec![id(1), id(2)])).unwrap();
    let part: TopicName = "/default/t-part-1".parse().unwrap();
    let refusal = state.apply(&DeleteTopic { topic: part, at: TimeMs::ZERO }.into()).unwrap_err();
    assert!(refusal.to_string().contains("Cannot delete individual partition"), "{refusal}");
    assert_eq!(refusal.kind(), ErrorKind::NotFound);
    let base = "/default/t".parse().unwrap();
    let deleted = state.apply(&DeleteTopic { topic: base, at: TimeMs::ZERO }.into());
    assert_eq!(deleted, Ok(Outcome::DeleteTopic(vec![id(1), id(2)])));
    assert_eq!(state.topic_count(), 0);
}

#[test]
fn a_topic_with_partitions_and_one_without_exclude_each_other() {
    let mut state = formed();
    create(&mut state, "/default/plain", NewTopics::Plain(id(1))).unwrap();
    create(&mut state, "/default/parted", NewTopics::Partitioned(vec![id(2)])).unwrap();
    let again = create(&mut state, "/default/plain", NewTopics::Partitioned(vec![id(3)]));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict);
    let again = create(&mut state, "/default/parted", NewTopics::Plain(id(3)));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict);
    let part = create(&mut state, "/default/parted-part-1", NewTopics::Plain(id(3)));
    assert_eq!(part.unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn partitions_that_come_one_by_one_make_a_topic_and_take_after_the_first() {
    let mut state = formed();
    let base: TopicName = "/default/t".parse().unwrap();
    for (index, number) in [(3, 1), (0, 2), (11, 3)] {
        create(&mut state, &format!("{base}-part-{index}"), NewTopics::Partition(id(number)))
            .unwrap();
        let update = UpdateTopic {
            topic: base.clone(),
            durability: Some(Durability::PageCache),
            retention_ms: Change::Set(7),
            retention_bytes: Change::Keep,
            message_bytes_max: Change::Keep,
        };
        state.apply(&update.into()).unwrap();
    }
    let partitions: Vec<_> = state.partitions(&base).collect();
    let numbers = partitions.iter().map(|topic| topic.partition.as_ref().unwrap().index);
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 3, 11]);
    assert!(partitions.iter().all(|topic| topic.settings.retention_ms == Some(7)));
    assert!(partitions.iter().all(|topic| topic.durability() == Some(Durability::PageCache)));
    assert_eq!(state.partitioned(&base).unwrap().partitions, 12);
    let again = create(&mut state, "/default/t-part-3", NewTopics::Partition(id(4)));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Conflict);
    let whole = create(&mut state, "/default/u", NewTopics::Partition(id(4)));
    assert_eq!(whole.unwrap_err().kind(), ErrorKind::Invalid);
    create(&mut state, "/default/plain", NewTopics::Plain(id(4))).unwrap();
    let of_plain = create(&mut state, "/default/plain-part-0", NewTopics::Partition(id(5)));
    assert_eq!(of_plain.unwrap_err().kind(), ErrorKind::Conflict);
    state.apply(&DeleteTopic { topic: base.clone(), at: TimeMs::ZERO }.into()).unwrap();
    assert!(state.partitioned(&base).is_none());
    assert_eq!(state.topic_count(), 1);
}

#[test]
fn a_topic_opens_above_the_epoch_of_its_log() {
    let mut state = formed();
    create(&mut state, "/default/t", NewTopics::Plain(id(1))).unwrap();
    for (expected, stored, opened) in
        [(0, None, 1), (1, Some(0), 2), (2, Some(2), 3), (3, Some(7), 8)]
    {
        let topic = OpenTopic {
            topic: id(1),
            expected: Epoch::new(expected).unwrap(),
            stored: stored.map(|epoch| Epoch::new(epoch).unwrap()),
            other_disk: OtherDisk::Refuse,
        };
        assert_eq!(open_as(&mut state, 1, topic).unwrap().epoch.get(), opened);
    }
}

#[test]
fn a_topic_opens_on_another_disk_only_above_its_ceiling() {
    let mut state = formed();
    create(&mut state, "/default/t", NewTopics::Plain(id(1))).unwrap();
    let step = Offset::new(CEILING_STEP);
    let first = open(&mut state, 1, 0, OtherDisk::Refuse).unwrap();
    assert_eq!((first.epoch.get(), first.ceiling, first.resume_at), (1, step, Offset::ZERO));
    assert_eq!(open(&mut state, 2, 1, OtherDisk::Refuse).unwrap_err().kind(), ErrorKind::Conflict);
    let other = open(&mut state, 2, 1, OtherDisk::GiveUp).unwrap();
    assert_eq!((other.epoch.get(), other.ceiling, other.resume_at), (2, step + CEILING_STEP, step));
    // The owner may have gone down before it made the gap: the next opening says it again.
    let again = open(&mut state, 2, 2, OtherDisk::Refuse).unwrap();
    assert_eq!((again.epoch.get(), again.ceiling, again.resume_at), (3, step + CEILING_STEP, step));
    // A log that is gone from the same disk is given up in the same way.
    let lost = open(&mut state, 2, 3, OtherDisk::GiveUp).unwrap();
    assert_eq!((lost.ceiling, lost.resume_at), (step + 2 * CEILING_STEP, step + CEILING_STEP));
}

#[test]
fn an_older_owner_raises_no_ceiling() {
    let mut state = formed();
    create(&mut state, "/default/t", NewTopics::Plain(id(1))).unwrap();
    open(&mut state, 1, 0, OtherDisk::Refuse).unwrap();
    open(&mut state, 1, 1, OtherDisk::Refuse).unwrap();
    let raise = |state: &mut State, epoch, steps: u64| {
        let (topic, epoch) = (id(1), Epoch::new(epoch).unwrap());
        state.apply(
            &RaiseCeiling { topic, epoch, ceiling: Offset::new(steps * CEILING_STEP) }.into(),
        )
    };
    assert_eq!(raise(&mut state, 1, 3).unwrap_err().kind(), ErrorKind::Fenced);
    let three = Offset::new(3 * CEILING_STEP);
    assert_eq!(raise(&mut state, 2, 3), Ok(Outcome::RaiseCeiling(three)));
    assert_eq!(raise(&mut state, 2, 2), Ok(Outcome::RaiseCeiling(three)), "it was raised before");
}

#[test]
fn a_namespace_with_topics_stays() {
    let mut state = formed();
    create(&mut state, "/default/t", NewTopics::Plain(id(1))).unwrap();
    let namespace: Namespace = "default".parse().unwrap();
    let delete = Command::from(DeleteNamespace { namespace });
    assert_eq!(state.apply(&delete).unwrap_err().kind(), ErrorKind::Conflict);
    let topic = "/default/t".parse().unwrap();
    state.apply(&DeleteTopic { topic, at: TimeMs::ZERO }.into()).unwrap();
    state.apply(&delete).unwrap();
    let missing = create(&mut state, "/default/t", NewTopics::Plain(id(2)));
    assert_eq!(missing.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_broker_counts_its_sessions_and_may_get_another_disk() {
    let mut state = formed();
    let (broker, disk, at) = (BrokerId::new(1), DiskId::new([2; 16]), TimeMs::new(7));
    let session = state.apply(&StartSession { broker, disk, at }.into());
    assert_eq!(session, Ok(Outcome::StartSession(2)));
    let known: Vec<_> =
        state.brokers().map(|(id, broker)| (id, broker.disk, broker.sessions)).collect();
    assert_eq!(known, [(broker, disk, 2)]);
}

fn subscribed(state: &mut State, start: u64) {
    create(state, "/default/t", NewTopics::Plain(id(1))).unwrap();
    open(state, 1, 0, OtherDisk::Refuse).unwrap();
    let create = CreateSubscription {
        topic: id(1),
        subscription: "s".parse().unwrap(),
        kind: SubscriptionType::KeyShared,
        start: Offset::new(start),
        policy: FailurePolicy {
            poison: PoisonPolicy::DeadLetter("/default/dead".parse().unwrap()),
            ..FailurePolicy::default()
        },
        subscriptions_max: 1,
        at: TimeMs::new(9),
    };
    state.apply(&create.into()).unwrap();
}

fn register(state: &mut State, name: &str, consumer: u64) -> Option<ConsumerId> {
    let register = RegisterConsumer {
        topic: id(1),
        subscription: "s".parse().unwrap(),
        name: name.parse().unwrap(),
        consumer: ConsumerId::new(consumer).unwrap(),
        filters: vec!["a*".to_owned()],
        at: TimeMs::new(10),
    };
    RegisterConsumer::outcome(state.apply(&register.into()).unwrap()).unwrap()
}

fn save(state: &mut State, epoch: u32, incarnation: u64, floor: u64, chunks: &[u64]) -> bool {
    let cursor = SaveCursor {
        topic: id(1),
        epoch: Epoch::new(epoch).unwrap(),
        subscription: "s".parse().unwrap(),
        incarnation,
        floor: Offset::new(floor),
        chunks: chunks.iter().map(|index| (*index, chunk(*index, 100))).collect(),
    };
    let saved = state.apply(&SaveCursors { cursors: vec![cursor] }.into()).unwrap();
    SaveCursors::outcome(saved).unwrap()[0]
}

fn the_subscription(state: &State) -> &Subscription {
    state.subscription(&id(1), &"s".parse().unwrap()).unwrap()
}

/// What was acknowledged before a seek is not saved after it.
#[test]
fn a_save_from_before_a_seek_is_void() {
    let mut state = formed();
    subscribed(&mut state, 0);
    assert!(save(&mut state, 1, 1, 900, &[0, 1]));
    let (topic, subscription) = (id(1), "s".parse().unwrap());
    let seek = SeekSubscription { topic, subscription, floor: Offset::new(100) };
    assert_eq!(state.apply(&seek.into()), Ok(Outcome::SeekSubscription(2)));
    assert!(!save(&mut state, 1, 1, 950, &[1]), "of another incarnation");
    assert!(!save(&mut state, 0, 2, 950, &[1]), "of another epoch");
    assert_eq!(the_subscription(&state).floor, Offset::new(100));
    assert!(the_subscription(&state).settled.is_empty());
    assert!(save(&mut state, 1, 2, 20_000, &[1, 2, 3]));
    assert_eq!(the_subscription(&state).settled.keys().copied().collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn a_name_has_one_registration() {
    let mut state = formed();
    subscribed(&mut state, 0);
    let (one, two) = (ConsumerId::new(1).unwrap(), ConsumerId::new(2).unwrap());
    assert_eq!(register(&mut state, "c", 1), None);
    assert_eq!(register(&mut state, "c", 2), Some(one));
    assert_eq!(state.subscription_of(one), None);
    assert_eq!(state.subscription_of(two).unwrap().consumers.len(), 1);
    let forget = ForgetConsumers { consumers: vec![one, two] };
    assert_eq!(state.apply(&forget.into()), Ok(Outcome::ForgetConsumers(1)));
    assert!(the_subscription(&state).consumers.is_empty());
}

#[test]
fn a_topic_has_no_more_subscriptions_than_it_may_have() {
    let mut state = formed();
    subscribed(&mut state, 0);
    let create = |name: &str, subscriptions_max| -> Command {
        CreateSubscription {
            topic: id(1),
            subscription: name.parse().unwrap(),
            kind: SubscriptionType::Shared,
            start: Offset::ZERO,
            policy: FailurePolicy::default(),
            subscriptions_max,
            at: TimeMs::ZERO,
        }
        .into()
    };
    assert_eq!(state.apply(&create("s", 1)).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(state.apply(&create("u", 1)).unwrap_err().kind(), ErrorKind::Exhausted);
    state.apply(&create("u", 0)).unwrap();
}

fn lines(state: &State) -> Vec<String> {
    let digits = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect();
    codec::encode(state).chunks(48).map(digits).collect()
}

/// The encoding of a state is that of every snapshot there is: what changes here needs a new version.
#[test]
fn a_state_is_stored_as_before() {
    let mut state = formed();
    create(&mut state, "/default/t", NewTopics::Partitioned(vec![id(1)])).unwrap();
    open(&mut state, 1, 0, OtherDisk::Refuse).unwrap();
    create(&mut state, "/default/u", NewTopics::Plain(id(2))).unwrap();
    let topic = "/default/u".parse().unwrap();
    state.apply(&DeleteTopic { topic, at: TimeMs::new(8) }.into()).unwrap();
    assert_eq!(lines(&state), include_str!("golden_state.hex").lines().collect::<Vec<_>>());
    assert_eq!(through_a_snapshot(&state), state);
}

#[test]
fn subscriptions_are_stored_as_before() {
    let mut state = formed();
    subscribed(&mut state, 3);
    register(&mut state, "c", 7);
    assert!(save(&mut state, 1, 1, 10_000, &[1, 2]));
    let golden = include_str!("golden_subscriptions.hex");
    assert_eq!(lines(&state), golden.lines().collect::<Vec<_>>());
    assert_eq!(through_a_snapshot(&state), state);
}
