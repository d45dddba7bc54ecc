//! `CreateTopics`, API 19: makes topics.

use highwater_engine::units::TopicId;

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for new topics.
    pub struct CreateTopicsRequest {
        /// The topics.
        topics: Vec<CreatableTopic>, 0..;
        /// How long to wait for them.
        timeout_ms: i32, 0.., default 60_000;
        /// Whether to check only.
        validate_only: bool, 1..;
    }

    /// A new topic.
    pub struct CreatableTopic {
        /// Its name.
        name: String, 0..;
        /// How many partitions, -1 for the default or where they are assigned.
        num_partitions: i32, 0..;
        /// How many replicas, -1 for the default or where they are assigned.
        replication_factor: i16, 0..;
        /// Replicas by the client's choice.
        assignments: Vec<CreatableReplicaAssignment>, 0..;
        /// Settings.
        configs: Vec<CreatableTopicConfig>, 0..;
    }

    /// The replicas of a new partition.
    pub struct CreatableReplicaAssignment {
        /// Its number.
        partition_index: i32, 0..;
        /// The brokers that hold it.
        broker_ids: Vec<i32>, 0..;
    }

    /// A setting of a new topic.
    pub struct CreatableTopicConfig {
        /// Its name.
        name: String, 0..;
        /// Its value.
        value: Option<String>, 0.., nullable 0..;
    }
}

message! {
    /// What became of the topics.
    pub struct CreateTopicsResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 2..;
        /// The topics.
        topics: Vec<CreatableTopicResult>, 0..;
    }

    /// What became of one topic.
    pub struct CreatableTopicResult {
        /// Its name.
        name: String, 0..;
        /// Its id.
        topic_id: Option<TopicId>, 7..;
        /// Why it was not made.
        error_code: ErrorCode, 0..;
        /// The error in words.
        error_message: Option<String>, 1.., nullable 0..;
        /// Why its settings are not told.
        topic_config_error_code: ErrorCode, 5.., tag 0;
        /// How many partitions, -1 if not told.
        num_partitions: i32, 5.., default -1;
        /// How many replicas, -1 if not told.
        replication_factor: i16, 5.., default -1;
        /// Its settings.
        configs: Option<Vec<CreatableTopicConfigs>>, 5.., nullable 5..;
    }

    /// A setting of a topic that was made.
    pub struct CreatableTopicConfigs {
        /// Its name.
        name: String, 5..;
        /// Its value.
        value: Option<String>, 5.., nullable 5..;
        /// Whether it cannot be changed.
        read_only: bool, 5..;
        /// Where it comes from.
        config_source: i8, 5.., default -1;
        /// Whether its value is hidden.
        is_sensitive: bool, 5..;
    }
}
