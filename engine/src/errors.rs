//! Every error of a log and of a store, and its fate: what it ends, and whether the same call may succeed later.
//!
//! An error ends one of three things. A *call*: nothing has changed, and everything else goes on. A *log*: it takes no more appends until
//! [`Store::reopen_log`](crate::store::Store::reopen_log) has recovered it; what is written of it is still read. A *directory*: nothing in it is changed any more, and the next
//! opening recovers. Directories share nothing: of several the others go on.
//!
//! | error | ends | what to do |
//! |---|---|---|
//! | `AppendError::StaleEpoch` | the call | somebody else leads |
//! | `AppendError::TooLarge` | the call | smaller batches |
//! | `AppendError::OutOfSpace` | the call, for now | again, when there is room |
//! | `AppendError::OutOfDescriptors` | the call, for now | again, when files were closed |
//! | `AppendError::Producer` | the call | as KIP-98 has it |
//! | `AppendError::Busy` | the call, for now | again, after a turn of the driver |
//! | `AppendError::Truncating` | the call, for now | again, when the cut has ended |
//! | `AppendError::OffsetsExhausted` | the call | another log |
//! | `AppendError::Closed` | as `Closed` | |
//! | `ReplicaAppendError::BelowEnd` | the call | fetch from the end, or cut |
//! | `ReplicaAppendError::TooLarge` | the call | a greater `StoreConfig::batch_bytes_max` |
//! | `ReplicaAppendError::OutOfSpace` | the call, for now | again, when there is room |
//! | `ReplicaAppendError::OutOfDescriptors` | the call, for now | again, when files were closed |
//! | `ReplicaAppendError::Busy` | the call, for now | again, after a turn of the driver |
//! | `ReplicaAppendError::Truncating` | the call, for now | again, when the cut has ended |
//! | `ReplicaAppendError::Closed` | as `Closed` | |
//! | `BeginEpochError::Stale` | the call | somebody else leads |
//! | `BeginEpochError::OutOfSpace` | the call, for now | again, when there is room; the epoch has not begun |
//! | `BeginEpochError::OutOfDescriptors` | the call, for now | again, when files were closed; the epoch has not begun |
//! | `BeginEpochError::Truncating` | the call, for now | again, when the cut has ended |
//! | `BeginEpochError::Closed` | as `Closed` | |
//! | `TicketError::Truncated` | the call | what was waited for is gone |
//! | `TicketError::Closed` | as `Closed` | |
//! | `TicketError::OutOfSpace` | the call, for now | wait again, when there is room |
//! | `TicketError::OutOfDescriptors` | the call, for now | wait again, when files were closed |
//! | `TicketError::UnknownLog` | the call | the log was deleted, or opened again under another id |
//! | `ReadError::OutOfRange` | the call | another offset |
//! | `ReadError::Damaged` | the call | read behind the range; repair it from somebody who has it |
//! | `ReadError::Io` | the call | the range is not to be had here; read it from somebody who has it |
//! | `ReadError::Closed` | as `Closed` | |
//! | `Closed::WriteFailed` | the log | open it again, under a new epoch |
//! | `Closed::CutFailed` | the log | open it again, and cut it again |
//! | `Closed::FileExchanged` | the log | find out who did it, and open it again |
//! | `Closed::Panicked` | the log | open it again, under a new epoch; report the panic |
//! | `Closed::StoreFailed` | the directory | see [`Store::failure`](crate::store::Store::failure) |
//! | `Closed::Deleted` | the log | it was asked for |
//! | `Closed::StoreClosed` | the directory | it was asked for |
//! | `CreateLogError::Exists` | the call | take the one that is there |
//! | `CreateLogError::LeftAlone` | the call | [`Store::reopen_log`](crate::store::Store::reopen_log) |
//! | `CreateLogError::Deleting` | the call, for now | again, when the job is done |
//! | `CreateLogError::OutOfSpace` | the call, for now | again, when there is room |
//! | `CreateLogError::OutOfDescriptors` | the call, for now | again, when files were closed |
//! | `CreateLogError::Failed` | the directory | |
//! | `CreateLogError::Io` | the call, for now | again, when the cause is gone |
//! | `SetConfigError::UnknownLog` | the call | |
//! | `JobError::UnknownLog` | the call | |
//! | `JobError::Truncating` | the call, for now | again, when the cut has ended |
//! | `JobError::Closed` | as `Closed` | |
//! | `JobError::AboveEnd` | the call | another offset |
//! | `JobError::Damaged` | as `ReadError` | |
//! | `JobError::NotRepaired` | as `RepairRefusal` | |
//! | `JobError::NotReopened` | as `ReopenLogError` | |
//! | `JobError::OutOfSpace` | the call, for now | again, when there is room; a cut that had begun has closed the log |
//! | `JobError::OutOfDescriptors` | the call, for now | again, when files were closed; as before |
//! | `JobError::Io` | the directory | |
//! | `JobError::NotCompacted` | as `CompactionRefusal` | |
//! | `CompactionRefusal::LegacyFormat` | the call | the records, copied into another log |
//! | `CompactionRefusal::Unclear` | the call | a repair of the batch, from a replica that has it whole |
//! | `CompactionRefusal::TooLarge` | the call | |
//! | `RepairRefusal::NotInOneSegment` | the call | smaller ranges |
//! | `RepairRefusal::OtherOffsets` | the call | the batches of exactly this range |
//! | `RepairRefusal::Across` | the call | the whole of what lies across |
//! | `RepairRefusal::OtherEpoch` | the call | somebody else's batches |
//! | `RepairRefusal::TooLarge` | the call | |
//! | `RepairRefusal::OutOfSpace` | the call, for now | again, when there is room |
//! | `LogRefusal::NotUnderstood` | the log | finish what another program has begun |
//! | `LogRefusal::Unreadable` | the log | open it again, when the medium gives its bytes |
//! | `LogRefusal::OutOfSpace` | the log | open it again, when there is room |
//! | `LogRefusal::OutOfDescriptors` | the log | open it again, when files were closed |
//! | `ReopenLogError::Refused` | as `LogRefusal` | |
//! | `ReopenLogError::Failed` | the directory | |
//! | `StoreOpenError::Lock` | as `LockError` | |
//! | `StoreOpenError::OutOfSpace` | the call, for now | again, when there is room |
//! | `StoreOpenError::OutOfDescriptors` | the call, for now | again, when files were closed |
//! | `StoreOpenError::Io` | the directory | mend what the system complains of |
//! | `LockError::Held` | the call, for now | again, when the other process has ended |
//! | `LockError::Io` | the directory | mend what the system complains of |
//! | `ReadOnlyError::NoSuchLog` | the call | |
//! | `ReadOnlyError::Refused` | the call, for now | again: it may be a moment's state of the one who writes |
//! | `ReadOnlyError::Unsettled` | the call, for now | again |
//! | `ReadOnlyError::Io` | the call, for now | again, when the cause is gone |
//! | `ReadOnlyReadError::Changed` | the call, for now | look again, and then read |
//! | `ReadOnlyReadError::Read` | as `ReadError` | |
//! | `CloseError::Failed` | the directory | |
//! | `CloseError::Closed` | the call | |
//! | `CloseError::LogClosed` | the directory | the stop is unclean; the next opening recovers |
//! | `CloseError::Damaged` | the directory | the same |
//! | `CloseError::OutOfSpace` | the directory | the same; nothing is lost |
//! | `CloseError::OutOfDescriptors` | the directory | the same; nothing is lost |
//! | `CloseError::Io` | the directory | the same |
//!
//! Doors that give the system's error as it is ([`Store::set_topic_id`](crate::store::Store::set_topic_id),
//! [`Store::confirm_incarnation`](crate::store::Store::confirm_incarnation), [`Store::read_offset_checkpoint`](crate::store::Store::read_offset_checkpoint)
//! and [`Store::wake_descriptor`](crate::store::Store::wake_descriptor)) end the call alone. What is wrong with a batch ends the call
//! that brought it. Of the small files of a directory none is missed for good: one that is damaged, or whose bytes the medium does not give,
//! says nothing, and what it would have said is derived; one that may not be read is [`StoreOpenError::Io`], and so are those of
//! recovery points and log starts where the medium does not give them, because nothing else says what was synced and what was deleted.

