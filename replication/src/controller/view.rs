//! A broker's copy of the cluster's state, and what a change of it means for the replicas of its own node.
//!
//! It decides nothing and sends nothing: the host polls, and gives the answers here.

use std::collections::BTreeSet;

use highwater_engine::units::{LeaderEpoch, NodeId, TopicId, TopicPartition};

use super::change::{Change, StateError};
use super::state::{BrokerStatus, ClusterState, DURABILITY, PartitionState, TRUNCATION, Topic};
use crate::partition::{Assignment, Durability, Member, Standing, TruncationRule};

/// The cluster as one broker knows it.
#[derive(Clone, Debug)]
pub struct ClusterView {
    node: NodeId,
    state: ClusterState,
}

/// What a change of the cluster means for one node, in order of topic and partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewChange {
    /// Replicas of this node that are gone: their topic was deleted. Comes before a new one of the same name.
    pub removed: Vec<(TopicPartition, TopicId)>,
    /// Replicas of this node that are new or stand differently.
    pub assigned: Vec<(TopicPartition, Assignment)>,
}

/// Why changes could not be taken. The view is as before; poll since `None`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// Changes in between are missing.
    #[error("the changes begin at version {from}, this copy ends at {version}")]
    Gap {
        /// Where the changes begin.
        from: u64,
        /// Where the copy ends.
        version: u64,
    },
    /// The copy and the changes are not of one history.
    #[error(transparent)]
    State(#[from] StateError),
}

impl ClusterView {
    /// An empty copy for this node.
    pub fn new(node: NodeId) -> Self {
        Self { node, state: ClusterState::empty() }
    }

    /// Whose replicas are reported.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// What to poll since; `None` as long as nothing is known.
    pub fn since(&self) -> Option<u64> {
        (self.state.version > 0).then_some(self.state.version)
    }

    /// The state, for Metadata and `status`.
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// Takes changes that follow on this copy; those it has already are skipped.
    pub fn apply_changes(&mut self, from: u64, changes: &[Change]) -> Result<ViewChange, ViewError> {
        let version = self.state.version;
        let known = version.checked_sub(from).ok_or(ViewError::Gap { from, version })?;
        let fresh = usize::try_from(known).ok().and_then(|known| changes.get(known..)).unwrap_or(&[]);
        if fresh.is_empty() {
            return Ok(ViewChange::default());
        }
        let mut next = self.state.clone();
        let mut touched = BTreeSet::new();
        for change in fresh {
            next.apply(change)?;
            self.touch(&next, change, &mut touched);
        }
        Ok(self.replace(next, touched))
    }

    /// Takes the whole state instead of what was known, also an older one: a controller that was rebuilt begins anew.
    pub fn apply_whole(&mut self, whole: ClusterState) -> ViewChange {
        let mut touched = BTreeSet::new();
        for state in [&self.state, &whole] {
            touched.extend(state.partitions().map(|(name, _, _)| name));
        }
        self.replace(whole, touched)
    }

    /// What the controller says of one partition; also of one that has no replica here.
    pub fn assignment(&self, name: &TopicPartition) -> Option<Assignment> {
        let topic = self.state.topics.get(name.topic())?;
        Some(assignment(&self.state, topic, self.state.partition(name)?))
    }

    /// The partitions that have a replica on this node.
    pub fn local_partitions(&self) -> impl Iterator<Item = TopicPartition> {
        self.state
            .partitions()
            .filter(|(_, _, partition)| partition.replicas.contains(&self.node))
            .map(|(name, _, _)| name)
    }

    /// The partitions that nobody leads and whose replica here has not been reported yet, with the epoch to report for.
    ///
    /// The report ([`super::ControllerRequest::Report`]) says what the log holds after it has stopped following, that is,
    /// after the assignment with this epoch was applied.
    pub fn reports_wanted(&self) -> Vec<(TopicPartition, LeaderEpoch)> {
        self.state
            .partitions()
            .filter(|(_, _, partition)| {
                partition.leader.is_none()
                    && partition.replicas.contains(&self.node)
                    && !partition.reports.contains_key(&self.node)
            })
            .map(|(name, _, partition)| (name, partition.leader_epoch))
            .collect()
    }

