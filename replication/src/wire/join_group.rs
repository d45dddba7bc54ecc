//! `JoinGroup`, API 11: a consumer becomes a member of a group, and waits until the others have.

use bytes::Bytes;

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks to be a member of a group's next generation.
    pub struct JoinGroupRequest {
        /// The group.
        group_id: String, 0..;
        /// A member that is silent for so long is gone.
        session_timeout_ms: i32, 0..;
        /// How long a rebalance waits for this member; the session's timeout where the version lacks it.
        rebalance_timeout_ms: i32, 1.., default -1;
        /// The member id that the coordinator gave, empty for the first time.
        member_id: String, 0..;
        /// A name that stays the same over restarts (KIP-345).
        group_instance_id: Option<String>, 5.., nullable 5..;
        /// What the group is for: `consumer` for consumers.
        protocol_type: String, 0..;
        /// How partitions may be assigned, the preferred way first.
        protocols: Vec<JoinGroupRequestProtocol>, 0..;
        /// Why it joins, for people.
        reason: Option<String>, 8.., nullable 8..;
    }

    /// One way of assigning, with what the member says about itself in it.
    pub struct JoinGroupRequestProtocol {
        /// Its name.
        name: String, 0..;
        /// The member's subscription, which only its like understand.
        metadata: Bytes, 0..;
    }
}

message! {
    /// The generation that the member is in.
    pub struct JoinGroupResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 2..;
        /// Why it is not a member.
        error_code: ErrorCode, 0..;
        /// The generation, -1 for none.
        generation_id: i32, 0.., default -1;
        /// What the group is for.
        protocol_type: Option<String>, 7.., nullable 7..;
        /// The way of assigning that all members know.
        protocol_name: Option<String>, 0.., nullable 7..;
        /// The member that assigns.
        leader: String, 0..;
        /// Whether the leader leaves the assignment as it is.
        skip_assignment: bool, 9..;
        /// The member's id.
        member_id: String, 0..;
        /// All members, for the leader.
        members: Vec<JoinGroupResponseMember>, 0..;
    }

    /// A member, as its leader sees it.
    pub struct JoinGroupResponseMember {
        /// Its id.
        member_id: String, 0..;
        /// Its name over restarts.
        group_instance_id: Option<String>, 5.., nullable 5..;
        /// Its subscription.
        metadata: Bytes, 0..;
    }
}
