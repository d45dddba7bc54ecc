//! Record bytes of a response: read as one slice of a frame, written from as many pieces as a log gave.
//!
//! It refuses to look into the bytes.

use bytes::{Bytes, BytesMut};

/// The bytes of record batches, in one piece or several, never copied on their way.
#[derive(Clone, Debug, Default)]
pub struct Records {
    first: Bytes,
    rest: Vec<Bytes>,
}

impl Records {
    /// The bytes of all pieces.
    pub fn len(&self) -> usize {
        self.pieces().map(Bytes::len).sum()
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.pieces().all(Bytes::is_empty)
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// All bytes in one piece: copied only if there are several pieces. What came from a frame is one.
    pub fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        let mut whole = BytesMut::with_capacity(self.len());
        self.pieces().for_each(|piece| whole.extend_from_slice(piece));
        whole.freeze()
    }
}

impl From<Bytes> for Records {
    fn from(first: Bytes) -> Self {
        Self { first, rest: Vec::new() }
    }
}

impl From<Vec<Bytes>> for Records {
    fn from(mut pieces: Vec<Bytes>) -> Self {
        if pieces.is_empty() {
            return Self::default();
        }
        Self { first: pieces.remove(0), rest: pieces }
    }
}

/// Equal bytes, however they are cut.
impl PartialEq for Records {
    fn eq(&self, other: &Self) -> bool {
        self.pieces().flatten().eq(other.pieces().flatten())
    }
}

impl Eq for Records {}
