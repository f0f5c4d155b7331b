//! A small store on a simulated machine, and batches that say who they are.

use bytes::Bytes;
use danube_env::Env;
use danube_log::{Config, EndProof, Facts, Log, OpenLog, Read, Reader, Report, Start, Store};
use danube_model::batch::{BatchBuilder, BatchLimits};
use danube_model::{
    Batch, BatchProducer, Compression, Durability, Frame, GapReason, Offset, ProducerId, Record,
    Sequence, TimeMs, TopicId,
};

/// The step in which ceilings rise.
pub(crate) const STEP: u64 = 1 << 20;

pub(crate) fn topic(n: u8) -> TopicId {
    TopicId::new([n; 16])
}

/// Everything small, so that journals wrap, segments roll and checkpoints come often.
pub(crate) fn small(root: &str) -> Config {
    Config {
        journal_bytes: 256 * 1024,
        round_bytes: 16 * 1024,
        tail_bytes: 32 * 1024,
        segment_bytes: 8 * 1024,
        checkpoint_bytes: 96 * 1024,
        ..Config::new(root)
    }
}

pub(crate) async fn open(env: &Env) -> danube_log::Result<(Store, Report)> {
    Store::open(small("/wal"), env.clone()).await
}

/// What the owner of a log decides, and stores in the metadata, before it opens it: the next epoch, and the ceiling if
/// the end is not proven.
pub(crate) async fn plan_open(
    store: &Store,
    n: u8,
    level: Durability,
    ceiling: &mut u64,
) -> danube_log::Result<OpenLog> {
    let topic = topic(n);
    store.create(topic, format!("/default/t{n}")).await?;
    let Facts { epoch, end_proof, end, .. } = store.facts(topic).expect("it is there now");
    let resume = Offset::new(*ceiling);
    let resume = (end_proof != EndProof::Proven).then_some((resume, GapReason::UnprovenEnd));
    if resume.is_some() || *ceiling <= end.get() {
        *ceiling += STEP;
    }
    let epoch = epoch.next().expect("few epochs");
    Ok(OpenLog { topic, epoch, level, ceiling: Offset::new(*ceiling), resume })
}

/// One record, with `value`.
pub(crate) fn batch(values: &[Vec<u8>], producer: Option<(u64, u32)>) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None, BatchLimits::default());
    for value in values {
        let record = Record {
            timestamp: TimeMs::new(7),
            value: Some(Bytes::copy_from_slice(value)),
            ..Record::default()
        };
        builder.append(&record).expect("it is small");
    }
    let producer = producer.map(|(id, sequence)| BatchProducer {
        id: ProducerId::new(id).expect("it is small"),
        epoch: 0,
        base_sequence: Sequence::new(sequence).expect("it is small"),
    });
    builder.finish(producer).expect("it has records")
}

/// Everything from `start` to the durable end.
pub(crate) async fn read_all(log: &Log, start: Start) -> Vec<Read> {
    let mut reader: Reader = log.read(start).await.expect("a reader opens");
    let mut all = Vec::new();
    loop {
        match reader.next().await.expect("reading works") {
            Read::CaughtUp(_) => return all,
            read => all.push(read),
        }
    }
}

/// The offsets and payloads of a frame; none for a gap.
pub(crate) fn records(frame: &Frame) -> Vec<(u64, Vec<u8>)> {
    let Some(records) = frame.records(1 << 20) else { return Vec::new() };
    records
        .expect("records decode")
        .map(|record| {
            let (offset, record) = record.expect("a record decodes");
            (offset.get(), record.value.expect("a value").to_vec())
        })
        .collect()
}
