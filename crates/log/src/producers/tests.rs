//! By example, and against a model that remembers every record.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn batch(id: u64, epoch: u16, sequence: u32) -> BatchProducer {
    let base_sequence = Sequence::new(sequence & Sequence::MAX.get()).unwrap();
    BatchProducer { id: ProducerId::new(id).unwrap(), epoch, base_sequence }
}

fn sequence(sequence: u32) -> Sequence {
    Sequence::new(sequence).unwrap()
}

fn encoded(producers: &Producers) -> Vec<u8> {
    let mut bytes = Vec::new();
    producers.encode(&mut bytes);
    bytes
}

/// Reads all of `bytes` back.
fn decoded(bytes: &[u8], count: usize) -> Decoded<Producers> {
    let mut cursor = Cursor::new(bytes);
    let producers = Producers::decode(&mut cursor, count)?;
    cursor.finish()?;
    Ok(producers)
}

#[test]
fn a_producer_begins_at_zero_and_goes_on_densely() {
    let mut producers = Producers::default();
    assert_eq!(producers.check(&batch(7, 0, 1), 1), Verdict::Unknown);
    assert_eq!(producers.check(&batch(7, 0, 0), 10), Verdict::New);
    producers.record(&batch(7, 0, 0), 10, Offset::new(100));
    assert_eq!(producers.check(&batch(7, 0, 10), 5), Verdict::New);
    let refused = Verdict::OutOfOrder { expected: sequence(10) };
    assert_eq!(producers.check(&batch(7, 0, 11), 5), refused, "it skips one");
    assert_eq!(producers.check(&batch(7, 0, 8), 5), refused, "two of it are old, three are new");
    assert_eq!(producers.check(&batch(7, 0, Sequence::MAX.get()), 1), refused, "never sent");
    assert_eq!(producers.check(&batch(8, 0, 10), 5), Verdict::Unknown, "another producer");
}

#[test]
fn a_retry_is_found_whatever_its_batch_borders() {
    let mut producers = Producers::default();
    producers.record(&batch(7, 0, 0), 10, Offset::new(100));
    producers.record(&batch(7, 0, 10), 10, Offset::new(110));
    producers.record(&batch(7, 0, 20), 10, Offset::new(200));
    for (first, count, base) in
        [(0, 10, 100), (0, 20, 100), (5, 10, 105), (19, 1, 119), (20, 10, 200), (29, 1, 209)]
    {
        let verdict = producers.check(&batch(7, 0, first), count);
        assert_eq!(verdict, Verdict::Duplicate { base: Offset::new(base) }, "{first} + {count}");
    }
    let scattered = producers.check(&batch(7, 0, 15), 10);
    assert_eq!(scattered, Verdict::DuplicateForgotten, "stored, but not as one run of offsets");
}

#[test]
fn a_new_producer_epoch_begins_at_zero_and_fences_the_old() {
    let mut producers = Producers::default();
    producers.record(&batch(7, 3, 0), 10, Offset::new(100));
    assert_eq!(producers.check(&batch(7, 2, 10), 1), Verdict::FencedEpoch { current: 3 });
    let refused = Verdict::OutOfOrder { expected: Sequence::ZERO };
    assert_eq!(producers.check(&batch(7, 4, 10), 1), refused);
    assert_eq!(producers.check(&batch(7, 4, 0), 1), Verdict::New);
    producers.record(&batch(7, 4, 0), 2, Offset::new(110));
    assert_eq!(producers.check(&batch(7, 3, 10), 1), Verdict::FencedEpoch { current: 4 });
    assert_eq!(producers.check(&batch(7, 4, 0), 2), Verdict::Duplicate { base: Offset::new(110) });
    assert_eq!(producers.check(&batch(7, 4, 2), 1), Verdict::New);
}

#[test]
fn sequences_wrap_to_zero() {
    let max = Sequence::MAX.get();
    let mut producers = Producers::default();
    producers.record(&batch(7, 0, max - 1), 4, Offset::new(100));
    assert_eq!(producers.check(&batch(7, 0, 2), 3), Verdict::New);
    assert_eq!(
        producers.check(&batch(7, 0, max), 2),
        Verdict::Duplicate { base: Offset::new(101) }
    );
    assert_eq!(producers.check(&batch(7, 0, 0), 2), Verdict::Duplicate { base: Offset::new(102) });
    let refused = Verdict::OutOfOrder { expected: sequence(2) };
    assert_eq!(producers.check(&batch(7, 0, max - 2), 1), refused, "never seen");
    assert_eq!(decoded(&encoded(&producers), 1), Ok(producers), "and is stored");
}

