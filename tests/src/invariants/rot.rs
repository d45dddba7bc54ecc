//! I25: what was changed at rest is told or repaired, and never given out or passed over.

use highwater_engine::batch::{ScanStop, StopReason};
use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::shard::Shard;

use super::mirror::read_batches;
use super::{BatchFact, Ghost};

impl Ghost {
    /// A bit of a batch was changed.
    pub(crate) fn struck(&mut self, node: NodeId, name: &TopicPartition, base: i64) {
        let mirror = self.partitions.get(name).and_then(|ghost| ghost.mirrors.get(&node));
        let batch = mirror.and_then(|mirror| mirror.batch_at(base)).copied();
        self.struck.entry((node, name.clone())).or_default().extend(batch);
    }

    /// Any of a log that nobody has open may be damaged.
    pub(crate) fn damaged(&mut self, node: NodeId, name: &TopicPartition) {
        let Some(mirror) = self.mirror(name, node) else { return };
        let all = mirror.batches.clone();
        self.struck.insert((node, name.clone()), all);
    }

    /// A range was repaired.
    pub(crate) fn healed(&mut self, node: NodeId, name: &TopicPartition, (from, to): (i64, i64)) {
        if let Some(struck) = self.struck.get_mut(&(node, name.clone())) {
            struck.retain(|batch| batch.base < from || batch.base >= to);
        }
    }

    /// What lay there and was struck, and cannot be read.
    pub(super) fn struck_at(&self, node: NodeId, name: &TopicPartition) -> &[BatchFact] {
        self.struck.get(&(node, name.clone())).map(Vec::as_slice).unwrap_or_default()
    }

    /// Where batches of a node begin that may be struck: below `point`, committed, and synced and not struck at somebody else. Not the last
    /// one that is committed: a log whose last batch is damaged may take its end for another.
    pub(crate) fn may_be_struck(&self, node: NodeId, name: &TopicPartition, point: i64) -> Vec<i64> {
        let Some(ghost) = self.partitions.get(name) else { return Vec::new() };
        let Some(mirror) = ghost.mirrors.get(&node) else { return Vec::new() };
        let committed = mirror.matched.min(ghost.true_high);
        let limit = point.min(committed - 1).min(mirror.durable);
        // Somebody else has everything that is committed, whole: where nobody has, replicas do not heal each other yet (T30).
        let is_kept = ghost.mirrors.iter().any(|(other, mirror)| {
            *other != node
                && mirror.durable.min(mirror.matched) >= ghost.true_high
                && self.struck_at(*other, name).is_empty()
        });
        if !is_kept {
            return Vec::new();
        }
        let is_whole = |batch: &BatchFact| !self.struck_at(node, name).contains(batch);
        let batches = mirror.batches.iter().filter(|batch| batch.end <= limit);
        batches.filter(|batch| is_whole(batch)).map(|batch| batch.base).collect()
    }

    /// I25: a consumer is given whole batches, and perhaps the beginning of another one.
    pub(crate) fn check_torn(&mut self, name: &TopicPartition, stop: &ScanStop) {
        let is_torn = matches!(stop.reason, StopReason::TornHeader { .. } | StopReason::TornBatch { .. });
        if !is_torn {
            self.violate(25, format!("{name}: a consumer was given damaged bytes: {stop}"));
        }
    }

    /// I25: a consumer is not led past offsets without a word.
    pub(crate) fn check_passed_over(&mut self, name: &TopicPartition, position: i64, batches: &[BatchFact]) {
        let mut at = position;
        for batch in batches {
            if batch.base > at {
                self.violate(25, format!("{name}: a consumer at {at} was given {batch}"));
            }
            at = batch.end;
        }
    }

    /// Whether a process can read all of its logs. I25: what it reads is what was written there.
    pub(crate) fn reads_all(&mut self, node: NodeId, shard: &Shard) -> bool {
        let mut all = true;
        for log in shard.store().logs() {
            let name = log.name().clone();
            let Some(mirror) = self.partitions.get(&name).and_then(|ghost| ghost.mirrors.get(&node)) else {
                continue;
            };
            let expected = mirror.batches.clone();
            let found = read_batches(shard.store(), &log, log.start(), log.written(), &[]);
            let is_prefix = expected.starts_with(&found);
            all &= found.len() == expected.len() && log.damaged().is_empty();
            if !is_prefix {
                let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
                self.violate(
                    25,
                    format!("{name} on {node}: what is read is not what was written: {differs:?}"),
                );
            }
        }
        all
    }
}
