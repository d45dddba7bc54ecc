//! What is being written, and what becomes of it when that is committed or failed.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_engine::units::{LeaderEpoch, Now};
use highwater_replication::wire::delete_groups::{DeletableGroupResult, DeleteGroupsResponse};
use highwater_replication::wire::offset_commit::OffsetCommitResponse;
use highwater_replication::wire::offset_delete::OffsetDeleteResponse;
use highwater_replication::wire::{ErrorCode, Response};

use super::coordinator::{Coordinator, Effect, WriteId};
use super::offsets::{Committed, Part};
use super::records::Record;
use super::turn::not_joined;

/// What a write is for.
#[derive(Debug)]
pub(super) enum Purpose<T> {
    /// A generation's assignment: each member's part.
    Assignment { group: String, generation: i32, parts: BTreeMap<String, Bytes> },
    /// A static member's new id, and what it is told then.
    Replacement { group: String, to: T, response: Response },
    /// Offsets of a group, and what is said when they are there.
    Commit { group: String, to: T, offsets: Vec<(Part, Committed)>, response: OffsetCommitResponse },
    /// Offsets that are forgotten by order.
    OffsetDelete { group: String, to: T, parts: Vec<Part>, response: OffsetDeleteResponse },
    /// A group that is forgotten by order.
    GroupDelete { group: String, parts: Vec<Part>, gather: u64 },
    /// A group that has become empty, or what nobody needs and is forgotten; whether it fails does not matter, it is tried again.
    Housekeeping { group: String, forgotten: Vec<Part>, is_gone: bool },
}

/// A write that is under way.
#[derive(Debug)]
pub(super) struct Writing<T> {
    pub(super) partition: i32,
    pub(super) epoch: LeaderEpoch,
    pub(super) purpose: Purpose<T>,
}

/// A `DeleteGroups` of which not all groups are answered.
#[derive(Debug)]
pub(super) struct Gather<T> {
    pub(super) to: T,
    pub(super) open: usize,
    pub(super) response: DeleteGroupsResponse,
}

/// Effects that were not taken, and writes whose outcome is not known.
#[derive(Debug)]
pub(super) struct Writes<T> {
    pub(super) effects: Vec<Effect<T>>,
    writing: BTreeMap<WriteId, Writing<T>>,
    gathers: BTreeMap<u64, Gather<T>>,
    next_id: u64,
}

impl<T> Default for Writes<T> {
    fn default() -> Self {
        Self { effects: Vec::new(), writing: BTreeMap::new(), gathers: BTreeMap::new(), next_id: 0 }
    }
}

impl<T: Copy> Writes<T> {
    pub(super) fn reply(&mut self, to: T, response: Response) {
        self.effects.push(Effect::Reply { to, response });
    }

    pub(super) fn write(&mut self, writing: Writing<T>, records: Vec<Record>) -> WriteId {
        let write = WriteId(self.next_id());
        let Writing { partition, epoch, .. } = writing;
        self.effects.push(Effect::Write { write, partition, epoch, records });
        self.writing.insert(write, writing);
        write
    }

    /// Opens an answer about several groups; it leaves when all are settled.
    pub(super) fn gather(&mut self, to: T) -> u64 {
        let id = self.next_id();
        self.gathers.insert(id, Gather { to, open: 1, response: DeleteGroupsResponse::default() });
        id
    }

    /// One more group has to be waited for.
    pub(super) fn await_one(&mut self, gather: u64) {
        if let Some(gather) = self.gathers.get_mut(&gather) {
            gather.open += 1;
        }
    }

    /// What became of one group; without one, all groups have been named.
    pub(super) fn settle(&mut self, id: u64, result: Option<(String, ErrorCode)>) {
        let Some(gather) = self.gathers.get_mut(&id) else { return };
        let result = result.map(|(group_id, error_code)| DeletableGroupResult { group_id, error_code });
        gather.response.results.extend(result);
        gather.open -= 1;
        if gather.open == 0
            && let Some(gather) = self.gathers.remove(&id)
        {
            self.reply(gather.to, gather.response.into());
        }
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl<T: Copy> Coordinator<T> {
    /// What became of a write: committed, or why it may not be. It may be in the log all the same, and come back with it.
    pub(crate) fn written(&mut self, now: Now, write: WriteId, outcome: Result<(), ErrorCode>) {
        let Some(Writing { partition, epoch, purpose }) = self.writes.writing.remove(&write) else { return };
        // The groups of another leadership were read from the log, and have what is in it already.
        let is_mine = self.partitions.get(&partition).is_some_and(|partition| partition.epoch == epoch);
        // Only who commits offsets can make what he sends smaller.
        let is_commit = matches!(purpose, Purpose::Commit { .. });
        let is_too_large = outcome == Err(ErrorCode::InvalidCommitOffsetSize);
        let outcome = if is_too_large && !is_commit { Err(ErrorCode::UnknownServerError) } else { outcome };
        match purpose {
            Purpose::Assignment { group, generation, parts } => {
                if is_mine {
                    self.with(now, &group, |turn| turn.assigned(write, generation, parts, outcome));
                }
            }
            Purpose::Replacement { group, to, response } => match outcome {
                Ok(()) => self.writes.reply(to, response),
                // The log may know the old id or the new one: the next generation says it again.
                Err(error) => {
                    self.writes.reply(to, not_joined("", error).into());
                    if is_mine {
                        self.with(now, &group, |turn| {
                            turn.begin_anew();
                        });
                    }
                }
            },
            Purpose::Commit { group, to, offsets, response } => {
                if is_mine {
                    let committed = if outcome.is_ok() { offsets } else { Vec::new() };
                    self.with(now, &group, |turn| turn.committed(write, committed));
                }
                self.writes.reply(to, with_error(response, outcome).into());
            }
            Purpose::OffsetDelete { group, to, parts, mut response } => {
                match outcome {
                    Ok(()) if is_mine => {
                        self.with(now, &group, |turn| turn.forget(write, &parts));
                    }
                    Ok(()) => {}
                    Err(error_code) => response = OffsetDeleteResponse { error_code, ..Default::default() },
                }
                self.writes.reply(to, response.into());
            }
            Purpose::GroupDelete { group, parts, gather } => {
                if is_mine && outcome.is_ok() {
                    self.with(now, &group, |turn| {
                        turn.forget(write, &parts);
                        turn.unwritten(write);
                    });
                }
                self.writes.settle(gather, Some((group, outcome.err().unwrap_or_default())));
            }
            Purpose::Housekeeping { group, forgotten, is_gone } => {
                if is_mine && outcome.is_ok() {
                    self.with(now, &group, |turn| {
                        turn.forget(write, &forgotten);
                        if is_gone {
                            turn.unwritten(write);
                        }
                    });
                }
            }
        }
    }
}

fn with_error(mut response: OffsetCommitResponse, outcome: Result<(), ErrorCode>) -> OffsetCommitResponse {
    if let Err(error) = outcome {
        let partitions = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        partitions
            .filter(|partition| partition.error_code.is_none())
            .for_each(|partition| partition.error_code = error);
    }
    response
}
