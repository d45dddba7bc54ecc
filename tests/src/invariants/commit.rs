//! What can be committed, and what is.
//!
//! It is possible that a batch is committed when a set of replicas holds it alike that is large enough (`min.insync.replicas`) and has in it everybody whom
//! the controller could elect: its ISR and those who stay eligible. Such sets are the controller's ISR, and the committed and the maximal ISR
//! that any running leader goes by, also one that is a leader no more and has not heard of it. It is committed when a leader has found so.

use std::collections::BTreeSet;

use highwater_engine::units::{NodeId, TopicPartition};

use super::mirror::Counted;
use super::{BatchFact, Ghost, Mirror, PartitionGhost};

impl PartitionGhost {
    /// Sets of replicas that commit what all of them hold.
    pub(super) fn quorums(&self) -> Vec<Counted> {
        let Some(state) = &self.state else { return Vec::new() };
        let electable: BTreeSet<NodeId> = state.isr.iter().chain(&state.eligible).copied().collect();
        let by_leaders = self.mirrors.values().filter(|mirror| mirror.runs()).flat_map(|mirror| {
            let quorums = mirror.leads.iter().chain(&mirror.led_with);
            let has = |isr: &Counted, node: &NodeId| isr.iter().any(|(member, _)| member == node);
            quorums.filter(|isr| electable.iter().all(|node| has(isr, node))).cloned().collect::<Vec<_>>()
        });
        let by_controller = state.isr.iter().map(|node| (*node, self.session_of(*node))).collect();
        std::iter::once(by_controller)
            .chain(by_leaders)
            .filter(|quorum| quorum.len() >= self.min_isr && !quorum.is_empty())
            .collect()
    }

    /// What counts of a node: what the process of that session has or had. A leader that has not heard of its end counts what it has said,
    /// also if it is gone with its disk.
    pub(super) fn counted_mirror(&self, node: NodeId, session: Option<i64>) -> Option<&Mirror> {
        let mirror = self.mirrors.get(&node)?;
        Some(session.map_or(mirror, |session| mirror.of_session(session)))
    }

    /// The oldest session of a node that anybody goes by.
    pub(super) fn oldest_session_of(&self, node: NodeId) -> Option<i64> {
        let leaders = self.mirrors.values().filter(|mirror| mirror.runs());
        let counted = leaders.flat_map(|mirror| mirror.leads.iter().chain(&mirror.led_with).flatten());
        let sessions = counted.filter(|(member, _)| *member == node).filter_map(|(_, session)| *session);
        sessions.chain(self.session_of(node)).min()
    }

    /// The next batch that all of a quorum hold alike, and its place.
    fn next_of(&self, quorum: &Counted) -> Option<BatchFact> {
        let mirrors: Option<Vec<&Mirror>> =
            quorum.iter().map(|(node, session)| self.counted_mirror(*node, *session)).collect();
        let mirrors = mirrors?;
        let at = mirrors.iter().map(|mirror| mirror.matched).min().filter(|at| *at >= self.true_high)?;
        let mut common: Option<BatchFact> = None;
        for mirror in mirrors {
            let batch = mirror.batch_at(at)?;
            if mirror.contribution(self.counts_durable) < batch.end
                || common.is_some_and(|known| known != *batch)
            {
                return None;
            }
            common = Some(*batch);
        }
        common
    }

    /// Puts a batch in its place; what was possible there and behind it is so no more.
    fn put(&mut self, batch: BatchFact) {
        while self.possible.last().is_some_and(|last| last.end > batch.base) {
            self.possible.pop();
        }
        for mirror in self.mirrors.values_mut() {
            mirror.match_no_further(batch.base.max(mirror.start));
        }
        self.possible.push(batch);
        self.match_mirrors();
    }

    fn match_mirrors(&mut self) {
        for mirror in self.mirrors.values_mut() {
            mirror.match_on(&self.possible);
        }
    }
}

impl Ghost {
    /// Takes note of what has become possible.
    pub(super) fn commit(&mut self, name: &TopicPartition) {
        let Some(ghost) = self.partitions.get_mut(name) else { return };
        ghost.match_mirrors();
        for quorum in ghost.quorums() {
            while let Some(batch) = ghost.next_of(&quorum) {
                ghost.put(batch);
            }
        }
    }

    /// I6: a leader says that everything below `high` is committed, which must be possible, and as its own log has it.
    pub(super) fn raise_true_high(&mut self, node: NodeId, name: &TopicPartition, high: i64) {
        let Some(ghost) = self.partitions.get_mut(name) else { return };
        let (before, possible) = (ghost.true_high, ghost.possible_end());
        if high <= before {
            return;
        }
        let matched = ghost.mirrors.get(&node).map_or(0, |mirror| mirror.matched);
        if matched < high {
            let quorums = ghost.quorums();
            let logs: Vec<(NodeId, i64, i64)> =
                (ghost.mirrors.iter()).map(|(node, mirror)| (*node, mirror.end(), mirror.matched)).collect();
            let what = format!(
                "{name}: {node} counts ..{high} as committed; possible is ..{possible}, its log is that up to {matched}; who counts: \
                 {quorums:?}; logs (node, end, the same up to): {logs:?}"
            );
            self.violate(6, what);
            return;
        }
        ghost.true_high = high;
        ghost.high_ever = ghost.high_ever.max(high);
        let newly: Vec<BatchFact> = ghost
            .possible
            .iter()
            .filter(|batch| batch.base >= before && batch.end <= high)
            .copied()
            .collect();
        for batch in newly {
            self.check_once_and_in_order(name, &batch);
        }
    }
}
