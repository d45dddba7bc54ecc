//! The private message between tools and brokers: JSON, on the port that clients use, never advertised.

use highwater_engine::units::TopicPartition;
use highwater_replication::controller::Election;
use serde::{Deserialize, Serialize};

use super::ClusterStatus;

/// What a tool asks a broker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolRequest {
    /// The cluster, as this broker has heard of it. Answer: [`ToolReply::Status`].
    Status,
    /// The ends of the partitions that this broker leads. Answer: [`ToolReply::Marks`].
    Marks,
    /// Another leader. Answer: [`ToolReply::Elected`].
    Elect {
        /// Of which partition.
        partition: TopicPartition,
        /// Who, and at what price.
        election: Election,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolReply {
    /// To [`ToolRequest::Status`].
    Status(ClusterStatus),
    /// To [`ToolRequest::Marks`].
    Marks(Vec<PartitionMarks>),
    /// To [`ToolRequest::Elect`]: who leads now.
    Elected {
        /// The broker.
        leader: i32,
    },
    /// It cannot be done, and why, in a sentence.
    Refused(String),
}

/// How far a partition is, according to its leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionMarks {
    /// Which partition.
    pub partition: TopicPartition,
    /// The leadership that says so.
    pub leader_epoch: i32,
    /// Below it everything is committed.
    pub high_watermark: Option<i64>,
    /// The next offset to be written.
    pub log_end: i64,
}