/// A range could grow until it held every sequence there is; then one that was skipped to would be found in it, and
/// acknowledged without being stored.
#[test]
fn a_sequence_that_was_skipped_to_is_never_taken_for_an_old_one() {
    let mut producers = Producers::default();
    let step = 1 << 29;
    for index in 0..4 {
        let base = Offset::new(u64::from(index * step));
        producers.record(&batch(7, 0, index * step), step, base);
    }
    let refused = Verdict::OutOfOrder { expected: Sequence::ZERO };
    assert_eq!(producers.check(&batch(7, 0, 5), 1), refused);
    assert_eq!(producers.check(&batch(7, 0, 0), 1), Verdict::New);
    let half_back = producers.check(&batch(7, 0, 2 * step), 1);
    assert_eq!(half_back, Verdict::Duplicate { base: Offset::new(1 << 30) });
}

#[test]
fn only_the_newest_ranges_are_kept() {
    let mut producers = Producers::default();
    for index in 0..RANGES_MAX as u32 + 1 {
        producers.record(&batch(7, 0, index), 1, Offset::new(u64::from(index) * 2));
    }
    assert_eq!(producers.check(&batch(7, 0, 0), 1), Verdict::DuplicateForgotten);
    assert_eq!(producers.check(&batch(7, 0, 1), 1), Verdict::Duplicate { base: Offset::new(2) });
    let bytes = encoded(&producers);
    assert_eq!(bytes.len(), PRODUCER_BYTES + RANGES_MAX * RANGE_BYTES);
}

#[test]
fn the_least_recently_written_producer_goes_first() {
    let mut producers = Producers::default();
    for id in 0..PRODUCERS_MAX as u64 {
        producers.record(&batch(id, 0, 0), 1, Offset::new(id));
    }
    producers.record(&batch(0, 0, 1), 1, Offset::new(5000));
    // The order outlives a restart.
    let mut producers = decoded(&encoded(&producers), PRODUCERS_MAX).unwrap();
    producers.record(&batch(1 << 40, 0, 0), 1, Offset::new(5001));
    assert_eq!(producers.len(), PRODUCERS_MAX);
    assert_eq!(producers.check(&batch(1, 0, 1), 1), Verdict::Unknown, "gone");
    assert_eq!(producers.check(&batch(0, 0, 2), 1), Verdict::New, "written since");
    assert_eq!(producers.check(&batch(2, 0, 1), 1), Verdict::New);
}

/// Damage may have taken frames out of the log. What follows is in the log whatever came before it.
#[test]
fn what_is_in_the_log_is_recorded_even_behind_a_hole() {
    let mut producers = Producers::default();
    producers.record(&batch(7, 0, 0), 10, Offset::new(100));
    producers.record(&batch(7, 0, 20), 10, Offset::new(120));
    assert_eq!(producers.check(&batch(7, 0, 30), 1), Verdict::New);
    assert_eq!(
        producers.check(&batch(7, 0, 20), 10),
        Verdict::Duplicate { base: Offset::new(120) }
    );
    assert_eq!(producers.check(&batch(7, 0, 12), 1), Verdict::DuplicateForgotten);
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let mut producers = Producers::default();
    producers.record(&batch(0x0102, 3, 0), 2, Offset::new(16));
    producers.record(&batch(0x0102, 3, 2), 1, Offset::new(32));
    let golden = [
        &[0, 0, 0, 0, 0, 0, 1, 2][..],
        &[0, 3, 0, 2],
        &[0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 16],
        &[0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 32],
    ]
    .concat();
    assert_eq!(encoded(&producers), golden);
    assert_eq!(decoded(&golden, 1), Ok(producers));
}

#[test]
fn impossible_tables_are_refused() {
    let mut producers = Producers::default();
    producers.record(&batch(7, 0, 0), 2, Offset::new(16));
    producers.record(&batch(7, 0, 2), 2, Offset::new(32));
    let good = encoded(&producers);
    assert!(decoded(&good, 1).is_ok());
    for (at, value, why) in [
        (0, 0x80, "id above 2^63"),
        (11, 0, "no ranges"),
        (11, 1, "bytes left over"),
        (11, 3, "cut short"),
        (10, 1, "too many ranges"),
        (12, 0x80, "sequence above 2^31"),
        (19, 0, "an empty range"),
        (19, 1, "a hole between sequences"),
        (20, 0x80, "offset above 2^63"),
        (27, 40, "offsets that go back"),
    ] {
        let mut bytes = good.clone();
        bytes[at] = value;
        assert!(decoded(&bytes, 1).is_err(), "{why}");
    }
    assert!(decoded(&[&good[..], &good[..]].concat(), 2).is_err(), "one producer twice");
    assert!(Producers::decode(&mut Cursor::new(&good), PRODUCERS_MAX + 1).is_err(), "too many");
}

