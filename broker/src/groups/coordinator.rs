//! The machine: the groups of all partitions that this broker leads, and what is due in them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::units::{LeaderEpoch, Monotonic, Now};
use highwater_replication::wire::{ErrorCode, Response};

use super::group::Group;
use super::partition_of;
use super::records::{self, Record};
use super::turn::Turn;
use super::writes::Writes;

/// More groups than these are not coordinated by one broker; whoever names others is told to come later.
const GROUPS_MAX: usize = 1_000_000;

/// What a coordinator allows and how long it waits: Kafka's settings of these names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupConfig {
    /// `group.min.session.timeout.ms`.
    pub(crate) session_min: Duration,
    /// `group.max.session.timeout.ms`.
    pub(crate) session_max: Duration,
    /// `group.initial.rebalance.delay.ms`.
    pub(crate) initial_delay: Duration,
    /// `group.max.size`: members, and as many ids beside them that were given out.
    pub(crate) members_max: usize,
    /// `offset.metadata.max.bytes`.
    pub(crate) metadata_bytes_max: usize,
    /// `offsets.retention.minutes`.
    pub(crate) retention: Duration,
    /// `offsets.retention.check.interval.ms`.
    pub(crate) retention_check: Duration,
}

/// Names a write, in the order in which they were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WriteId(pub(crate) u64);

/// Who sends a request.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// What the client calls itself.
    pub(crate) client_id: String,
    /// From where, as Kafka writes it: `/127.0.0.1`.
    pub(crate) client_host: String,
    /// The request's version.
    pub(crate) version: i16,
}

/// Something for the host to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Effect<T> {
    /// An answer.
    Reply {
        /// To which request.
        to: T,
        /// What.
        response: Response,
    },
    /// Records for a partition of the topic, as one batch, for the leadership of this epoch and no other; answered by
    /// [`Coordinator::written`].
    Write {
        /// For the answer.
        write: WriteId,
        /// The partition.
        partition: i32,
        /// The leadership.
        epoch: LeaderEpoch,
        /// The records.
        records: Vec<Record>,
    },
}

/// A partition of the topic that this broker leads.
#[derive(Debug)]
pub(super) struct Partition<T> {
    pub(super) epoch: LeaderEpoch,
    /// Its records have not all been read.
    pub(super) is_loading: bool,
    pub(super) groups: BTreeMap<String, Group<T>>,
}

/// See the module's documentation. `T` says where an answer goes.
#[derive(Debug)]
pub(crate) struct Coordinator<T> {
    pub(super) config: GroupConfig,
    /// Partitions of the topic; 0 while there is none.
    count: i32,
    pub(super) partitions: BTreeMap<i32, Partition<T>>,
    pub(super) writes: Writes<T>,
    alarms: BTreeSet<(Monotonic, i32, String)>,
    /// When groups and offsets are looked for that nobody needs.
    next_check: Monotonic,
    ids: MemberIds,
}

/// What is behind the client's name in a member's id, another each time.
#[derive(Debug)]
pub(super) struct MemberIds {
    seed: u64,
    next: u64,
}

impl MemberIds {
    pub(super) fn next(&mut self) -> String {
        self.next += 1;
        format!("{:016x}-{:x}", self.seed, self.next)
    }
}

impl<T: Copy> Coordinator<T> {
    /// Leads nothing yet. The seed is another one in each process, so that no two give a member the same id.
    pub(crate) fn new(config: GroupConfig, seed: u64, now: Monotonic) -> Self {
        Self {
            config,
            count: 0,
            partitions: BTreeMap::new(),
            writes: Writes::default(),
            alarms: BTreeSet::new(),
            next_check: now.after(config.retention_check),
            ids: MemberIds { seed, next: 0 },
        }
    }

    /// What is to be done, in order.
    #[must_use = "an effect that is taken and not carried out is lost"]
    pub(crate) fn take_effects(&mut self) -> Vec<Effect<T>> {
        std::mem::take(&mut self.writes.effects)
    }

    /// The topic has so many partitions.
    pub(crate) fn set_partitions(&mut self, count: i32) {
        self.count = count;
    }

    /// Partitions that this broker leads, each with its epoch.
    pub(crate) fn led(&self) -> impl Iterator<Item = (i32, LeaderEpoch)> {
        self.partitions.iter().map(|(number, partition)| (*number, partition.epoch))
    }

    /// This broker begins to lead a partition. Its records follow, then [`Coordinator::loaded`]; until then clients are told to come again.
    pub(crate) fn lead(&mut self, partition: i32, epoch: LeaderEpoch) {
        self.partitions.insert(partition, Partition { epoch, is_loading: true, groups: BTreeMap::new() });
    }

    /// A record of a partition that is being loaded. What cannot be read is told, and left alone.
    pub(crate) fn load(
        &mut self,
        now: Now,
        partition: i32,
        key: Option<Bytes>,
        value: Option<Bytes>,
    ) -> Result<(), records::Unreadable> {
        match self.partitions.get_mut(&partition).filter(|partition| partition.is_loading) {
            Some(partition) => records::load(now, &mut partition.groups, key, value),
            None => Ok(()),
        }
    }

