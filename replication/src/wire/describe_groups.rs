//! `DescribeGroups`, API 15: the members of groups, and what they have.

use bytes::Bytes;

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for groups by name.
    pub struct DescribeGroupsRequest {
        /// The groups.
        groups: Vec<String>, 0..;
        /// Whether it should be said what the client may do.
        include_authorized_operations: bool, 3..;
    }
}

message! {
    /// The groups.
    pub struct DescribeGroupsResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// The groups.
        groups: Vec<DescribedGroup>, 0..;
    }

    /// One group.
    pub struct DescribedGroup {
        /// Why it is not described.
        error_code: ErrorCode, 0..;
        /// The error in words.
        error_message: Option<String>, 6.., nullable 6..;
        /// Its name.
        group_id: String, 0..;
        /// Its state.
        group_state: String, 0..;
        /// What it is for.
        protocol_type: String, 0..;
        /// How partitions are assigned.
        protocol_data: String, 0..;
        /// Its members.
        members: Vec<DescribedGroupMember>, 0..;
        /// What the client may do, as bits; the smallest number where it did not ask.
        authorized_operations: i32, 3.., default i32::MIN;
    }

    /// One member.
    pub struct DescribedGroupMember {
        /// Its id.
        member_id: String, 0..;
        /// Its name over restarts.
        group_instance_id: Option<String>, 4.., nullable 4..;
        /// What its client calls itself.
        client_id: String, 0..;
        /// From where it came.
        client_host: String, 0..;
        /// Its subscription.
        member_metadata: Bytes, 0..;
        /// Its part.
        member_assignment: Bytes, 0..;
    }
}
