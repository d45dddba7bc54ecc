//! Metadata, API 3: which topics and brokers there are, and who leads.

use highwater_engine::units::TopicId;

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks about topics and brokers.
    pub struct MetadataRequest {
        /// The topics; `None` is all of them. Version 0 says that with an empty list.
        topics: Option<Vec<MetadataRequestTopic>>, 0.., nullable 1..;
        /// Whether topics that do not exist may be made.
        allow_auto_topic_creation: bool, 4.., default true;
        /// Whether to say what the client may do with the cluster.
        include_cluster_authorized_operations: bool, 8..=10;
        /// Whether to say what the client may do with the topics.
        include_topic_authorized_operations: bool, 8..;
    }

    /// A topic, by id or by name.
    pub struct MetadataRequestTopic {
        /// The topic's id.
        topic_id: Option<TopicId>, 10..;
        /// The topic's name.
        name: Option<String>, 0.., nullable 10..;
    }
}

message! {
    /// The brokers and the topics.
    pub struct MetadataResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 3..;
        /// The brokers that are alive.
        brokers: Vec<MetadataResponseBroker>, 0..;
        /// The cluster's id.
        cluster_id: Option<String>, 2.., nullable 2..;
        /// A broker that takes requests for the controller, -1 if there is none.
        controller_id: i32, 1.., default -1;
        /// The topics.
        topics: Vec<MetadataResponseTopic>, 0..;
        /// What the client may do with the cluster, as bits.
        cluster_authorized_operations: i32, 8..=10, default i32::MIN;
        /// An error of the whole request.
        error_code: ErrorCode, 13..;
    }

    /// A broker and where it is reached.
    pub struct MetadataResponseBroker {
        /// The node id.
        node_id: i32, 0..;
        /// The host.
        host: String, 0..;
        /// The port.
        port: i32, 0..;
        /// The rack.
        rack: Option<String>, 1.., nullable 1..;
    }

    /// A topic.
    pub struct MetadataResponseTopic {
        /// Why nothing is said about the topic.
        error_code: ErrorCode, 0..;
        /// Its name, absent if it was asked by an id that is unknown.
        name: Option<String>, 0.., nullable 12..;
        /// Its id.
        topic_id: Option<TopicId>, 10..;
        /// Whether clients should leave it alone.
        is_internal: bool, 1..;
        /// Its partitions.
        partitions: Vec<MetadataResponsePartition>, 0..;
        /// What the client may do with it, as bits.
        topic_authorized_operations: i32, 8.., default i32::MIN;
    }

    /// A partition.
    pub struct MetadataResponsePartition {
        /// Why it cannot be used.
        error_code: ErrorCode, 0..;
        /// Its number.
        partition_index: i32, 0..;
        /// Who leads, -1 for nobody.
        leader_id: i32, 0..;
        /// The leader epoch, -1 if unknown.
        leader_epoch: i32, 7.., default -1;
        /// The assigned replicas.
        replica_nodes: Vec<i32>, 0..;
        /// The in-sync replicas.
        isr_nodes: Vec<i32>, 0..;
        /// The assigned replicas that are down.
        offline_replicas: Vec<i32>, 5..;
    }
}

impl MetadataRequest {
    /// Whether the request, read in this version, is about all topics.
    pub fn asks_for_all_topics(&self, version: i16) -> bool {
        self.topics.as_ref().is_none_or(|topics| version == 0 && topics.is_empty())
    }
}
