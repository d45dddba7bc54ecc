//! The durability ladder in types: the right to append, the steps, and the ticket for a place on it.

use crate::units::{LeaderEpoch, Offset, OffsetRange, Timestamp};

/// The right to append as a leader, and the epoch to stamp. The log's owner makes it, after its own checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    epoch: LeaderEpoch,
}

impl Permit {
    /// The right to append in this epoch.
    pub const fn new(epoch: LeaderEpoch) -> Self {
        Self { epoch }
    }

    /// The epoch that batches are stamped with.
    pub const fn epoch(self) -> LeaderEpoch {
        self.epoch
    }
}

/// What a ticket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// In the operating system: survives `kill -9`.
    Written,
    /// Synced: survives power loss.
    Durable,
}

/// Names a log within its store, for as long as the store is open; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogId(pub(crate) u32);

impl LogId {
    /// The number, for tables and events.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// A place in a log that can be waited for, on either [`Step`]. A small value without any claim on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    pub(crate) log: LogId,
    pub(crate) end: Offset,
    pub(crate) generation: u64,
}

impl Ticket {
    /// The log.
    pub const fn log(self) -> LogId {
        self.log
    }

    /// The place: everything below it is waited for.
    pub const fn end(self) -> Offset {
        self.end
    }

    /// Counts truncations; a ticket of an older generation is void.
    pub const fn generation(self) -> u64 {
        self.generation
    }
}

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The offsets of the records; for a duplicate those of the original. Empty if there was nothing to append.
    pub offsets: OffsetRange,
    /// For waiting until the records are written or durable.
    pub ticket: Ticket,
    /// Whether the batch was in the log already (KIP-98); nothing was appended then.
    pub duplicate: bool,
    /// The time that was stamped, where the log stamps append times.
    pub log_append_time: Option<Timestamp>,
}
