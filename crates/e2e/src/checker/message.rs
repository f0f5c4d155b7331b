//! Messages that say who they are and show when they are damaged.
//!
//! A payload is `run|producer|sequence|key|bytes|checksum|padding`, one line of ASCII: unique, and readable in a
//! dump. The checksum (FNV-1a, 64 bits) covers all but itself.

use std::fmt;
use std::sync::Arc;

/// Who sent a message, and its number there. Unique in a run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageId {
    /// Name of the producer.
    pub producer: Arc<str>,
    /// Its place in the order in which the producer sent.
    pub sequence: u64,
}

impl MessageId {
    /// An id; the producer's name may not hold `|`.
    #[must_use]
    pub fn new(producer: &str, sequence: u64) -> Self {
        debug_assert!(!producer.contains('|'), "`|` divides the fields of a payload");
        Self { producer: producer.into(), sequence }
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.producer, self.sequence)
    }
}

/// A payload of `bytes` bytes, or as many as its fields need.
pub(super) fn encode(run: u64, id: &MessageId, key: Option<&str>, bytes: usize) -> Vec<u8> {
    let head = format!("{run:x}|{}|{}|{}|", id.producer, id.sequence, key.unwrap_or_default());
    // The field with the length is 8 digits, the checksum 16, and a bar behind each.
    let fields = head.len() + 8 + 1 + 16 + 1;
    let length = bytes.max(fields);
    let head = format!("{head}{length:08}|");
    let pattern = b"danube carries what it is given. ";
    let padding: Vec<u8> = pattern.iter().copied().cycle().take(length - fields).collect();
    let checksum = fnv(&[head.as_bytes(), &padding]);
    let mut payload = head.into_bytes();
    payload.extend_from_slice(format!("{checksum:016x}|").as_bytes());
    payload.extend_from_slice(&padding);
    payload
}

/// The id and the key in a payload; why not, if it is not one of this run or is damaged.
pub(super) fn decode(run: u64, payload: &[u8]) -> Result<(MessageId, Option<String>), String> {
    let damaged = || format!("not a message of this run: {:?}", start_of(payload));
    let parts: Vec<&[u8]> = payload.splitn(7, |byte| *byte == b'|').collect();
    let [in_run, producer, sequence, key, length, checksum, padding] = parts.as_slice() else {
        return Err(damaged());
    };
    let text = |part: &[u8]| std::str::from_utf8(part).ok().map(str::to_owned);
    let head = payload.len() - padding.len() - checksum.len() - 1;
    let expected = format!("{:016x}", fnv(&[&payload[..head], padding]));
    let is_whole = *in_run == format!("{run:x}").as_bytes()
        && *length == format!("{:08}", payload.len()).as_bytes()
        && *checksum == expected.as_bytes();
    let fields = (text(producer), text(sequence).and_then(|digits| digits.parse().ok()), text(key));
    match fields {
        (Some(producer), Some(sequence), Some(key)) if is_whole => {
            let key = (!key.is_empty()).then_some(key);
            Ok((MessageId::new(&producer, sequence), key))
        }
        _ => Err(damaged()),
    }
}

fn start_of(payload: &[u8]) -> String {
    String::from_utf8_lossy(&payload[..payload.len().min(80)]).into_owned()
}

fn fnv(parts: &[&[u8]]) -> u64 {
    let bytes = parts.iter().copied().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_who_it_is() {
        for (bytes, key) in [(0, None), (100, Some("k7")), (100_000, None)] {
            let id = MessageId::new("p3", 1042);
            let payload = encode(7, &id, key, bytes);
            assert!(bytes == 0 || payload.len() == bytes);
            assert_eq!(decode(7, &payload), Ok((id, key.map(str::to_owned))));
        }
    }

    #[test]
    fn any_flipped_bit_is_found() {
        let payload = encode(7, &MessageId::new("p3", 1), Some("k"), 120);
        for byte in 0..payload.len() {
            for bit in 0..8 {
                let mut damaged = payload.clone();
                damaged[byte] ^= 1 << bit;
                assert!(decode(7, &damaged).is_err(), "byte {byte} bit {bit}");
            }
        }
    }

    #[test]
    fn what_is_cut_or_of_another_run_is_refused() {
        let payload = encode(7, &MessageId::new("p3", 1), None, 120);
        assert!(decode(8, &payload).is_err());
        for length in 0..payload.len() {
            assert!(decode(7, &payload[..length]).is_err(), "{length}");
        }
    }
}
