//! Structures that Kafka's specifications repeat in several messages.

use super::schema::message;

message! {
    /// Who leads a partition, and since which epoch.
    pub struct LeaderIdAndEpoch {
        /// The leader's node id, -1 if unknown.
        leader_id: i32, 0.., default -1;
        /// Its leader epoch, -1 if unknown.
        leader_epoch: i32, 0.., default -1;
    }

    /// Where a broker is reached.
    pub struct NodeEndpoint {
        /// The node id.
        node_id: i32, 0..;
        /// The host.
        host: String, 0..;
        /// The port.
        port: i32, 0..;
        /// The rack.
        rack: Option<String>, 0.., nullable 0..;
    }
}
