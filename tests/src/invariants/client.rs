//! What must be true of what clients are told.

use highwater_engine::units::TopicPartition;

use super::{BatchFact, Ghost};

/// What an answer to a Produce promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// acks=1: the leader has it.
    Leader,
    /// acks=all: it is committed.
    All,
}

/// A produce that was answered without an error.
#[derive(Clone, Copy, Debug)]
pub struct ProduceAnswer {
    /// What was promised.
    pub promise: Promise,
    /// Which batch.
    pub crc: u32,
    /// How many records it has.
    pub records: i32,
    /// Where its first record is said to be.
    pub base: i64,
    /// The end of what was acknowledged before the batch was first sent.
    pub acked_before: i64,
    /// Whether a batch is recognized when it is sent again, so that it is in the log once.
    pub idempotent: bool,
}

impl Ghost {
    /// I17: what is acknowledged is where it was promised to be, at the moment in which the answer leaves. I21: behind what was
    /// acknowledged before it was sent.
    pub(crate) fn check_answer(
        &mut self,
        name: &TopicPartition,
        leader: highwater_engine::units::NodeId,
        answer: &ProduceAnswer,
    ) {
        let Some(ghost) = self.partitions.get_mut(name) else { return };
        let place = match answer.promise {
            Promise::Leader => ghost.mirrors.get(&leader).and_then(|mirror| mirror.batch_at(answer.base)),
            Promise::All => ghost.committed_at(answer.base),
        };
        let there = place.is_some_and(|batch| batch.crc == answer.crc);
        let (high, acked_end) = (ghost.true_high, ghost.acked_end);
        let too_early =
            answer.promise == Promise::All && ghost.losses == 0 && answer.base < answer.acked_before;
        if answer.promise == Promise::All && there {
            ghost.acked_end = acked_end.max(answer.base + i64::from(answer.records));
        }
        if !there {
            let what = format!(
                "{name}: {leader} acknowledged {:08x} at {} ({:?}), where there is {}; committed is ..{high}",
                answer.crc,
                answer.base,
                answer.promise,
                self.partitions
                    .get(name)
                    .and_then(|ghost| ghost.committed_at(answer.base))
                    .map_or_else(|| "nothing".to_owned(), ToString::to_string)
            );
            self.violate(17, what);
        }
        if too_early && answer.idempotent {
            let what = format!(
                "{name}: {:08x} is at {}, before ..{} which was acknowledged before it was sent",
                answer.crc, answer.base, answer.acked_before
            );
            self.violate(21, what);
        }
    }

    /// I16: a producer's batch is committed once, and its batches in their order.
    pub(super) fn check_once_and_in_order(&mut self, name: &TopicPartition, batch: &BatchFact) {
        let Some((id, epoch, sequence)) = batch.producer else { return };
        let Some(ghost) = self.partitions.get_mut(name) else { return };
        let count = i32::try_from(batch.end - batch.base).unwrap_or(i32::MAX);
        let next = (sequence.wrapping_add(count)) & i32::MAX;
        let expected = ghost.sequences.insert((id, epoch), next);
        if let Some(expected) = expected.filter(|expected| *expected != sequence) {
            self.violate(
                16,
                format!("{name}: {batch} of producer {id} has sequence {sequence}, {expected} follows"),
            );
        } else if expected.is_none() && sequence != 0 {
            // An unknown producer may begin anywhere, also while its first batch is still tried again (see BUGS.md).
            self.began_late.insert(id);
        }
    }

    /// I8: a consumer is given what is committed, and nothing else. Gives where it has read to.
    pub(crate) fn check_consumed(&mut self, name: &TopicPartition, batches: &[BatchFact]) -> i64 {
        let mut end = 0;
        for batch in batches {
            end = batch.end;
            let Some(ghost) = self.partitions.get(name) else { return end };
            let committed = ghost.committed_at(batch.base) == Some(batch);
            if !committed && !ghost.given_up.contains(&batch.crc) {
                let what =
                    format!("{name}: a consumer was given {batch}; committed is ..{}", ghost.true_high);
                self.violate(8, what);
            }
        }
        end
    }

    /// I8: a consumer that stands on what is committed is not told that there is nothing.
    pub(crate) fn check_out_of_range(&mut self, name: &TopicPartition, offset: i64) {
        let Some(ghost) = self.partitions.get(name) else { return };
        if offset <= ghost.true_high && ghost.losses == 0 {
            self.violate(
                8,
                format!("{name}: {offset} is said to be out of range; committed is ..{}", ghost.true_high),
            );
        }
    }

    /// I6: the latest offset that clients are told never falls. I21: it covers what was acknowledged before it was asked for.
    pub(crate) fn check_latest(
        &mut self,
        name: &TopicPartition,
        told: i64,
        told_before: i64,
        acked_before: i64,
    ) {
        let Some(ghost) = self.partitions.get_mut(name) else { return };
        let (lossless, high) = (ghost.losses == 0, ghost.high_ever);
        ghost.latest_told = ghost.latest_told.max(told);
        if lossless && told < told_before {
            self.violate(
                6,
                format!("{name}: the latest offset is said to be {told}, it was {told_before} before"),
            );
        }
        if lossless && told < acked_before {
            self.violate(
                21,
                format!(
                    "{name}: the latest offset is said to be {told}, ..{acked_before} was acknowledged before"
                ),
            );
        }
        if told > high {
            self.violate(8, format!("{name}: the latest offset is said to be {told}, committed is ..{high}"));
        }
    }

    /// I16: a producer that did nothing wrong is told that its order is.
    pub(crate) fn out_of_order(&mut self, name: &TopicPartition, producer: i64, what: String) {
        let first_in = |mirror: &super::Mirror| {
            let sequences = mirror.batches.iter().filter_map(|batch| batch.producer);
            sequences.filter(|(id, _, _)| *id == producer).map(|(_, _, sequence)| sequence).next()
        };
        let late = self
            .partitions
            .get(name)
            .is_some_and(|ghost| ghost.mirrors.values().filter_map(first_in).any(|sequence| sequence != 0));
        if late {
            self.began_late.insert(producer);
        }
        if !self.began_late.contains(&producer) {
            self.violate(16, what);
        }
    }

    /// How many producers have a first batch that is not their first.
    pub(crate) fn producers_that_began_late(&self) -> usize {
        self.began_late.len()
    }
}
