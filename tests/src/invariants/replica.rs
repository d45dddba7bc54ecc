//! What must be true of each replica: of its log whenever it grows, of its marks at every look, of its cuts and of its openings.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::log::{Log, LogFacts};
use highwater_engine::units::{NodeId, Now, TopicPartition};
use highwater_replication::partition::{RoleName, Status};
use highwater_replication::shard::Shard;

use super::mirror::{Ended, read_batches};
use super::{BatchFact, Ghost, Leadership, Leaving, Lineage, Mirror};

/// The facts of a log, taken out of it.
struct Facts {
    start: i64,
    accepted: i64,
    written: i64,
    durable: i64,
    recovery_point: i64,
    epochs: Vec<(i32, i64)>,
}

impl Facts {
    fn of(log: &Log) -> Self {
        log.with_facts(|facts: &LogFacts<'_>| Self {
            start: facts.start.value(),
            accepted: facts.accepted.value(),
            written: facts.written.value(),
            durable: facts.durable.value(),
            recovery_point: facts.recovery_point.value(),
            epochs: facts
                .epochs
                .starts()
                .iter()
                .map(|entry| (entry.epoch.value(), entry.start.value()))
                .collect(),
        })
    }
}

impl Ghost {
    /// Looks at all logs and replicas of a running process.
    pub(crate) fn observe(&mut self, node: NodeId, shard: &Shard, now: Now) {
        let session = shard.session().map(highwater_replication::ids::BrokerEpoch::value);
        let others: BTreeMap<NodeId, i64> = (shard.view().state().brokers.iter())
            .filter(|(other, _)| **other != node)
            .map(|(other, broker)| (*other, broker.session.value()))
            .collect();
        let statuses = shard.replicas(now);
        self.forget_what_was_taken(node, shard);
        let mut logs = shard.store().logs();
        logs.retain(|log| self.is_of_now(log));
        let facts: Vec<Facts> = logs.iter().map(Facts::of).collect();
        for (log, facts) in logs.iter().zip(&facts) {
            self.grow(node, shard, log, facts);
            let status = statuses.iter().find(|status| status.name == *log.name());
            if let Some(mirror) = self.mirror(log.name(), node) {
                mirror.session = session;
                mirror.last_session = session.or(mirror.last_session);
                mirror.grown_from = (facts.written > mirror.written).then_some(mirror.written);
                mirror.written = facts.written;
                mirror.durable = facts.durable.max(mirror.was_durable);
                note_role(mirror, status, &others);
            }
            if let Some(status) = status {
                self.note_leadership(node, status, facts);
            }
        }
        for (log, facts) in logs.iter().zip(&facts) {
            let name = log.name();
            self.commit(name);
            self.check_marks(node, name, facts);
            self.check_epoch_history(node, name, facts);
            if let Some(status) = statuses.iter().find(|status| status.name == *name) {
                self.check_high_watermark(node, status, facts);
            }
        }
        for log in &logs {
            self.check_candidates(log.name());
        }
    }

    /// A log is gone with its partition, which lies on others now. One that comes under its name begins anew.
    fn forget_what_was_taken(&mut self, node: NodeId, shard: &Shard) {
        for (name, ghost) in &mut self.partitions {
            if ghost.taken_from.contains(&node) && shard.store().log(name).is_none() {
                ghost.taken_from.remove(&node);
                ghost.mirrors.remove(&node);
            }
        }
    }

    pub(super) fn mirror(&mut self, name: &TopicPartition, node: NodeId) -> Option<&mut Mirror> {
        self.partitions.get_mut(name)?.mirrors.get_mut(&node)
    }

    /// Takes what was written since the last look.
    fn grow(&mut self, node: NodeId, shard: &Shard, log: &Log, facts: &Facts) {
        let name = log.name();
        let mirror = self.partitions.entry(name.clone()).or_default().mirrors.entry(node).or_default();
        let end = mirror.end();
        if facts.written < end && mirror.runs() {
            self.violate(
                7,
                format!("{name} on {node}: written fell from {end} to {} without a cut", facts.written),
            );
            return;
        }
        let Some(from) = highwater_engine::units::Offset::new(end).filter(|_| facts.written > end) else {
            return;
        };
        let struck = self.struck_at(node, name).to_vec();
        for batch in read_batches(shard.store(), log, from, log.written(), &struck) {
            self.take_batch(node, name, batch);
        }
    }

    fn take_batch(&mut self, node: NodeId, name: &TopicPartition, batch: BatchFact) {
        self.check_invented(node, name, &batch);
        self.check_dense(node, name, &batch);
        self.check_lineage(node, name, &batch);
        if let Some(mirror) = self.mirror(name, node) {
            mirror.push(batch);
        }
    }

