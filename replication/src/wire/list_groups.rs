//! `ListGroups`, API 16: the groups that a broker coordinates.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for groups.
    pub struct ListGroupsRequest {
        /// Only in these states; in any if there is none.
        states_filter: Vec<String>, 4..;
        /// Only of these types; of any if there is none.
        types_filter: Vec<String>, 5..;
    }
}

message! {
    /// The groups.
    pub struct ListGroupsResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// Why they are not known.
        error_code: ErrorCode, 0..;
        /// The groups.
        groups: Vec<ListedGroup>, 0..;
    }

    /// One group.
    pub struct ListedGroup {
        /// Its name.
        group_id: String, 0..;
        /// What it is for.
        protocol_type: String, 0..;
        /// Its state.
        group_state: String, 4..;
        /// Its type.
        group_type: String, 5..;
    }
}
