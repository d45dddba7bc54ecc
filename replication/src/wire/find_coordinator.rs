//! `FindCoordinator`, API 10: finds the coordinator of a group or of a transaction.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks who coordinates groups or transactions.
    pub struct FindCoordinatorRequest {
        /// The one key.
        key: String, 0..=3;
        /// 0: groups; 1: transactions; 2: share groups.
        key_type: i8, 1..;
        /// The keys.
        coordinator_keys: Vec<String>, 4..;
    }
}

message! {
    /// The coordinators.
    pub struct FindCoordinatorResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// Why there is none.
        error_code: ErrorCode, 0..=3;
        /// The error in words.
        error_message: Option<String>, 1..=3, nullable 1..=3;
        /// The coordinator's node id.
        node_id: i32, 0..=3;
        /// Its host.
        host: String, 0..=3;
        /// Its port.
        port: i32, 0..=3;
        /// The coordinator of each key.
        coordinators: Vec<Coordinator>, 4..;
    }

    /// The coordinator of one key.
    pub struct Coordinator {
        /// The key.
        key: String, 4..;
        /// The coordinator's node id.
        node_id: i32, 4..;
        /// Its host.
        host: String, 4..;
        /// Its port.
        port: i32, 4..;
        /// Why there is none.
        error_code: ErrorCode, 4..;
        /// The error in words.
        error_message: Option<String>, 4.., nullable 4..;
    }
}