use crate::disk::LockError;
use crate::log::{AppendError, BeginEpochError, Closed, ReadError, ReplicaAppendError, TicketError};
use crate::store::{
    CloseError, CompactionRefusal, CreateLogError, JobError, LogRefusal, ReadOnlyError, ReadOnlyReadError,
    ReopenLogError, RepairRefusal, SetConfigError, StoreOpenError,
};

/// What an error ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// This call, and the same call again. Nothing has changed.
    Call,
    /// This call. The same one may succeed later, by itself: when there is room, say. Nothing has changed.
    CallForNow,
    /// This log takes no more appends until it is opened again. Its directory goes on.
    Log,
    /// This directory. Other directories go on.
    Directory,
}

impl AppendError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::StaleEpoch { .. }
            | Self::TooLarge { .. }
            | Self::Producer(_)
            | Self::OffsetsExhausted { .. } => Fate::Call,
            Self::OutOfSpace { .. } | Self::OutOfDescriptors | Self::Busy { .. } | Self::Truncating => {
                Fate::CallForNow
            }
            Self::Closed(why) => why.fate(),
        }
    }
}

impl ReplicaAppendError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::BelowEnd { .. } | Self::TooLarge { .. } => Fate::Call,
            Self::OutOfSpace { .. } | Self::OutOfDescriptors | Self::Busy { .. } | Self::Truncating => {
                Fate::CallForNow
            }
            Self::Closed(why) => why.fate(),
        }
    }
}

