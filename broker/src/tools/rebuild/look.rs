//! What one broker's data directory says of the cluster. Changes nothing; the directory is locked for as long as it is looked at.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_engine::batch::scan;
use highwater_engine::checkpoint::{
    CLEAN_MARK, META_PROPERTIES, MetaProperties, PARTITION_METADATA, Reading, decode_clean_mark,
    decode_partition_metadata, read_properties,
};
use highwater_engine::disk::{DirectoryLock, Disk, LockError};
use highwater_engine::log::ReadError;
use highwater_engine::store::{ReadOnlyError, ReadOnlyLog, ReadOnlyReadError, ReadOnlyStore, StoreConfig};
use highwater_engine::units::{LeaderEpoch, ProducerId, TopicId, TopicPartition};
use highwater_replication::controller::{FoundBroker, FoundLog};
use highwater_replication::ids::BrokerEpoch;

use crate::serve::SESSION_PROPERTY;

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;

/// Why a directory cannot be made use of. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LookError {
    /// A broker, or a Kafka, has it.
    #[error("{0}; stop the whole cluster first")]
    InUse(LockError),
    /// It is nobody's.
    #[error("{path} is missing: it is no directory that a broker has had")]
    NoBroker {
        /// The file that would say whose it is.
        path: PathBuf,
    },
    /// Whose it is cannot be read.
    #[error("{path} is damaged ({why}); restore it: node.id, cluster.id and version=1 have to be in it")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// A file or directory could not be read.
    #[error("{path} cannot be read: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A log could not be looked at.
    #[error(transparent)]
    Look(#[from] ReadOnlyError),
    /// A log could not be read.
    #[error("{name} cannot be read: {source}")]
    Read {
        /// The log.
        name: TopicPartition,
        /// What stopped it.
        source: ReadOnlyReadError,
    },
}

/// A directory, what it says, and the lock that keeps it as it is.
#[derive(Debug)]
pub(super) struct Looked {
    pub(super) directory: PathBuf,
    pub(super) found: FoundBroker,
    _lock: Box<dyn DirectoryLock>,
}

pub(super) fn look(disk: &Arc<dyn Disk>, directory: &Path) -> Result<Looked, LookError> {
    let path = directory.join(META_PROPERTIES);
    // Before the lock, whose file would make a directory of a broker out of any other.
    let properties = match read_properties(disk.as_ref(), &path) {
        Ok(Reading::Known { value, .. }) => value,
        Ok(Reading::Missing) => return Err(LookError::NoBroker { path }),
        Ok(Reading::Damaged { why }) => return Err(LookError::Damaged { path, why: why.to_string() }),
        Err(source) => return Err(LookError::Io { path, source }),
    };
    let lock = disk.lock(directory).map_err(LookError::InUse)?;
    let store = ReadOnlyStore::open(disk, directory, StoreConfig::default())?;
    let mut logs = Vec::new();
    for name in store.names()? {
        logs.push(look_at_log(&store, name)?);
    }
    let found = FoundBroker {
        node: properties.node,
        session: session(directory, &properties)?,
        cluster_id: properties.cluster,
        directory: properties.directory.map(|id| id.to_string()),
        logs,
    };
    Ok(Looked { directory: directory.to_owned(), found, _lock: lock })
}

/// The last session that the directory names: its own note, or the mark of a clean stop.
fn session(directory: &Path, properties: &MetaProperties) -> Result<Option<BrokerEpoch>, LookError> {
    let noted = properties.others.get(SESSION_PROPERTY).and_then(|text| text.parse().ok());
    let marked = match read_file(&directory.join(CLEAN_MARK))? {
        Some(bytes) => match decode_clean_mark(&bytes) {
            Reading::Known { value, .. } => value.broker_epoch,
            Reading::Missing | Reading::Damaged { .. } => None,
        },
        None => None,
    };
    Ok(noted.into_iter().chain(marked).filter_map(BrokerEpoch::new).max())
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, LookError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LookError::Io { path: path.to_owned(), source }),
    }
}

fn look_at_log(store: &ReadOnlyStore, name: TopicPartition) -> Result<FoundLog, LookError> {
    let topic_id = topic_id(&store.directory().join(name.to_string()))?;
    let log = store.log(&name)?;
    let written = log.epochs().latest().map(|entry| entry.epoch);
    let mut found = FoundLog { partition: name, topic_id, epoch: written, producer_id: None };
    read_all(&log, &mut found)?;
    Ok(found)
}

fn topic_id(directory: &Path) -> Result<Option<TopicId>, LookError> {
    let Some(bytes) = read_file(&directory.join(PARTITION_METADATA))? else { return Ok(None) };
    Ok(match decode_partition_metadata(&bytes) {
        Reading::Known { value, .. } => Some(value),
        Reading::Missing | Reading::Damaged { .. } => None,
    })
}

/// Notes the highest epoch and producer id of all batches that can be read.
fn read_all(log: &ReadOnlyLog, found: &mut FoundLog) -> Result<(), LookError> {
    let mut next = log.start();
    loop {
        let records = match log.read(next, READ_BYTES) {
            Ok(Some(records)) => records,
            Ok(None) => return Ok(()),
            // What is damaged here is whole on another replica, or lost.
            Err(ReadOnlyReadError::Read(ReadError::Damaged { offsets: Some(range), .. }))
                if range.end() > next =>
            {
                next = range.end();
                continue;
            }
            Err(source) => return Err(LookError::Read { name: found.partition.clone(), source }),
        };
        next = records.end;
        let bytes = records.parts.concat();
        for (_, batch) in scan(&bytes, 0).map_while(Result::ok) {
            let header = batch.header();
            found.epoch = found.epoch.max(header.leader_epoch);
            found.producer_id = found.producer_id.max(header.producer_id.map(ProducerId::value));
        }
    }
}

/// The highest epoch of a log, for people.
pub(super) fn epoch_text(epoch: Option<LeaderEpoch>) -> String {
    epoch.map_or_else(|| "no epoch".to_owned(), |epoch| format!("epoch {epoch}"))
}
