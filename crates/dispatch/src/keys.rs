//! Key-shared: the records of each key, and the consumer that the key has.
//!
//! ```text
//!  key a   ● ● ○ ○        ● in flight at its holder   ○ waiting
//!  key b   ✕ ○ ○          ✕ poison, holds back what follows
//!  key c   ◔ ○            ◔ waits for a time, holds back what follows
//! ```
//!
//! The first waiting record of a key is *ready* if it waits for no time, no poison lies before it, and whoever holds
//! earlier records is the taker of the key. Each consumer has the set of its ready records, so that
//! what comes next is found without looking at keys that can't go on.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use danube_model::{ConsumerId, Offset};

use crate::consumers::Consumers;
use crate::engine::Tries;

type Key = Arc<[u8]>;

/// The records that are offered and not settled, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys {
    keys: BTreeMap<Key, KeyRecords>,
    /// The key of every record.
    of_record: BTreeMap<Offset, Key>,
    /// For each consumer the first waiting record of each key that it could get.
    ready: BTreeMap<ConsumerId, BTreeSet<Ready>>,
    /// Records that wait for a time.
    later: BTreeSet<(Duration, Offset)>,
    /// Records that wait and were never in flight.
    untried: BTreeSet<Offset>,
    key_bytes: usize,
    /// Records that wait and were in flight before.
    tried: u64,
    /// Those of them whose key nobody takes who is there.
    tried_away: u64,
}

/// The records of one key.
#[derive(Clone, Debug, Default)]
struct KeyRecords {
    waiting: BTreeMap<Offset, Waiting>,
    in_flight: BTreeSet<Offset>,
    poison: BTreeSet<Offset>,
    /// Who has what is in flight.
    holder: Option<ConsumerId>,
    taker: Taker,
    /// Where its ready record is entered.
    ready: Option<(ConsumerId, Ready)>,
}

/// Who is to have what comes of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Taker {
    Here(ConsumerId),
    /// Nobody who is there, but one may come for it.
    #[default]
    Away,
    /// It is to be skipped.
    Nobody,
}

/// A ready record: those that were delivered before come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    is_untried: bool,
    offset: Offset,
}

/// A record that is not in flight.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    due: Duration,
    tries: Tries,
}

impl Keys {
    /// How many records there are.
    pub(crate) fn records(&self) -> u64 {
        self.of_record.len() as u64
    }

    /// How long all keys are together.
    pub(crate) fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Adds a record; false, and nothing is added, if no consumer wants its key.
    pub(crate) fn add(&mut self, offset: Offset, key: &[u8], consumers: &Consumers) -> bool {
        if !self.keys.contains_key(key) {
            let taker = choose(key, consumers);
            if taker == Taker::Nobody {
                return false;
            }
            self.key_bytes += key.len();
            self.keys.insert(key.into(), KeyRecords { taker, ..KeyRecords::default() });
        }
        let (key, records) =
            self.keys.get_key_value(key).expect("it was entered where it was missing");
        if records.taker == Taker::Nobody {
            return false;
        }
        let key = Arc::clone(key);
        self.of_record.insert(offset, Arc::clone(&key));
        self.untried.insert(offset);
        self.wait(&key, offset, Duration::ZERO, Tries::default());
        true
    }

    /// The first record that a consumer can get, which is in flight then; and how often it was tried.
    pub(crate) fn take_next(&mut self, consumer: ConsumerId) -> Option<(Offset, Tries)> {
        let offset = self.ready.get(&consumer)?.first()?.offset;
        let key = Arc::clone(&self.of_record[&offset]);
        let records = self.keys.get_mut(&key).expect("every record's key is there");
        let waiting = records.waiting.remove(&offset).expect("a ready record waits");
        self.untried.remove(&offset);
        records.in_flight.insert(offset);
        records.holder = Some(consumer);
        self.tried -= u64::from(waiting.is_tried());
        self.refresh(&key);
        Some((offset, waiting.tries))
    }