impl BeginEpochError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::Stale { .. } => Fate::Call,
            Self::OutOfSpace | Self::OutOfDescriptors | Self::Truncating => Fate::CallForNow,
            Self::Closed(why) => why.fate(),
        }
    }
}

impl TicketError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::Truncated | Self::UnknownLog => Fate::Call,
            Self::OutOfSpace | Self::OutOfDescriptors => Fate::CallForNow,
            Self::Closed(why) => why.fate(),
        }
    }
}

impl ReadError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::OutOfRange { .. } | Self::Damaged { .. } | Self::Io { .. } => Fate::Call,
            Self::Closed(why) => why.fate(),
        }
    }
}

impl Closed {
    /// What it means for more than the call.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::WriteFailed | Self::CutFailed | Self::FileExchanged | Self::Panicked | Self::Deleted => {
                Fate::Log
            }
            Self::StoreFailed | Self::StoreClosed => Fate::Directory,
        }
    }
}

impl CreateLogError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::Exists { .. } | Self::LeftAlone { .. } => Fate::Call,
            Self::Deleting { .. }
            | Self::OutOfSpace { .. }
            | Self::OutOfDescriptors { .. }
            | Self::Io { .. } => Fate::CallForNow,
            Self::Failed(_) => Fate::Directory,
        }
    }
}

impl SetConfigError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::UnknownLog => Fate::Call,
        }
    }
}

impl JobError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::UnknownLog | Self::AboveEnd { .. } => Fate::Call,
            Self::Truncating | Self::OutOfSpace { .. } | Self::OutOfDescriptors { .. } => Fate::CallForNow,
            Self::Closed(why) => why.fate(),
            Self::Damaged(error) => error.fate(),
            Self::NotRepaired(refusal) => refusal.fate(),
            Self::NotCompacted(refusal) => refusal.fate(),
            Self::NotReopened(error) => error.fate(),
            Self::Io { .. } => Fate::Directory,
        }
    }
}

impl CompactionRefusal {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::LegacyFormat { .. } | Self::Unclear { .. } | Self::TooLarge { .. } => Fate::Call,
        }
    }
}

