//! `highwater import` and `highwater export`: a partition of a Kafka into data directories of Highwater, and back. Both brokers are stopped;
//! the partition is there already on the side that gets it, made as an ordinary topic, and its directory is exchanged for a copy.
//!
//! ```text
//!   source, locked: every batch is read and checked ----> what would be done, and what is not carried over     (the dry run ends here)
//!   each target, locked:
//!     orders-0.0123...-delete   the copy, synced          a crash leaves what the next start removes
//!     orders-0 gets such a name too                       a crash leaves no log of this name
//!     the small files say where the copy begins and ends
//!     the copy gets the name orders-0, synced             from here on it is there, as a whole
//! ```
//! Nothing is moved and nothing of the source is changed. Every byte that a producer sent is kept; only leader epochs, which lie outside
//! the checksums and say which leader of which cluster has appended, are all 0 in the copy.

mod apply;
mod error;
mod plan;
mod source;
mod target;

use std::path::PathBuf;

pub use error::CarryError;
pub use plan::CarryPlan;

/// From whom to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From a Kafka to Highwater.
    Import,
    /// From Highwater to a Kafka.
    Export,
}

/// What is to be carried.
#[derive(Debug)]
pub struct Carry {
    /// From whom to whom.
    pub direction: Direction,
    /// The partition's directory, in the data directory of a broker that is stopped.
    pub from: PathBuf,
    /// The data directories of all brokers that hold a replica of it on the other side.
    pub into: Vec<PathBuf>,
    /// Whether records that are there may go.
    pub replace: bool,
    /// Whether offsets may be missing between segments, because the topic is compacted.
    pub compacted: bool,
}

/// Whose data directory it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    Kafka,
    Highwater,
}

impl Direction {
    const fn source(self) -> System {
        match self {
            Self::Import => System::Kafka,
            Self::Export => System::Highwater,
        }
    }

    const fn target(self) -> System {
        match self {
            Self::Import => System::Highwater,
            Self::Export => System::Kafka,
        }
    }
}

impl std::fmt::Display for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Kafka => "a Kafka's",
            Self::Highwater => "Highwater's",
        })
    }
}

#[cfg(test)]
mod carry_test;
