//! `OffsetForLeaderEpoch`, API 23: where a leader epoch ends.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks where leader epochs end.
    pub struct OffsetForLeaderEpochRequest {
        /// The follower that asks, -1 for a consumer, -2 if unknown.
        replica_id: i32, 3.., default -2;
        /// The topics.
        topics: Vec<OffsetForLeaderTopic>, 0..;
    }

    /// Partitions of one topic.
    pub struct OffsetForLeaderTopic {
        /// The topic's name.
        topic: String, 0..;
        /// The partitions.
        partitions: Vec<OffsetForLeaderPartition>, 0..;
    }

    /// One partition and an epoch.
    pub struct OffsetForLeaderPartition {
        /// The partition's number.
        partition: i32, 0..;
        /// The leader epoch that the sender knows, -1 for none.
        current_leader_epoch: i32, 2.., default -1;
        /// The epoch that is asked for.
        leader_epoch: i32, 0..;
    }
}

message! {
    /// Where the epochs end.
    pub struct OffsetForLeaderEpochResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 2..;
        /// The topics.
        topics: Vec<OffsetForLeaderTopicResult>, 0..;
    }

    /// Partitions of one topic.
    pub struct OffsetForLeaderTopicResult {
        /// The topic's name.
        topic: String, 0..;
        /// The partitions.
        partitions: Vec<LeaderEpochEndOffset>, 0..;
    }

    /// One epoch's end, called `EpochEndOffset` by Kafka.
    pub struct LeaderEpochEndOffset {
        /// Why there is none.
        error_code: ErrorCode, 0..;
        /// The partition's number.
        partition: i32, 0..;
        /// The largest epoch of the log that is not above the one asked for, -1 for none.
        leader_epoch: i32, 1.., default -1;
        /// Its end, -1 for none.
        end_offset: i64, 0.., default -1;
    }
}