/// Remembers every record of one producer epoch.
#[derive(Clone, Default)]
struct Naive {
    epoch: u16,
    /// Sequences from `first` on, without wrapping, and where they went.
    first: u64,
    offsets: Vec<u64>,
}

impl Naive {
    fn expected(&self) -> u64 {
        self.first + self.offsets.len() as u64
    }

    /// How many of the newest records are in the newest `RANGES_MAX` runs of offsets.
    fn remembered(&self) -> usize {
        let mut runs = 1;
        for (index, pair) in self.offsets.windows(2).enumerate().rev() {
            if pair[0] + 1 != pair[1] {
                runs += 1;
                if runs > RANGES_MAX {
                    return self.offsets.len() - index - 1;
                }
            }
        }
        self.offsets.len()
    }

    /// The verdict for a batch that begins `back` sequences before the expected one, all of which were sent.
    fn check_back(&self, back: usize, count: usize) -> Verdict {
        let expected = sequence((self.expected() % (1 << 31)) as u32);
        if back == 0 {
            return Verdict::New;
        }
        if count > back {
            return Verdict::OutOfOrder { expected };
        }
        let begin = self.offsets.len() - back;
        let run = &self.offsets[begin..begin + count];
        let whole = run.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        if whole && back <= self.remembered() {
            Verdict::Duplicate { base: Offset::new(run[0]) }
        } else {
            Verdict::DuplicateForgotten
        }
    }
}

proptest! {
    #[test]
    fn it_answers_as_if_it_remembered_every_record(
        wraps in any::<bool>(),
        batches in vec((0..3_usize, 1..6_u32, 0..2_u64, 0..20_u8), 1..300),
        probes in vec((0..3_usize, 0..1000_usize, 1..8_usize), 50),
    ) {
        // Beginning just below the wrap is what a log does whose earlier frames are gone.
        let first = if wraps { (1_u64 << 31) - 40 } else { 0 };
        let mut naive = vec![Naive { first, ..Naive::default() }; 3];
        let mut producers = Producers::default();
        let mut end = 0;
        for (index, count, skip, restart) in batches {
            let producer = &mut naive[index];
            if restart == 0 {
                *producer = Naive { epoch: producer.epoch + 1, ..Naive::default() };
            }
            end += skip;
            let sent = batch(index as u64, producer.epoch, (producer.expected() % (1 << 31)) as u32);
            if producer.expected() == 0 || !producer.offsets.is_empty() {
                prop_assert_eq!(producers.check(&sent, count), Verdict::New);
            }
            producers.record(&sent, count, Offset::new(end));
            producer.offsets.extend(end..end + u64::from(count));
            end += u64::from(count);
        }
        let count = producers.len();
        let restored = decoded(&encoded(&producers), count).unwrap();
        prop_assert_eq!(&restored, &producers);
        for (index, back, count) in probes {
            let producer = &naive[index];
            if producer.offsets.is_empty() {
                continue;
            }
            let back = back % (producer.offsets.len() + 1);
            let first = (producer.expected() - back as u64) % (1 << 31);
            let probe = batch(index as u64, producer.epoch, first as u32);
            let verdict = restored.check(&probe, count as u32);
            let right = producer.check_back(back, count);
            // A producer that has wrapped and whose oldest ranges are gone can't tell old from skipped: it refuses.
            let unsure = wraps && back > producer.remembered() && first >= producer.expected() % (1 << 31);
            if !unsure {
                prop_assert_eq!(verdict, right, "{} back, {} records", back, count);
            } else {
                let accepted = matches!(verdict, Verdict::New | Verdict::Duplicate { .. });
                prop_assert!(!accepted);
            }
        }
    }

    #[test]
    fn hostile_bytes_are_refused_or_read_and_never_panic(bytes in vec(any::<u8>(), 0..200), count in 0..5_usize) {
        let _ = decoded(&bytes, count);
    }
}