    /// What [`Keys::take_next`] would give.
    pub(crate) fn peek_next(&self, consumer: ConsumerId) -> Option<(Offset, Tries)> {
        let offset = self.ready.get(&consumer)?.first()?.offset;
        Some((offset, self.keys[&self.of_record[&offset]].waiting[&offset].tries))
    }

    /// The first record that waits and was never in flight.
    pub(crate) fn first_untried(&self) -> Option<Offset> {
        self.untried.first().copied()
    }

    /// A record that was in flight, or poison, waits again, until `due`; false, and it is forgotten, if no consumer wants
    /// its key any more.
    pub(crate) fn put_back(&mut self, offset: Offset, due: Duration, tries: Tries) -> bool {
        let key = Arc::clone(&self.of_record[&offset]);
        let records = self.keys.get_mut(&key).expect("every record's key is there");
        if records.taker == Taker::Nobody {
            self.remove(offset);
            return false;
        }
        records.in_flight.remove(&offset);
        records.poison.remove(&offset);
        self.wait(&key, offset, due, tries);
        true
    }

    /// A record that was in flight is poison.
    pub(crate) fn poisoned(&mut self, offset: Offset) {
        let key = Arc::clone(&self.of_record[&offset]);
        let records = self.keys.get_mut(&key).expect("every record's key is there");
        records.in_flight.remove(&offset);
        records.poison.insert(offset);
        self.refresh(&key);
    }

    fn wait(&mut self, key: &Key, offset: Offset, due: Duration, tries: Tries) {
        let records = self.keys.get_mut(key).expect("every record's key is there");
        let waiting = Waiting { due, tries };
        self.tried += u64::from(waiting.is_tried());
        self.tried_away += u64::from(waiting.is_tried() && records.is_away());
        records.waiting.insert(offset, waiting);
        if due > Duration::ZERO {
            self.later.insert((due, offset));
        }
        self.refresh(key);
    }

    /// Forgets the records of a range, which are settled.
    pub(crate) fn settle(&mut self, range: Range<Offset>) {
        let offsets: Vec<_> = self.of_record.range(range).map(|(offset, _)| *offset).collect();
        for offset in offsets {
            self.remove(offset);
        }
    }

    /// How many records wait for another delivery to somebody who is there.
    pub(crate) fn tried_here(&self) -> u64 {
        self.tried - self.tried_away
    }

    /// Forgets the records of a range that wait and were delivered before, to `of` last, which are settled; which these are.
    /// `None`: to whomever.
    pub(crate) fn take_tried(
        &mut self,
        range: Range<Offset>,
        of: Option<ConsumerId>,
    ) -> Vec<Offset> {
        if self.tried == 0 {
            return Vec::new();
        }
        let is_tried = |(offset, key): &(&Offset, &Key)| {
            let waiting = self.keys[*key].waiting.get(*offset);
            waiting.is_some_and(|waiting| waiting.is_tried() && waiting.tries.is_of(of))
        };
        let tried = self.of_record.range(range).filter(is_tried);
        let tried: Vec<_> = tried.map(|(offset, _)| *offset).collect();
        tried.iter().for_each(|offset| self.remove(*offset));
        tried
    }

    fn remove(&mut self, offset: Offset) {
        let Some(key) = self.of_record.remove(&offset) else { return };
        let records = self.keys.get_mut(&key).expect("every record's key is there");
        if let Some(waiting) = records.waiting.remove(&offset) {
            self.later.remove(&(waiting.due, offset));
            self.untried.remove(&offset);
            self.tried -= u64::from(waiting.is_tried());
            self.tried_away -= u64::from(waiting.is_tried() && records.is_away());
        }
        records.in_flight.remove(&offset);
        records.poison.remove(&offset);
        self.refresh(&key);
        let records = &self.keys[&key];
        if records.waiting.is_empty() && records.in_flight.is_empty() && records.poison.is_empty() {
            self.key_bytes -= key.len();
            self.keys.remove(&key);
        }
    }

