//! One group, with what it can reach while something happens in it.

use bytes::Bytes;
use highwater_engine::units::{LeaderEpoch, Now};
use highwater_replication::wire::join_group::JoinGroupResponse;
use highwater_replication::wire::sync_group::SyncGroupResponse;
use highwater_replication::wire::{ErrorCode, Response};

use super::coordinator::{GroupConfig, MemberIds, WriteId};
use super::group::Group;
use super::records::Record;
use super::writes::{Purpose, Writes, Writing};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Turn<'a, T> {
    pub(super) now: Now,
    pub(super) config: &'a GroupConfig,
    pub(super) partition: i32,
    pub(super) epoch: LeaderEpoch,
    pub(super) name: &'a str,
    pub(super) group: &'a mut Group<T>,
    pub(super) writes: &'a mut Writes<T>,
    pub(super) ids: &'a mut MemberIds,
}

impl<T: Copy> Turn<'_, T> {
    pub(super) fn reply(&mut self, to: T, response: impl Into<Response>) {
        self.writes.reply(to, response.into());
    }

    pub(super) fn write(&mut self, purpose: Purpose<T>, records: Vec<Record>) -> WriteId {
        let (partition, epoch) = (self.partition, self.epoch);
        self.writes.write(Writing { partition, epoch, purpose }, records)
    }

    /// Writes a record of the group itself.
    pub(super) fn write_group(&mut self, purpose: Purpose<T>, record: Record) -> WriteId {
        let write = self.write(purpose, vec![record]);
        self.group.last_write = Some(write);
        write
    }

    /// The log says that there is no such group, unless a record behind it says otherwise.
    pub(super) fn unwritten(&mut self, write: WriteId) {
        if self.group.last_write.is_none_or(|last| last < write) {
            self.group.is_written = false;
        }
    }

    /// Whoever waits for the others or for the leader is told why that is over.
    pub(super) fn fail_all(&mut self, error: ErrorCode) {
        self.fail_syncing(error);
        let members: Vec<String> = self.group.members.keys().cloned().collect();
        for member in members {
            self.fail_joining(&member, error);
        }
    }

    pub(super) fn fail_joining(&mut self, member: &str, error: ErrorCode) {
        let waiting = self.group.members.get_mut(member).and_then(|member| member.joining.take());
        if let Some(waiting) = waiting {
            self.reply(waiting, not_joined(member, error));
        }
    }

    pub(super) fn fail_syncing(&mut self, error: ErrorCode) {
        let now = self.now.monotonic;
        let syncing: Vec<T> = self
            .group
            .members
            .values_mut()
            .filter_map(|member| {
                let to = member.syncing.take()?;
                member.heard(now);
                Some(to)
            })
            .collect();
        for to in syncing {
            self.reply(to, not_synced(error));
        }
    }
}

/// The answer to a `JoinGroup` that makes nobody a member.
pub(super) fn not_joined(member: &str, error_code: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse { error_code, member_id: member.to_owned(), ..Default::default() }
}

/// The answer to a `SyncGroup` without a part.
pub(super) fn not_synced(error_code: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse { error_code, assignment: Bytes::new(), ..Default::default() }
}
