//! Reads the primitive types of Kafka's protocol out of one frame, without copying records.
//!
//! Nothing here believes a length: each is held against the bytes that are there before anything is allocated. It refuses to know
//! which message it is reading.

use bytes::Bytes;

/// What all arrays of one message may take in memory together.
///
/// An element may be larger in memory than on the wire (an empty string is one byte there and 24 here), so bytes that are there do
/// not bound memory tightly enough. A response about 200,000 partitions stays below this.
pub const ARRAYS_BYTES_MAX: usize = 64 << 20;

/// Bytes that are not the message they should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{structure}.{field}, at byte {position} of the frame: {fault}")]
pub struct DecodeError {
    /// The structure that was read, or `frame`.
    pub structure: &'static str,
    /// Its field.
    pub field: &'static str,
    /// The position in the frame, behind its length.
    pub position: usize,
    /// What is wrong there.
    pub fault: DecodeFault,
}

/// What is wrong with a field's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeFault {
    /// The frame ends inside the field.
    #[error("{needed} bytes are needed and {left} are left")]
    Short {
        /// Bytes that the field needs.
        needed: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// Null, where this version has none.
    #[error("null is not allowed in this version")]
    Null,
    /// A length below zero that does not mean null.
    #[error("the length {length} is negative")]
    NegativeLength {
        /// The length.
        length: i64,
    },
    /// More elements than the bytes that are left can hold.
    #[error("{count} elements of at least {bytes_min} bytes do not fit into the {left} bytes that are left")]
    Count {
        /// Elements that were announced.
        count: usize,
        /// The least an element takes.
        bytes_min: usize,
        /// Bytes that are left.
        left: usize,
    },
    /// The message's arrays take more than [`ARRAYS_BYTES_MAX`] in memory.
    #[error("the arrays of the message take more than {ARRAYS_BYTES_MAX} bytes of memory")]
    ArraysTooLarge,
    /// A varint that does not end, or that ends beyond 32 bits.
    #[error("a varint of more than 32 bits")]
    Varint,
    /// A version that is not understood.
    #[error("version {version} is not understood")]
    Version {
        /// The version.
        version: i16,
    },
    /// A string that is not UTF-8.
    #[error("the string is not UTF-8")]
    Utf8,
}

impl DecodeError {
    /// Names the field in which the fault was met; the innermost name stays.
    #[must_use]
    pub(super) fn within(mut self, structure: &'static str, field: &'static str) -> Self {
        if self.structure.is_empty() {
            self.structure = structure;
            self.field = field;
        }
        self
    }
}

/// A position in a frame.
#[derive(Debug)]
pub(super) struct Reader {
    frame: Bytes,
    position: usize,
    /// Where reading must stop: the frame's end, or that of the tagged field that is being read.
    end: usize,
    arrays_bytes_left: usize,
}

impl Reader {
    /// Reads a frame from its start.
    pub(super) fn new(frame: Bytes) -> Self {
        let end = frame.len();
        Self { frame, position: 0, end, arrays_bytes_left: ARRAYS_BYTES_MAX }
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> usize {
        self.end.saturating_sub(self.position)
    }

    /// The error for a fault at this position.
    pub(super) fn fault(&self, fault: DecodeFault) -> DecodeError {
        DecodeError { structure: "", field: "", position: self.position, fault }
    }

    fn advance(&mut self, bytes: usize) -> Result<std::ops::Range<usize>, DecodeError> {
        if bytes > self.left() {
            return Err(self.fault(DecodeFault::Short { needed: bytes, left: self.left() }));
        }
        let start = self.position;
        self.position += bytes;
        Ok(start..self.position)
    }

    fn take(&mut self, bytes: usize) -> Result<&[u8], DecodeError> {
        let range = self.advance(bytes)?;
        Ok(self.frame.get(range).unwrap_or_default())
    }

    /// The next bytes, of a length that is known beforehand.
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// The next bytes as a slice of the frame, not copied.
    pub(super) fn slice(&mut self, bytes: usize) -> Result<Bytes, DecodeError> {
        let range = self.advance(bytes)?;
        Ok(self.frame.slice(range))
    }

    /// The next bytes as a string.
    pub(super) fn string(&mut self, bytes: usize) -> Result<String, DecodeError> {
        let fault =
            DecodeError { structure: "", field: "", position: self.position, fault: DecodeFault::Utf8 };
        std::str::from_utf8(self.take(bytes)?).map(str::to_owned).map_err(|_| fault)
    }

    /// An unsigned varint of at most 5 bytes.
    pub(super) fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let mut value = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).map_err(|_| self.fault(DecodeFault::Varint));
            }
        }
        Err(self.fault(DecodeFault::Varint))
    }

    /// The length of something compact: absent for null.
    pub(super) fn compact_length(&mut self) -> Result<Option<usize>, DecodeError> {
        Ok(self.unsigned_varint()?.checked_sub(1).map(|length| length as usize))
    }

    /// A classic length: absent for -1.
    pub(super) fn classic_length(&mut self, length: i64) -> Result<Option<usize>, DecodeError> {
        match length {
            -1 => Ok(None),
            _ => usize::try_from(length)
                .map(Some)
                .map_err(|_| self.fault(DecodeFault::NegativeLength { length })),
        }
    }

    /// Allows `count` elements of a type, or says why they cannot be there.
    pub(super) fn check_count<T>(&mut self, count: usize, bytes_min: usize) -> Result<(), DecodeError> {
        let left = self.left();
        if count.checked_mul(bytes_min.max(1)).is_none_or(|bytes| bytes > left) {
            return Err(self.fault(DecodeFault::Count { count, bytes_min, left }));
        }
        let bytes = count.saturating_mul(size_of::<T>());
        match self.arrays_bytes_left.checked_sub(bytes) {
            Some(left) => self.arrays_bytes_left = left,
            None => return Err(self.fault(DecodeFault::ArraysTooLarge)),
        }
        Ok(())
    }

    /// Reads the tagged fields at a structure's end; what `read` leaves of a field is skipped, and so are fields it does not know.
    pub(super) fn tagged(
        &mut self,
        mut read: impl FnMut(u32, &mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        for _ in 0..self.unsigned_varint()? {
            let tag = self.unsigned_varint()?;
            let bytes = self.unsigned_varint()? as usize;
            if bytes > self.left() {
                return Err(self.fault(DecodeFault::Short { needed: bytes, left: self.left() }));
            }
            let outer = self.end;
            self.end = self.position + bytes;
            read(tag, self)?;
            self.position = self.end;
            self.end = outer;
        }
        Ok(())
    }
}
