//! Cutting a batch that is too large into smaller ones.

use super::{Batch, BatchBuilder, BatchLimits, BatchProducer};
use crate::{Error, Result};

/// Cuts a batch into batches within `limits`, in order. Together they hold the same records; an idempotent producer's
/// sequences go on from one to the next, so that they are what it would have sent had it sent them so at once.
///
/// # Errors
/// [`Error::Limit`] if a record is too large for a batch of its own, or the batch has more than
/// `decompressed_bytes_max` bytes of records.
pub fn split(
    batch: &Batch,
    limits: &BatchLimits,
    decompressed_bytes_max: usize,
) -> Result<Vec<Batch>> {
    let mut parts = Vec::new();
    let mut taken = 0;
    let mut finish = |builder: BatchBuilder| {
        let producer = batch.producer().map(|producer| BatchProducer {
            base_sequence: producer.base_sequence.plus(taken),
            ..producer
        });
        taken += builder.record_count();
        builder.finish(producer)
    };
    let empty = || BatchBuilder::new(batch.compression(), limits.clone());
    let mut builder = empty();
    for item in batch.records(decompressed_bytes_max)? {
        let (_, record) = item?;
        match builder.append(&record) {
            Ok(_) => {}
            Err(Error::Limit { .. }) if !builder.is_empty() => {
                parts.push(finish(std::mem::replace(&mut builder, empty()))?);
                builder.append(&record)?;
            }
            Err(error) => return Err(error),
        }
    }
    if !builder.is_empty() {
        parts.push(finish(builder)?);
    }
    Ok(parts)
}
