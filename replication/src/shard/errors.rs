//! Which of Kafka's errors a client is told.

use highwater_engine::batch::RefusalKind;
use highwater_engine::log::{AppendError, ReadError};
use highwater_engine::state::ProducerRefusal;

use crate::partition::{Fenced, FetchRefusal, ProduceRefusal, WaitOutcome};
use crate::wire::ErrorCode;

pub(super) fn of_fenced(fenced: Fenced) -> ErrorCode {
    match fenced {
        Fenced::OldEpoch { .. } => ErrorCode::FencedLeaderEpoch,
        Fenced::UnknownEpoch { .. } => ErrorCode::UnknownLeaderEpoch,
        Fenced::NotLeader => ErrorCode::NotLeaderOrFollower,
        Fenced::Offline => ErrorCode::KafkaStorageError,
    }
}

pub(super) fn of_fetch(refusal: FetchRefusal, names_epoch: bool) -> ErrorCode {
    match refusal {
        FetchRefusal::Fenced(fenced) => of_fenced(fenced),
        FetchRefusal::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        FetchRefusal::UnknownReplica { .. } if names_epoch => ErrorCode::UnknownLeaderEpoch,
        FetchRefusal::UnknownReplica { .. } | FetchRefusal::OtherSession { .. } => {
            ErrorCode::NotLeaderOrFollower
        }
    }
}

pub(super) fn of_produce(refusal: ProduceRefusal) -> ErrorCode {
    match refusal {
        // The leadership begins in this very turn: the client tries again.
        ProduceRefusal::NotLeader | ProduceRefusal::EpochNotBegun => ErrorCode::NotLeaderOrFollower,
        ProduceRefusal::Offline => ErrorCode::KafkaStorageError,
        ProduceRefusal::NotEnoughReplicas { .. } => ErrorCode::NotEnoughReplicas,
        // The client tries again, by which time some have been answered.
        ProduceRefusal::TooManyWaits { .. } => ErrorCode::RequestTimedOut,
    }
}

pub(super) fn of_batch(kind: RefusalKind) -> ErrorCode {
    match kind {
        RefusalKind::CorruptMessage => ErrorCode::CorruptMessage,
        RefusalKind::InvalidRecord => ErrorCode::InvalidRecord,
        RefusalKind::InvalidTimestamp => ErrorCode::InvalidTimestamp,
        RefusalKind::MessageTooLarge => ErrorCode::MessageTooLarge,
        RefusalKind::UnknownServerError => ErrorCode::UnknownServerError,
    }
}

pub(super) fn of_append(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Producer(refusal) => of_producer(*refusal),
        AppendError::StaleEpoch { .. } => ErrorCode::NotLeaderOrFollower,
        AppendError::TooLarge { .. } => ErrorCode::RecordListTooLarge,
        AppendError::OutOfSpace { .. } | AppendError::OutOfDescriptors | AppendError::Closed(_) => {
            ErrorCode::KafkaStorageError
        }
        // To be tried again: the next turn makes room.
        AppendError::Busy { .. } | AppendError::Truncating => ErrorCode::RequestTimedOut,
        AppendError::OffsetsExhausted { .. } | _ => ErrorCode::UnknownServerError,
    }
}

fn of_producer(refusal: ProducerRefusal) -> ErrorCode {
    match refusal {
        ProducerRefusal::InvalidEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        ProducerRefusal::OutOfOrder { .. } => ErrorCode::OutOfOrderSequenceNumber,
        ProducerRefusal::StateLost { .. } => ErrorCode::UnknownProducerId,
        ProducerRefusal::TransactionOpen { .. } => ErrorCode::InvalidTxnState,
        ProducerRefusal::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        // Room comes with the expiry of idle producers.
        ProducerRefusal::TooManyProducers { .. } => ErrorCode::PolicyViolation,
        _ => ErrorCode::UnknownServerError,
    }
}

pub(super) fn of_wait(outcome: WaitOutcome) -> ErrorCode {
    match outcome {
        WaitOutcome::Acknowledged => ErrorCode::None,
        WaitOutcome::NotEnoughReplicasAfterAppend => ErrorCode::NotEnoughReplicasAfterAppend,
        WaitOutcome::TimedOut => ErrorCode::RequestTimedOut,
        WaitOutcome::LeadershipChanged => ErrorCode::NotLeaderOrFollower,
        WaitOutcome::LogFailed => ErrorCode::KafkaStorageError,
    }
}

pub(super) fn of_read(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        // Never skipped in silence: a reader is told that the range cannot be had here.
        ReadError::Damaged { .. } => ErrorCode::CorruptMessage,
        ReadError::Io { .. } | ReadError::Closed(_) | _ => ErrorCode::KafkaStorageError,
    }
}
