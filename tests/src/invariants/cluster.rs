//! What must be true of the controller's decisions.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::log::Log;
use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::controller::{BrokerStatus, ClusterState, PartitionState, Topic};

use super::{Ghost, PartitionGhost};
use highwater_replication::wire::fetch::FetchRequest;

/// When a decision is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// At the moment of the decision.
    AsDecided,
    /// When the controller was started again.
    Later,
}

/// What the controller has decided of a partition.
struct Decision<'a> {
    name: &'a TopicPartition,
    old: &'a PartitionState,
    new: &'a PartitionState,
    /// Whether the session of who led is over.
    leader_is_gone: bool,
}

impl Decision<'_> {
    /// Who led stays, or goes because the partition lies on others from now on: whoever has joined was let in by it. If its session is over
    /// in the same moment, it was the controller that chose.
    fn is_of_its_leader(&self) -> bool {
        let moved = |leader| !self.new.replicas.contains(&leader) && !self.leader_is_gone;
        self.old.leader.is_some_and(|leader| self.new.isr.contains(&leader) || moved(leader))
    }
}

impl PartitionGhost {
    /// The session that the controller has for a node.
    pub(super) fn session_of(&self, node: NodeId) -> Option<i64> {
        self.sessions.get(&node).copied()
    }
}

impl Ghost {
    /// Looks at what the controller has decided.
    ///
    /// What an earlier process decided before it crashed is seen late, when the replicas may be others already.
    pub(crate) fn observe_controller(&mut self, state: &ClusterState, seen: Seen) {
        let sessions: BTreeMap<NodeId, i64> =
            state.brokers.iter().map(|(node, broker)| (*node, broker.session.value())).collect();
        let fenced = state.brokers.iter().filter(|(_, broker)| broker.status == BrokerStatus::Fenced);
        let gone: BTreeSet<NodeId> = fenced.map(|(node, _)| *node).collect();
        self.forget_topics_made_again(state);
        self.topics.extend(state.topics.iter().map(|(name, topic)| (topic.id, name.clone())));
        for (name, topic, partition) in state.partitions() {
            self.take_state(&name, topic, partition, (&sessions, &gone), seen);
        }
    }

    /// A topic of another id under the same name is another topic, and so are its logs.
    fn forget_topics_made_again(&mut self, state: &ClusterState) {
        for (name, topic) in &state.topics {
            if self.ids.insert(name.clone(), topic.id).is_some_and(|before| before != topic.id) {
                self.partitions.retain(|partition, _| partition.topic() != name);
                self.struck.retain(|(_, partition), _| partition.topic() != name);
            }
        }
    }

    /// Whether a log is one of the topic that has its name now, as far as its directory says of which it is.
    pub(crate) fn is_of_now(&self, log: &Log) -> bool {
        let now = self.ids.get(log.name().topic()).copied();
        log.topic_id().zip(now).is_none_or(|(its, now)| its == now)
    }

    fn take_state(
        &mut self,
        name: &TopicPartition,
        topic: &Topic,
        new: &PartitionState,
        (sessions, gone): (&BTreeMap<NodeId, i64>, &BTreeSet<NodeId>),
        seen: Seen,
    ) {
        let ghost = self.partitions.entry(name.clone()).or_default();
        let led = ghost.state.as_ref().and_then(|state| state.leader);
        let leader_is_gone = led.is_some_and(|leader| {
            gone.contains(&leader) || ghost.sessions.get(&leader) != sessions.get(&leader)
        });
        ghost.sessions.clone_from(sessions);
        if ghost.state.as_ref() == Some(new) {
            return;
        }
        ghost.min_isr = topic.min_isr(new.replicas_held());
        ghost.counts_durable = topic.contributions_are_durable();
        let old = ghost.state.replace(new.clone());
        if let Some(old) = &old {
            let goes = old.replicas.iter().filter(|node| !new.replicas.contains(node));
            ghost.taken_from.extend(goes);
            let decision = Decision { name, old, new, leader_is_gone };
            self.check_epochs(&decision);
            self.check_loss(&decision);
            self.check_leader(&decision);
            self.commit(name);
            if seen == Seen::AsDecided {
                self.check_joining(&decision);
            }
        } else {
            self.commit(name);
        }
        self.check_candidates(name);
    }

    /// I11: the controller's epochs only grow.
    fn check_epochs(&mut self, decision: &Decision<'_>) {
        let Decision { name, old, new, .. } = decision;
        if new.leader_epoch < old.leader_epoch || new.partition_epoch <= old.partition_epoch {
            self.violate(11, format!("{name}: the controller went from {old:?} to {new:?}"));
        }
    }

