//! `JoinGroup`: who becomes a member, and when that makes a new generation.

use std::time::Duration;

use bytes::Bytes;
use highwater_engine::units::Now;
use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::join_group::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};

use super::coordinator::{Coordinator, Origin};
use super::group::State;
use super::member::{Member, Protocols, REBALANCE_MIN};
use super::records;
use super::turn::{Turn, not_joined};
use super::writes::Purpose;

/// From this version on a member without an id gets one first and has to come back with it (KIP-394).
const ID_REQUIRED_FROM: i16 = 4;
/// From this version on a leader can be told to leave the assignment as it is (KIP-814).
const SKIP_ASSIGNMENT_FROM: i16 = 9;

/// A request, and from whom.
pub(super) struct Join<T> {
    to: T,
    origin: Origin,
    instance: Option<String>,
    rebalance_timeout: Duration,
    session_timeout: Duration,
    protocol_type: String,
    protocols: Protocols,
}

impl<T: Copy> Coordinator<T> {
    /// A client wants to be a member.
    pub(crate) fn join(&mut self, now: Now, to: T, origin: Origin, request: JoinGroupRequest) {
        let member = request.member_id.clone();
        if let Err(error) = self.try_join(now, to, origin, request) {
            self.writes.reply(to, not_joined(&member, error).into());
        }
    }

    fn try_join(
        &mut self,
        now: Now,
        to: T,
        origin: Origin,
        request: JoinGroupRequest,
    ) -> Result<(), ErrorCode> {
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        self.home(&request.group_id)?;
        let millis = |value: i32| u64::try_from(value).ok().map(Duration::from_millis);
        let session_timeout = millis(request.session_timeout_ms)
            .filter(|timeout| (self.config.session_min..=self.config.session_max).contains(timeout))
            .ok_or(ErrorCode::InvalidSessionTimeout)?;
        if request.protocol_type.is_empty() || request.protocols.is_empty() {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if request.member_id.is_empty() {
            self.make(now, &request.group_id)?;
        }
        let join = Join {
            to,
            origin,
            instance: request.group_instance_id,
            rebalance_timeout: millis(request.rebalance_timeout_ms)
                .unwrap_or(session_timeout)
                .max(REBALANCE_MIN),
            session_timeout,
            protocol_type: request.protocol_type,
            protocols: request
                .protocols
                .into_iter()
                // A copy: the request's frame is not kept for it.
                .map(|known| (known.name, Bytes::copy_from_slice(&known.metadata)))
                .collect(),
        };
        let joined = self.with(now, &request.group_id, |turn| {
            if !turn.group.takes(&join.protocol_type, &join.protocols) {
                return Err(ErrorCode::InconsistentGroupProtocol);
            }
            if request.member_id.is_empty() {
                turn.join_new(join)
            } else {
                turn.join_again(&request.member_id, join)
            }
        });
        joined.unwrap_or(Err(ErrorCode::UnknownMemberId))
    }
}

impl<T: Copy> Turn<'_, T> {
    fn join_new(&mut self, join: Join<T>) -> Result<(), ErrorCode> {
        let known = join.instance.as_ref().and_then(|instance| self.group.instances.get(instance)).cloned();
        if let Some(old) = known {
            self.replace(&old, join);
            return Ok(());
        }
        if self.group.members.len() >= self.config.members_max {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let id = self.member_id(&join);
        if join.instance.is_none() && join.origin.version >= ID_REQUIRED_FROM {
            self.promise(id.clone(), join.session_timeout);
            self.reply(join.to, not_joined(&id, ErrorCode::MemberIdRequired));
            return Ok(());
        }
        self.add(id, join);
        Ok(())
    }

    /// Gives an id out. So many that nobody comes back with keep nobody out: the one that would hold the shortest goes.
    fn promise(&mut self, id: String, time: Duration) {
        let promised = &mut self.group.promised;
        if promised.len() >= self.config.members_max {
            let first = promised.iter().min_by_key(|(_, until)| **until).map(|(id, _)| id.clone());
            first.and_then(|first| promised.remove(&first));
        }
        promised.insert(id, self.now.monotonic.after(time));
    }

    fn member_id(&mut self, join: &Join<T>) -> String {
        let name = join.instance.as_ref().unwrap_or(&join.origin.client_id);
        format!("{name}-{}", self.ids.next())
    }

    fn join_again(&mut self, id: &str, join: Join<T>) -> Result<(), ErrorCode> {
        if join.instance.is_none() && self.group.promised.remove(id).is_some() {
            if self.group.members.len() >= self.config.members_max {
                return Err(ErrorCode::GroupMaxSizeReached);
            }
            self.add(id.to_owned(), join);
            return Ok(());
        }
        self.group.validate(id, join.instance.as_deref())?;
        let member = self.group.members.get(id).ok_or(ErrorCode::UnknownMemberId)?;
        let is_changed = member.protocols != join.protocols;
        let leads = self.group.leader.as_deref() == Some(id);
        match self.group.state {
            State::Empty => return Err(ErrorCode::UnknownMemberId),
            // The answer was lost, or the leader wants another assignment, or something is new.
            State::CompletingRebalance if !is_changed => self.tell_generation(id, join.to),
            State::Stable if !is_changed && !leads => self.tell_generation(id, join.to),
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                self.update(id, join);
                self.rebalance();
            }
        }
        Ok(())
    }

