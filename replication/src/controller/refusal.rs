//! Why the controller refuses, each with the error that a Kafka client hears of it.

use highwater_engine::units::NodeId;
use serde::{Deserialize, Serialize};

/// Why a proposal was refused; in brackets Kafka's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IsrRefusal {
    /// No such partition (`UNKNOWN_TOPIC_OR_PARTITION`).
    #[error("no such partition")]
    UnknownPartition,
    /// The name is there, but of another topic (`UNKNOWN_TOPIC_ID`).
    #[error("the topic of this name has another id")]
    UnknownTopicId,
    /// The sender does not lead (`INVALID_REQUEST`).
    #[error("the sender does not lead")]
    NotLeader,
    /// The leadership is over (`FENCED_LEADER_EPOCH`).
    #[error("the leadership is over")]
    FencedLeaderEpoch,
    /// The leader epoch or the partition epoch is one that never was (`NOT_CONTROLLER`: a controller that is behind).
    #[error("the leader epoch or the partition epoch was never assigned")]
    UnknownEpoch,
    /// The partition's state is another one by now (`INVALID_UPDATE_VERSION`).
    #[error("the partition has changed since")]
    InvalidUpdateVersion,
    /// Empty, without the leader, with a stranger or with a member twice (`INVALID_REQUEST`).
    #[error("the proposed ISR is not one of this partition")]
    InvalidIsr,
    /// A member is fenced, stops, or is in another session (`INELIGIBLE_REPLICA`).
    #[error("node {node} cannot join: it is fenced, stopping, or was caught up in another session")]
    IneligibleReplica {
        /// Which.
        node: NodeId,
    },
    /// No leader epoch or partition epoch is left.
    #[error("the epochs of this partition are used up")]
    EpochsUsedUp,
}

/// Why a topic was not created or deleted; in brackets Kafka's error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TopicRefusal {
    /// `INVALID_TOPIC_EXCEPTION`.
    #[error("{why}")]
    InvalidName {
        /// What is wrong with it.
        why: String,
    },
    /// `TOPIC_ALREADY_EXISTS`.
    #[error("topic '{name}' already exists")]
    Exists {
        /// The topic that is there.
        name: String,
    },
    /// `INVALID_TOPIC_EXCEPTION`: the names differ in `.` and `_` only.
    #[error("the name collides with topic '{name}'")]
    Collides {
        /// The topic that is there.
        name: String,
    },
    /// `UNKNOWN_TOPIC_OR_PARTITION`.
    #[error("no such topic")]
    Unknown,
    /// `UNKNOWN_TOPIC_ID`: the name is there, but of another topic.
    #[error("there is no topic with this id")]
    UnknownId,
    /// `INVALID_PARTITIONS`.
    #[error("{partitions} partitions: at least 1 and at most {max} are possible")]
    InvalidPartitions {
        /// How many were asked for.
        partitions: usize,
        /// How many are possible.
        max: usize,
    },
    /// `INVALID_REPLICATION_FACTOR`.
    #[error("replication factor {factor} with {brokers} brokers")]
    InvalidReplicationFactor {
        /// What was asked for.
        factor: usize,
        /// How many brokers there are.
        brokers: usize,
    },
    /// `INVALID_REPLICA_ASSIGNMENT`.
    #[error("the replica assignment is not possible: {why}")]
    InvalidAssignment {
        /// What is wrong with it.
        why: String,
    },
    /// `INVALID_CONFIG`.
    #[error("{key}={value}: {why}")]
    InvalidConfig {
        /// The setting.
        key: String,
        /// What was asked for.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// `INVALID_REPLICATION_FACTOR`, after the wait: too few brokers have registered.
    #[error("{needed} brokers are needed, {registered} have registered")]
    TooFewBrokers {
        /// How many are needed.
        needed: usize,
        /// How many have registered.
        registered: usize,
    },
    /// `POLICY_VIOLATION`: a bound of this controller.
    #[error("the controller holds {held} of these, as many as it may")]
    TooMany {
        /// How many it holds.
        held: usize,
    },
}

/// Why an order for another leader was refused; in brackets Kafka's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ElectionRefusal {
    /// `UNKNOWN_TOPIC_OR_PARTITION`.
    #[error("no such partition")]
    UnknownPartition,
    /// `ELECTION_NOT_NEEDED`.
    #[error("node {leader} leads already")]
    NotNeeded {
        /// Who leads.
        leader: NodeId,
    },
    /// `PREFERRED_LEADER_NOT_AVAILABLE`.
    #[error("node {node} is not an in-sync replica that is alive")]
    NotInSync {
        /// Who was asked for.
        node: NodeId,
    },
    /// `PREFERRED_LEADER_NOT_AVAILABLE`: a range of its log is damaged, and the leader's is whole.
    #[error("a range of the log of node {node} is damaged, and the leader's log is whole")]
    Damaged {
        /// Who was asked for.
        node: NodeId,
    },
    /// `ELIGIBLE_LEADERS_NOT_AVAILABLE`.
    #[error("no replica that could lead is alive and has reported its end")]
    NobodyAvailable,
    /// No leader epoch or partition epoch is left.
    #[error("the epochs of this partition are used up")]
    EpochsUsedUp,
}

/// Why a reassignment was not begun or not cancelled; in brackets Kafka's error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReassignRefusal {
    /// `UNKNOWN_TOPIC_OR_PARTITION`.
    #[error("no such partition")]
    UnknownPartition,
    /// `INVALID_REPLICA_ASSIGNMENT`.
    #[error("the replica assignment is not possible: {why}")]
    InvalidAssignment {
        /// What is wrong with it.
        why: String,
    },
    /// `INVALID_REPLICATION_FACTOR`: the number of replicas was to stay.
    #[error("it has {from} replicas and would have {to}, which was not allowed")]
    FactorChanges {
        /// How many there are.
        from: usize,
        /// How many were asked for.
        to: usize,
    },
    /// `NO_REASSIGNMENT_IN_PROGRESS`.
    #[error("no reassignment of this partition is under way")]
    NotUnderWay,
    /// `INVALID_REPLICA_ASSIGNMENT`: only replicas that are being added are in sync.
    #[error("only replicas that would go have everything that is committed, or can lead")]
    NobodyWouldBeLeft,
    /// No leader epoch or partition epoch is left.
    #[error("the epochs of this partition are used up")]
    EpochsUsedUp,
}

/// Why a broker was not let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RegistrationRefusal {
    /// Its data directory is another cluster's.
    #[error(
        "the data directory belongs to cluster {found}, this is cluster {expected}; join the right one, or, if the controller's state was \
         lost, make a new one with `highwater controller rebuild`"
    )]
    WrongCluster {
        /// The cluster of the data directory.
        found: String,
        /// The controller's.
        expected: String,
    },
    /// A broker of this id is alive on another data directory.
    #[error("a broker with id {node} is already running on another data directory")]
    DuplicateNode {
        /// The id.
        node: NodeId,
    },
    /// It had a session that this controller has not come to: the controller's state is older than the cluster.
    #[error(
        "broker {node} has had session {found}, and the controller's state ends at session {known}: it is an old one, which was put back; \
         restore the newest, or make a new one with `highwater controller rebuild`"
    )]
    StateIsOld {
        /// The broker.
        node: NodeId,
        /// Its last session.
        found: u32,
        /// The controller's.
        known: u32,
    },
    /// No session is left.
    #[error("the cluster has used up its sessions")]
    SessionsUsedUp,
    /// A bound of this controller.
    #[error("the cluster has {held} brokers, as many as it may")]
    TooMany {
        /// How many it has.
        held: usize,
    },
}
