//! A cluster whose controller lost its state gets a new one, made out of what its brokers have. Pure, but for the writing.
//!
//! Nobody knows any more who was in sync. So every replica that was found may lead, and each is suspect: when all of them have registered,
//! the one with the highest (epoch, end) leads, which has everything that is committed, as after a power loss of all machines. Nothing that
//! was ever given out is given out again: what was found is a floor, and the next is well above it, because the last that were given out may
//! have left no trace.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use highwater_engine::disk::Disk;
use highwater_engine::units::{LeaderEpoch, NodeId, Now, TopicId, TopicPartition};

use super::change::Change;
use super::state::{
    Broker, BrokerStatus, ClusterState, DURABILITY, FORMAT_VERSION, OutOfSync, OutReason, PartitionState,
    Suspicion, TRUNCATION, Topic,
};
use super::store::{ControllerFailure, ControllerOpenError, StateStore};
use crate::ids::{BrokerEpoch, PartitionEpoch};

/// So many leader epochs may have been given out without a trace: those in which nobody led, or nothing was written.
const EPOCHS_AHEAD: i32 = 1_000;
/// So many sessions.
const SESSIONS_AHEAD: u32 = 1_000;
/// So many producer ids, in blocks of 1,000: those of producers that have written nothing, or whose records are deleted.
const PRODUCER_IDS_AHEAD: i64 = 1_000_000;

/// What a broker's data directory says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundBroker {
    /// Whose it is.
    pub node: NodeId,
    /// Its cluster.
    pub cluster_id: String,
    /// The directory's own id.
    pub directory: Option<String>,
    /// The last session that it says it had.
    pub session: Option<BrokerEpoch>,
    /// Its logs.
    pub logs: Vec<FoundLog>,
}

/// What one log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLog {
    /// Its partition.
    pub partition: TopicPartition,
    /// Its topic's id, from `partition.metadata`; a log without one belongs to no topic for certain.
    pub topic_id: Option<TopicId>,
    /// The highest leader epoch in it.
    pub epoch: Option<LeaderEpoch>,
    /// The highest producer id in it.
    pub producer_id: Option<i64>,
}

/// Why no state can be made of what was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildRefusal {
    /// There is nothing to make it of.
    #[error("no directory of a broker was given; name those of all brokers of the cluster")]
    Nothing,
    /// Two clusters.
    #[error(
        "broker {node} belongs to cluster {found}, those before it to cluster {cluster}; name directories of one cluster only"
    )]
    AnotherCluster {
        /// Whose directory it is.
        node: NodeId,
        /// Its cluster.
        found: String,
        /// The others'.
        cluster: String,
    },
    /// Two directories of one broker.
    #[error("two directories are those of broker {node}; name the one that it had last")]
    SameBroker {
        /// The broker.
        node: NodeId,
    },
    /// A topic was deleted and made again, and some have not heard of it.
    #[error(
        "topic {topic} is there with the ids {one} and {other}: it was deleted and made again; move the logs of the old one out of the \
         directories of the brokers"
    )]
    TwoTopics {
        /// The name.
        topic: String,
        /// One of the ids.
        one: TopicId,
        /// Another one.
        other: TopicId,
    },
    /// Nobody has a partition below the last one.
    #[error(
        "nobody has partition {partition}, and partitions behind it are there: name the directory of a broker that has it"
    )]
    Missing {
        /// The partition.
        partition: TopicPartition,
    },
    /// The numbers do not go further.
    #[error("the epochs, sessions or producer ids that were found are the last that there are")]
    UsedUp,
}

/// Why the new state was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildError {
    /// There is a state already.
    #[error("there is a controller's state already; move it away first")]
    NotEmpty,
    /// The directory cannot be used.
    #[error(transparent)]
    Open(#[from] ControllerOpenError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] ControllerFailure),
}

/// The state that a cluster goes on with; the seed decides the random half of sessions, `now_ms` is when replicas fell out of sync.
///
/// Topics have the settings that are given for them. Where none are, their settings are not known, and nothing is deleted by retention.
pub fn rebuild(
    brokers: &[FoundBroker],
    settings: &BTreeMap<String, BTreeMap<String, String>>,
    defaults: &BTreeMap<String, String>,
    now_ms: i64,
    seed: u64,
) -> Result<ClusterState, RebuildRefusal> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let first = brokers.first().ok_or(RebuildRefusal::Nothing)?;
    check_brokers(brokers, &first.cluster_id)?;
    let known = brokers.iter().filter_map(|broker| broker.session).map(BrokerEpoch::session).max();
    let mut sessions = known.unwrap_or(0).checked_add(SESSIONS_AHEAD).ok_or(RebuildRefusal::UsedUp)?;
    let mut state = ClusterState {
        format: FORMAT_VERSION,
        cluster_id: first.cluster_id.clone(),
        next_producer_id: next_producer_id(brokers)?,
        ..ClusterState::empty()
    };
    for found in brokers {
        sessions = sessions.checked_add(1).ok_or(RebuildRefusal::UsedUp)?;
        let broker = Broker {
            session: BrokerEpoch::of_session(sessions, rng.u32(..)),
            host: String::new(),
            port: 0,
            directory: found.directory.clone(),
            process: None,
            status: BrokerStatus::Fenced,
            registered_as: None,
        };
        state.brokers.insert(found.node, broker);
    }
    state.sessions = sessions;
    for (name, topic) in gather(brokers)? {
        let configs = configs_of(settings.get(&name), defaults);
        let partitions = topic.partitions.values().map(|holders| partition(holders, now_ms));
        let partitions = partitions.collect::<Result<_, _>>()?;
        state.topics.insert(name, Topic { id: topic.id, configs, partitions });
    }
    Ok(state)
}

