//! `DeleteTopics`, API 20: deletes topics.

use highwater_engine::units::TopicId;

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for topics to go.
    pub struct DeleteTopicsRequest {
        /// The topics, by name or by id.
        topics: Vec<DeleteTopicState>, 6..;
        /// The topics' names.
        topic_names: Vec<String>, 0..=5;
        /// How long to wait for it.
        timeout_ms: i32, 0..;
    }

    /// A topic, by name or by id.
    pub struct DeleteTopicState {
        /// Its name.
        name: Option<String>, 6.., nullable 6..;
        /// Its id.
        topic_id: Option<TopicId>, 6..;
    }
}

message! {
    /// What became of the topics.
    pub struct DeleteTopicsResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// The topics.
        responses: Vec<DeletableTopicResult>, 0..;
    }

    /// What became of one topic.
    pub struct DeletableTopicResult {
        /// Its name, absent if it was asked by an id that is unknown.
        name: Option<String>, 0.., nullable 6..;
        /// Its id.
        topic_id: Option<TopicId>, 6..;
        /// Why it is still there.
        error_code: ErrorCode, 0..;
        /// The error in words.
        error_message: Option<String>, 5.., nullable 5..;
    }
}
