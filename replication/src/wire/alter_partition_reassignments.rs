//! `AlterPartitionReassignments`, API 45: puts partitions on other brokers, or cancels that (KIP-455).

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for other replicas.
    pub struct AlterPartitionReassignmentsRequest {
        /// How long to wait for it.
        timeout_ms: i32, 0.., default 60_000;
        /// Whether a partition may get another number of replicas.
        allow_replication_factor_change: bool, 1.., default true;
        /// The topics.
        topics: Vec<ReassignableTopic>, 0..;
    }

    /// Partitions of one topic.
    pub struct ReassignableTopic {
        /// The topic's name.
        name: String, 0..;
        /// The partitions.
        partitions: Vec<ReassignablePartition>, 0..;
    }

    /// What one partition should be.
    pub struct ReassignablePartition {
        /// The partition's number.
        partition_index: i32, 0..;
        /// The brokers that should hold it; `None` cancels what is under way.
        replicas: Option<Vec<i32>>, 0.., nullable 0..;
    }
}

message! {
    /// What became of it.
    pub struct AlterPartitionReassignmentsResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 0..;
        /// Whether a partition might get another number of replicas.
        allow_replication_factor_change: bool, 1.., default true;
        /// An error of the whole request.
        error_code: ErrorCode, 0..;
        /// The error in words.
        error_message: Option<String>, 0.., nullable 0..;
        /// The topics.
        responses: Vec<ReassignableTopicResponse>, 0..;
    }

    /// Partitions of one topic.
    pub struct ReassignableTopicResponse {
        /// The topic's name.
        name: String, 0..;
        /// The partitions.
        partitions: Vec<ReassignablePartitionResponse>, 0..;
    }

    /// What became of one partition's reassignment.
    pub struct ReassignablePartitionResponse {
        /// The partition's number.
        partition_index: i32, 0..;
        /// Why it was not taken.
        error_code: ErrorCode, 0..;
        /// The error in words.
        error_message: Option<String>, 0.., nullable 0..;
    }
}
