//! A data directory that is to get the partition: whose it is, whether it is at rest, and what it has of the partition.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_engine::checkpoint::{
    META_PROPERTIES, MetaProperties, OffsetCheckpoint, PARTITION_METADATA, RECOVERY_POINTS, Reading,
    decode_offsets, decode_partition_metadata, read_properties,
};
use highwater_engine::disk::{DirectoryLock, Disk};
use highwater_engine::store::{ReadOnlyStore, StoreConfig};
use highwater_engine::units::{NodeId, Offset, TopicId, TopicPartition};

use super::{Carry, CarryError, System};

/// One target, locked.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) directory: PathBuf,
    pub(super) node: NodeId,
    pub(super) cluster: String,
    pub(super) topic_id: TopicId,
    /// What is there and goes.
    pub(super) there: (Offset, Offset),
    _lock: Box<dyn DirectoryLock>,
}

impl Target {
    pub(super) fn look(
        disk: &Arc<dyn Disk>,
        what: &Carry,
        into: &Path,
        name: &TopicPartition,
    ) -> Result<Self, CarryError> {
        let directory = std::fs::canonicalize(into).map_err(CarryError::io(into))?;
        refuse_another_user(&directory)?;
        let properties = properties_of(disk.as_ref(), &directory)?;
        let lock = disk.lock(&directory)?;
        let (found, wanted) = (system_of(&directory)?, what.direction.target());
        if found != wanted {
            return Err(CarryError::OtherSystem { path: directory, found, wanted });
        }
        let path = directory.join(name.to_string());
        let metadata = read_or_empty(&path.join(PARTITION_METADATA))?;
        let Some(topic_id) = decode_partition_metadata(&metadata).known() else {
            return Err(CarryError::NoTopic { path: directory, name: name.clone() });
        };
        let log = ReadOnlyStore::open(disk, &directory, StoreConfig::default())?.log(name)?;
        let there = (log.start(), log.end());
        if there.0 < there.1 && !what.replace {
            return Err(CarryError::NotEmpty { path, start: there.0, end: there.1 });
        }
        let MetaProperties { node, cluster, .. } = properties;
        Ok(Self { directory, node, cluster, topic_id, there, _lock: lock })
    }

    /// Whether both can be replicas of one partition.
    pub(super) fn check_beside(&self, other: &Self) -> Result<(), CarryError> {
        let why = if self.cluster != other.cluster {
            "they belong to different clusters"
        } else if self.node == other.node {
            "they belong to the same broker"
        } else if self.topic_id != other.topic_id {
            "they have topics of that name with different ids"
        } else {
            return Ok(());
        };
        let (one, other) = (self.directory.clone(), other.directory.clone());
        Err(CarryError::NotReplicas { one, other, why })
    }

    /// Data directories beside this one, of the same cluster, that hold the partition too: those of a cluster on one machine.
    pub(super) fn replicas_beside(&self, disk: &dyn Disk, name: &TopicPartition) -> Vec<PathBuf> {
        let Some(parent) = self.directory.parent() else { return Vec::new() };
        let Ok(entries) = disk.list(parent) else { return Vec::new() };
        let paths = entries.into_iter().map(|entry| parent.join(entry.name));
        let is_replica = |path: &PathBuf| {
            path.join(name.to_string()).is_dir()
                && cluster_of(disk, path).is_ok_and(|cluster| cluster == self.cluster)
        };
        paths.filter(is_replica).collect()
    }
}

fn refuse_another_user(directory: &Path) -> Result<(), CarryError> {
    let owner = std::fs::metadata(directory).map_err(CarryError::io(directory))?.uid();
    // Where there is no such file, nobody knows, and the broker will say that it cannot write.
    let user = std::fs::metadata("/proc/self").map_or(owner, |me| me.uid());
    if owner == user {
        Ok(())
    } else {
        Err(CarryError::OtherUser { path: directory.to_owned(), owner, user })
    }
}

fn properties_of(disk: &dyn Disk, directory: &Path) -> Result<MetaProperties, CarryError> {
    let path = directory.join(META_PROPERTIES);
    let not_formatted = |why: String| CarryError::NotFormatted { path: directory.to_owned(), why };
    match read_properties(disk, &path).map_err(CarryError::io(&path))? {
        Reading::Known { value, .. } => Ok(value),
        Reading::Missing => Err(not_formatted("there is none".to_owned())),
        Reading::Damaged { why } => Err(not_formatted(why.to_string())),
    }
}

/// The cluster that a data directory belongs to.
pub(super) fn cluster_of(disk: &dyn Disk, directory: &Path) -> Result<String, CarryError> {
    Ok(properties_of(disk, directory)?.cluster)
}

/// Whose a data directory is: ours has a guard in its checkpoints, from its first opening on.
pub(super) fn system_of(directory: &Path) -> Result<System, CarryError> {
    let bytes = read_or_empty(&directory.join(RECOVERY_POINTS))?;
    let ours = matches!(decode_offsets(&bytes), Reading::<OffsetCheckpoint>::Known { guarded: true, .. });
    Ok(if ours { System::Highwater } else { System::Kafka })
}

pub(super) fn read_or_empty(path: &Path) -> Result<Vec<u8>, CarryError> {
    match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(CarryError::io(path)),
    }
}