    /// Records whose time has come are ready.
    pub(crate) fn advance(&mut self, now: Duration) {
        while let Some((due, offset)) = self.later.first().copied().filter(|(due, _)| *due <= now) {
            self.later.remove(&(due, offset));
            let key = Arc::clone(&self.of_record[&offset]);
            let records = self.keys.get_mut(&key).expect("every record's key is there");
            let waiting = records.waiting.get_mut(&offset).expect("what waits for a time waits");
            waiting.due = Duration::ZERO;
            self.refresh(&key);
        }
    }

    /// The earliest time that a record waits for.
    pub(crate) fn first_time(&self) -> Option<Duration> {
        self.later.first().map(|(due, _)| *due)
    }

    /// Consumers came or went: each key may have another one. What waits of keys that nobody wants comes back, forgotten.
    pub(crate) fn assign(&mut self, consumers: &Consumers) -> Vec<Offset> {
        let mut unwanted = Vec::new();
        let keys: Vec<_> = self.keys.keys().cloned().collect();
        self.tried_away = 0;
        for key in keys {
            let records = self.keys.get_mut(&key).expect("it was listed");
            records.taker = choose(&key, consumers);
            if records.is_away() {
                let tried = records.waiting.values().filter(|waiting| waiting.is_tried());
                self.tried_away += tried.count() as u64;
            }
            if records.taker == Taker::Nobody {
                unwanted.extend(records.waiting.keys().copied());
            }
            self.refresh(&key);
        }
        unwanted.iter().for_each(|offset| self.remove(*offset));
        unwanted
    }

    /// Enters the key's ready record, if it has one, for the key's taker.
    fn refresh(&mut self, key: &Key) {
        let records = self.keys.get_mut(key).expect("it is called for keys that are there");
        if records.in_flight.is_empty() {
            records.holder = None;
        }
        let ready = records.ready();
        let before = std::mem::replace(&mut records.ready, ready);
        if before == ready {
            return;
        }
        if let Some((consumer, record)) = before
            && let Some(records) = self.ready.get_mut(&consumer)
        {
            records.remove(&record);
            if records.is_empty() {
                self.ready.remove(&consumer);
            }
        }
        if let Some((consumer, record)) = ready {
            self.ready.entry(consumer).or_default().insert(record);
        }
    }
}

impl KeyRecords {
    /// Whether what waits is for nobody who is there.
    fn is_away(&self) -> bool {
        !matches!(self.taker, Taker::Here(_))
    }

    fn ready(&self) -> Option<(ConsumerId, Ready)> {
        let (&offset, waiting) = self.waiting.first_key_value()?;
        let Taker::Here(taker) = self.taker else { return None };
        let is_free = self.holder.is_none_or(|holder| holder == taker);
        let is_held_back = self.poison.first().is_some_and(|poison| *poison < offset);
        let ready = Ready { is_untried: !waiting.is_tried(), offset };
        (is_free && !is_held_back && waiting.due.is_zero()).then_some((taker, ready))
    }
}

impl Waiting {
    fn is_tried(&self) -> bool {
        self.tries.deliveries > 0
    }
}

/// The taker of a key. Of the consumers that are there and want it, it is the one with the highest weight (rendezvous
/// hashing), so that when consumers come or go only the keys move that have to. While nobody is there it may be anybody.
fn choose(key: &[u8], consumers: &Consumers) -> Taker {
    let hash = hash(key);
    let wanting = consumers.iter().filter(|(_, consumer)| consumer.takes_key(key));
    match wanting.max_by_key(|(id, consumer)| (mix(hash ^ consumer.seed), *id)) {
        Some((id, _)) => Taker::Here(id),
        None if consumers.is_empty() || consumers.absent.takes_key(key) => Taker::Away,
        None => Taker::Nobody,
    }
}

/// FNV-1a with 64 bits.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mix(bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The finalizer of splitmix64: every bit of the input moves every bit of the output.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
