//! From one generation to the next: members are waited for, counted, and told.

use std::time::Duration;

use highwater_engine::units::Monotonic;
use highwater_replication::wire::ErrorCode;

use super::group::{InitialDelay, State};
use super::records;
use super::turn::Turn;
use super::writes::Purpose;

impl<T: Copy> Turn<'_, T> {
    /// The members have to join again, or those who already do are looked at.
    pub(super) fn rebalance(&mut self) {
        let now = self.now.monotonic;
        match self.group.state {
            State::PreparingRebalance => {}
            State::Empty => {
                let timeout = self.group.rebalance_timeout();
                let initial = self.config.initial_delay.min(timeout);
                self.group.initial = (initial > Duration::ZERO).then(|| InitialDelay {
                    next: now.after(initial),
                    last: now.after(timeout),
                    grown: false,
                });
                // Ids that were given out and never come back keep nobody waiting for longer.
                self.group.deadline = self.group.initial.is_none().then(|| now.after(timeout));
                self.begin();
            }
            State::CompletingRebalance | State::Stable => {
                self.fail_syncing(ErrorCode::RebalanceInProgress);
                self.group.initial = None;
                self.group.deadline = Some(now.after(self.group.rebalance_timeout()));
                self.begin();
            }
        }
        self.complete_if_all_joined();
    }

    /// The present generation is over, for all of its members.
    pub(super) fn begin_anew(&mut self) {
        if matches!(self.group.state, State::CompletingRebalance | State::Stable) {
            self.rebalance();
        }
    }

    fn begin(&mut self) {
        self.group.assigning = None;
        self.group.unsynced.clear();
        self.group.enter(State::PreparingRebalance, self.now.wall);
    }

    /// The rebalance is over as soon as nobody is missing.
    pub(super) fn complete_if_all_joined(&mut self) {
        let group = &*self.group;
        let waits = group.initial.is_some() && !group.members.is_empty();
        let all = group.members.values().all(|member| member.joining.is_some());
        if group.state == State::PreparingRebalance && !waits && all && group.promised.is_empty() {
            self.complete();
        }
    }

    /// Does what is due in the group.
    pub(super) fn look(&mut self) {
        let now = self.now.monotonic;
        let expired = |at: &Monotonic| *at <= now;
        self.group.promised.retain(|_, until| !expired(until));
        let silent: Vec<String> = self
            .group
            .members
            .iter()
            .filter(|(_, member)| member.deadline().as_ref().is_some_and(expired))
            .map(|(id, _)| id.clone())
            .collect();
        for id in silent {
            self.remove(&id);
        }
        self.complete_if_all_joined();
        if let Some(initial) = self.group.initial.filter(|initial| expired(&initial.next)) {
            if initial.grown && initial.next < initial.last {
                let next = now.after(self.config.initial_delay).min(initial.last);
                self.group.initial = Some(InitialDelay { next, grown: false, ..initial });
            } else {
                self.group.initial = None;
                self.complete();
            }
        }
        if self.group.deadline.as_ref().is_some_and(expired) {
            self.group.deadline = None;
            match self.group.state {
                State::PreparingRebalance => self.complete(),
                State::CompletingRebalance | State::Stable => self.drop_unsynced(),
                State::Empty => {}
            }
        }
    }

    /// Those who joined and never asked for their part keep the others waiting.
    fn drop_unsynced(&mut self) {
        for id in std::mem::take(&mut self.group.unsynced) {
            self.remove(&id);
        }
        if self.group.state == State::CompletingRebalance {
            self.rebalance();
        }
    }

    /// Nobody is waited for any more: who has not joined goes, unless it is static and may come back in its session.
    fn complete(&mut self) {
        let gone: Vec<String> = self
            .group
            .members
            .iter()
            .filter(|(_, member)| member.joining.is_none() && member.instance.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for id in &gone {
            self.take_out(id);
        }
        let joined = self.group.members.iter().find(|(_, member)| member.joining.is_some());
        let Some(first) = joined.map(|(id, _)| id.clone()) else {
            if self.group.members.is_empty() {
                return self.become_empty();
            }
            // Static members that are all away: until their sessions end.
            self.group.deadline = Some(self.now.monotonic.after(self.group.rebalance_timeout()));
            return;
        };
        let leader = self.group.leader.as_ref().and_then(|leader| self.group.members.get(leader));
        if leader.is_none_or(|leader| leader.joining.is_none()) {
            self.group.leader = Some(first);
        }
        self.group.initial = None;
        self.group.generation = next_generation(self.group.generation);
        self.group.protocol = self.group.elected_protocol();
        self.group.take_assignments();
        self.group.unsynced = self.group.members.keys().cloned().collect();
        self.group.deadline = Some(self.now.monotonic.after(self.group.rebalance_timeout()));
        self.group.enter(State::CompletingRebalance, self.now.wall);
        self.tell_all_joined();
    }

    fn tell_all_joined(&mut self) {
        let now = self.now.monotonic;
        let joined: Vec<(String, T)> = self
            .group
            .members
            .iter_mut()
            .filter_map(|(id, member)| {
                let to = member.joining.take()?;
                member.heard(now);
                Some((id.clone(), to))
            })
            .collect();
        for (id, to) in joined {
            let response = self.generation_for(&id);
            self.reply(to, response);
        }
    }

    fn become_empty(&mut self) {
        let group = &mut *self.group;
        (group.initial, group.deadline, group.protocol, group.leader) = (None, None, None, None);
        group.generation = next_generation(group.generation);
        group.enter(State::Empty, self.now.wall);
        // That it failed to be written is no matter: the members of the old generation are gone after a restart, too.
        if let Ok(record) = records::group(self.name, self.group, |_| bytes::Bytes::new()) {
            self.group.is_written = true;
            let group = self.name.to_owned();
            self.write_group(Purpose::Housekeeping { group, forgotten: Vec::new(), is_gone: false }, record);
        }
    }

    /// A member is gone, and the others share what it had.
    pub(super) fn remove(&mut self, id: &str) {
        self.take_out(id);
        match self.group.state {
            State::Stable | State::CompletingRebalance => self.rebalance(),
            State::PreparingRebalance => self.complete_if_all_joined(),
            State::Empty => {}
        }
    }

    fn take_out(&mut self, id: &str) {
        self.fail_joining(id, ErrorCode::UnknownMemberId);
        let Some(member) = self.group.members.remove(id) else { return };
        if let Some(syncing) = member.syncing {
            self.reply(syncing, super::turn::not_synced(ErrorCode::UnknownMemberId));
        }
        if let Some(instance) = &member.instance {
            self.group.instances.remove(instance);
        }
        self.group.unsynced.remove(id);
        if self.group.leader.as_deref() == Some(id) {
            self.group.leader = self.group.members.keys().next().cloned();
        }
    }
}

/// The number behind the last one is 1 again, as in Kafka it never comes.
fn next_generation(generation: i32) -> i32 {
    generation.checked_add(1).unwrap_or(1)
}
