//! `OffsetDelete`, API 47: offsets of a group are forgotten.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for a group's offsets to be forgotten.
    pub struct OffsetDeleteRequest {
        /// The group.
        group_id: String, 0..;
        /// The topics.
        topics: Vec<OffsetDeleteRequestTopic>, 0..;
    }

    /// Partitions of one topic.
    pub struct OffsetDeleteRequestTopic {
        /// Its name.
        name: String, 0..;
        /// The partitions.
        partitions: Vec<OffsetDeleteRequestPartition>, 0..;
    }

    /// One partition.
    pub struct OffsetDeleteRequestPartition {
        /// Its number.
        partition_index: i32, 0..;
    }
}

message! {
    /// What became of them.
    pub struct OffsetDeleteResponse {
        /// Why nothing was forgotten.
        error_code: ErrorCode, 0..;
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 0..;
        /// The topics.
        topics: Vec<OffsetDeleteResponseTopic>, 0..;
    }

    /// Partitions of one topic.
    pub struct OffsetDeleteResponseTopic {
        /// Its name.
        name: String, 0..;
        /// The partitions.
        partitions: Vec<OffsetDeleteResponsePartition>, 0..;
    }

    /// What became of one.
    pub struct OffsetDeleteResponsePartition {
        /// Its number.
        partition_index: i32, 0..;
        /// Why its offset is still there.
        error_code: ErrorCode, 0..;
    }
}
