//! Zigzag LEB128 integers, as records use them: at most 5 bytes for an `i32`, 10 for an `i64`.
//!
//! Longer spellings of a small number within those bounds are accepted, as Kafka accepts them.

use super::RecordDamage;

/// Where a record's bytes come from: a slice, or a stream that is decompressed on the way and not kept.
pub(super) trait Source {
    /// What is left of bytes that were taken.
    type Taken;

    /// The next byte.
    fn byte(&mut self) -> Result<u8, RecordDamage>;

    /// The next `count` bytes. Nothing is allocated by `count`.
    fn take(&mut self, count: usize) -> Result<Self::Taken, RecordDamage>;

    /// How many bytes were consumed.
    fn position(&self) -> u64;

    /// How many are left, if that is known.
    fn remaining(&self) -> Option<usize>;

    /// Whether none is left; a stream has to be read on to know.
    fn at_end(&mut self) -> Result<bool, RecordDamage>;

    /// A varint of at most 5 bytes.
    #[inline]
    fn varint(&mut self) -> Result<i32, RecordDamage> {
        let mut raw = u32::from(self.byte()?);
        if raw >= 0x80 {
            raw &= 0x7f;
            for shift in [7, 14, 21, 28] {
                let byte = u32::from(self.byte()?);
                raw |= (byte & 0x7f) << shift;
                if byte < 0x80 {
                    return Ok(unzigzag_32(raw));
                }
            }
            return Err(RecordDamage::VarintTooLong);
        }
        Ok(unzigzag_32(raw))
    }

    /// A varint of at most 10 bytes.
    #[inline]
    fn varlong(&mut self) -> Result<i64, RecordDamage> {
        let mut raw = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = u64::from(self.byte()?);
            raw |= (byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(unzigzag_64(raw));
            }
        }
        Err(RecordDamage::VarintTooLong)
    }
}

const fn unzigzag_32(raw: u32) -> i32 {
    (raw >> 1).cast_signed() ^ -((raw & 1).cast_signed())
}

const fn unzigzag_64(raw: u64) -> i64 {
    (raw >> 1).cast_signed() ^ -((raw & 1).cast_signed())
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// Bytes in memory as a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct SliceSource<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> SliceSource<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// From `start` to where the source is now.
    pub(super) fn since(&self, start: u64) -> &'a [u8] {
        let start = usize::try_from(start).unwrap_or(self.at);
        self.bytes.get(start..self.at).unwrap_or_default()
    }
}

impl<'a> Source for SliceSource<'a> {
    type Taken = &'a [u8];

    #[inline]
    fn byte(&mut self) -> Result<u8, RecordDamage> {
        let byte = *self.bytes.get(self.at).ok_or(RecordDamage::EndsEarly)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn take(&mut self, count: usize) -> Result<&'a [u8], RecordDamage> {
        let end = self.at.checked_add(count).ok_or(RecordDamage::EndsEarly)?;
        let taken = self.bytes.get(self.at..end).ok_or(RecordDamage::EndsEarly)?;
        self.at = end;
        Ok(taken)
    }

    fn position(&self) -> u64 {
        self.at as u64
    }

    fn remaining(&self) -> Option<usize> {
        Some(self.bytes.len() - self.at)
    }

    fn at_end(&mut self) -> Result<bool, RecordDamage> {
        Ok(self.at == self.bytes.len())
    }
}

/// How many bytes the number takes.
#[inline]
pub(super) const fn varint_bytes(value: i64) -> usize {
    let raw = zigzag(value);
    if raw < 0x80 {
        return 1;
    }
    (64 - raw.leading_zeros() as usize).div_ceil(7)
}

/// The most bytes that a number of 64 bits, or of 32, takes.
pub(super) const LONG_BYTES_MAX: usize = 10;
pub(super) const INT_BYTES_MAX: usize = 5;

/// A few numbers and single bytes, spelled one behind the other in place: to append them to a buffer one at a time would cost more than to
/// spell them. The caller has seen to it that there is room for them.
#[derive(Debug)]
pub(super) struct Spelling<const ROOM: usize> {
    bytes: [u8; ROOM],
    length: usize,
}

impl<const ROOM: usize> Spelling<ROOM> {
    /// So many zeros.
    #[inline]
    pub(super) const fn zeros(length: usize) -> Self {
        Self { bytes: [0; ROOM], length }
    }

    /// Adds a byte.
    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes[self.length] = byte;
        self.length += 1;
    }

    /// Adds a number.
    #[inline]
    pub(super) fn varint(&mut self, value: i64) {
        let mut raw = zigzag(value);
        while raw >= 0x80 {
            self.byte(raw.to_le_bytes()[0] | 0x80);
            raw >>= 7;
        }
        self.byte(raw.to_le_bytes()[0]);
    }

    /// What was spelled.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_take_what_was_reckoned() {
        for value in
            [0, 1, -1, 63, 64, -64, -65, 300, i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN]
        {
            let mut spelling = Spelling::<LONG_BYTES_MAX>::zeros(0);
            spelling.varint(value);
            let out = spelling.bytes();
            assert_eq!(out.len(), varint_bytes(value), "{value}");
            assert_eq!(SliceSource::new(out).varlong(), Ok(value));
            if let Ok(small) = i32::try_from(value) {
                assert!(out.len() <= INT_BYTES_MAX);
                assert_eq!(SliceSource::new(out).varint(), Ok(small));
            }
        }
    }

    #[test]
    fn overlong_and_cut_numbers_are_damage() {
        assert_eq!(SliceSource::new(&[0x80; 5]).varint(), Err(RecordDamage::VarintTooLong));
        assert_eq!(SliceSource::new(&[0x80; 10]).varlong(), Err(RecordDamage::VarintTooLong));
        assert_eq!(SliceSource::new(&[0x80; 4]).varint(), Err(RecordDamage::EndsEarly));
        assert_eq!(SliceSource::new(&[0x80; 9]).varlong(), Err(RecordDamage::EndsEarly));
        assert_eq!(SliceSource::new(&[0x82, 0x80, 0]).varint(), Ok(1), "Kafka accepts a longer spelling");
    }
}
