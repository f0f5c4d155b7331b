//! Zig-zag varints, as records use them: seven bits a byte, the lowest first.

use bytes::{BufMut, BytesMut};

/// The most bytes of a varint of 32 bits.
pub(crate) const BYTES_MAX_32: usize = 5;

/// Folds the sign into the lowest bit, so that small negative numbers stay short.
pub(crate) const fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// Undoes [`zigzag`].
pub(crate) const fn unzigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}

/// Bytes of `number` as a varint. A number that fits into 32 bits is the same varint in either width.
pub(crate) const fn len(number: i64) -> usize {
    let bits = 64 - (zigzag(number) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Appends `number`.
pub(crate) fn put(buffer: &mut BytesMut, number: i64) {
    let mut rest = zigzag(number);
    while rest >= 0x80 {
        buffer.put_u8(rest as u8 | 0x80);
        rest >>= 7;
    }
    buffer.put_u8(rest as u8);
}

/// Reads a varint byte by byte; `None` if it has bits beyond `bits`, or more bytes than a number of so many needs.
///
/// An error of `next` ends it.
pub(crate) fn read<E>(
    bits: u32,
    mut next: impl FnMut() -> Result<u8, E>,
) -> Result<Option<i64>, E> {
    let mut number = 0_u64;
    let mut shift = 0;
    loop {
        let byte = next()?;
        let part = u64::from(byte & 0x7f);
        if bits - shift < 7 && part >> (bits - shift) != 0 {
            return Ok(None);
        }
        number |= part << shift;
        if byte < 0x80 {
            return Ok(Some(unzigzag(number)));
        }
        shift += 7;
        if shift >= bits {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(bits: u32, bytes: &[u8]) -> Result<Option<i64>, ()> {
        let mut bytes = bytes.iter();
        let number = read(bits, || bytes.next().copied().ok_or(()));
        assert!(
            bytes.next().is_none() || number != Ok(None) || bits < 64,
            "all bytes belong to it"
        );
        number
    }

    fn encoded(number: i64) -> BytesMut {
        let mut buffer = BytesMut::new();
        put(&mut buffer, number);
        buffer
    }

    #[test]
    fn known_encodings() {
        for (number, bytes) in [
            (0, &[0][..]),
            (-1, &[1]),
            (1, &[2]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (300, &[0xd8, 0x04]),
            (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
            (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        ] {
            assert_eq!(encoded(number), bytes, "{number}");
            assert_eq!(len(number), bytes.len(), "{number}");
            assert_eq!(read_all(64, bytes), Ok(Some(number)));
        }
    }

    #[test]
    fn too_many_bits_are_refused() {
        assert_eq!(read_all(32, &[0xff, 0xff, 0xff, 0xff, 0x1f]), Ok(None), "33 bits");
        assert_eq!(read_all(32, &[0x80, 0x80, 0x80, 0x80, 0x80]), Ok(None), "a sixth byte");
        assert_eq!(read_all(64, &[0xff; 10]), Ok(None), "an eleventh byte");
        assert_eq!(read_all(64, &[0x80, 0x80]), Err(()), "cut short");
    }

    proptest! {
        #[test]
        fn any_number_comes_back(number: i64, short: i32) {
            for (number, bits) in [(number, 64), (i64::from(short), 64), (i64::from(short), 32)] {
                let buffer = encoded(number);
                prop_assert_eq!(buffer.len(), len(number));
                prop_assert_eq!(read_all(bits, &buffer), Ok(Some(number)));
            }
        }
    }
}