    /// I9: every batch was sent by a client.
    fn check_invented(&mut self, node: NodeId, name: &TopicPartition, batch: &BatchFact) {
        if !self.attempted.contains(&batch.crc) {
            self.violate(9, format!("{name} on {node}: nobody ever sent {batch}"));
        }
    }

    /// I10: offsets follow on each other. I11: epochs do not descend.
    fn check_dense(&mut self, node: NodeId, name: &TopicPartition, batch: &BatchFact) {
        let Some(mirror) = self.mirror(name, node) else { return };
        let (end, epoch) = (mirror.end(), mirror.batches.last().map_or(-1, |last| last.epoch));
        if batch.base != end {
            self.violate(10, format!("{name} on {node}: {batch} follows on an end of {end}"));
        }
        if batch.epoch < epoch {
            self.violate(11, format!("{name} on {node}: {batch} follows on epoch {epoch}"));
        }
    }

    /// I1: logs that have the same (offset, epoch) are the same there and before.
    fn check_lineage(&mut self, node: NodeId, name: &TopicPartition, batch: &BatchFact) {
        let Some(ghost) = self.partitions.get_mut(name) else { return };
        let last = ghost.mirrors.get(&node).and_then(|mirror| mirror.batches.last());
        let before = last.map(|last| (last.base, last.epoch));
        let this = Lineage { end: batch.end, crc: batch.crc, before };
        let known = *ghost.lineage.entry((batch.base, batch.epoch)).or_insert(this);
        let same_before = known.before == this.before || known.before.is_none() || this.before.is_none();
        if known.end != this.end || known.crc != this.crc || !same_before {
            let what = format!(
                "{name} on {node}: {batch} behind {:?}, elsewhere the same offset and epoch are ..{} {:08x} behind {:?}",
                this.before, known.end, known.crc, known.before
            );
            self.violate(1, what);
        }
    }

    fn note_leadership(&mut self, node: NodeId, status: &Status, facts: &Facts) {
        let Some(epoch) = status.leader_epoch.map(highwater_engine::units::LeaderEpoch::value) else {
            return;
        };
        if status.role != RoleName::Leader {
            return;
        }
        let Some(ghost) = self.partitions.get_mut(&status.name) else { return };
        let life = ghost.mirrors.get(&node).map_or(0, |mirror| mirror.life);
        let begun = facts.epochs.last().filter(|(begun, _)| *begun == epoch);
        let Some(start) = begun.map(|(_, start)| *start) else { return };
        let this = Leadership { node, life, start };
        let known = *ghost.leaderships.entry(epoch).or_insert(this);
        // I11: an epoch belongs to one incarnation of one node.
        if (known.node, known.life) != (node, life) {
            let what = format!("{} in epoch {epoch}: {known:?} and {this:?} lead", status.name);
            self.violate(11, what);
        }
    }

    /// I7: start, recovery point, durable, written and accepted are in order.
    fn check_marks(&mut self, node: NodeId, name: &TopicPartition, facts: &Facts) {
        let Facts { start, accepted, written, durable, recovery_point, .. } = *facts;
        let in_order = recovery_point <= durable.max(start)
            && durable <= written
            && written <= accepted
            && start <= written;
        if !in_order {
            let what = format!(
                "{name} on {node}: start {start}, recovery point {recovery_point}, durable {durable}, written {written}, \
                 accepted {accepted}"
            );
            self.violate(7, what);
        }
    }

    /// I12: the epoch history is what the headers say, below the end. What is struck says nothing until it is repaired.
    fn check_epoch_history(&mut self, node: NodeId, name: &TopicPartition, facts: &Facts) {
        if !self.struck_at(node, name).is_empty() {
            return;
        }
        let Some(mirror) = self.mirror(name, node) else { return };
        let end = mirror.end();
        if mirror.batches.is_empty() || end != facts.written {
            return;
        }
        let start = mirror.start.max(facts.start);
        let mut said: Vec<(i32, i64)> = facts
            .epochs
            .iter()
            .filter(|(_, at)| *at < end)
            .map(|(epoch, at)| (*epoch, (*at).max(start)))
            .collect();
        said.dedup_by_key(|(epoch, _)| *epoch);
        let beyond = facts.epochs.iter().filter(|(_, at)| *at > facts.accepted).count();
        if said != mirror.epochs || beyond > 0 {
            let what = format!(
                "{name} on {node} ends at {end}: history {:?}, headers {:?}",
                facts.epochs, mirror.epochs
            );
            self.violate(12, what);
        }
    }

