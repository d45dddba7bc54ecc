//! Why the controller refused, as Kafka's errors.

use highwater_replication::controller::{ElectionRefusal, ReassignRefusal, TopicRefusal};
use highwater_replication::wire::ErrorCode;

pub(super) fn topic(refusal: &TopicRefusal) -> ErrorCode {
    match refusal {
        TopicRefusal::InvalidName { .. } | TopicRefusal::Collides { .. } => ErrorCode::InvalidTopicException,
        TopicRefusal::Exists { .. } => ErrorCode::TopicAlreadyExists,
        TopicRefusal::Unknown => ErrorCode::UnknownTopicOrPartition,
        TopicRefusal::UnknownId => ErrorCode::UnknownTopicId,
        TopicRefusal::InvalidPartitions { .. } => ErrorCode::InvalidPartitions,
        TopicRefusal::InvalidReplicationFactor { .. } | TopicRefusal::TooFewBrokers { .. } => {
            ErrorCode::InvalidReplicationFactor
        }
        TopicRefusal::InvalidAssignment { .. } => ErrorCode::InvalidReplicaAssignment,
        TopicRefusal::InvalidConfig { .. } => ErrorCode::InvalidConfig,
        TopicRefusal::TooMany { .. } => ErrorCode::PolicyViolation,
        // A controller of a later version may have more.
        _ => ErrorCode::UnknownServerError,
    }
}

pub(super) fn election(refusal: ElectionRefusal) -> ErrorCode {
    match refusal {
        ElectionRefusal::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        ElectionRefusal::NotNeeded { .. } => ErrorCode::ElectionNotNeeded,
        ElectionRefusal::NotInSync { .. } | ElectionRefusal::Damaged { .. } => {
            ErrorCode::PreferredLeaderNotAvailable
        }
        ElectionRefusal::NobodyAvailable => ErrorCode::EligibleLeadersNotAvailable,
        // A controller of a later version may have more.
        ElectionRefusal::EpochsUsedUp | _ => ErrorCode::UnknownServerError,
    }
}

pub(super) fn reassignment(refusal: &ReassignRefusal) -> ErrorCode {
    match refusal {
        ReassignRefusal::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        ReassignRefusal::InvalidAssignment { .. } | ReassignRefusal::NobodyWouldBeLeft => {
            ErrorCode::InvalidReplicaAssignment
        }
        ReassignRefusal::FactorChanges { .. } => ErrorCode::InvalidReplicationFactor,
        ReassignRefusal::NotUnderWay => ErrorCode::NoReassignmentInProgress,
        // A controller of a later version may have more.
        ReassignRefusal::EpochsUsedUp | _ => ErrorCode::UnknownServerError,
    }
}

/// The controller could not be reached, did not answer in time, or the session ended. It may have been done all the same.
pub(super) fn no_answer() -> (ErrorCode, String) {
    (
        ErrorCode::RequestTimedOut,
        "the controller did not answer; it may have been done all the same".to_owned(),
    )
}