fn check_brokers(brokers: &[FoundBroker], cluster: &str) -> Result<(), RebuildRefusal> {
    let mut seen = BTreeSet::new();
    for FoundBroker { node, cluster_id, .. } in brokers {
        if cluster_id != cluster {
            let (found, cluster) = (cluster_id.clone(), cluster.to_owned());
            return Err(RebuildRefusal::AnotherCluster { node: *node, found, cluster });
        }
        if !seen.insert(*node) {
            return Err(RebuildRefusal::SameBroker { node: *node });
        }
    }
    Ok(())
}

fn next_producer_id(brokers: &[FoundBroker]) -> Result<i64, RebuildRefusal> {
    let highest = brokers.iter().flat_map(|broker| &broker.logs).filter_map(|log| log.producer_id).max();
    let block = highest.map_or(Some(0), |id| (id / 1_000).checked_add(1)?.checked_mul(1_000));
    block.and_then(|next| next.checked_add(PRODUCER_IDS_AHEAD)).ok_or(RebuildRefusal::UsedUp)
}

/// Who holds a partition, and the highest epoch of each.
type Holders = BTreeMap<NodeId, Option<LeaderEpoch>>;

struct FoundTopic {
    id: TopicId,
    partitions: BTreeMap<i32, Holders>,
}

fn gather(brokers: &[FoundBroker]) -> Result<BTreeMap<String, FoundTopic>, RebuildRefusal> {
    let mut topics: BTreeMap<String, FoundTopic> = BTreeMap::new();
    for broker in brokers {
        for log in &broker.logs {
            let Some(id) = log.topic_id else { continue };
            let (name, number) = (log.partition.topic(), log.partition.partition());
            let topic = topics
                .entry(name.to_owned())
                .or_insert_with(|| FoundTopic { id, partitions: BTreeMap::new() });
            if topic.id != id {
                let (topic, one) = (name.to_owned(), topic.id);
                return Err(RebuildRefusal::TwoTopics { topic, one, other: id });
            }
            topic.partitions.entry(number).or_default().insert(broker.node, log.epoch);
        }
    }
    for (name, topic) in &topics {
        let gap = (0..).zip(topic.partitions.keys()).find(|(expected, number)| expected != *number);
        if let Some(partition) = gap.and_then(|(number, _)| TopicPartition::new(name, number).ok()) {
            return Err(RebuildRefusal::Missing { partition });
        }
    }
    Ok(topics)
}

fn configs_of(
    given: Option<&BTreeMap<String, String>>,
    defaults: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut configs = defaults.clone();
    configs.entry(DURABILITY.to_owned()).or_insert_with(|| "written".to_owned());
    configs.entry(TRUNCATION.to_owned()).or_insert_with(|| "leader-epoch".to_owned());
    match given {
        Some(given) => configs.extend(given.clone()),
        // It may have been compacted, or kept for ever.
        None => {
            for key in ["retention.ms", "retention.bytes"] {
                configs.insert(key.to_owned(), "-1".to_owned());
            }
        }
    }
    configs
}

fn partition(holders: &Holders, now_ms: i64) -> Result<PartitionState, RebuildRefusal> {
    let replicas: Vec<NodeId> = holders.keys().copied().collect();
    let highest = holders.values().flatten().max().map_or(0, |epoch| epoch.value());
    let epoch = highest.checked_add(EPOCHS_AHEAD).and_then(LeaderEpoch::new).ok_or(RebuildRefusal::UsedUp)?;
    let out = OutOfSync { since_ms: now_ms, reason: OutReason::SessionEnded };
    Ok(PartitionState {
        isr: Vec::new(),
        eligible: replicas.clone(),
        adding: Vec::new(),
        removing: Vec::new(),
        leader: None,
        leader_epoch: epoch,
        partition_epoch: PartitionEpoch::ZERO,
        out_of_sync: replicas.iter().map(|node| (*node, out)).collect(),
        suspects: replicas.iter().map(|node| (*node, Suspicion::StateLost)).collect(),
        damaged: BTreeSet::new(),
        reports: BTreeMap::new(),
        losses: Vec::new(),
        possible_losses: Vec::new(),
        replicas,
    })
}

/// Writes a rebuilt state into a directory that has none. A crash leaves a directory that is not complete, so give it the name under which a
/// controller looks for it afterwards.
pub fn write_rebuilt(
    disk: Arc<dyn Disk>,
    directory: &Path,
    state: ClusterState,
    now: Now,
) -> Result<(), RebuildError> {
    let (mut store, before) = StateStore::open(disk, directory, now)?;
    if before.version > 0 {
        return Err(RebuildError::NotEmpty);
    }
    let cluster_id = state.cluster_id.clone();
    let change = Change::Rebuilt { state: Box::new(state) };
    let (_, ticket) = store.append(std::iter::once(&change), now)?;
    store.wait(ticket)?;
    store.name_cluster(&cluster_id)?;
    store.close().map_err(ControllerFailure::new)?;
    Ok(())
}
