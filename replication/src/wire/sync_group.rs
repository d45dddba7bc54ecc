//! `SyncGroup`, API 14: the leader of a group brings the assignment, and each member gets its part.

use bytes::Bytes;

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for the member's part, and brings all parts if it comes from the leader.
    pub struct SyncGroupRequest {
        /// The group.
        group_id: String, 0..;
        /// The generation that the member joined.
        generation_id: i32, 0..;
        /// The member.
        member_id: String, 0..;
        /// Its name over restarts.
        group_instance_id: Option<String>, 3.., nullable 3..;
        /// What it takes the group to be for.
        protocol_type: Option<String>, 5.., nullable 5..;
        /// How it takes partitions to be assigned.
        protocol_name: Option<String>, 5.., nullable 5..;
        /// The parts, from the leader.
        assignments: Vec<SyncGroupRequestAssignment>, 0..;
    }

    /// One member's part.
    pub struct SyncGroupRequestAssignment {
        /// The member.
        member_id: String, 0..;
        /// Its part, which only members understand.
        assignment: Bytes, 0..;
    }
}

message! {
    /// The member's part.
    pub struct SyncGroupResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// Why there is none.
        error_code: ErrorCode, 0..;
        /// What the group is for.
        protocol_type: Option<String>, 5.., nullable 5..;
        /// How partitions are assigned.
        protocol_name: Option<String>, 5.., nullable 5..;
        /// The part.
        assignment: Bytes, 0..;
    }
}
