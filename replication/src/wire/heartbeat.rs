//! `Heartbeat`, API 12: a member of a group lives.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Says that a member lives.
    pub struct HeartbeatRequest {
        /// The group.
        group_id: String, 0..;
        /// The generation that the member is in.
        generation_id: i32, 0..;
        /// The member.
        member_id: String, 0..;
        /// Its name over restarts.
        group_instance_id: Option<String>, 3.., nullable 3..;
    }
}

message! {
    /// Whether it is to join again.
    pub struct HeartbeatResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// What the member has to know: that the group rebalances, say.
        error_code: ErrorCode, 0..;
    }
}