    /// I5: committed records are given up only with a record of it, and only if none of those that counted still has them.
    fn check_loss(&mut self, decision: &Decision<'_>) {
        let Decision { name, old, new, .. } = decision;
        let by_order = new
            .losses
            .iter()
            .filter(|loss| !old.losses.contains(loss))
            // A possible loss that is proven was given up when it was possible.
            .filter(|loss| {
                !old.possible_losses
                    .iter()
                    .any(|possible| (possible.epoch, possible.from) == (loss.epoch, loss.from))
            })
            .map(|loss| (loss.from, loss.to.is_none()));
        let possible = new
            .possible_losses
            .iter()
            .filter(|loss| !old.possible_losses.contains(loss))
            .map(|loss| (loss.from, false));
        let given_up: Vec<(i64, bool)> =
            by_order.chain(possible).map(|(from, order)| (from.value(), order)).collect();
        for (from, by_order) in given_up {
            let Some(ghost) = self.partitions.get_mut(*name) else { return };
            if from >= ghost.true_high {
                continue;
            }
            let keeps = |node: &&NodeId| {
                ghost.mirrors.get(node).is_some_and(|mirror| mirror.runs() && mirror.matched > from)
            };
            let keeper = old.eligible.iter().find(keeps).copied();
            let (high, counts_durable) = (ghost.true_high, ghost.counts_durable);
            ghost.give_up(from);
            if let Some(keeper) = keeper.filter(|_| !by_order) {
                self.violate(5, format!("{name}: {from}..{high} were given up, and {keeper} has them"));
            }
            if counts_durable && !by_order && self.disks_exchanged.is_empty() {
                self.violate(
                    5,
                    format!("{name}: {from}..{high} were durable where they counted, and given up"),
                );
            }
        }
    }

    /// I14: a suspect leads only when every eligible replica has registered, or by order; either is recorded. One that the leader until now
    /// has let in a moment before, because that one is damaged, is a suspect no more.
    fn check_leader(&mut self, decision: &Decision<'_>) {
        let Decision { name, old, new, .. } = decision;
        let Some(leader) = new.leader.filter(|_| new.leader_epoch > old.leader_epoch) else { return };
        let recorded = new.losses.iter().any(|loss| loss.epoch == new.leader_epoch)
            || new.possible_losses.iter().any(|loss| loss.epoch == new.leader_epoch);
        let was_let_in = old.leader.is_some_and(|before| before != leader)
            && decision.is_of_its_leader()
            && !old.isr.contains(&leader);
        if old.suspects.contains_key(&leader) && !recorded && !was_let_in {
            self.violate(14, format!("{name}: {leader} leads in epoch {} and is suspect", new.leader_epoch));
        }
    }

    /// I13: who joins has everything that is committed, has reached the start of the leader's epoch, and last fetched in that epoch.
    fn check_joining(&mut self, decision: &Decision<'_>) {
        let Decision { name, old, new, .. } = decision;
        let by_its_leader = decision.is_of_its_leader();
        let joined: Vec<NodeId> = new
            .isr
            .iter()
            .filter(|node| !old.isr.contains(node) && (new.leader != Some(**node) || by_its_leader))
            .copied()
            .collect();
        // Whoever is let in may lead in the same moment, where the leader that let it in is damaged.
        let leader = if by_its_leader { old.leader } else { new.leader };
        let epoch = if by_its_leader { old.leader_epoch.value() } else { new.leader_epoch.value() };
        for node in joined {
            let Some(ghost) = self.partitions.get(*name) else { return };
            let start = ghost.leaderships.get(&epoch).map_or(0, |leadership| leadership.start);
            // It is let in for what the process of its session had, also if that is gone by now.
            let mirror = ghost.counted_mirror(node, ghost.session_of(node));
            let (end, matched) = mirror.map_or((0, 0), |mirror| (mirror.end(), mirror.matched));
            let asked = leader.and_then(|leader| ghost.asked_in.get(&(node, leader))).copied();
            let high = ghost.true_high;
            if matched < high || end < start || asked.is_some_and(|asked| asked != epoch) {
                let what = format!(
                    "{name}: {node} joined in epoch {epoch} with ..{end}, committed ..{matched} of ..{high}, the epoch began at {start}, \
                     it last asked in {asked:?}"
                );
                self.violate(13, what);
            }
        }
    }

    /// A follower asked a leader for records of these partitions, in these epochs.
    pub(crate) fn fetch_arrived(&mut self, follower: NodeId, leader: NodeId, fetch: &FetchRequest) {
        if fetch.replica_state.replica_id < 0 {
            // It repairs what is damaged, and says nothing of what it has.
            return;
        }
        for topic in &fetch.topics {
            let Some(name) = topic.topic_id.and_then(|id| self.topics.get(&id)).cloned() else { continue };
            for part in &topic.partitions {
                let Ok(name) = TopicPartition::new(&name, part.partition) else { continue };
                if let Some(ghost) = self.partitions.get_mut(&name) {
                    ghost.asked_in.insert((follower, leader), part.current_leader_epoch);
                }
            }
        }
    }

    /// A disk was exchanged: what was durable on it is excused.
    pub(crate) fn disk_exchanged(&mut self, node: NodeId) {
        self.disks_exchanged.insert(node);
        self.struck.retain(|(struck, _), _| *struck != node);
    }
}

impl PartitionGhost {
    fn give_up(&mut self, from: i64) {
        self.losses += 1;
        self.true_high = self.true_high.min(from);
        while self.possible.last().is_some_and(|batch| batch.end > from) {
            if let Some(batch) = self.possible.pop() {
                self.given_up.insert(batch.crc);
            }
        }
        self.acked_end = self.acked_end.min(from);
        self.latest_told = self.latest_told.min(from);
        self.sequences.clear();
        for mirror in self.mirrors.values_mut() {
            mirror.match_no_further(from);
        }
    }
}
