//! `LeaveGroup`, API 13: members go, and the others share what they had.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Takes members out of a group.
    pub struct LeaveGroupRequest {
        /// The group.
        group_id: String, 0..;
        /// The one member.
        member_id: String, 0..=2;
        /// The members.
        members: Vec<MemberIdentity>, 3..;
    }

    /// A member, by its id, by its name over restarts, or by both.
    pub struct MemberIdentity {
        /// Its id, empty if only the name is known.
        member_id: String, 3..;
        /// Its name over restarts.
        group_instance_id: Option<String>, 3.., nullable 3..;
        /// Why it goes, for people.
        reason: Option<String>, 5.., nullable 5..;
    }
}

message! {
    /// What became of them.
    pub struct LeaveGroupResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// Why nobody went.
        error_code: ErrorCode, 0..;
        /// The members.
        members: Vec<MemberResponse>, 3..;
    }

    /// What became of one.
    pub struct MemberResponse {
        /// Its id.
        member_id: String, 3..;
        /// Its name over restarts.
        group_instance_id: Option<String>, 3.., nullable 3..;
        /// Why it is still there.
        error_code: ErrorCode, 3..;
    }
}
