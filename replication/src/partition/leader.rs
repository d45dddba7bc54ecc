//! A replica that leads: how far the others are, what is committed, who should be in sync.
//!
//! It refuses to decide who is in sync: it proposes, the controller decides. While a proposal is under way both the committed and the
//! proposed members count (KIP-497), because the controller may have granted it already.

use std::collections::BTreeMap;

use highwater_engine::log::LogFacts;
use highwater_engine::units::{Monotonic, NodeId, Offset};

use super::assignment::{Assignment, Durability, Member, Standing};
use super::config::Settings;
use super::effect::OutOfSyncReason;
use super::input::{FetchClaim, Fetcher, IsrAnswer, IsrProposal};
use super::progress::Progress;
use crate::rules::Rule;

/// What a leader knows besides the assignment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leader {
    /// The end of the log when this leadership began (LESO).
    pub(super) epoch_start: Offset,
    progress: BTreeMap<NodeId, Progress>,
    out_since: BTreeMap<NodeId, Monotonic>,
    proposal: Option<Proposal>,
    /// After a refusal: not before.
    propose_after: Monotonic,
}

/// A proposal on its way; at most one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Proposal {
    proposal: IsrProposal,
    state: ProposalState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ProposalState {
    /// No answer yet.
    Asked,
    /// No answer came: the same again, then.
    AskAgainAt(Monotonic),
    /// The controller has moved on: wait for its word.
    Outdated,
}

/// What the leader's rules look at.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) now: Monotonic,
    pub(super) node: NodeId,
    pub(super) settings: Settings,
    pub(super) assignment: &'a Assignment,
    pub(super) log: &'a LogFacts<'a>,
    pub(super) high_watermark: Offset,
}

impl View<'_> {
    /// What this replica itself contributes.
    pub(super) fn contribution(&self) -> Offset {
        contribution(self.assignment.durability, self.log)
    }

    /// How many assigned replicas are in the committed ISR.
    pub(super) fn in_sync(&self) -> usize {
        in_sync(self.assignment)
    }

    fn committed(&self, node: NodeId) -> bool {
        self.assignment.isr.contains(&node)
    }

    fn followers(&self) -> impl Iterator<Item = &Member> {
        self.assignment.replicas.iter().filter(|member| member.node != self.node)
    }
}

/// What a replica has: `written`, or `durable` where that was chosen.
pub(super) fn contribution(durability: Durability, log: &LogFacts<'_>) -> Offset {
    match durability {
        Durability::Written => log.written,
        Durability::Fsync => log.durable,
    }
}

/// How many assigned replicas are in the committed ISR.
pub(super) fn in_sync(assignment: &Assignment) -> usize {
    assignment.isr.iter().filter(|node| assignment.member(**node).is_some()).count()
}

impl Leader {
    /// Begins a leadership: nothing is known of anybody, and members of the ISR have one lag time to be heard of.
    pub(super) fn begin(view: &View<'_>) -> Self {
        let mut leader = Self {
            epoch_start: view.log.accepted,
            progress: BTreeMap::new(),
            out_since: BTreeMap::new(),
            proposal: None,
            propose_after: Monotonic::default(),
        };
        leader.note_members(view);
        leader
    }

    /// Takes over who is assigned, in sync and in which session.
    pub(super) fn note_members(&mut self, view: &View<'_>) {
        let Self { progress, out_since, .. } = self;
        progress.retain(|node, _| view.assignment.member(*node).is_some());
        out_since.retain(|node, _| view.assignment.member(*node).is_some());
        for member in view.followers() {
            let in_isr = view.committed(member.node);
            let follower =
                progress.entry(member.node).or_insert_with(|| Progress::unheard(in_isr.then_some(view.now)));
            let other_session = follower.session.is_some() && follower.session != member.session;
            if other_session && view.settings.rules.holds(Rule::ResetFollowerAtNewSession) {
                follower.begin_session();
            }
            if in_isr {
                // Who joins has one lag time, or it might leave again before its next Fetch.
                if out_since.remove(&member.node).is_some() {
                    follower.caught_up = follower.caught_up.max(Some(view.now));
                }
            } else {
                out_since.entry(member.node).or_insert(view.now);
            }
        }
    }

    /// Forgets what replicas outside the ISR have said: versions of the state were missed, and in one of them a replica may have been
    /// removed and added again, empty (S09).
    pub(super) fn forget_outsiders(&mut self, view: &View<'_>) {
        for (node, follower) in &mut self.progress {
            if !view.committed(*node) {
                *follower = Progress::default();
            }
        }
    }

    /// Forgets what replicas have said that the controller removed for a reason of its own: it may be their log, so only what they say from
    /// now on counts.
    pub(super) fn forget_removed(&mut self, view: &View<'_>, isr_before: &[NodeId]) {
        for member in view.followers() {
            let removed = isr_before.contains(&member.node) && !view.committed(member.node);
            if removed
                && self.left_because(view, member).is_none()
                && let Some(follower) = self.progress.get_mut(&member.node)
            {
                follower.begin_session();
            }
        }
    }

