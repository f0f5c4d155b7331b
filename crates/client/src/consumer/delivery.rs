//! What the broker sends, and taking it apart.

use std::ops::Range;

use danube_model::batch::Records;
use danube_model::{Batch, Message, Offset, Record, TimeMs, TopicName, caps};

use super::lane::Window;
use crate::Result;
use crate::reader::Received;

/// What came in one response.
#[derive(Debug)]
pub(crate) struct Arrivals {
    pub(crate) partition: usize,
    /// Which of the partition's streams.
    pub(crate) stream: u64,
    pub(crate) items: std::vec::IntoIter<Arrived>,
}

/// One thing that came.
#[derive(Debug)]
pub(crate) enum Arrived {
    Piece(Piece),
    Gap { from: Offset, to: Offset, why: String },
    Damage { from: Offset, to: Offset, file: String, message: String },
}

/// A batch, of which some records are meant.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) batch: Batch,
    pub(crate) range: Range<Offset>,
    pub(crate) delivery_count: u32,
    pub(crate) receive_time: TimeMs,
    /// Of the cursor.
    pub(crate) incarnation: u64,
    /// Bytes that were sent for it; none if they were sent before.
    pub(crate) sent_bytes: u64,
}

/// A piece that is being taken apart.
#[derive(Debug)]
pub(crate) struct OpenPiece {
    piece: Piece,
    records: Records,
    /// A record of the batch that was read and lies behind the piece.
    ahead: Option<(Offset, Record)>,
    /// Records below it were read.
    at: Offset,
    /// Messages of the piece that were not taken.
    left: u64,
}

impl Piece {
    /// All of it.
    pub(crate) fn whole(&self) -> Window {
        let messages = self.range.start.distance(self.range.end);
        Window { messages, bytes: self.sent_bytes }
    }
}

impl OpenPiece {
    /// Goes on in the batch of the piece before, where that is the same.
    pub(crate) fn new(piece: Piece, before: Option<OpenPiece>) -> Result<OpenPiece> {
        let is_same = |before: &OpenPiece| {
            before.piece.batch.bytes().as_ptr() == piece.batch.bytes().as_ptr()
                && before.at <= piece.range.start
        };
        let (records, ahead, at) = match before.filter(is_same) {
            Some(before) => (before.records, before.ahead, before.at),
            None => (
                piece.batch.records(caps::DECOMPRESSED_BYTES_MAX)?,
                None,
                piece.batch.base_offset(),
            ),
        };
        let left = piece.whole().messages;
        Ok(OpenPiece { piece, records, ahead, at, left })
    }

    /// The next message, and how often it was delivered. After an error there are no more.
    pub(crate) fn next(&mut self, topic: &TopicName) -> Result<Option<(Received, u32)>> {
        while self.at < self.piece.range.end {
            let next = self.ahead.take().map(Ok).or_else(|| self.records.next());
            let Some((offset, record)) = next.transpose()? else { return Ok(None) };
            if offset >= self.piece.range.end {
                self.ahead = Some((offset, record));
                return Ok(None);
            }
            self.at = offset + 1;
            if offset < self.piece.range.start {
                continue;
            }
            let received = Received {
                topic: topic.clone(),
                offset,
                epoch: self.piece.batch.epoch(),
                receive_time: self.piece.receive_time,
                message: Message::from_record(&record)?,
            };
            self.left = self.left.saturating_sub(1);
            return Ok(Some((received, self.piece.delivery_count)));
        }
        Ok(None)
    }

    /// The incarnation of the cursor that it was delivered under.
    pub(crate) fn incarnation(&self) -> u64 {
        self.piece.incarnation
    }

    /// What of it was not taken message by message.
    pub(crate) fn rest(&self) -> Window {
        Window { messages: self.left, ..self.piece.whole() }
    }
}
