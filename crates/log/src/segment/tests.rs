//! What a segment says of its frames. `bytes` holds the formats, `damage` what a walk makes of broken files.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use danube_env::File;
use danube_model::batch::BatchBuilder;
use danube_model::{
    BatchLimits, BatchProducer, Compression, Epoch, Frame, GapReason, Offset, ProducerId, Record,
    Sequence, Stamp, TimeMs, TopicId,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::producers::Producers;

mod bytes;
mod damage;

pub(crate) const TOPIC: TopicId = TopicId::new(*b"topic id 16 long");
const SEAL: u64 = 0x5ea1_5ea1_5ea1_5ea1;

/// A file in memory that remembers how much was asked of it at once.
pub(crate) struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    largest_read: Mutex<usize>,
}

impl MemoryFile {
    pub(crate) fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self { bytes: Mutex::new(bytes), largest_read: Mutex::new(0) })
    }

    fn largest_read(&self) -> usize {
        *self.largest_read.lock().unwrap()
    }
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut largest = self.largest_read.lock().unwrap();
        *largest = buf.len().max(*largest);
        let bytes = self.bytes.lock().unwrap();
        let begin = (position as usize).min(bytes.len());
        let read = buf.len().min(bytes.len() - begin);
        buf[..read].copy_from_slice(&bytes[begin..begin + read]);
        Ok(read)
    }

    fn write_at(&self, _parts: &[&[u8]], _position: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_resident(&self, _position: u64, _len: u64) -> bool {
        false
    }

    fn forget_cached(&self) {}

    fn write_back(&self, _position: u64, _len: u64) {}
}

/// What a frame of a test log is made from.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Payload bytes of each record; none make a gap of three offsets.
    pub(crate) records: Vec<usize>,
    pub(crate) new_epoch: bool,
    pub(crate) later_ms: u64,
    pub(crate) producer: bool,
}

pub(crate) fn plan(records: &[usize]) -> Plan {
    Plan { records: records.to_vec(), new_epoch: false, later_ms: 1, producer: false }
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let size =
        prop_oneof![5 => 0..200_usize, 2 => 10_000..90_000_usize, 1 => 200_000..400_000_usize];
    let plan = (vec(size, 0..4), any::<bool>(), 0..3_u64, any::<bool>()).prop_map(
        |(records, new_epoch, later_ms, producer)| Plan { records, new_epoch, later_ms, producer },
    );
    vec(plan, 1..20)
}

/// A log from offset 1000, epoch 5 and time 50,000 on.
pub(crate) fn frames(plans: &[Plan]) -> Vec<Frame> {
    let (mut base, mut epoch, mut time, mut sequence) = (Offset::new(1000), 5, 50_000, 0);
    let mut frames = Vec::new();
    for (index, plan) in plans.iter().enumerate() {
        epoch += u32::from(plan.new_epoch);
        time += plan.later_ms;
        let stamp = Stamp {
            base,
            epoch: Epoch::new(epoch).unwrap(),
            receive_time: TimeMs::new(time),
            durable_end: base,
            synced_end: Offset::ZERO,
        };
        let frame = if plan.records.is_empty() {
            Frame::gap(TOPIC, stamp, base + 3, GapReason::UnprovenEnd)
        } else {
            let producer = plan.producer.then(|| BatchProducer {
                id: ProducerId::new(9).unwrap(),
                epoch: 0,
                base_sequence: Sequence::new(sequence).unwrap(),
            });
            let payloads = plan.records.iter().map(|len| vec![index as u8; *len]).collect();
            let batch = batch(time - 10, payloads, producer);
            sequence += batch.record_count() * u32::from(plan.producer);
            Frame::batch(TOPIC, stamp, &batch)
        };
        base = frame.next();
        frames.push(frame);
    }
    frames
}

fn batch(
    timestamp: u64,
    payloads: Vec<Vec<u8>>,
    producer: Option<BatchProducer>,
) -> danube_model::Batch {
    let mut builder = BatchBuilder::new(Compression::None, BatchLimits::default());
    for payload in payloads {
        let timestamp = TimeMs::new(timestamp);
        let record = Record { timestamp, value: Some(payload.into()), ..Record::default() };
        builder.append(&record).unwrap();
    }
    builder.finish(producer).unwrap()
}

pub(crate) fn header(frames: &[Frame]) -> SegmentHeader {
    let first = &frames[0];
    SegmentHeader {
        topic: TOPIC,
        first: first.base(),
        created: first.receive_time(),
        epoch: first.epoch(),
        seal: SEAL,
    }
}

/// The body of a segment, its builder, and the positions of its frames.
pub(crate) fn open_segment(frames: &[Frame]) -> (Vec<u8>, SegmentBuilder, Vec<u64>) {
    let header = header(frames);
    let mut bytes = header.encode();
    let mut builder = SegmentBuilder::new(&header);
    let mut positions = Vec::new();
    for frame in frames {
        positions.push(bytes.len() as u64);
        builder.add(frame, bytes.len() as u64);
        bytes.extend_from_slice(frame.bytes());
    }
    (bytes, builder, positions)
}

fn producers_of(frames: &[Frame]) -> Producers {
    let mut producers = Producers::default();
    for frame in frames {
        if let Some(producer) = frame.producer() {
            producers.record(&producer, frame.record_count(), frame.base());
        }
    }
    producers
}

/// A whole segment with its footer.
pub(crate) fn sealed_segment(frames: &[Frame]) -> Vec<u8> {
    let (mut bytes, builder, _) = open_segment(frames);
    bytes.extend(builder.seal(&producers_of(frames)));
    bytes
}

