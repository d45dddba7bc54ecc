//! The changes of a cluster's state: each is one record of the controller's log, and the state is their sum.

use bytes::Bytes;
use highwater_engine::units::{NodeId, TopicId, TopicPartition};
use serde::{Deserialize, Serialize};

use super::state::{Broker, BrokerStatus, ClusterState, FORMAT_VERSION, PartitionState, Topic};

/// One change. It says what is from now on, not what was done, so that applying it needs no rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// The first change of every cluster.
    ClusterCreated {
        /// The format of the changes that follow.
        format: u32,
        /// The cluster's id.
        cluster_id: String,
    },
    /// The first change of a cluster whose state was lost and is made anew out of what its brokers have.
    Rebuilt {
        /// All of it; its version is 0.
        state: Box<ClusterState>,
    },
    /// A broker registered; its earlier session is over.
    SessionBegan {
        /// Which.
        node: NodeId,
        /// As it registered.
        broker: Broker,
    },
    /// A broker's part in the cluster changed within its session.
    BrokerChanged {
        /// Which.
        node: NodeId,
        /// Its status from now on.
        status: BrokerStatus,
    },
    /// A topic was created.
    TopicCreated {
        /// Its name.
        name: String,
        /// All of it.
        topic: Topic,
    },
    /// A topic was deleted.
    TopicDeleted {
        /// Its name.
        name: String,
        /// Its id, so that a topic made again under the name is not meant.
        id: TopicId,
    },
    /// A partition has another state.
    PartitionChanged {
        /// Which.
        partition: TopicPartition,
        /// All of it.
        state: PartitionState,
    },
    /// Producer ids below this one are granted.
    ProducerIdsGranted {
        /// The first that is still free.
        next: i64,
    },
}

/// Why a change or a snapshot cannot be believed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// Written by a newer program.
    #[error(
        "the controller's state has format {found}; this program reads up to {FORMAT_VERSION}: use the newer program"
    )]
    NewerFormat {
        /// The format that was found.
        found: u32,
    },
    /// Not the JSON of a change or a state.
    #[error("the controller's state is not readable at version {version}: {why}")]
    Unreadable {
        /// How many changes came before it.
        version: u64,
        /// What the JSON reader says.
        why: String,
    },
    /// A change that does not fit the state before it.
    #[error("the controller's state at version {version} does not fit the next change: {why}")]
    DoesNotFit {
        /// How many changes came before it.
        version: u64,
        /// What is wrong.
        why: &'static str,
    },
}

/// What every format says of itself.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Change {
    /// The change as one record's value.
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("a change is plain data with text keys").into()
    }

    /// Reads a record's value; `version` is the number of changes before it.
    pub fn decode(bytes: &[u8], version: u64) -> Result<Self, StateError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum First {
            ClusterCreated(Format),
            Rebuilt { state: Format },
        }
        // The format first: a newer one may have fields that this program does not know.
        if let Ok(First::ClusterCreated(Format { format }) | First::Rebuilt { state: Format { format } }) =
            serde_json::from_slice(bytes)
            && format > FORMAT_VERSION
        {
            return Err(StateError::NewerFormat { found: format });
        }
        serde_json::from_slice(bytes)
            .map_err(|error| StateError::Unreadable { version, why: error.to_string() })
    }
}

impl ClusterState {
    /// Applies the next change. On an error the state is as before.
    pub fn apply(&mut self, change: &Change) -> Result<(), StateError> {
        let version = self.version;
        let unfit = |why| StateError::DoesNotFit { version, why };
        if version == 0 && !matches!(change, Change::ClusterCreated { .. } | Change::Rebuilt { .. }) {
            return Err(unfit("the first change has to create the cluster"));
        }
        match change {
            Change::ClusterCreated { format, cluster_id } => {
                if version != 0 {
                    return Err(unfit("the cluster was created before"));
                }
                self.format = *format;
                self.cluster_id.clone_from(cluster_id);
            }
            Change::Rebuilt { state } => {
                if version != 0 || state.version != 0 {
                    return Err(unfit("the cluster was created before"));
                }
                self.clone_from(state);
            }
            Change::SessionBegan { node, broker } => {
                self.sessions = self.sessions.checked_add(1).ok_or_else(|| unfit("no session is left"))?;
                self.brokers.insert(*node, broker.clone());
            }
            Change::BrokerChanged { node, status } => {
                let broker = self.brokers.get_mut(node).ok_or_else(|| unfit("no such broker"))?;
                broker.status = *status;
            }
            Change::TopicCreated { name, topic } => {
                if self.topics.contains_key(name) {
                    return Err(unfit("the topic exists"));
                }
                self.topics.insert(name.clone(), topic.clone());
            }
            Change::TopicDeleted { name, id } => {
                if self.topics.get(name).is_none_or(|topic| topic.id != *id) {
                    return Err(unfit("no such topic"));
                }
                self.topics.remove(name);
            }
            Change::PartitionChanged { partition, state } => {
                let number = usize::try_from(partition.partition()).unwrap_or(usize::MAX);
                let topic = self.topics.get_mut(partition.topic()).ok_or_else(|| unfit("no such topic"))?;
                *topic.partitions.get_mut(number).ok_or_else(|| unfit("no such partition"))? = state.clone();
            }
            Change::ProducerIdsGranted { next } => {
                if *next < self.next_producer_id {
                    return Err(unfit("producer ids would be granted again"));
                }
                self.next_producer_id = *next;
            }
        }
        self.version += 1;
        Ok(())
    }

    /// The whole state as a snapshot.
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("a state is plain data with text keys").into()
    }

    /// Reads a snapshot.
    pub fn decode(bytes: &[u8]) -> Result<Self, StateError> {
        let unreadable =
            |error: serde_json::Error| StateError::Unreadable { version: 0, why: error.to_string() };
        let Format { format } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if format > FORMAT_VERSION {
            return Err(StateError::NewerFormat { found: format });
        }
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}
