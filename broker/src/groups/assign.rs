//! `SyncGroup` and `Heartbeat`: the leader's assignment is written down and given out, and members say that they live.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_engine::units::Now;
use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use highwater_replication::wire::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::coordinator::{Coordinator, WriteId};
use super::group::State;
use super::records;
use super::turn::{Turn, not_synced};
use super::writes::Purpose;

impl<T: Copy> Coordinator<T> {
    /// A member asks for its part; the leader brings all.
    pub(crate) fn sync(&mut self, now: Now, to: T, request: SyncGroupRequest) {
        let outcome =
            check_name(&request.group_id).and_then(|()| self.home(&request.group_id)).and_then(|_| {
                let group = request.group_id.clone();
                self.with(now, &group, |turn| turn.sync(to, request))
                    .unwrap_or(Err(ErrorCode::UnknownMemberId))
            });
        if let Err(error) = outcome {
            self.writes.reply(to, not_synced(error).into());
        }
    }

    /// A member lives, and hears whether it has to join again.
    pub(crate) fn heartbeat(&mut self, now: Now, to: T, request: &HeartbeatRequest) {
        let outcome =
            check_name(&request.group_id).and_then(|()| self.home(&request.group_id)).and_then(|_| {
                let heard = self.with(now, &request.group_id, |turn| turn.heartbeat(request));
                heard.unwrap_or(Err(ErrorCode::UnknownMemberId))
            });
        let error_code = outcome.err().unwrap_or_default();
        self.writes.reply(to, HeartbeatResponse { error_code, ..Default::default() }.into());
    }
}

/// Who belongs to a group names it.
pub(super) fn check_name(group: &str) -> Result<(), ErrorCode> {
    if group.is_empty() { Err(ErrorCode::InvalidGroupId) } else { Ok(()) }
}

impl<T: Copy> Turn<'_, T> {
    fn validate_generation(
        &self,
        member: &str,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        self.group.validate(member, instance)?;
        if generation == self.group.generation { Ok(()) } else { Err(ErrorCode::IllegalGeneration) }
    }

    fn sync(&mut self, to: T, request: SyncGroupRequest) -> Result<(), ErrorCode> {
        let id = request.member_id.as_str();
        self.validate_generation(id, request.group_instance_id.as_deref(), request.generation_id)?;
        let differs = |asked: &Option<String>, is: &Option<String>| asked.is_some() && asked != is;
        if differs(&request.protocol_type, &self.group.protocol_type)
            || differs(&request.protocol_name, &self.group.protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match self.group.state {
            State::Empty => Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::Stable => {
                let response = self.part_of(id);
                self.reply(to, response);
                Ok(())
            }
            State::CompletingRebalance => {
                self.wait_for_part(id, to);
                if self.group.leader.as_deref() == Some(id) && self.group.assigning.is_none() {
                    self.assign(request);
                }
                Ok(())
            }
        }
    }

    fn wait_for_part(&mut self, id: &str, to: T) {
        self.group.unsynced.remove(id);
        let Some(member) = self.group.members.get_mut(id) else { return };
        if let Some(earlier) = member.syncing.replace(to) {
            self.reply(earlier, not_synced(ErrorCode::RebalanceInProgress));
        }
    }

    fn assign(&mut self, request: SyncGroupRequest) {
        let given = request
            .assignments
            .into_iter()
            .map(|part| (part.member_id, Bytes::copy_from_slice(&part.assignment)));
        let mut given: BTreeMap<String, Bytes> = given.collect();
        // Who is not named gets nothing; who is no member is forgotten.
        let members = self.group.members.keys();
        let parts: BTreeMap<String, Bytes> =
            members.map(|id| (id.clone(), given.remove(id).unwrap_or_default())).collect();
        match records::group(self.name, self.group, |id| parts.get(id).cloned().unwrap_or_default()) {
            Ok(record) => {
                let (group, generation) = (self.name.to_owned(), self.group.generation);
                let write = self.write_group(Purpose::Assignment { group, generation, parts }, record);
                self.group.assigning = Some(write);
            }
            Err(_) => self.give_up_assignment(ErrorCode::UnknownServerError),
        }
    }

    fn give_up_assignment(&mut self, error: ErrorCode) {
        self.fail_syncing(error);
        self.rebalance();
    }

    /// The assignment is committed, or could not be. If there is another generation by now, it is nobody's.
    pub(super) fn assigned(
        &mut self,
        write: WriteId,
        generation: i32,
        mut parts: BTreeMap<String, Bytes>,
        outcome: Result<(), ErrorCode>,
    ) {
        self.group.is_written |= outcome.is_ok();
        if self.group.assigning != Some(write) || self.group.generation != generation {
            return;
        }
        self.group.assigning = None;
        if let Err(error) = outcome {
            return self.give_up_assignment(error);
        }
        for (id, member) in &mut self.group.members {
            member.assignment = parts.remove(id).unwrap_or_default();
        }
        self.group.enter(State::Stable, self.now.wall);
        self.all_synced();
        let now = self.now.monotonic;
        let members = self.group.members.iter_mut();
        let waiting: Vec<(String, T)> = members
            .filter_map(|(id, member)| {
                let to = member.syncing.take()?;
                member.heard(now);
                Some((id.clone(), to))
            })
            .collect();
        for (id, to) in waiting {
            let response = self.part_of(&id);
            self.reply(to, response);
        }
    }

    /// Who never asks for its part is waited for until the deadline, also when the others have theirs.
    fn all_synced(&mut self) {
        if self.group.unsynced.is_empty() {
            self.group.deadline = None;
        }
    }

    fn part_of(&mut self, id: &str) -> SyncGroupResponse {
        self.group.unsynced.remove(id);
        self.all_synced();
        let now = self.now.monotonic;
        let member = self.group.members.get_mut(id);
        let assignment = member.map(|member| {
            member.heard(now);
            member.assignment.clone()
        });
        SyncGroupResponse {
            protocol_type: self.group.protocol_type.clone(),
            protocol_name: self.group.protocol.clone(),
            assignment: assignment.unwrap_or_default(),
            ..Default::default()
        }
    }

    fn heartbeat(&mut self, request: &HeartbeatRequest) -> Result<(), ErrorCode> {
        let id = request.member_id.as_str();
        self.validate_generation(id, request.group_instance_id.as_deref(), request.generation_id)?;
        if let Some(member) = self.group.members.get_mut(id) {
            member.heard(self.now.monotonic);
        }
        match self.group.state {
            State::Empty => Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::CompletingRebalance | State::Stable => Ok(()),
        }
    }
}
