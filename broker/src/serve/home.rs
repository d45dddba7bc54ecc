//! `meta.properties`: whose data directory it is. A node refuses another's, and a cluster another cluster's.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use highwater_engine::checkpoint::{
    META_PROPERTIES, MetaProperties, Reading, read_properties, write_properties,
};
use highwater_engine::store::Store;
use highwater_engine::units::{NodeId, TopicId};
use highwater_replication::ids::BrokerEpoch;

/// The property that names the last session. It is shown nowhere: its lower half is what keeps others from fetching in its name.
pub(crate) const SESSION_PROPERTY: &str = "highwater.session";

/// Why a data directory is not this broker's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HomeError {
    /// The file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// What it says cannot be read.
    #[error("{path} is damaged ({why}); restore it: node.id, cluster.id and version=1 have to be in it")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It belongs to another node.
    #[error(
        "{path} says that this is the directory of broker {found}, not of broker {node}; give --id {found} or another --data DIR"
    )]
    OtherNode {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: NodeId,
        /// Who asked.
        node: NodeId,
    },
    /// It belongs to another cluster.
    #[error(
        "{path} belongs to cluster {found}, the controller's is {cluster}; join the right one, choose another --data DIR, or, if the \
         controller's state was lost, make a new one with `highwater controller rebuild`"
    )]
    OtherCluster {
        /// The file.
        path: PathBuf,
        /// Its cluster.
        found: String,
        /// The controller's.
        cluster: String,
    },
}

/// A data directory and whose it is.
#[derive(Clone, Debug)]
pub(super) struct Home {
    node: NodeId,
    directory: TopicId,
    /// What the file says; `None` as long as there is none.
    properties: Option<MetaProperties>,
}

impl Home {
    /// Reads whose the store's directory is. A new one is given an id, which is kept when the cluster is known.
    pub(super) fn read(store: &Store, node: NodeId, new_id: TopicId) -> Result<Self, HomeError> {
        let path = store.directory().join(META_PROPERTIES);
        match read_properties(store.disk().as_ref(), &path) {
            Ok(Reading::Known { value, .. }) if value.node != node => {
                Err(HomeError::OtherNode { path, found: value.node, node })
            }
            Ok(Reading::Known { value, .. }) => {
                Ok(Self { node, directory: value.directory.unwrap_or(new_id), properties: Some(value) })
            }
            Ok(Reading::Missing) => Ok(Self { node, directory: new_id, properties: None }),
            Ok(Reading::Damaged { why }) => Err(HomeError::Damaged { path, why: why.to_string() }),
            Err(source) => Err(HomeError::Io { path, source }),
        }
    }

    /// The cluster that it belongs to.
    pub(super) fn cluster_id(&self) -> Option<String> {
        Some(self.properties.as_ref()?.cluster.clone())
    }

    /// The directory's own id.
    pub(super) fn directory_id(&self) -> String {
        self.directory.to_string()
    }

    /// The last session that it says it had.
    pub(super) fn last_session(&self) -> Option<BrokerEpoch> {
        let session = self.properties.as_ref()?.others.get(SESSION_PROPERTY)?;
        session.parse().ok().and_then(BrokerEpoch::new)
    }

    /// A session with this cluster began: the directory is its from now on, and says so, so that an old state of the controller's is known
    /// by it. A crash leaves the old file or the new one.
    ///
    /// Where the directory is this cluster's already, that the file cannot be replaced ends nobody: a full disk still serves reads, and makes
    /// room. The error is given back; the file then names an older session until the next one begins.
    pub(super) fn bind(
        &mut self,
        store: &Store,
        cluster: &str,
        session: BrokerEpoch,
    ) -> Result<Option<io::Error>, HomeError> {
        let path = store.directory().join(META_PROPERTIES);
        let mut others = match &self.properties {
            Some(known) if known.cluster != cluster => {
                let found = known.cluster.clone();
                return Err(HomeError::OtherCluster { path, found, cluster: cluster.to_owned() });
            }
            Some(known) => known.others.clone(),
            None => BTreeMap::new(),
        };
        others.insert(SESSION_PROPERTY.to_owned(), session.value().to_string());
        let properties = MetaProperties {
            node: self.node,
            cluster: cluster.to_owned(),
            directory: Some(self.directory),
            others,
        };
        match write_properties(store.disk().as_ref(), &path, &properties) {
            Ok(()) => {
                self.properties = Some(properties);
                Ok(None)
            }
            Err(source) if self.properties.is_some() => Ok(Some(source)),
            Err(source) => Err(HomeError::Io { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use highwater_engine::disk::{PosixDisk, SyncThread};
    use highwater_engine::store::{Opened, StoreConfig};

    use super::*;
    use crate::clock::Clock;

    #[test]
    fn a_session_that_cannot_be_written_down_ends_nobody_who_belongs_to_the_cluster() {
        let directory = tempfile::tempdir().unwrap();
        let disk = Arc::new(PosixDisk::new(SyncThread::Never));
        let now = Clock::start().now();
        let Opened { store, .. } = Store::open(disk, directory.path(), StoreConfig::default(), now).unwrap();
        let mut home = Home::read(&store, NodeId::new(1).unwrap(), TopicId::new([7; 16]).unwrap()).unwrap();
        let session = |number| BrokerEpoch::of_session(number, 1);
        assert!(home.bind(&store, "AAAAAAAAAAAAAAAAAAAAAQ", session(1)).unwrap().is_none());
        // What has a file's name and is none cannot be replaced by one.
        let path = directory.path().join(META_PROPERTIES);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(home.bind(&store, "AAAAAAAAAAAAAAAAAAAAAQ", session(2)).unwrap().is_some());
        assert_eq!(home.last_session(), Some(session(1)));
        fs::remove_dir(&path).unwrap();
        assert!(home.bind(&store, "AAAAAAAAAAAAAAAAAAAAAQ", session(3)).unwrap().is_none());
        assert_eq!(home.last_session(), Some(session(3)));
        let other = home.bind(&store, "BAAAAAAAAAAAAAAAAAAAAQ", session(4));
        assert!(matches!(other, Err(HomeError::OtherCluster { .. })));
    }
}