    /// I6: a high watermark never falls within an epoch, and never passes the true one. I7: it lies within the log.
    fn check_high_watermark(&mut self, node: NodeId, status: &Status, facts: &Facts) {
        let name = &status.name;
        let high = status.high_watermark.value();
        // Also one that leads no more, or whose log has failed, may have led until a moment ago.
        let leads = status.role == RoleName::Leader;
        let mirror = self.mirror(name, node);
        let led = mirror.as_ref().is_some_and(|mirror| !mirror.led_with.is_empty());
        // What it had counted when it was looked at before was judged then. It may be committed no more: a leader that is cut off hears of
        // no loss, and stays with what it has.
        let was_judged = mirror.is_some_and(|mirror| mirror.has_counted(high, leads));
        if (led || leads) && !was_judged {
            self.raise_true_high(node, name, high);
        }
        let Some(ghost) = self.partitions.get_mut(name) else { return };
        let (lossless, high_ever) = (ghost.losses == 0, ghost.high_ever);
        let Some(mirror) = ghost.mirrors.get_mut(&node) else { return };
        let of = (mirror.life, mirror.known_epoch);
        let fell = mirror.high_of == of && high < mirror.high;
        let before = std::mem::replace(&mut mirror.high, high);
        mirror.high_of = of;
        if fell && lossless {
            self.violate(6, format!("{name} on {node}: the high watermark fell from {before} to {high}"));
        }
        if high > high_ever {
            self.violate(
                6,
                format!("{name} on {node}: the high watermark {high} is above the true one, {high_ever}"),
            );
        }
        if high > facts.written || high < facts.start {
            self.violate(
                7,
                format!(
                    "{name} on {node}: the high watermark {high} is outside {}..{}",
                    facts.start, facts.written
                ),
            );
        }
    }

    /// I2 and I3: whoever leads by the controller's word or could, and is not suspect, has everything that is committed.
    pub(super) fn check_candidates(&mut self, name: &TopicPartition) {
        let Some(ghost) = self.partitions.get(name) else { return };
        let Some(state) = &ghost.state else { return };
        let high = ghost.true_high;
        let lacking = |node: &&NodeId| {
            !state.suspects.contains_key(node)
                && ghost.mirrors.get(node).is_some_and(|mirror| {
                    mirror.runs()
                        && mirror.session.is_some()
                        && mirror.session == ghost.session_of(**node)
                        && mirror.matched < high
                })
        };
        let lacking: Vec<NodeId> = state.isr.iter().chain(&state.eligible).filter(lacking).copied().collect();
        if let Some(node) = lacking.first() {
            let matched = ghost.mirrors.get(node).map_or(0, |mirror| mirror.matched);
            let number = if state.leader == Some(*node) { 2 } else { 3 };
            let what =
                format!("{name}: {node} could lead and has only ..{matched} of what is committed, ..{high}");
            self.violate(number, what);
        }
    }

    /// A cut is about to be made.
    pub(crate) fn cutting(&mut self, node: NodeId, name: &TopicPartition, to: i64) {
        if let Some(mirror) = self.mirror(name, node) {
            mirror.being_cut_to = Some(to);
        }
    }

    /// A cut that failed on the way: what was to go may be gone, and may still be seen until the log is opened again.
    pub(crate) fn cut_failed(&mut self, node: NodeId, name: &TopicPartition) {
        if let Some(mirror) = self.mirror(name, node)
            && let Some(to) = mirror.being_cut_to
        {
            mirror.cut(to);
            mirror.being_cut_to = Some(to);
        }
    }

    /// A log was opened again by the same process: what it shows is what its files have.
    pub(crate) fn reopened(&mut self, node: NodeId, name: &TopicPartition) {
        if let Some(mirror) = self.mirror(name, node) {
            mirror.being_cut_to = None;
        }
    }

    /// I15: what is committed is not cut. A cut inside of what is damaged takes all of that away.
    pub(crate) fn truncated(&mut self, node: NodeId, name: &TopicPartition, end: i64) {
        let Some(ghost) = self.partitions.get(name) else { return };
        let high = ghost.true_high;
        let matched = ghost.mirrors.get(&node).map_or(0, |mirror| mirror.matched);
        let is_struck = self.struck_at(node, name).iter().any(|batch| batch.base == end);
        if end < matched.min(high) && !is_struck {
            self.violate(
                15,
                format!("{name} on {node}: cut to {end}, below its committed ..{matched} (true: {high})"),
            );
        }
        if let Some(mirror) = self.mirror(name, node) {
            mirror.cut(end);
        }
        self.healed(node, name, (end, i64::MAX));
    }

