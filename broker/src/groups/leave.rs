//! `LeaveGroup`: members go by themselves, or are taken out by name (KIP-345).

use highwater_engine::units::Now;
use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::leave_group::{
    LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse,
};

use super::assign::check_name;
use super::coordinator::Coordinator;
use super::turn::Turn;

/// From this version on several members can be named.
const SEVERAL_FROM: i16 = 3;

impl<T: Copy> Coordinator<T> {
    /// Members leave.
    pub(crate) fn leave(&mut self, now: Now, to: T, version: i16, request: LeaveGroupRequest) {
        let name = request.group_id;
        if let Err(error_code) = check_name(&name).and_then(|()| self.home(&name)) {
            return self.writes.reply(to, LeaveGroupResponse { error_code, ..Default::default() }.into());
        }
        let members = if version >= SEVERAL_FROM {
            request.members
        } else {
            vec![MemberIdentity { member_id: request.member_id, ..Default::default() }]
        };
        let mut left: Vec<MemberResponse> = Vec::new();
        for member in members {
            let outcome = self.with(now, &name, |turn| turn.leave(&member));
            let error_code = outcome.unwrap_or(Err(ErrorCode::UnknownMemberId)).err().unwrap_or_default();
            let MemberIdentity { member_id, group_instance_id, .. } = member;
            left.push(MemberResponse { member_id, group_instance_id, error_code });
        }
        let response = if version >= SEVERAL_FROM {
            LeaveGroupResponse { members: left, ..Default::default() }
        } else {
            let error_code = left.first().map(|one| one.error_code).unwrap_or_default();
            LeaveGroupResponse { error_code, ..Default::default() }
        };
        self.writes.reply(to, response.into());
    }
}

impl<T: Copy> Turn<'_, T> {
    fn leave(&mut self, member: &MemberIdentity) -> Result<(), ErrorCode> {
        let id = match (&member.group_instance_id, member.member_id.as_str()) {
            (Some(instance), "") => {
                self.group.instances.get(instance).cloned().ok_or(ErrorCode::UnknownMemberId)?
            }
            (None, id) if self.group.promised.remove(id).is_some() => {
                self.complete_if_all_joined();
                return Ok(());
            }
            (_, id) => id.to_owned(),
        };
        self.group.validate(&id, member.group_instance_id.as_deref())?;
        self.remove(&id);
        Ok(())
    }
}