    /// All records of a partition are loaded: its members' sessions begin anew.
    pub(crate) fn loaded(&mut self, now: Now, number: i32) {
        let Some(partition) = self.partitions.get_mut(&number) else { return };
        partition.is_loading = false;
        partition.groups.retain(|_, group| group.is_written || !group.offsets.is_empty());
        for (name, group) in &mut partition.groups {
            group.members.values_mut().for_each(|member| member.heard(now.monotonic));
            arm(&mut self.alarms, number, name, group);
        }
    }

    /// This broker leads a partition no more: whoever waits asks the next leader.
    pub(crate) fn lose(&mut self, now: Now, number: i32) {
        let names: Vec<String> = match self.partitions.get(&number) {
            Some(partition) => partition.groups.keys().cloned().collect(),
            None => return,
        };
        for name in names {
            self.with_in(now, number, &name, |turn| turn.fail_all(ErrorCode::NotCoordinator));
        }
        self.partitions.remove(&number);
        self.alarms.retain(|(_, partition, _)| *partition != number);
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Now) {
        // Those that are due now, each once: what sets a new one for this moment has to wait for the next turn.
        let due = self.alarms.iter().take_while(|(at, _, _)| *at <= now.monotonic);
        for alarm in due.cloned().collect::<Vec<_>>() {
            if !self.alarms.remove(&alarm) {
                continue;
            }
            let (_, partition, name) = alarm;
            if let Some(group) = self.group(partition, &name) {
                group.alarm = None;
                self.with_in(now, partition, &name, |turn| {
                    turn.look();
                });
            }
        }
        if self.next_check <= now.monotonic {
            self.next_check = now.monotonic.after(self.config.retention_check);
            self.forget_what_nobody_needs(now);
        }
    }

    /// When [`Coordinator::tick`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        if self.partitions.is_empty() {
            return None;
        }
        let first = self.alarms.first().map(|(at, _, _)| *at);
        first.into_iter().chain([self.next_check]).min()
    }

    pub(super) fn group(&mut self, partition: i32, name: &str) -> Option<&mut Group<T>> {
        self.partitions.get_mut(&partition)?.groups.get_mut(name)
    }

    /// The partition of a group, if it is answered here.
    pub(super) fn home(&mut self, name: &str) -> Result<i32, ErrorCode> {
        let number = partition_of(name, self.count);
        match self.partitions.get(&number) {
            None => Err(ErrorCode::NotCoordinator),
            Some(partition) if partition.is_loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Some(_) => Ok(number),
        }
    }

    /// Makes a group if there is none, as far as there may be more.
    pub(super) fn make(&mut self, now: Now, name: &str) -> Result<(), ErrorCode> {
        let all: usize = self.partitions.values().map(|partition| partition.groups.len()).sum();
        let number = partition_of(name, self.count);
        let partition = self.partitions.get_mut(&number).ok_or(ErrorCode::NotCoordinator)?;
        if !partition.groups.contains_key(name) {
            if all >= GROUPS_MAX {
                return Err(ErrorCode::CoordinatorNotAvailable);
            }
            partition.groups.insert(name.to_owned(), Group::new(now.wall));
        }
        Ok(())
    }

    /// Lets something happen in a group; `None` if there is no such group here. What is nothing any more goes.
    pub(super) fn with<R>(
        &mut self,
        now: Now,
        name: &str,
        act: impl FnOnce(&mut Turn<'_, T>) -> R,
    ) -> Option<R> {
        self.with_in(now, partition_of(name, self.count), name, act)
    }

    pub(super) fn with_in<R>(
        &mut self,
        now: Now,
        number: i32,
        name: &str,
        act: impl FnOnce(&mut Turn<'_, T>) -> R,
    ) -> Option<R> {
        let partition = self.partitions.get_mut(&number)?;
        let group = partition.groups.get_mut(name)?;
        let mut turn = Turn {
            now,
            config: &self.config,
            partition: number,
            epoch: partition.epoch,
            name,
            group,
            writes: &mut self.writes,
            ids: &mut self.ids,
        };
        let outcome = act(&mut turn);
        if group.has_nobody() && group.offsets.is_empty() && !group.is_written {
            disarm(&mut self.alarms, number, name, group);
            partition.groups.remove(name);
        } else {
            arm(&mut self.alarms, number, name, group);
        }
        Some(outcome)
    }
}

fn disarm<T>(
    alarms: &mut BTreeSet<(Monotonic, i32, String)>,
    partition: i32,
    name: &str,
    group: &mut Group<T>,
) {
    if let Some(at) = group.alarm.take() {
        alarms.remove(&(at, partition, name.to_owned()));
    }
}

fn arm<T>(alarms: &mut BTreeSet<(Monotonic, i32, String)>, partition: i32, name: &str, group: &mut Group<T>) {
    let next = group.next_deadline();
    if next == group.alarm {
        return;
    }
    disarm(alarms, partition, name, group);
    if let Some(at) = next {
        alarms.insert((at, partition, name.to_owned()));
        group.alarm = Some(at);
    }
}
