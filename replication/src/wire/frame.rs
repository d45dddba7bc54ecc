//! Splits a stream of bytes into frames.
//!
//! A frame is four bytes of length and that many bytes. Memory grows with the bytes that have come, never by a length that was
//! announced. It refuses to read: the host fills [`FrameReader::space`].

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// A connection's first read, and its reads while little comes.
const SPACE_BYTES_MIN: usize = 4 << 10;
/// The most that is made room for at once.
const SPACE_BYTES_MAX: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;

/// A stream that is not frames; it cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A length below zero.
    #[error("a frame of negative length {length}")]
    Negative {
        /// The length.
        length: i32,
    },
    /// A length above what this stream may have.
    #[error("a frame of {bytes} bytes; {bytes_max} are allowed")]
    TooLarge {
        /// The length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
}

/// The bytes of one stream that are not yet a whole frame.
#[derive(Debug)]
pub struct FrameReader {
    /// Never split and never advanced, so that its capacity is all the memory that a frame made of it would hold.
    buffer: BytesMut,
    /// Where the frames begin that have not been given out.
    start: usize,
    frame_bytes_max: usize,
    /// How much room the next read is offered.
    space_bytes: usize,
    /// The buffer's length and the room when room was last offered.
    offered: (usize, usize),
}

impl FrameReader {
    /// For a stream whose frames have at most `frame_bytes_max` bytes.
    pub fn new(frame_bytes_max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            start: 0,
            frame_bytes_max,
            space_bytes: SPACE_BYTES_MIN,
            offered: (0, 0),
        }
    }

    /// Changes the limit, for frames of which the length has not been looked at yet.
    pub fn set_frame_bytes_max(&mut self, frame_bytes_max: usize) {
        self.frame_bytes_max = frame_bytes_max;
    }

    /// Bytes that wait to become a frame.
    pub fn buffered(&self) -> usize {
        self.waiting().len()
    }

    fn waiting(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Room for the next read, at most 64 KiB. A frame of which the length is known is read to its end and not beyond, so that a
    /// large one owns its memory alone.
    pub fn space(&mut self) -> Limit<&mut BytesMut> {
        self.note_read();
        self.drop_given_out();
        let missing = match self.announced() {
            Ok(Some(bytes)) => (LENGTH_BYTES + bytes).saturating_sub(self.buffer.len()),
            Ok(None) | Err(_) => 0,
        };
        let room = if missing == 0 { self.space_bytes } else { missing.min(self.space_bytes) };
        self.offered = (self.buffer.len(), room);
        self.buffer.reserve(room);
        (&mut self.buffer).limit(room)
    }

    /// Offers more room after a read that filled it, and little after one that did not need it.
    fn note_read(&mut self) {
        let (length, room) = std::mem::take(&mut self.offered);
        let came = self.buffer.len().saturating_sub(length);
        if room > 0 && came >= room {
            self.space_bytes = (self.space_bytes * 2).min(SPACE_BYTES_MAX);
        } else if came < room / 4 {
            self.space_bytes = SPACE_BYTES_MIN;
        }
    }

    /// Takes bytes that the host has already read elsewhere.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.drop_given_out();
        self.buffer.extend_from_slice(bytes);
    }

    /// Moves what waits to the front.
    fn drop_given_out(&mut self) {
        self.buffer.copy_within(self.start.., 0);
        self.buffer.truncate(self.buffer.len() - self.start);
        self.start = 0;
    }

    /// The length of the frame at the front, once its four bytes are there.
    fn announced(&self) -> Result<Option<usize>, FrameError> {
        let Some(length) = self.waiting().first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = i32::from_be_bytes(*length);
        let bytes = usize::try_from(length).map_err(|_| FrameError::Negative { length })?;
        if bytes > self.frame_bytes_max {
            return Err(FrameError::TooLarge { bytes, bytes_max: self.frame_bytes_max });
        }
        Ok(Some(bytes))
    }

    /// The next whole frame, without its length.
    ///
    /// It owns its memory alone, so that a batch in it can be stamped in place, and pins no more than twice its length.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        self.note_read();
        let Some(bytes) = self.announced()? else { return Ok(None) };
        let whole = LENGTH_BYTES + bytes;
        let Some(behind) = self.buffered().checked_sub(whole) else { return Ok(None) };
        let pins_little = self.start == 0 && self.buffer.capacity() <= whole.saturating_mul(2);
        let mut frame = if behind < whole && pins_little {
            let rest = BytesMut::from(self.buffer.get(whole..).unwrap_or_default());
            let mut frame = std::mem::replace(&mut self.buffer, rest);
            frame.truncate(whole);
            frame.freeze()
        } else {
            let frame = Bytes::copy_from_slice(self.waiting().get(..whole).unwrap_or_default());
            self.start += whole;
            frame
        };
        if behind == 0 {
            self.buffer = BytesMut::new();
            self.start = 0;
        }
        frame.advance(LENGTH_BYTES);
        Ok(Some(frame))
    }
}
