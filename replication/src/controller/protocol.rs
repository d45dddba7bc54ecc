//! What brokers, tools and the supervisor say to the controller and hear from it, as JSON in a frame of somebody else's.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_engine::units::{LeaderEpoch, NodeId, Offset, TopicId, TopicPartition};
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::refusal::{ElectionRefusal, IsrRefusal, ReassignRefusal, RegistrationRefusal, TopicRefusal};
use super::state::{ClusterState, OutReason, ReplicaReport};
use crate::ids::{BrokerEpoch, PartitionEpoch};
use crate::partition::Integrity;

/// A request and who sends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerCall {
    /// The broker and its session; `None` for tools, the supervisor, and a broker that has no session yet.
    pub sender: Option<Sender>,
    /// What is asked.
    pub request: ControllerRequest,
}

/// A broker in one of its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sender {
    /// Which broker.
    pub node: NodeId,
    /// Its session.
    pub session: BrokerEpoch,
}

/// What can be asked of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControllerRequest {
    /// A broker begins a session. Answer: [`ControllerReply::Registered`].
    Register(Registration),
    /// A broker is there. Any other request of its session says so too. Answer: [`ControllerReply::Heard`].
    Heartbeat,
    /// The changes since a version; held back until there is one or the time is over. For brokers with a session only.
    /// Answer: [`ControllerReply::Changes`] or [`ControllerReply::Whole`].
    Poll {
        /// The version that the sender has; `None` asks for the whole.
        since: Option<u64>,
        /// How long the answer may be held back, in milliseconds; at most [`POLL_WAIT_MS_MAX`].
        wait_ms: u64,
    },
    /// A leader wants another ISR. Answer: [`ControllerReply::Isr`].
    AlterIsr(IsrProposal),
    /// What a replica has, while nobody leads its partition, or because it knows more to be committed than its leader has. Answer: [`ControllerReply::Heard`].
    Report(ReportedReplica),
    /// A leader gives up, or a replica that counts has a log that failed. Answer: [`ControllerReply::Heard`].
    Resign {
        /// Which partition.
        partition: TopicPartition,
        /// Its topic's id.
        topic_id: TopicId,
        /// The leadership; another one is not meant.
        leader_epoch: LeaderEpoch,
        /// Why.
        why: ResignCause,
    },
    /// A range of a replica's log is damaged, or none is any more. Answer: [`ControllerReply::Heard`].
    ReportIntegrity {
        /// Which partition.
        partition: TopicPartition,
        /// Its topic's id.
        topic_id: TopicId,
        /// What it is now.
        integrity: Integrity,
    },
    /// A topic is to be created. Answered when it is, or when it cannot be: [`ControllerReply::TopicCreated`].
    CreateTopic(NewTopic),
    /// A topic is to be deleted. Answer: [`ControllerReply::TopicDeleted`].
    DeleteTopic {
        /// Its name.
        name: String,
        /// Its id, where that was named: one of this name that was made again is not meant.
        id: Option<TopicId>,
    },
    /// A block of producer ids. Answer: [`ControllerReply::ProducerIds`].
    AllocateProducerIds,
    /// Another leader by order. Answer: [`ControllerReply::Elected`].
    Elect {
        /// Which partition.
        partition: TopicPartition,
        /// Who, and at what price.
        election: Election,
    },
    /// A partition is to lie on other brokers. Answer: [`ControllerReply::Reassigned`], before anything has moved.
    Reassign {
        /// Which partition.
        partition: TopicPartition,
        /// Who is to hold it, the preferred leader first; `None` cancels what is under way.
        replicas: Option<Vec<NodeId>>,
        /// Whether they may be more or fewer than now.
        factor: FactorRule,
    },
    /// The sender stops and hands its leaderships over. Answer: [`ControllerReply::MayStop`].
    ControlledStop,
    /// The supervisor saw a broker's process end. Answer: [`ControllerReply::Heard`].
    ProcessEnded {
        /// Which broker.
        node: NodeId,
        /// Which process; a broker that has registered from another one since is not meant.
        process: Option<u32>,
    },
}

/// The longest time that a poll is held back, in milliseconds.
pub const POLL_WAIT_MS_MAX: u64 = 30_000;

