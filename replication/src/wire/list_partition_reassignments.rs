//! `ListPartitionReassignments`, API 46: which partitions are under way to other brokers (KIP-455).

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for reassignments that are under way.
    pub struct ListPartitionReassignmentsRequest {
        /// How long to wait for the answer.
        timeout_ms: i32, 0.., default 60_000;
        /// Of which topics; `None` is all of them.
        topics: Option<Vec<ListPartitionReassignmentsTopics>>, 0.., nullable 0..;
    }

    /// Partitions of one topic.
    pub struct ListPartitionReassignmentsTopics {
        /// The topic's name.
        name: String, 0..;
        /// The partitions' numbers.
        partition_indexes: Vec<i32>, 0..;
    }
}

message! {
    /// What is under way.
    pub struct ListPartitionReassignmentsResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 0..;
        /// An error of the whole request.
        error_code: ErrorCode, 0..;
        /// The error in words.
        error_message: Option<String>, 0.., nullable 0..;
        /// The topics that have something under way.
        topics: Vec<OngoingTopicReassignment>, 0..;
    }

    /// Partitions of one topic.
    pub struct OngoingTopicReassignment {
        /// The topic's name.
        name: String, 0..;
        /// The partitions.
        partitions: Vec<OngoingPartitionReassignment>, 0..;
    }

    /// One partition that is under way.
    pub struct OngoingPartitionReassignment {
        /// The partition's number.
        partition_index: i32, 0..;
        /// Who holds it now, those that are added and removed included.
        replicas: Vec<i32>, 0..;
        /// Who is being added.
        adding_replicas: Vec<i32>, 0..;
        /// Who goes when they have everything.
        removing_replicas: Vec<i32>, 0..;
    }
}