    /// A log was begun again at an offset.
    pub(crate) fn restarted_at(&mut self, node: NodeId, name: &TopicPartition, at: i64) {
        if let Some(mirror) = self.mirror(name, node) {
            mirror.restart(at);
        }
        self.healed(node, name, (0, i64::MAX));
    }

    /// A process is gone.
    pub(crate) fn process_ended(&mut self, node: NodeId, how: Leaving) {
        for ghost in self.partitions.values_mut() {
            let Some(mirror) = ghost.mirrors.get_mut(&node) else { continue };
            let promised = match how {
                Leaving::Process => mirror.end(),
                Leaving::Machine => mirror.durable.min(mirror.end()),
                Leaving::Disk => 0,
            };
            let promised = promised.min(mirror.being_cut_to.unwrap_or(promised));
            // A second crash before the next opening takes away, it does not give back.
            let promised = match mirror.ended {
                Ended::No => promised,
                Ended::Promised(before) => before.min(promised),
            };
            mirror.ended = Ended::Promised(promised);
            mirror.leads.clear();
            mirror.session = None;
        }
    }

    /// A process runs: I18, what was promised is there again.
    pub(crate) fn opened(&mut self, node: NodeId, life: u64, shard: &Shard, now: Now) {
        self.forget_what_was_taken(node, shard);
        let names: Vec<TopicPartition> = self.partitions.keys().cloned().collect();
        for name in names {
            let log = shard.store().log(&name).filter(|log| self.is_of_now(log));
            let facts = log.as_ref().map(Facts::of);
            let start = facts.as_ref().map_or(0, |facts| facts.start);
            let oldest = self.partitions.get(&name).and_then(|ghost| ghost.oldest_session_of(node));
            let Some(mirror) = self.mirror(&name, node) else { continue };
            let was_durable = mirror.durable;
            let fresh = Mirror { start, matched: start, life, was_durable, ..Mirror::default() };
            let old = std::mem::replace(mirror, fresh);
            // A process that never had a session has told nobody anything.
            let told =
                if old.last_session.is_some() { Some(Box::new(old.clone())) } else { old.before.clone() };
            mirror.before = told;
            if let Some(session) = oldest {
                mirror.forget_before(session);
            }
            if let (Some(log), Some(facts)) = (&log, &facts) {
                self.grow(node, shard, log, facts);
            }
            if let Some(mirror) = self.mirror(&name, node) {
                mirror.was_durable = mirror.was_durable.min(mirror.end());
            }
            self.check_kept(node, &name, &old);
        }
        let mut logs = shard.store().logs();
        logs.retain(|log| self.is_of_now(log));
        for log in logs {
            let mirror =
                self.partitions.entry(log.name().clone()).or_default().mirrors.entry(node).or_default();
            mirror.life = life;
            mirror.written = log.written().value();
        }
        self.observe(node, shard, now);
    }

    fn check_kept(&mut self, node: NodeId, name: &TopicPartition, old: &Mirror) {
        let Ended::Promised(promised) = old.ended else { return };
        let Some(mirror) = self.mirror(name, node) else { return };
        let lost = old
            .batches
            .iter()
            .filter(|batch| batch.end <= promised && batch.base >= mirror.start)
            .find(|batch| mirror.batch_at(batch.base) != Some(batch))
            .copied();
        if let Some(batch) = lost {
            self.violate(
                18,
                format!("{name} on {node}: {batch} was promised to be kept below {promised} and is gone"),
            );
        }
    }
}

fn note_role(mirror: &mut Mirror, status: Option<&Status>, others: &BTreeMap<NodeId, i64>) {
    let epoch =
        status.and_then(|status| status.leader_epoch).map_or(-1, highwater_engine::units::LeaderEpoch::value);
    // What it led with until now still explains what it has counted since the last look.
    mirror.led_with = std::mem::take(&mut mirror.leads);
    if let Some(status) = status.filter(|status| status.role == RoleName::Leader) {
        let counted =
            |isr: BTreeSet<NodeId>| isr.into_iter().map(|node| (node, others.get(&node).copied())).collect();
        let committed: BTreeSet<NodeId> = status.isr.iter().copied().collect();
        let maximal = status.isr.iter().chain(&status.isr_proposed).copied().collect();
        mirror.leads.push(counted(committed));
        mirror.leads.push(counted(maximal));
    }
    mirror.known_epoch = epoch;
}
