//! Produce, API 0: appends records.

use bytes::Bytes;
use highwater_engine::units::TopicId;

use super::common::{LeaderIdAndEpoch, NodeEndpoint};
use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Record batches for partitions.
    pub struct ProduceRequest {
        /// The transaction, if it is one.
        transactional_id: Option<String>, 3.., nullable 3..;
        /// 0: no answer; 1: written by the leader; -1: by all in-sync replicas.
        acks: i16, 0..;
        /// How long to wait for the acknowledgements.
        timeout_ms: i32, 0..;
        /// The topics.
        topic_data: Vec<TopicProduceData>, 0..;
    }

    /// Partitions of one topic.
    pub struct TopicProduceData {
        /// The topic's name.
        name: String, 0..=12;
        /// The topic's id.
        topic_id: Option<TopicId>, 13..;
        /// The partitions.
        partition_data: Vec<PartitionProduceData>, 0..;
    }

    /// One partition's records.
    pub struct PartitionProduceData {
        /// The partition's number.
        index: i32, 0..;
        /// The record batch, a slice of the frame.
        records: Option<Bytes>, 0.., nullable 0..;
    }
}

message! {
    /// What became of the records.
    pub struct ProduceResponse {
        /// The topics.
        responses: Vec<TopicProduceResponse>, 0..;
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// Where the leaders named in `current_leader` are reached.
        node_endpoints: Vec<NodeEndpoint>, 10.., tag 0;
    }

    /// Partitions of one topic.
    pub struct TopicProduceResponse {
        /// The topic's name.
        name: String, 0..=12;
        /// The topic's id.
        topic_id: Option<TopicId>, 13..;
        /// The partitions.
        partition_responses: Vec<PartitionProduceResponse>, 0..;
    }

    /// What became of one partition's records.
    pub struct PartitionProduceResponse {
        /// The partition's number.
        index: i32, 0..;
        /// Why they were refused.
        error_code: ErrorCode, 0..;
        /// The offset of the first record, -1 if there is none.
        base_offset: i64, 0..;
        /// The broker's timestamp, -1 unless the topic uses `LogAppendTime`.
        log_append_time_ms: i64, 2.., default -1;
        /// The log start, -1 if unknown.
        log_start_offset: i64, 5.., default -1;
        /// The records that made the batch be refused.
        record_errors: Vec<BatchIndexAndErrorMessage>, 8..;
        /// What the records have in common.
        error_message: Option<String>, 8.., nullable 8..;
        /// Who leads, where the client was wrong.
        current_leader: LeaderIdAndEpoch, 10.., tag 0;
    }

    /// A record that was refused.
    pub struct BatchIndexAndErrorMessage {
        /// Its number in the batch.
        batch_index: i32, 8..;
        /// Why.
        batch_index_error_message: Option<String>, 8.., nullable 8..;
    }
}