    fn touch(&self, next: &ClusterState, change: &Change, touched: &mut BTreeSet<TopicPartition>) {
        match change {
            Change::ClusterCreated { .. } | Change::ProducerIdsGranted { .. } => {}
            Change::Rebuilt { .. } => touched.extend(next.partitions().map(|(name, _, _)| name)),
            Change::PartitionChanged { partition, .. } => {
                touched.insert(partition.clone());
            }
            Change::TopicCreated { name, .. } | Change::TopicDeleted { name, .. } => {
                for state in [&self.state, next] {
                    touched.extend(of_topic(state, name));
                }
            }
            Change::SessionBegan { node, .. } | Change::BrokerChanged { node, .. } => {
                let held = next.partitions().filter(|(_, _, partition)| partition.replicas.contains(node));
                touched.extend(held.map(|(name, _, _)| name));
            }
        }
    }

    fn replace(&mut self, next: ClusterState, touched: BTreeSet<TopicPartition>) -> ViewChange {
        let old = std::mem::replace(&mut self.state, next);
        let mut change = ViewChange::default();
        for name in touched {
            let before = local_assignment(&old, &name, self.node);
            let after = local_assignment(&self.state, &name, self.node);
            match (before, after) {
                (Some(before), None) => change.removed.push((name, before.topic_id)),
                (before, Some(after)) => {
                    if let Some(before) = before.as_ref().filter(|before| before.topic_id != after.topic_id) {
                        change.removed.push((name.clone(), before.topic_id));
                    }
                    if before.as_ref() != Some(&after) {
                        change.assigned.push((name, after));
                    }
                }
                (None, None) => {}
            }
        }
        change
    }
}

fn of_topic(state: &ClusterState, topic: &str) -> Vec<TopicPartition> {
    let count = state.topics.get(topic).map_or(0, |topic| topic.partitions.len());
    (0..count).filter_map(|number| TopicPartition::new(topic, i32::try_from(number).ok()?).ok()).collect()
}

fn local_assignment(state: &ClusterState, name: &TopicPartition, node: NodeId) -> Option<Assignment> {
    let topic = state.topics.get(name.topic())?;
    let partition = state.partition(name)?;
    partition.replicas.contains(&node).then(|| assignment(state, topic, partition))
}

fn assignment(state: &ClusterState, topic: &Topic, partition: &PartitionState) -> Assignment {
    let value = |key: &str| topic.configs.get(key).map(String::as_str);
    Assignment {
        topic_id: topic.id,
        replicas: partition.replicas.iter().map(|node| member(state, *node)).collect(),
        isr: partition.isr.clone(),
        eligible: partition.eligible.clone(),
        leader: partition.leader,
        leader_epoch: partition.leader_epoch,
        partition_epoch: partition.partition_epoch,
        min_isr: topic.min_isr(partition.replicas_held()),
        durability: match value(DURABILITY) {
            Some("fsync") => Durability::Fsync,
            Some(_) | None => Durability::Written,
        },
        truncation: match value(TRUNCATION) {
            Some("high-watermark") => TruncationRule::HighWatermark,
            Some(_) | None => TruncationRule::LeaderEpoch,
        },
        losses: partition.losses.clone(),
        damaged: partition.damaged.iter().copied().collect(),
    }
}

fn member(state: &ClusterState, node: NodeId) -> Member {
    match state.brokers.get(&node) {
        Some(broker) => Member {
            node,
            session: Some(broker.session),
            standing: match broker.status {
                BrokerStatus::Alive => Standing::Alive,
                BrokerStatus::Stopping => Standing::Stopping,
                BrokerStatus::Fenced => Standing::Fenced,
            },
        },
        None => Member { node, session: None, standing: Standing::Fenced },
    }
}
