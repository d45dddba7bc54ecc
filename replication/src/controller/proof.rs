//! Whether a replica that registers has proved that it kept all it counted for. Pure.

use super::protocol::{Condition, LastStop, ReplicaFacts};
use super::state::Suspicion;
use crate::ids::BrokerEpoch;

/// What a contribution was worth when it was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contributions {
    /// In the operating system: survives a kill.
    Written,
    /// Fsynced: survives a power loss.
    Durable,
}

/// `None` if the replica is proven, otherwise why it is suspect.
///
/// `last_session` is the session that the controller knows of the broker; `facts` are `None` if it has no such log.
pub(super) fn suspicion(
    stop: LastStop,
    last_session: Option<BrokerEpoch>,
    contributions: Contributions,
    facts: Option<&ReplicaFacts>,
) -> Option<Suspicion> {
    let Some(facts) = facts else { return Some(Suspicion::Missing) };
    if facts.condition == Condition::Damaged {
        return Some(Suspicion::Damaged);
    }
    if facts.condition == Condition::LogFailed {
        return Some(Suspicion::LogFailed);
    }
    match stop {
        // The process never ended, so its log has all that it ever had.
        LastStop::StillRunning { session } if Some(session) == last_session => None,
        LastStop::Clean { session: Some(session) } if Some(session) == last_session => {
            match facts.condition {
                Condition::Fits | Condition::Writing => too_short(facts),
                Condition::DiffersFromMark | Condition::Damaged | Condition::LogFailed => {
                    Some(Suspicion::MarkDoesNotFit)
                }
            }
        }
        LastStop::StillRunning { .. } | LastStop::Clean { .. } => Some(Suspicion::MarkDoesNotFit),
        LastStop::Killed => reaches_its_checkpoints(facts),
        LastStop::MachineCrash => match contributions {
            Contributions::Durable => reaches_its_checkpoints(facts),
            Contributions::Written => Some(Suspicion::MachineCrash),
        },
        // A directory without a past that has logs all the same was put together by somebody.
        LastStop::Never => Some(Suspicion::MachineCrash),
    }
}

fn too_short(facts: &ReplicaFacts) -> Option<Suspicion> {
    facts.known_committed.is_some_and(|committed| committed > facts.end).then_some(Suspicion::TooShort)
}

fn reaches_its_checkpoints(facts: &ReplicaFacts) -> Option<Suspicion> {
    match (facts.known_committed, facts.recovery_point) {
        (Some(committed), Some(recovery)) if committed <= facts.end && recovery <= facts.end => None,
        (Some(_), Some(_)) => Some(Suspicion::TooShort),
        (None, _) | (_, None) => Some(Suspicion::CheckpointsUnreadable),
    }
}
