//! `DeleteGroups`, API 42: groups without members are forgotten, with their offsets.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for groups to be forgotten.
    pub struct DeleteGroupsRequest {
        /// The groups.
        groups_names: Vec<String>, 0..;
    }
}

message! {
    /// What became of them.
    pub struct DeleteGroupsResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 0..;
        /// The groups.
        results: Vec<DeletableGroupResult>, 0..;
    }

    /// What became of one.
    pub struct DeletableGroupResult {
        /// Its name.
        group_id: String, 0..;
        /// Why it is still there.
        error_code: ErrorCode, 0..;
    }
}