fn walk_over(bytes: &[u8], from: u64) -> Walk {
    let until = bytes.len() as u64;
    Walk::new(MemoryFile::new(bytes.to_vec()), Path::new("x.seg"), TOPIC, from, until)
}

fn steps(mut walk: Walk) -> Vec<Step> {
    let mut steps = Vec::new();
    loop {
        match walk.step().unwrap() {
            Step::End => return steps,
            step => steps.push(step),
        }
    }
}

fn footer_of(bytes: &[u8]) -> crate::Result<Option<Footer>> {
    let file = MemoryFile::new(bytes.to_vec());
    let path = Path::new("x.seg");
    let header = SegmentHeader::read_any(&*file, path)?;
    read_footer(&*file, path, bytes.len() as u64, &header)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_sealed_segment_says_what_its_frames_say(plans in plans()) {
        let frames = frames(&plans);
        let (body, _, positions) = open_segment(&frames);
        let bytes = sealed_segment(&frames);
        let footer = footer_of(&bytes).unwrap().unwrap();

        prop_assert_eq!(footer.position, body.len() as u64);
        prop_assert_eq!(footer.producers, producers_of(&frames));
        let summary = footer.summary;
        prop_assert_eq!(summary.first, frames[0].base());
        prop_assert_eq!(summary.next, frames[frames.len() - 1].next());
        prop_assert_eq!(summary.frames, frames.len() as u64);
        let records: u64 = frames.iter().map(|frame| u64::from(frame.record_count())).sum();
        prop_assert_eq!(summary.records, records);
        let gaps = frames.iter().filter(|frame| frame.record_count() == 0).count() as u64;
        prop_assert_eq!(summary.gap_offsets, gaps * 3);
        prop_assert_eq!(summary.first.distance(summary.next), records + gaps * 3);
        prop_assert_eq!(summary.first_receive_time, frames[0].receive_time());
        prop_assert_eq!(summary.last_receive_time, frames[frames.len() - 1].receive_time());
        prop_assert_eq!(Some(summary.timestamp_greatest).filter(|time| time.get() > 0), frames.iter().filter_map(Frame::max_timestamp).max());
        prop_assert_eq!(summary.body_checksum, crc32c::crc32c(&body));

        for (frame, position) in frames.iter().zip(&positions) {
            let under = footer.epochs.iter().rev().find(|start| start.first <= frame.base());
            prop_assert_eq!(under.unwrap().epoch, frame.epoch());
            // From where the index says, the frame is found within 64 KiB and a frame.
            let begin = footer.index.position_for_offset(frame.base()).unwrap();
            prop_assert!(begin <= *position && position / (64 * 1024) <= begin / (64 * 1024) + 1 || begin == *position);
            prop_assert_eq!(positions.binary_search(&begin).is_ok(), true);
        }
    }

    #[test]
    fn a_time_is_found_exact_to_the_frame(plans in plans()) {
        let frames = frames(&plans);
        let (_, builder, positions) = open_segment(&frames);
        for time in 49_999..50_070 {
            let time = TimeMs::new(time);
            let wanted = frames.iter().position(|frame| frame.receive_time() >= time);
            let begin = builder.index().position_for_time(time).unwrap_or(HEADER_BYTES);
            let walked = frames.iter().zip(&positions).position(|(frame, position)| {
                *position >= begin && frame.receive_time() >= time
            });
            prop_assert_eq!(walked, wanted);
        }
    }

    #[test]
    fn a_builder_is_found_again_from_the_file(plans in plans(), kept in any::<prop::sample::Index>()) {
        let frames = frames(&plans);
        let kept = kept.index(frames.len()) + 1;
        let (bytes, _, _) = open_segment(&frames);
        let (front, builder, _) = open_segment(&frames[..kept]);
        let file = MemoryFile::new(bytes);
        let first = frames[0].base();
        let rebuilt = SegmentBuilder::rebuild(file, Path::new("x.seg"), TOPIC, first, front.len() as u64);
        prop_assert_eq!(rebuilt.unwrap(), builder);
    }
}

#[test]
fn a_builder_is_not_found_again_from_a_damaged_file() {
    let frames = frames(&[plan(&[10]), plan(&[20]), plan(&[30])]);
    let (bytes, _, positions) = open_segment(&frames);
    let rebuild = |bytes: &[u8], first: u64, until: u64| {
        let file = MemoryFile::new(bytes.to_vec());
        SegmentBuilder::rebuild(file, Path::new("x.seg"), TOPIC, Offset::new(first), until)
    };
    let len = bytes.len() as u64;
    assert!(rebuild(&bytes, 1000, len).is_ok());
    assert!(rebuild(&bytes, 1000, positions[1]).is_ok());

    let error = rebuild(&bytes, 999, len).unwrap_err().to_string();
    assert_eq!(error, "x.seg is damaged at byte 32: a segment from offset 1000 instead of 999");
    let error = rebuild(&bytes, 1000, len - 1).unwrap_err();
    assert!(matches!(error, crate::Error::Corrupt { position, .. } if position == positions[2]));

    let hole = [&bytes[..positions[1] as usize], &bytes[positions[2] as usize..]].concat();
    let error = rebuild(&hole, 1000, hole.len() as u64).unwrap_err().to_string();
    let expected = format!(
        "x.seg is damaged at byte {}: a frame from offset 1002 instead of 1001",
        positions[1]
    );
    assert_eq!(error, expected);

    let mut flipped = bytes;
    flipped[positions[1] as usize + 50] ^= 1;
    let error = rebuild(&flipped, 1000, len).unwrap_err();
    assert!(matches!(error, crate::Error::Corrupt { position, .. } if position == positions[1]));
}
