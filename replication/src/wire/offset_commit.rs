//! `OffsetCommit`, API 8: how far a group has come.

use highwater_engine::units::TopicId;

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Offsets to be remembered for a group.
    pub struct OffsetCommitRequest {
        /// The group.
        group_id: String, 0..;
        /// The generation of the member that commits, -1 if there are no members.
        generation_id_or_member_epoch: i32, 1.., default -1;
        /// The member, empty if there are none.
        member_id: String, 1..;
        /// Its name over restarts.
        group_instance_id: Option<String>, 7.., nullable 7..;
        /// For how long offsets are kept, -1 for the broker's choice.
        retention_time_ms: i64, 2..=4, default -1;
        /// The topics.
        topics: Vec<OffsetCommitRequestTopic>, 0..;
    }

    /// Offsets of one topic.
    pub struct OffsetCommitRequestTopic {
        /// Its name.
        name: String, 0..=9;
        /// Its id.
        topic_id: Option<TopicId>, 10..;
        /// The partitions.
        partitions: Vec<OffsetCommitRequestPartition>, 0..;
    }

    /// The offset of one partition.
    pub struct OffsetCommitRequestPartition {
        /// The partition's number.
        partition_index: i32, 0..;
        /// The next offset to be read.
        committed_offset: i64, 0..;
        /// The leader epoch of the last record that was read, -1 for unknown.
        committed_leader_epoch: i32, 6.., default -1;
        /// Something that the group wants to remember with it.
        committed_metadata: Option<String>, 0.., nullable 0..;
    }
}

message! {
    /// What became of them.
    pub struct OffsetCommitResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 3..;
        /// The topics.
        topics: Vec<OffsetCommitResponseTopic>, 0..;
    }

    /// Partitions of one topic.
    pub struct OffsetCommitResponseTopic {
        /// Its name.
        name: String, 0..=9;
        /// Its id.
        topic_id: Option<TopicId>, 10..;
        /// The partitions.
        partitions: Vec<OffsetCommitResponsePartition>, 0..;
    }

    /// What became of one partition's offset.
    pub struct OffsetCommitResponsePartition {
        /// The partition's number.
        partition_index: i32, 0..;
        /// Why it is not remembered.
        error_code: ErrorCode, 0..;
    }
}