    /// A new member: everybody else has to join again.
    fn add(&mut self, id: String, join: Join<T>) {
        if self.group.members.is_empty() {
            self.group.protocol_type = Some(join.protocol_type.clone());
        }
        if let Some(instance) = &join.instance {
            self.group.instances.insert(instance.clone(), id.clone());
        }
        let member = Member {
            instance: join.instance,
            client_id: join.origin.client_id,
            client_host: join.origin.client_host,
            rebalance_timeout: join.rebalance_timeout,
            session_timeout: join.session_timeout,
            protocols: join.protocols,
            assignment: Bytes::new(),
            joining: Some(join.to),
            syncing: None,
            expires: self.now.monotonic.after(join.session_timeout),
        };
        self.group.leader.get_or_insert_with(|| id.clone());
        self.group.members.insert(id, member);
        if let Some(initial) = &mut self.group.initial {
            initial.grown = true;
        }
        self.rebalance();
    }

    /// A member joins again, with what it says about itself now.
    fn update(&mut self, id: &str, join: Join<T>) {
        self.fail_joining(id, ErrorCode::RebalanceInProgress);
        let Some(member) = self.group.members.get_mut(id) else { return };
        member.client_id = join.origin.client_id;
        member.client_host = join.origin.client_host;
        member.rebalance_timeout = join.rebalance_timeout;
        member.session_timeout = join.session_timeout;
        member.protocols = join.protocols;
        member.joining = Some(join.to);
    }

    /// A static member that was restarted takes the place of what it was: under another id, so that the old one is fenced.
    fn replace(&mut self, old: &str, join: Join<T>) {
        let id = self.member_id(&join);
        let to = join.to;
        let skips = join.origin.version >= SKIP_ASSIGNMENT_FROM;
        self.fail_joining(old, ErrorCode::FencedInstanceId);
        let Some(mut member) = self.group.members.remove(old) else { return };
        if let Some(syncing) = member.syncing.take() {
            self.reply(syncing, super::turn::not_synced(ErrorCode::FencedInstanceId));
        }
        let was_leader = self.group.leader.as_deref() == Some(old);
        if was_leader {
            self.group.leader = Some(id.clone());
        }
        if let Some(instance) = &member.instance {
            self.group.instances.insert(instance.clone(), id.clone());
        }
        if self.group.unsynced.remove(old) {
            self.group.unsynced.insert(id.clone());
        }
        self.group.members.insert(id.clone(), member);
        self.update(&id, join);
        if self.group.state != State::Stable || self.group.elected_protocol() != self.group.protocol {
            return self.rebalance();
        }
        // Its part is what it had, so nobody else has to know.
        if let Some(member) = self.group.members.get_mut(&id) {
            member.joining = None;
            member.heard(self.now.monotonic);
        }
        let mut response = self.generation_for(&id);
        if was_leader && skips {
            response.skip_assignment = true;
        } else if was_leader {
            // One that cannot skip is made to believe that it follows.
            old.clone_into(&mut response.leader);
            response.members = Vec::new();
        }
        let part =
            |member: &str| self.group.members.get(member).map(|it| it.assignment.clone()).unwrap_or_default();
        match records::group(self.name, self.group, part) {
            Ok(record) => {
                let group = self.name.to_owned();
                self.write_group(Purpose::Replacement { group, to, response: response.into() }, record);
            }
            Err(_) => self.reply(to, not_joined(&id, ErrorCode::UnknownServerError)),
        }
    }

    /// What a member of the present generation is told about it.
    pub(super) fn generation_for(&self, id: &str) -> JoinGroupResponse {
        let group = &*self.group;
        let leads = group.leader.as_deref() == Some(id);
        let protocol = group.protocol.as_deref().unwrap_or_default();
        let members = group.members.iter().filter(|_| leads).map(|(id, member)| JoinGroupResponseMember {
            member_id: id.clone(),
            group_instance_id: member.instance.clone(),
            metadata: member.metadata(protocol),
        });
        JoinGroupResponse {
            generation_id: group.generation,
            protocol_type: group.protocol_type.clone(),
            protocol_name: group.protocol.clone(),
            leader: group.leader.clone().unwrap_or_default(),
            member_id: id.to_owned(),
            members: members.collect(),
            ..Default::default()
        }
    }

    fn tell_generation(&mut self, id: &str, to: T) {
        if let Some(member) = self.group.members.get_mut(id) {
            member.heard(self.now.monotonic);
        }
        let response = self.generation_for(id);
        self.reply(to, response);
    }
}
