//! What a log remembers of its idempotent producers, so that a batch that is sent again is stored once.
//!
//! A producer numbers its records: sequences begin at 0 with each producer epoch, are dense, and wrap from 2^31 - 1
//! to 0. The table keeps, for each producer, where the newest of them went:
//!
//! ```text
//! sequences        0        40       70            expected
//!                  ├────────┼────────┼───────────────┤
//! offsets          [100,140) [205,235) [300,…)          ranges that continue each other in both are one
//!                  ◄── at most RANGES_MAX of them ──►
//! ```
//!
//! Ranges go by sequence and not by batch, so a retry is found whatever its batch borders. Pure: the caller says what
//! was stored, in the order of the log. The same table stands in the checkpoint and in the footer of each segment
//! (`docs/format.md`, section 6).

use std::collections::{HashMap, VecDeque};

use danube_model::{BatchProducer, Offset, ProducerId, Sequence};

use crate::codec::{Cursor, Decoded, Put};

/// Producers that a log remembers. Above it, the least recently written is forgotten.
pub(crate) const PRODUCERS_MAX: usize = 4096;
/// Ranges that are remembered of a producer. Above it, the oldest is forgotten.
pub(crate) const RANGES_MAX: usize = danube_model::caps::BATCHES_IN_FLIGHT_MAX;

/// How far back a sequence counts as one that was sent before; farther away it is one that was skipped to. It is also
/// the most that one range holds.
const WINDOW: u32 = 1 << 30;
/// Least bytes of an encoded producer.
const PRODUCER_BYTES: usize = 12;
/// Bytes of an encoded range.
const RANGE_BYTES: usize = 16;

/// What to do with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Store it.
    New,
    /// All of it is stored already, from this offset on.
    Duplicate {
        /// Offset of its first record.
        base: Offset,
    },
    /// All of it was stored once, but where is no longer known, or not as one run of offsets.
    DuplicateForgotten,
    /// It skips sequences, or is partly stored already. Refuse it.
    OutOfOrder {
        /// The sequence that comes next.
        expected: Sequence,
    },
    /// It comes from an earlier life of the producer. Refuse it.
    FencedEpoch {
        /// The producer epoch that counts.
        current: u16,
    },
    /// Nothing is known of the producer, and the batch is not its first. Refuse it.
    Unknown,
}

/// `count` records from sequence `first` on have the offsets from `base` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: Sequence,
    count: u32,
    base: Offset,
}

impl Range {
    /// The sequence behind the last.
    fn next(self) -> Sequence {
        self.first.plus(self.count)
    }

