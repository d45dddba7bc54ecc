//! Fetch, API 1: reads records, for consumers and for followers.

use highwater_engine::units::TopicId;

use super::common::{LeaderIdAndEpoch, NodeEndpoint};
use super::error_code::ErrorCode;
use super::records::Records;
use super::schema::message;

message! {
    /// Asks for records behind an offset of each partition.
    pub struct FetchRequest {
        /// The cluster, if the sender knows it.
        cluster_id: Option<String>, 12.., nullable 12.., tag 0;
        /// The follower that asks, -1 for a consumer. Since version 15 it is in `replica_state`.
        replica_id: i32, 0..=14, default -1;
        /// The follower that asks, and its session.
        replica_state: ReplicaState, 15.., tag 1;
        /// How long to wait for `min_bytes`.
        max_wait_ms: i32, 0..;
        /// How many bytes are worth an answer before `max_wait_ms`.
        min_bytes: i32, 0..;
        /// How many bytes all partitions together may give.
        max_bytes: i32, 3.., default i32::MAX;
        /// 0: up to the high watermark; 1: committed transactions only.
        isolation_level: i8, 4..;
        /// The fetch session, 0 for none (KIP-227).
        session_id: i32, 7..;
        /// The number of this request in its session; 0 begins one, -1 ends or has none.
        session_epoch: i32, 7.., default -1;
        /// The partitions, or what changed among them.
        topics: Vec<FetchTopic>, 0..;
        /// Partitions that leave the session.
        forgotten_topics_data: Vec<ForgottenTopic>, 7..;
        /// The consumer's rack (KIP-392).
        rack_id: String, 11..;
    }

    /// A follower and its session with the controller.
    pub struct ReplicaState {
        /// The follower's node id, -1 for a consumer.
        replica_id: i32, 15.., default -1;
        /// Its broker epoch, -1 if unknown.
        replica_epoch: i64, 15.., default -1;
    }

    /// Partitions of one topic.
    pub struct FetchTopic {
        /// The topic's name.
        topic: String, 0..=12;
        /// The topic's id.
        topic_id: Option<TopicId>, 13..;
        /// The partitions.
        partitions: Vec<FetchPartition>, 0..;
    }

    /// One partition and where to read it.
    pub struct FetchPartition {
        /// The partition's number.
        partition: i32, 0..;
        /// The leader epoch that the sender knows, -1 for none.
        current_leader_epoch: i32, 9.., default -1;
        /// The first offset to read; what a follower has is below it.
        fetch_offset: i64, 0..;
        /// The epoch of the last record before `fetch_offset`, -1 for none.
        last_fetched_epoch: i32, 12.., default -1;
        /// The follower's log start, -1 for consumers.
        log_start_offset: i64, 5.., default -1;
        /// How many bytes this partition may give.
        partition_max_bytes: i32, 0..;
        /// The follower's log directory.
        replica_directory_id: [u8; 16], 17.., tag 0;
        /// The high watermark that the follower knows (KIP-1166).
        high_watermark: i64, 18.., tag 1, default i64::MAX;
    }

    /// Partitions that leave the fetch session.
    pub struct ForgottenTopic {
        /// The topic's name.
        topic: String, 7..=12;
        /// The topic's id.
        topic_id: Option<TopicId>, 13..;
        /// The partitions' numbers.
        partitions: Vec<i32>, 7..;
    }
}

message! {
    /// Records of each partition, or why there are none.
    pub struct FetchResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// An error of the whole request.
        error_code: ErrorCode, 7..;
        /// The fetch session, 0 for none.
        session_id: i32, 7..;
        /// The topics.
        responses: Vec<FetchableTopicResponse>, 0..;
        /// Where the leaders named in `current_leader` are reached.
        node_endpoints: Vec<NodeEndpoint>, 16.., tag 0;
    }

    /// Partitions of one topic.
    pub struct FetchableTopicResponse {
        /// The topic's name.
        topic: String, 0..=12;
        /// The topic's id.
        topic_id: Option<TopicId>, 13..;
        /// The partitions.
        partitions: Vec<PartitionData>, 0..;
    }

    /// One partition's records and offsets.
    pub struct PartitionData {
        /// The partition's number.
        partition_index: i32, 0..;
        /// Why there are no records.
        error_code: ErrorCode, 0..;
        /// The high watermark, -1 if unknown.
        high_watermark: i64, 0..;
        /// The last stable offset, -1 if unknown.
        last_stable_offset: i64, 4.., default -1;
        /// The log start, -1 if unknown.
        log_start_offset: i64, 5.., default -1;
        /// Where the follower's log and the leader's part (KIP-595).
        diverging_epoch: EpochEndOffset, 12.., tag 0;
        /// Who leads, where the client was wrong.
        current_leader: LeaderIdAndEpoch, 12.., tag 1;
        /// The snapshot to fetch instead (the metadata log's).
        snapshot_id: SnapshotId, 12.., tag 2;
        /// Transactions to be skipped by a consumer of committed ones.
        aborted_transactions: Option<Vec<AbortedTransaction>>, 4.., nullable 4..;
        /// The replica to ask next, -1 for the leader.
        preferred_read_replica: i32, 11.., default -1;
        /// The record batches.
        records: Option<Records>, 0.., nullable 0..;
    }

    /// The largest epoch both logs may have, and where it ends in the leader's.
    pub struct EpochEndOffset {
        /// The epoch, -1 for none.
        epoch: i32, 12.., default -1;
        /// Its end, -1 for none.
        end_offset: i64, 12.., default -1;
    }

    /// A snapshot of the metadata log.
    pub struct SnapshotId {
        /// The offset behind the snapshot, -1 for none.
        end_offset: i64, 0.., default -1;
        /// Its epoch, -1 for none.
        epoch: i32, 0.., default -1;
    }

    /// A transaction that was aborted.
    pub struct AbortedTransaction {
        /// Whose it was.
        producer_id: i64, 4..;
        /// Its first offset.
        first_offset: i64, 4..;
    }
}
