//! Writes the primitive types of Kafka's protocol, and hands a frame over in parts, records uncopied.
//!
//! It refuses to know which message it is writing.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes from this length on become a part of their own; below it, copying costs less than another entry of a `writev`.
const PART_BYTES_MIN: usize = 1024;

/// A message that Kafka's protocol cannot carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// Versions that are not flexible have strings of at most 32,767 bytes.
    #[error("a string of {bytes} bytes; this version allows 32,767")]
    StringTooLong {
        /// Its length.
        bytes: usize,
    },
    /// A length, or the whole frame, beyond 31 bits.
    #[error("{bytes} bytes or elements; the protocol's lengths have 31 bits")]
    LengthTooLarge {
        /// The length.
        bytes: usize,
    },
}

/// A frame that is being written.
#[derive(Debug, Default)]
pub(super) struct Writer {
    /// All bytes but those of the parts that were set aside.
    buffer: BytesMut,
    /// Parts that were not copied, each with the position in `buffer` before which it belongs.
    uncopied: Vec<(usize, Bytes)>,
    fault: Option<EncodeError>,
}

impl Writer {
    /// Appends bytes as they are.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.buffer.put_slice(bytes);
    }

    /// Appends bytes, without copying them if they are many.
    pub(super) fn put_part(&mut self, bytes: &Bytes) {
        if bytes.len() < PART_BYTES_MIN {
            self.put(bytes);
        } else {
            self.uncopied.push((self.buffer.len(), bytes.clone()));
        }
    }

    /// Appends an unsigned varint.
    pub(super) fn unsigned_varint(&mut self, mut value: u32) {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                return self.buffer.put_u8(low & 0x7f);
            }
            self.buffer.put_u8(low | 0x80);
        }
    }

    /// Appends a compact length; `None` is null.
    pub(super) fn compact_length(&mut self, length: Option<usize>) {
        let length = length.map_or(0, |length| self.length(length).saturating_add(1));
        self.unsigned_varint(length.unsigned_abs());
    }

    /// Appends a classic length of four bytes; `None` is null.
    pub(super) fn classic_length(&mut self, length: Option<usize>) {
        let length = length.map_or(-1, |length| self.length(length));
        self.buffer.put_i32(length);
    }

    /// Appends the classic length of a string, of two bytes; `None` is null.
    pub(super) fn string_length(&mut self, length: Option<usize>) {
        let length = length.map_or(-1, |bytes| {
            i16::try_from(bytes).unwrap_or_else(|_| {
                self.fault.get_or_insert(EncodeError::StringTooLong { bytes });
                0
            })
        });
        self.buffer.put_i16(length);
    }

    fn length(&mut self, bytes: usize) -> i32 {
        i32::try_from(bytes).unwrap_or_else(|_| {
            self.fault.get_or_insert(EncodeError::LengthTooLarge { bytes });
            0
        })
    }

    /// Appends a tagged field: its tag, its length, its content.
    pub(super) fn tagged(&mut self, tag: u32, write: impl FnOnce(&mut Self)) {
        let mut content = Self::default();
        write(&mut content);
        if let Some(fault) = content.fault.take() {
            self.fault.get_or_insert(fault);
        }
        self.unsigned_varint(tag);
        let bytes = self.length(content.len());
        self.unsigned_varint(bytes.unsigned_abs());
        for part in content.into_parts() {
            self.put(&part);
        }
    }

    /// Ends what is no frame: all its bytes in one piece.
    pub(super) fn finish(self) -> Result<Bytes, EncodeError> {
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(self.into_parts().concat().into()),
        }
    }

    fn len(&self) -> usize {
        self.buffer.len() + self.uncopied.iter().map(|(_, part)| part.len()).sum::<usize>()
    }

    fn into_parts(self) -> Vec<Bytes> {
        let mut rest = self.buffer.freeze();
        let mut parts = Vec::with_capacity(2 * self.uncopied.len() + 1);
        let mut written = 0;
        for (position, part) in self.uncopied {
            if position > written {
                parts.push(rest.split_to(position - written));
                written = position;
            }
            parts.push(part);
        }
        if !rest.is_empty() {
            parts.push(rest);
        }
        parts
    }

    /// Starts a frame: leaves room for its length.
    pub(super) fn frame() -> Self {
        let mut writer = Self::default();
        writer.buffer.put_i32(0);
        writer
    }

    /// Ends a frame that [`Writer::frame`] began: fills in its length, and gives its parts in order.
    pub(super) fn finish_frame(mut self) -> Result<Vec<Bytes>, EncodeError> {
        let length = self.len().saturating_sub(4);
        let length = self.length(length);
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        if let Some(room) = self.buffer.first_chunk_mut::<4>() {
            *room = length.to_be_bytes();
        }
        Ok(self.into_parts())
    }
}