    /// The offset behind the last.
    fn end(self) -> Offset {
        self.base + u64::from(self.count)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Producer {
    epoch: u16,
    /// Never empty; each begins with the sequence at which the one before it ends.
    ranges: VecDeque<Range>,
    /// Rises with each batch of the log; says who wrote least recently.
    written: u64,
}

/// The idempotent producers of one log.
#[derive(Debug, Clone, Default)]
pub(crate) struct Producers {
    by_id: HashMap<ProducerId, Producer>,
    /// Batches recorded.
    written: u64,
}

impl Producers {
    /// Whether a batch of `count` records is new. The batch has at least one record.
    pub(crate) fn check(&self, batch: &BatchProducer, count: u32) -> Verdict {
        let Some(producer) = self.by_id.get(&batch.id) else {
            return if batch.base_sequence == Sequence::ZERO {
                Verdict::New
            } else {
                Verdict::Unknown
            };
        };
        if batch.epoch < producer.epoch {
            return Verdict::FencedEpoch { current: producer.epoch };
        }
        if batch.epoch > producer.epoch {
            return match batch.base_sequence {
                Sequence::ZERO => Verdict::New,
                _ => Verdict::OutOfOrder { expected: Sequence::ZERO },
            };
        }
        producer.check(batch.base_sequence, count)
    }

    /// Remembers that a batch of `count` records was stored from `base` on. Taken as it is, whatever
    /// [`check`](Self::check) would say: it is in the log.
    pub(crate) fn record(&mut self, batch: &BatchProducer, count: u32, base: Offset) {
        self.written += 1;
        let range = Range { first: batch.base_sequence, count, base };
        match self.by_id.get_mut(&batch.id) {
            Some(producer) => producer.record(batch.epoch, range, self.written),
            None => {
                self.make_room();
                let ranges = VecDeque::from([range]);
                let producer = Producer { epoch: batch.epoch, ranges, written: self.written };
                self.by_id.insert(batch.id, producer);
            }
        }
    }

    /// Producers remembered.
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Appends the producers, the least recently written first.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut producers: Vec<_> = self.by_id.iter().collect();
        producers.sort_unstable_by_key(|(_, producer)| producer.written);
        for (id, producer) in producers {
            out.u64(id.get()).u16(producer.epoch).u16(producer.ranges.len() as u16);
            for range in &producer.ranges {
                out.u32(range.first.get()).u32(range.count).u64(range.base.get());
            }
        }
    }

    /// Bytes that a list of at least `count` producers takes at the least.
    pub(crate) const ENCODED_BYTES_MIN: usize = PRODUCER_BYTES;

    /// Reads `count` producers.
    pub(crate) fn decode(cursor: &mut Cursor<'_>, count: usize) -> Decoded<Self> {
        if count > PRODUCERS_MAX {
            return Err(cursor.corrupt("more producers than a log remembers"));
        }
        let mut producers = Self::default();
        for _ in 0..count {
            let at = cursor.clone();
            let id = ProducerId::new(cursor.u64()?)
                .map_err(|_| at.corrupt("a producer id beyond 2^63 - 1"))?;
            producers.written += 1;
            let producer = Producer::decode(cursor, producers.written)?;
            if producers.by_id.insert(id, producer).is_some() {
                return Err(at.corrupt("the same producer twice"));
            }
        }
        Ok(producers)
    }

    /// Forgets the least recently written producer if another would be too many. A scan, because only a producer that
    /// is new to a full table pays for it.
    fn make_room(&mut self) {
        if self.by_id.len() < PRODUCERS_MAX {
            return;
        }
        let oldest = self.by_id.iter().min_by_key(|(_, producer)| producer.written);
        if let Some(id) = oldest.map(|(&id, _)| id) {
            self.by_id.remove(&id);
        }
    }
}

/// The same memory, whatever it was built from: what is remembered, and who is forgotten first.
impl PartialEq for Producers {
    fn eq(&self, other: &Self) -> bool {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        self.encode(&mut left);
        other.encode(&mut right);
        left == right
    }
}

impl Eq for Producers {}

impl Producer {
    fn check(&self, sequence: Sequence, count: u32) -> Verdict {
        let expected = self.expected();
        // How many sequences ago this one was sent, if it was.
        let back = sequence.distance(expected);
        if back == 0 {
            return Verdict::New;
        }
        let remembered = self.ranges.iter().map(|range| u64::from(range.count)).sum::<u64>();
        let sent = back <= WINDOW && (u64::from(back) <= remembered || sequence < expected);
        if !sent || count > back {
            return Verdict::OutOfOrder { expected };
        }
        self.locate(back, count)
            .map_or(Verdict::DuplicateForgotten, |base| Verdict::Duplicate { base })
    }

    /// The offset of the first of `count` records that were sent `back` sequences ago, if one range holds them all.
    fn locate(&self, back: u32, count: u32) -> Option<Offset> {
        let mut behind = 0;
        for range in self.ranges.iter().rev() {
            let within = back - behind;
            if within <= range.count {
                let base = range.base + u64::from(range.count - within);
                return (count <= within).then_some(base);
            }
            behind += range.count;
        }
        None
    }

    /// The sequence that comes next.
    fn expected(&self) -> Sequence {
        self.ranges.back().map_or(Sequence::ZERO, |range| range.next())
    }

    fn record(&mut self, epoch: u16, range: Range, written: u64) {
        self.written = written;
        if epoch != self.epoch || range.first != self.expected() {
            // Another life of the producer; or what lay between was lost to damage.
            self.epoch = epoch;
            self.ranges.clear();
        }
        match self.ranges.back_mut() {
            Some(last) if last.end() == range.base && last.count + range.count <= WINDOW => {
                last.count += range.count;
            }
            _ => self.ranges.push_back(range),
        }
        if self.ranges.len() > RANGES_MAX {
            self.ranges.pop_front();
        }
    }

    fn decode(cursor: &mut Cursor<'_>, written: u64) -> Decoded<Self> {
        let epoch = cursor.u16()?;
        let at = cursor.clone();
        let count = usize::from(cursor.u16()?);
        if !(1..=RANGES_MAX).contains(&count) || count > cursor.remaining() / RANGE_BYTES {
            return Err(at.corrupt("a producer with an impossible count of ranges"));
        }
        let mut ranges = VecDeque::<Range>::with_capacity(count);
        for _ in 0..count {
            let at = cursor.clone();
            let first = Sequence::new(cursor.u32()?)
                .map_err(|_| at.corrupt("a sequence beyond 2^31 - 1"))?;
            let range = Range { first, count: cursor.u32()?, base: cursor.offset()? };
            let possible = (1..=WINDOW).contains(&range.count)
                && range.base.checked_add(range.count.into()).is_some();
            let follows = ranges
                .back()
                .is_none_or(|last| last.next() == range.first && last.end() <= range.base);
            if !possible || !follows {
                return Err(at.corrupt("a producer with an impossible range"));
            }
            ranges.push_back(range);
        }
        Ok(Self { epoch, ranges, written })
    }
}

#[cfg(test)]
mod tests;
