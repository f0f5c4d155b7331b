//! The 40 bytes before the body, and what of the body their checksum covers.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{FrameError, FrameKind, GapReason};
use crate::batch::{BATCH_HEADER_BYTES, LENGTH_END, UNCOVERED_BYTES};
use crate::{Epoch, Offset, TimeMs, TopicId, caps};

/// Bytes before the body.
pub const FRAME_HEADER_BYTES: usize = 40;
/// Bytes of a gap frame: the least that a frame has, and enough to check the header of any.
pub const GAP_FRAME_BYTES: usize = FRAME_HEADER_BYTES + GAP_BODY_BYTES;

pub(super) const MAGIC: [u8; 4] = *b"DnFr";
const VERSION: u8 = 1;
const KIND_BATCH: u8 = 1;
const KIND_GAP: u8 = 2;
const GAP_BODY_BYTES: usize = 24;
const CHECKSUM_AT: usize = 8;
const CHECKSUM_END: usize = 12;
const KIND_AT: usize = 13;

/// The fields of a frame's header, and those of the body's that stand in every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What it holds.
    pub kind: FrameKind,
    /// Bytes of the whole frame.
    pub frame_bytes: usize,
    /// When the broker received it.
    pub receive_time: TimeMs,
    /// The log's durable end when it was written.
    pub durable_end: Offset,
    /// The log's synced end when it was written.
    pub synced_end: Offset,
    /// Its first offset.
    pub base: Offset,
    /// The epoch that it was written under.
    pub epoch: Epoch,
}

impl FrameHeader {
    /// Reads and checks the header that `bytes` begin with, but not a batch's records; it needs [`GAP_FRAME_BYTES`] of
    /// them. For walking over what is known to be intact, and past a batch that is not.
    pub fn peek(topic: TopicId, bytes: &[u8]) -> Result<FrameHeader, FrameError> {
        let available = bytes.len();
        if available >= MAGIC.len() && !bytes.starts_with(&MAGIC) {
            let found = (&bytes[..MAGIC.len()]).get_u32();
            return Err(FrameError::NotFrame { found });
        }
        let Some(begin) = bytes.get(..GAP_FRAME_BYTES) else {
            return Err(FrameError::NeedMore { bytes: GAP_FRAME_BYTES, available });
        };
        let stored = (&begin[CHECKSUM_AT..CHECKSUM_END]).get_u32();
        let computed = frame_checksum(topic, begin);
        if stored != computed {
            return Err(FrameError::Checksum { stored, computed });
        }
        check_known(begin)?;
        let header = parse(begin)?;
        if header.durable_end > header.base || header.synced_end > header.base {
            return malformed("written with an end past its first offset");
        }
        Ok(header)
    }

    /// The header's bytes, with room for the body, without the checksum.
    pub(super) fn begin(&self) -> BytesMut {
        assert!(self.frame_bytes <= caps::FRAME_BYTES_MAX, "frame of {} bytes", self.frame_bytes);
        assert!(
            self.durable_end <= self.base && self.synced_end <= self.base,
            "frame at {} with ends past it: durable {}, synced {}",
            self.base,
            self.durable_end,
            self.synced_end,
        );
        let mut buffer = BytesMut::with_capacity(self.frame_bytes);
        buffer.put_slice(&MAGIC);
        buffer.put_u32(self.frame_bytes as u32);
        buffer.put_u32(0);
        buffer.put_u8(VERSION);
        buffer.put_u8(match self.kind {
            FrameKind::Batch => KIND_BATCH,
            FrameKind::Gap { .. } => KIND_GAP,
        });
        buffer.put_u16(0);
        buffer.put_u64(self.receive_time.get());
        buffer.put_u64(self.durable_end.get());
        buffer.put_u64(self.synced_end.get());
        buffer
    }

    /// Enters the checksum, once the body is there.
    pub(super) fn finish(&self, topic: TopicId, mut buffer: BytesMut) -> Bytes {
        assert_eq!(buffer.len(), self.frame_bytes, "a frame has the length that its header says");
        let checksum = frame_checksum(topic, &buffer);
        buffer[CHECKSUM_AT..CHECKSUM_END].copy_from_slice(&checksum.to_be_bytes());
        buffer.freeze()
    }
}