    /// A newer version of the state answers a proposal that built on an older one.
    pub(super) fn settle_proposal(&mut self, view: &View<'_>) {
        let newer = |asked: &Proposal| view.assignment.partition_epoch > asked.proposal.partition_epoch;
        if self.proposal.as_ref().is_some_and(newer) {
            self.proposal = None;
        }
    }

    /// Notes a follower's Fetch that was judged to be of this epoch, session and history.
    pub(super) fn note_fetch(&mut self, view: &View<'_>, claim: &FetchClaim) {
        let Fetcher::Follower { node, session } = claim.fetcher else { return };
        if let Some(follower) = self.progress.get_mut(&node) {
            follower.fetched(view.now, claim.offset, claim.log_start, session, view.log.written);
        }
    }

    /// Notes the answer to a proposal; `true` if it was granted. One to another proposal than the present says nothing.
    pub(super) fn note_answer(
        &mut self,
        now: Monotonic,
        retry: std::time::Duration,
        asked: &IsrProposal,
        answer: &IsrAnswer,
    ) -> bool {
        let Some(present) = self.proposal.as_mut().filter(|present| present.proposal == *asked) else {
            return false;
        };
        match answer {
            IsrAnswer::Granted { .. } => {
                self.proposal = None;
                return true;
            }
            IsrAnswer::Refused => {
                self.proposal = None;
                self.propose_after = now.after(retry);
            }
            IsrAnswer::Outdated => present.state = ProposalState::Outdated,
            IsrAnswer::Unanswered => present.state = ProposalState::AskAgainAt(now.after(retry)),
        }
        false
    }

    /// The smallest contribution that counts. `None` while the committed ISR is below the minimum, or while a replica that counts has not
    /// been heard of: then nothing new is known, which is not the same as nothing.
    pub(super) fn committed_end(&self, view: &View<'_>) -> Option<Offset> {
        let rules = view.settings.rules;
        if rules.holds(Rule::HwFrozenBelowMinIsr) && view.in_sync() < view.assignment.min_isr_effective() {
            return None;
        }
        view.followers().filter(|member| self.counts(view, member)).try_fold(
            view.contribution(),
            |smallest, member| {
                let end = self.progress.get(&member.node).and_then(|follower| follower.end)?;
                Some(smallest.min(end))
            },
        )
    }

    /// The ISR that the controller has not answered yet.
    pub(super) fn proposed(&self) -> impl Iterator<Item = NodeId> {
        self.proposal.iter().flat_map(|asked| asked.proposal.isr.iter().map(|(node, _)| *node))
    }

    fn counts(&self, view: &View<'_>, member: &Member) -> bool {
        let proposed = self.proposed().any(|node| node == member.node);
        let member_of_isr = if view.settings.rules.holds(Rule::HwOverMaximalIsr) {
            view.committed(member.node) || proposed
        } else {
            view.committed(member.node) && (self.proposal.is_none() || proposed)
        };
        // A replica that keeps up but has not joined holds the high watermark, or it would chase it for ever.
        member_of_isr
            || self.progress.get(&member.node).is_some_and(|follower| {
                member.may_join()
                    && follower.session == member.session
                    && follower.is_caught_up(view.now, view.log.written, view.settings.config.lag_max)
            })
    }

    /// Proposes another ISR if there is reason to, or the same again if no answer came.
    pub(super) fn propose(&mut self, view: &View<'_>) -> Option<IsrProposal> {
        if let Some(asked) = &mut self.proposal {
            return match asked.state {
                ProposalState::AskAgainAt(at) if at <= view.now => {
                    asked.state = ProposalState::Asked;
                    Some(asked.proposal.clone())
                }
                ProposalState::AskAgainAt(_) | ProposalState::Asked | ProposalState::Outdated => None,
            };
        }
        if view.now < self.propose_after {
            return None;
        }
        let stays_or_joins = |member: &&Member| {
            member.node == view.node
                || if view.committed(member.node) {
                    self.left_because(view, member).is_none()
                } else {
                    self.may_join(view, member)
                }
        };
        let members: Vec<&Member> = view.assignment.replicas.iter().filter(stays_or_joins).collect();
        let wanted = |node: NodeId| members.iter().any(|member| member.node == node);
        if members.len() == view.assignment.isr.len() && view.assignment.isr.iter().all(|node| wanted(*node))
        {
            return None;
        }
        let proposal = IsrProposal {
            leader_epoch: view.assignment.leader_epoch,
            partition_epoch: view.assignment.partition_epoch,
            isr: members.iter().map(|member| (member.node, self.session_of(view, member))).collect(),
        };
        self.proposal = Some(Proposal { proposal: proposal.clone(), state: ProposalState::Asked });
        Some(proposal)
    }