/// A broker's facts at the beginning of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Its id.
    pub node: NodeId,
    /// The cluster that its data directory belongs to; `None` if it is new.
    pub cluster_id: Option<String>,
    /// The id of its data directory.
    pub directory: Option<String>,
    /// The last session that it wrote down in its data directory; a controller that has not come so far has an old state.
    #[serde(default)]
    pub last_session: Option<BrokerEpoch>,
    /// Where clients reach it.
    pub host: String,
    /// The port beside `host`.
    pub port: u16,
    /// Its process id, to be shown.
    pub process: Option<u32>,
    /// Drawn when the process began: a registration that is sent again, because no answer was heard, is known by it. `None`: none is.
    #[serde(default)]
    pub run: Option<u64>,
    /// How its last session ended.
    pub last_stop: LastStop,
    /// All logs that it has.
    pub replicas: Vec<ReplicaFacts>,
}

/// How a broker's last session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastStop {
    /// It did not end: the same process was fenced and comes back, its logs open all the time.
    StillRunning {
        /// The session that it had.
        session: BrokerEpoch,
    },
    /// Cleanly: there was a mark.
    Clean {
        /// The session that the mark names.
        session: Option<BrokerEpoch>,
    },
    /// Without a mark, on the same boot, device and mount: the page cache survived.
    Killed,
    /// Without a mark, and the machine crashed or may have.
    MachineCrash,
    /// There was none: the data directory is new.
    Never,
}

/// What a broker knows of one of its logs when it registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaFacts {
    /// Which partition.
    pub partition: TopicPartition,
    /// Its topic's id, from `partition.metadata`.
    pub topic_id: Option<TopicId>,
    /// The leader epoch of its last batch.
    pub last_epoch: Option<LeaderEpoch>,
    /// Where it ends, after recovery.
    pub end: Offset,
    /// The high watermark of its checkpoint; `None` if unknown.
    pub known_committed: Option<Offset>,
    /// Its recovery point; `None` if unknown.
    pub recovery_point: Option<Offset>,
    /// What its files look like.
    pub condition: Condition,
    /// Whether all that is there passes its checks.
    pub integrity: Integrity,
}

/// What a log's files looked like when they were opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// Whole, and as the mark of a clean stop says, if there was one.
    Fits,
    /// The mark of a clean stop says otherwise.
    DiffersFromMark,
    /// Some range fails its checks, or bytes behind a hole were set aside.
    Damaged,
    /// A write of it failed and it is not open again, or it could not be opened: what it has is not known yet.
    LogFailed,
    /// It is being written, by a process that has had a session before: what it has is said when it is there.
    Writing,
}

/// Why a leader gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResignCause {
    /// Its log failed and is closed. It is suspect and out of the ISR; if it led, somebody else does, or nobody. Of any replica.
    LogFailed,
    /// Its process was started again within the epoch. It may lead, but under another epoch (S34).
    SecondIncarnation,
}

/// A replica's report while nobody leads its partition, or when it refuses to be cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedReplica {
    /// Which partition.
    pub partition: TopicPartition,
    /// Its topic's id.
    pub topic_id: TopicId,
    /// The leader epoch. A report for another one than the present counts in no election, only as proof of a loss.
    pub leader_epoch: LeaderEpoch,
    /// What it has.
    pub report: ReplicaReport,
}

/// A leader's wish for another ISR (KIP-497, KIP-903).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsrProposal {
    /// Which partition.
    pub partition: TopicPartition,
    /// Its topic's id.
    pub topic_id: TopicId,
    /// The epoch in which the sender leads.
    pub leader_epoch: LeaderEpoch,
    /// The state that the sender knows.
    pub partition_epoch: PartitionEpoch,
    /// Everybody who should be in it, each with the session from which it was caught up.
    pub isr: Vec<IsrMember>,
    /// Why those who leave do.
    pub reason: OutReason,
}

/// One member of a proposed ISR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsrMember {
    /// Which broker.
    pub node: NodeId,
    /// Its session as the leader saw it. `None` only for one that was in the ISR before and has not fetched yet.
    pub session: Option<BrokerEpoch>,
}

/// The answer to a proposal; it names what was asked, so that it needs no number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsrAnswer {
    /// Which partition.
    pub partition: TopicPartition,
    /// The proposal's leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// The proposal's partition epoch.
    pub partition_epoch: PartitionEpoch,
    /// What became of it.
    pub outcome: Result<IsrGranted, IsrRefusal>,
}

/// The partition after a proposal was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IsrGranted {
    /// Its ISR.
    pub isr: Vec<NodeId>,
    /// Its eligible replicas.
    pub eligible: Vec<NodeId>,
    /// Its state's version.
    pub partition_epoch: PartitionEpoch,
}

