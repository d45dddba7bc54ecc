//! `DescribeCluster`, API 60: which brokers there are.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for the brokers.
    pub struct DescribeClusterRequest {
        /// Whether to say what the client may do with the cluster.
        include_cluster_authorized_operations: bool, 0..;
        /// 1: brokers; 2: controllers.
        endpoint_type: i8, 1.., default 1;
        /// Whether to name brokers that are fenced, too.
        include_fenced_brokers: bool, 2..;
    }
}

message! {
    /// The brokers.
    pub struct DescribeClusterResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 0..;
        /// An error of the whole request.
        error_code: ErrorCode, 0..;
        /// The error in words.
        error_message: Option<String>, 0.., nullable 0..;
        /// 1: brokers; 2: controllers.
        endpoint_type: i8, 1.., default 1;
        /// The cluster's id.
        cluster_id: String, 0..;
        /// A broker that takes requests for the controller, -1 if there is none.
        controller_id: i32, 0.., default -1;
        /// The brokers.
        brokers: Vec<DescribeClusterBroker>, 0..;
        /// What the client may do with the cluster, as bits.
        cluster_authorized_operations: i32, 0.., default i32::MIN;
    }

    /// A broker and where it is reached.
    pub struct DescribeClusterBroker {
        /// The node id.
        broker_id: i32, 0..;
        /// The host.
        host: String, 0..;
        /// The port.
        port: i32, 0..;
        /// The rack.
        rack: Option<String>, 0.., nullable 0..;
        /// Whether it is fenced.
        is_fenced: bool, 2..;
    }
}
