//! A group: its members, its generation, its offsets. What it does with time and with others is in the files beside this one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::units::{Monotonic, Timestamp};
use highwater_replication::wire::ErrorCode;

use super::coordinator::WriteId;
use super::member::{Member, Protocols};
use super::offsets::Offsets;
use super::subscription;

/// What consumers call themselves.
pub(super) const CONSUMER: &str = "consumer";

/// Where a group is in its life, in Kafka's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// No members, perhaps offsets.
    Empty,
    /// Members are waited for.
    PreparingRebalance,
    /// The leader's assignment is waited for.
    CompletingRebalance,
    /// Everybody has a part.
    Stable,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// The first members of a group are given time, so that they do not each make a generation (KIP-134).
#[derive(Clone, Copy, Debug)]
pub(super) struct InitialDelay {
    /// When it is looked whether more have come.
    pub(super) next: Monotonic,
    /// When nobody is waited for any more.
    pub(super) last: Monotonic,
    /// Whether somebody came since the last look.
    pub(super) grown: bool,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Group<T> {
    pub(super) state: State,
    /// Since when it is in its state.
    pub(super) since: Timestamp,
    pub(super) generation: i32,
    /// What it is for; `None` if it has only ever had offsets.
    pub(super) protocol_type: Option<String>,
    /// How partitions are assigned in this generation.
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    pub(super) members: BTreeMap<String, Member<T>>,
    /// Static members: which id a name has.
    pub(super) instances: BTreeMap<String, String>,
    /// Ids that were given out and not come back with, and until when they hold.
    pub(super) promised: BTreeMap<String, Monotonic>,
    /// Members of this generation that have not asked for their part.
    pub(super) unsynced: BTreeSet<String>,
    pub(super) initial: Option<InitialDelay>,
    /// While members or the assignment are waited for: until when.
    pub(super) deadline: Option<Monotonic>,
    /// The write of this generation's assignment.
    pub(super) assigning: Option<WriteId>,
    pub(super) offsets: Offsets,
    /// Whether the log has a record of it.
    pub(super) is_written: bool,
    /// The last write of such a record, whatever came of it.
    pub(super) last_write: Option<WriteId>,
    /// When the machine looks at it next.
    pub(super) alarm: Option<Monotonic>,
}

impl<T> Group<T> {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            state: State::Empty,
            since: now,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            promised: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            initial: None,
            deadline: None,
            assigning: None,
            offsets: Offsets::default(),
            is_written: false,
            last_write: None,
            alarm: None,
        }
    }

    pub(super) fn enter(&mut self, state: State, now: Timestamp) {
        self.state = state;
        self.since = now;
    }

    /// Whether nobody is in it, or about to be.
    pub(super) fn has_nobody(&self) -> bool {
        self.members.is_empty() && self.promised.is_empty()
    }

    /// Ways of assigning that every member knows.
    fn common_protocols(&self) -> BTreeSet<&str> {
        let mut members = self
            .members
            .values()
            .map(|member| member.protocols.iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>());
        let first = members.next().unwrap_or_default();
        members.fold(first, |common, known| common.intersection(&known).copied().collect())
    }

    /// Whether somebody who knows these ways can be a member.
    pub(super) fn takes(&self, protocol_type: &str, protocols: &Protocols) -> bool {
        if self.members.is_empty() {
            return true;
        }
        let common = self.common_protocols();
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|(name, _)| common.contains(name.as_str()))
    }

    /// The way that most members prefer among those that all know.
    pub(super) fn elected_protocol(&self) -> Option<String> {
        let common = self.common_protocols();
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let mut known = member.protocols.iter().map(|(name, _)| name.as_str());
            if let Some(vote) = known.find(|name| common.contains(name)) {
                *votes.entry(vote).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|(_, votes)| *votes).map(|(name, _)| name.to_owned())
    }

    /// How long a rebalance waits: as long as the most patient member.
    pub(super) fn rebalance_timeout(&self) -> Duration {
        self.members.values().map(|member| member.rebalance_timeout).max().unwrap_or_default()
    }

    /// Whether a request comes from who it says, and which error it gets otherwise.
    pub(super) fn validate(&self, member: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            match self.instances.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(known) if known != member => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// Topics that its members read; `None` if that cannot be known, and so has to be taken for all.
    pub(super) fn subscribed(&self) -> Option<BTreeSet<String>> {
        let is_consumer = self.protocol_type.as_deref() == Some(CONSUMER);
        if self.members.is_empty() || !is_consumer {
            return self.members.is_empty().then(BTreeSet::new);
        }
        let mut topics = BTreeSet::new();
        for (_, metadata) in self.members.values().flat_map(|member| &member.protocols) {
            topics.extend(subscription::topics(metadata)?);
        }
        Some(topics)
    }

    /// When something is due in it.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let members = self.members.values().filter_map(Member::deadline);
        let initial = self.initial.map(|initial| initial.next);
        members.chain(self.promised.values().copied()).chain(self.deadline).chain(initial).min()
    }

    /// The parts of all members are gone.
    pub(super) fn take_assignments(&mut self) {
        self.members.values_mut().for_each(|member| member.assignment = Bytes::new());
    }
}