impl RepairRefusal {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::NotInOneSegment { .. }
            | Self::OtherOffsets { .. }
            | Self::Across { .. }
            | Self::OtherEpoch { .. }
            | Self::TooLarge { .. } => Fate::Call,
            Self::OutOfSpace { .. } => Fate::CallForNow,
        }
    }
}

impl LogRefusal {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::NotUnderstood(_)
            | Self::Unreadable { .. }
            | Self::OutOfSpace { .. }
            | Self::OutOfDescriptors { .. } => Fate::Log,
        }
    }
}

impl ReopenLogError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::Refused(refusal) => refusal.fate(),
            Self::Failed(_) => Fate::Directory,
        }
    }
}

impl StoreOpenError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::Lock(error) => error.fate(),
            Self::OutOfSpace { .. } | Self::OutOfDescriptors { .. } => Fate::CallForNow,
            Self::Io { .. } => Fate::Directory,
        }
    }
}

impl LockError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::Held { .. } => Fate::CallForNow,
            Self::Io { .. } => Fate::Directory,
        }
    }
}

impl ReadOnlyError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::NoSuchLog { .. } => Fate::Call,
            Self::Refused { .. } | Self::Unsettled { .. } | Self::Io { .. } => Fate::CallForNow,
        }
    }
}

impl ReadOnlyReadError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::Changed => Fate::CallForNow,
            Self::Read(error) => error.fate(),
        }
    }
}

impl CloseError {
    /// What the error ends.
    pub const fn fate(&self) -> Fate {
        match self {
            Self::Closed => Fate::Call,
            Self::Failed(_)
            | Self::LogClosed { .. }
            | Self::Damaged(_)
            | Self::OutOfSpace { .. }
            | Self::OutOfDescriptors { .. }
            | Self::Io { .. } => Fate::Directory,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// The product's part of this file: the matches above have to name every variant, or they do not compile.
    fn source() -> &'static str {
        include_str!("errors.rs").split("#[cfg(test)]").next().unwrap()
    }

    /// Each variant that a match names, with what is made of it.
    fn named() -> BTreeSet<(String, &'static str)> {
        let mut found = BTreeSet::new();
        for part in source().split("\nimpl ").skip(1) {
            let (name, body) = part.split_once(" {").unwrap();
            let mut open = Vec::new();
            for word in body.split(|c: char| !(c.is_alphanumeric() || c == ':' || c == '.')) {
                let is_end = word.starts_with("Fate::") || word.split('.').next_back() == Some("fate");
                if let Some(variant) = word.strip_prefix("Self::") {
                    open.push(format!("{name}::{variant}"));
                } else if is_end {
                    let ends = match word {
                        "Fate::Call" => "the call",
                        "Fate::CallForNow" => "the call, for now",
                        "Fate::Log" => "the log",
                        "Fate::Directory" => "the directory",
                        _ => "as",
                    };
                    found.extend(open.drain(..).map(|variant| (variant, ends)));
                }
            }
            assert!(open.is_empty(), "{name}: {open:?}");
        }
        found
    }

    #[test]
    fn the_table_has_each_error_with_its_fate() {
        let rows = source().lines().filter_map(|line| line.strip_prefix("//! | `"));
        let rows: BTreeSet<(String, &str)> = rows
            .map(|row| {
                let (variant, rest) = row.split_once("` | ").unwrap();
                let ends = rest.split(" | ").next().unwrap();
                // A refusal that another error wraps has that one's fate.
                let ends = if ends.starts_with("as ") { "as" } else { ends };
                (variant.to_owned(), ends)
            })
            .collect();
        let named = named();
        assert!(named.len() > 60, "{}", named.len());
        let missing: Vec<_> = named.difference(&rows).collect();
        let stale: Vec<_> = rows.difference(&named).collect();
        assert!(
            missing.is_empty() && stale.is_empty(),
            "not in the table: {missing:?}; wrong in the table: {stale:?}"
        );
    }
}