    fn session_of(&self, view: &View<'_>, member: &Member) -> Option<crate::ids::BrokerEpoch> {
        let fenced_by_session = view.settings.rules.holds(Rule::ResetFollowerAtNewSession);
        if member.node == view.node || !fenced_by_session {
            return member.session;
        }
        self.progress.get(&member.node).and_then(|follower| follower.session)
    }

    /// Why a member should leave the ISR, if it should.
    fn left_because(&self, view: &View<'_>, member: &Member) -> Option<OutOfSyncReason> {
        if member.standing == Standing::Fenced {
            return Some(OutOfSyncReason::BrokerDown);
        }
        let follower = self.progress.get(&member.node)?;
        if follower.is_caught_up(view.now, view.log.written, view.settings.config.lag_max) {
            return None;
        }
        Some(if follower.end.is_none() { OutOfSyncReason::NotFetching } else { OutOfSyncReason::Lagging })
    }

    /// Whether a replica outside may join: alive, heard of lately in this epoch and session, with everything that may be committed.
    ///
    /// The high watermark of a new leader may be behind the true one, but nothing at or above the start of its epoch was committed before,
    /// so a replica that has reached that start has all (KAFKA-7128).
    fn may_join(&self, view: &View<'_>, member: &Member) -> bool {
        let rules = view.settings.rules;
        let Some(follower) = self.progress.get(&member.node) else { return false };
        let this_session =
            follower.session == member.session || !rules.holds(Rule::ResetFollowerAtNewSession);
        // It joins at a Fetch of its own, or soon after one: whoever fell silent would only be taken in to be waited for.
        let soon = view.settings.config.isr_retry.saturating_mul(2);
        let lately = follower.last_fetch.is_some_and(|fetch| view.now.since(fetch.at) <= soon);
        let complete = follower.end.is_some_and(|end| {
            end >= view.high_watermark
                && (end >= self.epoch_start || !rules.holds(Rule::ExpansionNeedsEpochStart))
        });
        member.may_join() && this_session && lately && complete
    }

    /// When something becomes due though nothing happens.
    pub(super) fn next_deadline(&self, view: &View<'_>) -> Option<Monotonic> {
        let again = match self.proposal.as_ref().map(|asked| asked.state) {
            Some(ProposalState::AskAgainAt(at)) => Some(at),
            Some(ProposalState::Asked | ProposalState::Outdated) | None => None,
        };
        let lag_max = view.settings.config.lag_max;
        let behind = |node: &NodeId, follower: &Progress| {
            let at = follower.falls_behind_at(view.log.written, lag_max)?;
            // Who is in the ISR is proposed to leave then, unless a proposal is under way; who is outside ceases to hold the high
            // watermark, which matters once.
            match (view.committed(*node), &self.proposal) {
                (true, None) => Some(at.max(self.propose_after)),
                (true, Some(_)) => None,
                (false, _) => (at > view.now).then_some(at),
            }
        };
        let lags = self.progress.iter().filter_map(|(node, follower)| behind(node, follower));
        let refused = (self.propose_after > view.now).then_some(self.propose_after);
        again.into_iter().chain(refused).chain(lags).min()
    }

    /// A replica outside the ISR, as people should see it: since when, why, and how far it is.
    pub(super) fn out_of_sync(
        &self,
        view: &View<'_>,
        member: &Member,
    ) -> (Monotonic, OutOfSyncReason, Option<Offset>) {
        let since = self.out_since.get(&member.node).copied().unwrap_or(view.now);
        let follower = self.progress.get(&member.node).copied().unwrap_or_default();
        let reason = match member.standing {
            Standing::Fenced => OutOfSyncReason::BrokerDown,
            Standing::Stopping => OutOfSyncReason::Stopping,
            Standing::Alive => match follower.last_fetch {
                None => OutOfSyncReason::NotFetching,
                Some(fetch) if view.now.since(fetch.at) > view.settings.config.lag_max => {
                    OutOfSyncReason::NotFetching
                }
                Some(_) if self.may_join(view, member) => OutOfSyncReason::CatchingUp,
                Some(_)
                    if follower.is_caught_up(view.now, view.log.written, view.settings.config.lag_max) =>
                {
                    OutOfSyncReason::CatchingUp
                }
                Some(_) => OutOfSyncReason::Lagging,
            },
        };
        (since, reason, follower.end)
    }

    /// Why a replica that has just left the ISR did.
    pub(super) fn why_left(&self, view: &View<'_>, node: NodeId) -> OutOfSyncReason {
        let member = view.assignment.member(node);
        member.map_or(OutOfSyncReason::BrokerDown, |member| {
            self.left_because(view, member).unwrap_or(match member.standing {
                Standing::Stopping => OutOfSyncReason::Stopping,
                Standing::Alive | Standing::Fenced => OutOfSyncReason::BrokerDown,
            })
        })
    }
}
