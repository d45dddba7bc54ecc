//! What must be true when everything was healed and had time: I24.

use highwater_engine::checkpoint::OffsetCheckpoint;
use highwater_engine::units::{NodeId, TopicPartition};

use super::Ghost;

impl Ghost {
    /// Why a partition has not come to rest, if it has not.
    pub(crate) fn unrest(&self, name: &TopicPartition) -> Option<String> {
        let ghost = self.partitions.get(name)?;
        let state = ghost.state.as_ref()?;
        if state.leader.is_none() {
            return Some(format!("{name}: nobody leads: {state:?}"));
        }
        if state.isr.len() != state.replicas.len()
            || state.eligible != state.isr
            || !state.suspects.is_empty()
            || !state.damaged.is_empty()
        {
            return Some(format!(
                "{name}: ISR {:?}, eligible {:?}, suspect {:?}, damaged {:?}",
                state.isr, state.eligible, state.suspects, state.damaged
            ));
        }
        let high = ghost.true_high;
        let behind = |node: &&NodeId| {
            ghost
                .mirrors
                .get(node)
                .is_none_or(|mirror| mirror.matched != high || mirror.end() != high || mirror.high != high)
        };
        let node = state.replicas.iter().find(behind)?;
        let mirror = ghost.mirrors.get(node);
        let (matched, end, seen) =
            mirror.map_or((0, 0, 0), |mirror| (mirror.matched, mirror.end(), mirror.high));
        Some(format!(
            "{name}: {node} has ..{end}, high watermark {seen}, the same up to {matched} of ..{high}"
        ))
    }

    /// I22: what a checkpoint of high watermarks says is committed.
    pub(crate) fn check_checkpoint(&mut self, node: NodeId, name: &TopicPartition, offset: i64) {
        let Some(ghost) = self.partitions.get(name) else { return };
        let high = ghost.high_ever;
        if offset > high {
            self.violate(
                22,
                format!("{name} on {node}: the checkpoint says {offset}, committed is ..{high}"),
            );
        }
    }

    /// I22: whatever a checkpoint of high watermarks says was said of the records that are there: a log does not grow below it.
    pub(crate) fn check_growth(&mut self, node: NodeId, checkpoint: &OffsetCheckpoint) {
        let grown: Vec<(TopicPartition, i64)> = (self.partitions.iter_mut())
            .filter_map(|(name, ghost)| {
                Some((name.clone(), ghost.mirrors.get_mut(&node)?.grown_from.take()?))
            })
            .collect();
        for (name, from) in grown {
            if let Some(named) = checkpoint.get(&name).filter(|named| named.value() > from) {
                self.violate(
                    22,
                    format!("{name} on {node}: it grew at {from}, and its checkpoint says ..{named}"),
                );
            }
        }
    }

    /// I22: what a checkpoint says is synced is.
    pub(crate) fn check_recovery_point(
        &mut self,
        node: NodeId,
        name: &TopicPartition,
        point: i64,
        durable: i64,
    ) {
        if point > durable {
            self.violate(
                22,
                format!(
                    "{name} on {node}: the recovery point {point} is written down, synced is ..{durable}"
                ),
            );
        }
    }

    /// I24 was not reached.
    pub(crate) fn unrested(&mut self, what: String) {
        self.violate(24, what);
    }
}