/// The checksum that a frame should carry; `frame` has at least [`GAP_FRAME_BYTES`].
///
/// What it covers depends on the kind alone, in every version, so that damage is told from a later format.
pub(super) fn frame_checksum(topic: TopicId, frame: &[u8]) -> u32 {
    let body_bytes = if frame[KIND_AT] == KIND_GAP { GAP_BODY_BYTES } else { UNCOVERED_BYTES };
    let topic_part = crc32c::crc32c(topic.as_bytes());
    let begin_part = crc32c::crc32c_append(topic_part, &frame[..CHECKSUM_AT]);
    crc32c::crc32c_append(begin_part, &frame[CHECKSUM_END..FRAME_HEADER_BYTES + body_bytes])
}

fn check_known(begin: &[u8]) -> Result<(), FrameError> {
    let unknown = |what, found: u64, known| Err(FrameError::Unknown { what, found, known });
    let (version, kind) = (begin[12], begin[KIND_AT]);
    if version != VERSION {
        return unknown("version", u64::from(version), "1");
    }
    if kind != KIND_BATCH && kind != KIND_GAP {
        return unknown("kind", u64::from(kind), "1 and 2");
    }
    let reserved = (&begin[14..16]).get_u16();
    if reserved != 0 {
        return unknown("reserved bytes", u64::from(reserved), "0");
    }
    Ok(())
}

fn parse(begin: &[u8]) -> Result<FrameHeader, FrameError> {
    let frame_bytes = (&begin[4..8]).get_u32() as usize;
    let (mut fields, body) = begin[16..].split_at(FRAME_HEADER_BYTES - 16);
    let (kind, base, epoch) = match begin[KIND_AT] {
        KIND_GAP => parse_gap(body, frame_bytes)?,
        _ => parse_batch(body, frame_bytes)?,
    };
    Ok(FrameHeader {
        kind,
        frame_bytes,
        receive_time: TimeMs::new(fields.get_u64()),
        durable_end: offset(fields.get_u64())?,
        synced_end: offset(fields.get_u64())?,
        base: offset(base)?,
        epoch: Epoch::new(epoch).or_else(|_| malformed("epoch above 2^31 - 1"))?,
    })
}

/// What stands in the bytes of a batch that the frame's checksum covers.
fn parse_batch(mut body: &[u8], frame_bytes: usize) -> Result<(FrameKind, u64, u32), FrameError> {
    if frame_bytes > caps::FRAME_BYTES_MAX {
        return malformed("longer than any batch");
    }
    if frame_bytes < FRAME_HEADER_BYTES + BATCH_HEADER_BYTES {
        return malformed("shorter than any batch");
    }
    let (base, length, epoch) = (body.get_u64(), body.get_u32(), body.get_u32());
    if frame_bytes != FRAME_HEADER_BYTES + LENGTH_END + length as usize {
        return malformed("its length is not that of its batch");
    }
    Ok((FrameKind::Batch, base, epoch))
}

fn parse_gap(mut body: &[u8], frame_bytes: usize) -> Result<(FrameKind, u64, u32), FrameError> {
    if frame_bytes != GAP_FRAME_BYTES {
        return malformed("its length is not that of a gap");
    }
    let (base, next, epoch) = (body.get_u64(), body.get_u64(), body.get_u32());
    let (reason, reserved) = (body.get_u16(), body.get_u16());
    let unknown =
        |what, found: u16, known| FrameError::Unknown { what, found: found.into(), known };
    if reserved != 0 {
        return Err(unknown("reserved bytes of a gap", reserved, "0"));
    }
    let reason =
        GapReason::from_code(reason).ok_or(unknown("reason of a gap", reason, "1 to 3"))?;
    if base >= next {
        return malformed("gap of no offsets");
    }
    Ok((FrameKind::Gap { next: offset(next)?, reason }, base, epoch))
}

fn offset(number: u64) -> Result<Offset, FrameError> {
    Offset::try_from(number).or_else(|_| malformed("offset above 2^63 - 1"))
}

fn malformed<T>(what: &'static str) -> Result<T, FrameError> {
    Err(FrameError::Malformed { what })
}
