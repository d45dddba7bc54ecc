//! `ElectLeaders`, API 43: elects leaders by order of an operator.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for elections.
    pub struct ElectLeadersRequest {
        /// 0: the preferred replica; 1: any, even if records are lost (unclean).
        election_type: i8, 1..;
        /// The partitions; `None` is all of them.
        topic_partitions: Option<Vec<TopicPartitions>>, 0.., nullable 0..;
        /// How long to wait for them.
        timeout_ms: i32, 0.., default 60_000;
    }

    /// Partitions of one topic.
    pub struct TopicPartitions {
        /// The topic's name.
        topic: String, 0..;
        /// The partitions' numbers.
        partitions: Vec<i32>, 0..;
    }
}

message! {
    /// What became of the elections.
    pub struct ElectLeadersResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 0..;
        /// An error of the whole request.
        error_code: ErrorCode, 1..;
        /// The topics.
        replica_election_results: Vec<ReplicaElectionResult>, 0..;
    }

    /// Partitions of one topic.
    pub struct ReplicaElectionResult {
        /// The topic's name.
        topic: String, 0..;
        /// The partitions.
        partition_result: Vec<PartitionResult>, 0..;
    }

    /// What became of one partition's election.
    pub struct PartitionResult {
        /// The partition's number.
        partition_id: i32, 0..;
        /// Why its leader is who it was.
        error_code: ErrorCode, 0..;
        /// The error in words.
        error_message: Option<String>, 0.., nullable 0..;
    }
}