/// A topic that is to be created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; `None`: `num.partitions`.
    pub partitions: Option<u32>,
    /// How many replicas; `None`: `default.replication.factor`, but at most the configured brokers.
    pub replication_factor: Option<u16>,
    /// The replicas of each partition, instead of the two numbers.
    pub assignment: Option<Vec<Vec<NodeId>>>,
    /// Its settings.
    pub configs: BTreeMap<String, String>,
    /// How long to wait for brokers, in milliseconds.
    pub timeout_ms: u64,
    /// Whether it is only to be checked.
    pub purpose: CreationPurpose,
}

impl NewTopic {
    /// A topic of this name, and everything else as the controller has it by itself.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partitions: None,
            replication_factor: None,
            assignment: None,
            configs: BTreeMap::new(),
            timeout_ms: 30_000,
            purpose: CreationPurpose::Create,
        }
    }
}

/// Whether a creation is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CreationPurpose {
    /// Create it.
    Create,
    /// Say what would come of it (`validate_only`).
    Validate,
}

/// A topic as it was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedTopic {
    /// Its id; `None` if it was only checked.
    pub id: Option<TopicId>,
    /// The replicas of each partition.
    pub assignment: Vec<Vec<NodeId>>,
    /// Its settings.
    pub configs: BTreeMap<String, String>,
}

/// How a leader is chosen by order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Election {
    /// The first assigned replica, if it is in the ISR.
    Preferred,
    /// This member of the ISR.
    To(NodeId),
    /// This replica even if records are lost; only while nobody leads.
    Unclean(NodeId),
    /// Any replica even if records are lost; only while nobody leads.
    UncleanAny,
}

/// Whether a partition may get another number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorRule {
    /// It may.
    MayChange,
    /// It has as many afterwards as before.
    Stays,
}

/// A session as it began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionBegun {
    /// The session.
    pub session: BrokerEpoch,
    /// The cluster, for `meta.properties`.
    pub cluster_id: String,
    /// The state's version; a poll since `None` brings the rest.
    pub version: u64,
    /// How long the broker may be silent, in milliseconds.
    pub session_timeout_ms: u64,
}

/// A block of producer ids that nobody else ever gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerIdBlock {
    /// The first.
    pub first: i64,
    /// How many.
    pub count: i64,
}

/// What the controller answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControllerReply {
    /// The sender's session is over, or never was: register.
    SessionFenced,
    /// It was heard; there is nothing to say.
    Heard,
    /// To [`ControllerRequest::Register`].
    Registered(Result<SessionBegun, RegistrationRefusal>),
    /// The changes that lead from one version to another; none if the time was over.
    Changes {
        /// The version that was asked since.
        from: u64,
        /// In order.
        changes: Vec<Change>,
    },
    /// Everything, because the asked version is none that the changes are kept of.
    Whole(Box<ClusterState>),
    /// To [`ControllerRequest::AlterIsr`].
    Isr(IsrAnswer),
    /// To [`ControllerRequest::CreateTopic`].
    TopicCreated {
        /// Its name.
        name: String,
        /// What became of it.
        outcome: Result<CreatedTopic, TopicRefusal>,
    },
    /// To [`ControllerRequest::DeleteTopic`].
    TopicDeleted {
        /// Its name.
        name: String,
        /// Its id, or why not.
        outcome: Result<TopicId, TopicRefusal>,
    },
    /// To [`ControllerRequest::AllocateProducerIds`]; `None` when there are no more.
    ProducerIds(Option<ProducerIdBlock>),
    /// To [`ControllerRequest::Elect`].
    Elected {
        /// Which partition.
        partition: TopicPartition,
        /// Who leads now, or why not.
        outcome: Result<NodeId, ElectionRefusal>,
    },
    /// To [`ControllerRequest::Reassign`].
    Reassigned {
        /// Which partition.
        partition: TopicPartition,
        /// Whether it is under way, or why not.
        outcome: Result<(), ReassignRefusal>,
    },
    /// To [`ControllerRequest::ControlledStop`].
    MayStop {
        /// How many partitions nobody else can lead.
        remaining: usize,
    },
    /// The request could not be read.
    Unreadable {
        /// What the JSON reader says.
        why: String,
    },
}

/// Bytes that are not a call or a reply.
#[derive(Debug, thiserror::Error)]
#[error("not a message of the controller's: {source}")]
pub struct MessageError {
    #[from]
    source: serde_json::Error,
}

impl ControllerCall {
    /// The call as JSON.
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("a call is plain data with text keys").into()
    }

    /// Reads a call.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

impl ControllerReply {
    /// The reply as JSON.
    pub fn encode(&self) -> Bytes {
        serde_json::to_vec(self).expect("a reply is plain data with text keys").into()
    }

    /// Reads a reply.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}
