//! The names of the codecs. Knows numbers, not algorithms.

use std::fmt;

/// How the records of a batch are compressed (attributes, bits 0 to 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// One gzip member.
    Gzip,
    /// Snappy, in the framing of xerial's Java library or as one raw block (librdkafka).
    Snappy,
    /// One LZ4 frame.
    Lz4,
    /// One Zstandard frame.
    Zstd,
}

impl Compression {
    /// Every codec, in the order of its number.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The codec with this number; 5 to 7 name none.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The number, as the attributes carry it.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Whether this crate was built with it, by the feature of its name. Batches in a codec that is not built are kept and given out as they
    /// are, checked by their header and CRC; their records cannot be read or made.
    pub const fn is_built(self) -> bool {
        match self {
            Self::None => true,
            Self::Gzip => cfg!(feature = "gzip"),
            Self::Snappy => cfg!(feature = "snappy"),
            Self::Lz4 => cfg!(feature = "lz4"),
            Self::Zstd => cfg!(feature = "zstd"),
        }
    }

    /// The name, as Kafka's settings and tools write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
