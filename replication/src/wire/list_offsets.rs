//! `ListOffsets`, API 2: finds offsets by timestamp.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for the offset of a timestamp in each partition.
    pub struct ListOffsetsRequest {
        /// The follower that asks, -1 for a consumer.
        replica_id: i32, 0..;
        /// 0: up to the high watermark; 1: up to the last stable offset.
        isolation_level: i8, 2..;
        /// The topics.
        topics: Vec<ListOffsetsTopic>, 0..;
        /// How long to wait for answers from remote storage.
        timeout_ms: i32, 10..;
    }

    /// Partitions of one topic.
    pub struct ListOffsetsTopic {
        /// The topic's name.
        name: String, 0..;
        /// The partitions.
        partitions: Vec<ListOffsetsPartition>, 0..;
    }

    /// One partition and a timestamp.
    pub struct ListOffsetsPartition {
        /// The partition's number.
        partition_index: i32, 0..;
        /// The leader epoch that the sender knows, -1 for none.
        current_leader_epoch: i32, 4.., default -1;
        /// The timestamp, or a negative number with a meaning of its own: -1 the end, -2 the start, -3 the largest timestamp, ...
        timestamp: i64, 0..;
    }
}

message! {
    /// The offsets.
    pub struct ListOffsetsResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 2..;
        /// The topics.
        topics: Vec<ListOffsetsTopicResponse>, 0..;
    }

    /// Partitions of one topic.
    pub struct ListOffsetsTopicResponse {
        /// The topic's name.
        name: String, 0..;
        /// The partitions.
        partitions: Vec<ListOffsetsPartitionResponse>, 0..;
    }

    /// One partition's offset.
    pub struct ListOffsetsPartitionResponse {
        /// The partition's number.
        partition_index: i32, 0..;
        /// Why there is no offset.
        error_code: ErrorCode, 0..;
        /// The timestamp of the record at the offset, -1 for none.
        timestamp: i64, 1.., default -1;
        /// The offset, -1 for none.
        offset: i64, 1.., default -1;
        /// The leader epoch of the record at the offset, -1 for none.
        leader_epoch: i32, 4.., default -1;
    }
}
