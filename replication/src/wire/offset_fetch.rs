//! `OffsetFetch`, API 9: how far groups have come.

use highwater_engine::units::TopicId;

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for the offsets of one group, or of several.
    pub struct OffsetFetchRequest {
        /// The one group.
        group_id: String, 0..=7;
        /// Its topics; all of them if absent.
        topics: Option<Vec<OffsetFetchRequestTopic>>, 0..=7, nullable 2..=7;
        /// The groups.
        groups: Vec<OffsetFetchRequestGroup>, 8..;
        /// Whether offsets that an open transaction may still change are an error.
        require_stable: bool, 7..;
    }

    /// Partitions of one topic.
    pub struct OffsetFetchRequestTopic {
        /// Its name.
        name: String, 0..=7;
        /// The partitions.
        partition_indexes: Vec<i32>, 0..=7;
    }

    /// One group.
    pub struct OffsetFetchRequestGroup {
        /// The group.
        group_id: String, 8..;
        /// The member that asks (KIP-848).
        member_id: Option<String>, 9.., nullable 9..;
        /// Its epoch.
        member_epoch: i32, 9.., default -1;
        /// Its topics; all of them if absent.
        topics: Option<Vec<OffsetFetchRequestTopics>>, 8.., nullable 8..;
    }

    /// Partitions of one topic of one group.
    pub struct OffsetFetchRequestTopics {
        /// Its name.
        name: String, 8..=9;
        /// Its id.
        topic_id: Option<TopicId>, 10..;
        /// The partitions.
        partition_indexes: Vec<i32>, 8..;
    }
}

message! {
    /// The offsets.
    pub struct OffsetFetchResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 3..;
        /// The one group's topics.
        topics: Vec<OffsetFetchResponseTopic>, 0..=7;
        /// Why the one group has none.
        error_code: ErrorCode, 2..=7;
        /// The groups.
        groups: Vec<OffsetFetchResponseGroup>, 8..;
    }

    /// Offsets of one topic.
    pub struct OffsetFetchResponseTopic {
        /// Its name.
        name: String, 0..=7;
        /// The partitions.
        partitions: Vec<OffsetFetchResponsePartition>, 0..=7;
    }

    /// One group.
    pub struct OffsetFetchResponseGroup {
        /// The group.
        group_id: String, 8..;
        /// Its topics.
        topics: Vec<OffsetFetchResponseTopics>, 8..;
        /// Why it has none.
        error_code: ErrorCode, 8..;
    }

    /// Offsets of one topic of one group.
    pub struct OffsetFetchResponseTopics {
        /// Its name.
        name: String, 8..=9;
        /// Its id.
        topic_id: Option<TopicId>, 10..;
        /// The partitions.
        partitions: Vec<OffsetFetchResponsePartition>, 8..;
    }

    /// The offset of one partition.
    pub struct OffsetFetchResponsePartition {
        /// The partition's number.
        partition_index: i32, 0..;
        /// The next offset to be read, -1 for none.
        committed_offset: i64, 0.., default -1;
        /// The leader epoch of the last record that was read, -1 for unknown.
        committed_leader_epoch: i32, 5.., default -1;
        /// What the group remembered with it.
        metadata: Option<String>, 0.., nullable 0..;
        /// Why it is not known.
        error_code: ErrorCode, 0..;
    }
}
