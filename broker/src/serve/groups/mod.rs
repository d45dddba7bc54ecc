//! The coordinator's host: requests about groups in, answers out; what it wants written and read goes to the shard as requests of the
//! broker's own, on a connection that is none.
//!
//! It is a client of its broker like any other: a commit is answered when an acks=all Produce is, a partition is loaded by Fetches up to
//! the end that its log had when this broker began to lead it. What is written is bound to the leadership that the coordinator read.

mod answers;
mod log;

use std::collections::BTreeMap;

use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Now, TopicPartition};
use highwater_replication::controller::ClusterState;
use highwater_replication::pending::{ConnectionId, Slot};
use highwater_replication::shard::{Event, Shard};
use highwater_replication::wire::Response;

use self::log::{Load, Sent};
use crate::groups::{Coordinator, Effect, GroupConfig, TOPIC};

pub(super) use self::answers::{Asker, handles};

/// The connection of the broker's own requests: no socket ever has this number.
const OWN: ConnectionId = ConnectionId(0);

/// See the module's documentation. `T` says where an answer goes.
pub(super) struct Groups<T> {
    node: NodeId,
    coordinator: Coordinator<T>,
    /// How long a write may take until it is committed: `offsets.commit.timeout.ms`.
    write_wait_ms: i32,
    /// The version of the cluster's state that was looked at.
    seen: Option<u64>,
    loads: BTreeMap<i32, Load>,
    sent: BTreeMap<u64, Sent>,
    next: u64,
    /// What people should know.
    notes: Vec<String>,
}

/// What is to be done for the coordinator.
pub(super) enum Due<T> {
    /// Tell the shard.
    Tell(Event),
    /// Answer a client.
    Answer(T, Response),
    /// Tell people.
    Note(String),
}

impl<T: Copy> Groups<T> {
    pub(super) fn new(
        node: NodeId,
        config: GroupConfig,
        write_wait_ms: i32,
        seed: u64,
        now: Monotonic,
    ) -> Self {
        Self {
            node,
            coordinator: Coordinator::new(config, seed, now),
            write_wait_ms,
            seen: None,
            loads: BTreeMap::new(),
            sent: BTreeMap::new(),
            next: 0,
            notes: Vec::new(),
        }
    }

    /// Looks at the cluster and at what is due.
    pub(super) fn turn(&mut self, now: Now, shard: &Shard) -> Vec<Due<T>> {
        let view = shard.view();
        if self.seen != view.since() {
            self.seen = view.since();
            self.follow_leaders(now, view.state());
            self.coordinator.topics_changed(now, |name| Some(view.state().topics.get(name)?.id));
        }
        if self.coordinator.next_deadline().is_some_and(|at| at <= now.monotonic) {
            self.coordinator.tick(now);
        }
        let mut due = self.load(now, shard);
        loop {
            // A write that cannot be sent has an answer, which is an effect of its own.
            let effects = self.coordinator.take_effects();
            if effects.is_empty() {
                break;
            }
            due.extend(effects.into_iter().map(|effect| match effect {
                Effect::Reply { to, response } => Due::Answer(to, response),
                Effect::Write { write, partition, epoch, records } => {
                    self.write(now, write, partition, epoch, &records).map_or_else(Due::Note, Due::Tell)
                }
            }));
        }
        due.extend(self.notes.drain(..).map(Due::Note));
        due
    }

    /// When [`Groups::turn`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let loads = self.loads.values().filter_map(Load::deadline);
        loads.chain(self.coordinator.next_deadline()).min()
    }

    /// Begins with partitions that this broker leads, and ends with those that it leads no more.
    fn follow_leaders(&mut self, now: Now, state: &ClusterState) {
        let Some(topic) = state.topics.get(TOPIC) else {
            let led: Vec<i32> = self.coordinator.led().map(|(number, _)| number).collect();
            return led.into_iter().for_each(|number| self.lose(now, number));
        };
        let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        self.coordinator.set_partitions(count);
        let mine: BTreeMap<i32, LeaderEpoch> = (0..count)
            .zip(&topic.partitions)
            .filter(|(_, partition)| partition.leader == Some(self.node))
            .map(|(number, partition)| (number, partition.leader_epoch))
            .collect();
        let led: BTreeMap<i32, LeaderEpoch> = self.coordinator.led().collect();
        for (number, epoch) in &led {
            if mine.get(number) != Some(epoch) {
                self.lose(now, *number);
            }
        }
        for (number, epoch) in mine {
            if led.get(&number) != Some(&epoch) {
                self.coordinator.lead(number, epoch);
                self.loads.insert(number, Load::new(epoch));
            }
        }
    }

    fn lose(&mut self, now: Now, number: i32) {
        self.coordinator.lose(now, number);
        self.loads.remove(&number);
    }

    fn slot(&mut self) -> Slot {
        self.next += 1;
        Slot { connection: OWN, number: self.next }
    }
}

/// Whether an answer of the shard is for the broker itself.
pub(super) fn is_own(slot: Slot) -> bool {
    slot.connection == OWN
}

fn partition_name(number: i32) -> Option<TopicPartition> {
    TopicPartition::new(TOPIC, number).ok()
}
