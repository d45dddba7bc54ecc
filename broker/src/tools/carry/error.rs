//! Why a partition is not carried over, and what to do about it.

use std::io;
use std::path::PathBuf;

use highwater_engine::disk::LockError;
use highwater_engine::store::{ReadOnlyError, ReadOnlyReadError};
use highwater_engine::units::{Offset, TopicPartition};

use super::System;

/// Why nothing was done, or not all of it. Where nothing else is said, nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(private_interfaces, reason = "whose directory it is is shown, and decided by nobody outside")]
pub enum CarryError {
    /// The path is no partition's directory.
    #[error("{path} is not the directory of a partition, as data/orders-0")]
    NotAPartition {
        /// The path.
        path: PathBuf,
    },
    /// The topic belongs to its cluster.
    #[error("{name} cannot be carried over: {why}")]
    Internal {
        /// The partition.
        name: TopicPartition,
        /// Why, and what to do instead.
        why: &'static str,
    },
    /// A broker runs.
    #[error("{0}; stop the broker first, its logs are not at rest")]
    InUse(LockError),
    /// The lock could not be taken.
    #[error(transparent)]
    Lock(LockError),
    /// The directory is the other side's.
    #[error(
        "{path} is {found} data directory, not {wanted}; import goes from a Kafka to Highwater, export the other way"
    )]
    OtherSystem {
        /// The data directory.
        path: PathBuf,
        /// Whose it is.
        found: System,
        /// Whose it should be.
        wanted: System,
    },
    /// No broker has ever used the directory.
    #[error(
        "{path} has no meta.properties that can be read ({why}); start a broker on it once, and make the topic"
    )]
    NotFormatted {
        /// The data directory.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Somebody else's files.
    #[error(
        "{path} belongs to user {owner} and this is user {user}; run it as the user that the broker runs as"
    )]
    OtherUser {
        /// The data directory.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs this.
        user: u32,
    },
    /// The topic is not there.
    #[error(
        "{path} has no {name} with a topic id; make the topic with as many partitions, on a running broker, stop it, and try again"
    )]
    NoTopic {
        /// The data directory.
        path: PathBuf,
        /// The partition.
        name: TopicPartition,
    },
    /// Something is there.
    #[error("{path} has records from {start} to {end}; --replace lets them go")]
    NotEmpty {
        /// The partition's directory.
        path: PathBuf,
        /// Its start.
        start: Offset,
        /// Its end.
        end: Offset,
    },
    /// Not replicas of one partition.
    #[error("{one} and {other} are not replicas of one partition: {why}")]
    NotReplicas {
        /// A data directory.
        one: PathBuf,
        /// Another one.
        other: PathBuf,
        /// What differs, or does not.
        why: &'static str,
    },
    /// A replica would be left behind.
    #[error(
        "{path} holds a replica as well; give --into {path} too: as long as it lacks the records, it has the others cut when it leads"
    )]
    ReplicaLeftOut {
        /// Its data directory.
        path: PathBuf,
    },
    /// The beginning is elsewhere.
    #[error(
        "{name} begins at {start}, and its first segment here at {first}: what lies between is in remote storage, or lost; \
         have Kafka bring it back, or raise the start with kafka-delete-records"
    )]
    Remote {
        /// The partition.
        name: TopicPartition,
        /// Its start.
        start: Offset,
        /// The first offset that is here.
        first: Offset,
    },
    /// Records cannot be read.
    #[error("{name} has damaged offsets: {ranges}; carry over another replica")]
    Damaged {
        /// The partition.
        name: TopicPartition,
        /// Which offsets.
        ranges: String,
    },
    /// Nobody on the other side can end it.
    #[error(
        "{name} has an open transaction from offset {first} on, which nobody could end on the other side; end it first, with \
         kafka-transactions abort"
    )]
    OpenTransaction {
        /// The partition.
        name: TopicPartition,
        /// Where it begins.
        first: Offset,
    },
    /// A small file cannot be changed because nobody knows what it says.
    #[error(
        "{path} cannot be believed ({why}); start the broker once, so that it writes it anew, and stop it"
    )]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Bytes of the source are no batch.
    #[error("{name} at offset {at}: {why}")]
    NoBatch {
        /// The partition.
        name: TopicPartition,
        /// Where.
        at: Offset,
        /// Why.
        why: String,
    },
    /// The source cannot be looked at.
    #[error(transparent)]
    Look(#[from] ReadOnlyError),
    /// The source cannot be read.
    #[error(transparent)]
    Read(#[from] ReadOnlyReadError),
    /// A file could not be read or written. What a copy has left is removed by the next start of a broker.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl From<LockError> for CarryError {
    fn from(error: LockError) -> Self {
        if matches!(error, LockError::Held { .. }) { Self::InUse(error) } else { Self::Lock(error) }
    }
}

impl CarryError {
    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
