//! Brokers come, are heard of, stop and go: what that means for the partitions they hold.

use std::time::Duration;

use highwater_engine::units::{LeaderEpoch, NodeId, Offset, TopicId, TopicPartition};

use super::change::Change;
use super::election;
use super::event::{ControllerEvent, FenceReason, LeaderReason};
use super::input::CallId;
use super::machine::Controller;
use super::proof::{self, Contributions};
use super::protocol::{
    Condition, ControllerReply, LastStop, Registration, ReplicaFacts, ResignCause, Sender, SessionBegun,
};
use super::refusal::RegistrationRefusal;
use super::state::{Broker, BrokerStatus, OutReason, PartitionState, RegisteredAs, ReplicaReport, Suspicion};
use crate::ids::BrokerEpoch;
use crate::partition::Integrity;

impl Controller {
    pub(super) fn session_lasts(&self, sender: Sender) -> bool {
        self.state
            .brokers
            .get(&sender.node)
            .is_some_and(|broker| broker.session == sender.session && broker.status != BrokerStatus::Fenced)
    }

    /// A broker begins a session. The old one is over first, and its leaderships are another epoch's (S33, S34); then what the
    /// broker has lost is suspected; then it is let in.
    pub(super) fn register(&mut self, id: CallId, registration: &Registration) {
        let outcome = self.begin_session(registration);
        self.reply(id, ControllerReply::Registered(outcome));
    }

    fn begin_session(&mut self, registration: &Registration) -> Result<SessionBegun, RegistrationRefusal> {
        self.check_registration(registration)?;
        let node = registration.node;
        let last_session = self.last_session_known_to(registration);
        self.fence(node, FenceReason::NewSession);
        self.judge_replicas(registration, last_session);
        let session = BrokerEpoch::of_session(self.state.sessions + 1, self.rng.u32(..));
        let broker = Broker {
            session,
            host: registration.host.clone(),
            port: registration.port,
            directory: registration.directory.clone(),
            process: registration.process,
            status: BrokerStatus::Alive,
            registered_as: registration.run.map(|run| RegisteredAs {
                run,
                last_stop: registration.last_stop,
                judged_by: last_session,
            }),
        };
        self.change(Change::SessionBegan { node, broker });
        self.heard.insert(node, self.now.monotonic);
        self.event(ControllerEvent::Registered { node });
        for name in self.partitions_of(node) {
            self.elect_if_leaderless(&name, LeaderReason::Returned);
        }
        Ok(SessionBegun {
            session,
            cluster_id: self.state.cluster_id.clone(),
            version: self.state.version,
            session_timeout_ms: u64::try_from(self.config.session_timeout.as_millis()).unwrap_or(u64::MAX),
        })
    }

    /// The broker's last session, or the one before if it cannot know of the last: the same process says again what it said to begin it.
    fn last_session_known_to(&self, registration: &Registration) -> Option<BrokerEpoch> {
        let broker = self.state.brokers.get(&registration.node)?;
        let is_repeated = |said: &RegisteredAs| {
            Some(said.run) == registration.run && said.last_stop == registration.last_stop
        };
        broker.registered_as.filter(is_repeated).map_or(Some(broker.session), |said| said.judged_by)
    }

    fn check_registration(&self, registration: &Registration) -> Result<(), RegistrationRefusal> {
        let node = registration.node;
        if let Some(found) = &registration.cluster_id
            && *found != self.state.cluster_id
        {
            let expected = self.state.cluster_id.clone();
            return Err(RegistrationRefusal::WrongCluster { found: found.clone(), expected });
        }
        let stopped_in = match registration.last_stop {
            LastStop::StillRunning { session } => Some(session),
            LastStop::Clean { session } => session,
            LastStop::Killed | LastStop::MachineCrash | LastStop::Never => None,
        };
        let had = registration.last_session.max(stopped_in).map_or(0, BrokerEpoch::session);
        if had > self.state.sessions {
            let known = self.state.sessions;
            return Err(RegistrationRefusal::StateIsOld { node, found: had, known });
        }
        match self.state.brokers.get(&node) {
            None if self.state.brokers.len() >= self.config.brokers_max => {
                return Err(RegistrationRefusal::TooMany { held: self.state.brokers.len() });
            }
            Some(broker) if broker.status != BrokerStatus::Fenced => {
                let elsewhere = broker.directory.is_some()
                    && registration.directory.is_some()
                    && broker.directory != registration.directory;
                if elsewhere {
                    return Err(RegistrationRefusal::DuplicateNode { node });
                }
            }
            None | Some(_) => {}
        }
        if self.state.sessions >= u32::MAX >> 1 {
            return Err(RegistrationRefusal::SessionsUsedUp);
        }
        Ok(())
    }

    /// Notes, before the broker is let in, which of its replicas are suspect, and what it has of partitions that nobody leads.
    fn judge_replicas(&mut self, registration: &Registration, last_session: Option<BrokerEpoch>) {
        let node = registration.node;
        for name in self.partitions_of(node) {
            let Some(topic) = self.state.topics.get(name.topic()) else { continue };
            let Some(partition) = self.state.partition(&name) else { continue };
            let contributions = if topic.contributions_are_durable() {
                Contributions::Durable
            } else {
                Contributions::Written
            };
            // One that cannot be opened may not be able to say of which topic it is.
            let is_its = |facts: &&ReplicaFacts| match facts.topic_id {
                None => facts.condition == Condition::LogFailed,
                id => id == Some(topic.id),
            };
            let facts = registration.replicas.iter().find(|facts| facts.partition == name && is_its(facts));
            let suspicion = proof::suspicion(registration.last_stop, last_session, contributions, facts);
            let mut next = partition.clone();
            // Who is not eligible does not count, so there is nothing that it could have lost.
            if let Some(why) = suspicion
                && next.eligible.contains(&node)
            {
                next.suspects.entry(node).or_insert(why);
            }
            note_integrity(&mut next, node, facts.map_or(Integrity::Whole, |facts| facts.integrity));
            if let Some(facts) = facts {
                election::confirm_losses(&mut next, &report_of(facts));
            }
            // What a failed log has is known when it is open again, and what is being written when it is there; until then it must be neither
            // the best of all nor less than another.
            let is_known = facts
                .is_none_or(|facts| !matches!(facts.condition, Condition::LogFailed | Condition::Writing));
            if next.leader.is_none() && is_known {
                next.reports.insert(node, facts.map_or(NOTHING, report_of));
            }
            self.change_or_leave(&name, next, OutReason::SessionEnded, LeaderReason::LeaderGone);
        }
    }

    /// Ends a broker's session, if it has one.
    pub(super) fn fence(&mut self, node: NodeId, why: FenceReason) {
        self.heard.remove(&node);
        if !self.state.is_registered(node) {
            return;
        }
        self.change(Change::BrokerChanged { node, status: BrokerStatus::Fenced });
        self.event(ControllerEvent::Fenced { node, why });
        self.drop_polls_of(node);
        for name in self.partitions_of(node) {
            self.leave_isr(&name, node, OutReason::SessionEnded, None);
        }
    }

    /// Takes a replica that is gone out of the ISR and out of the lead; somebody else leads, or nobody.
    fn leave_isr(
        &mut self,
        name: &TopicPartition,
        node: NodeId,
        out: OutReason,
        suspicion: Option<Suspicion>,
    ) {
        let Some(partition) = self.state.partition(name) else { return };
        let mut next = partition.clone();
        next.isr.retain(|member| *member != node);
        next.reports.remove(&node);
        if let Some(why) = suspicion
            && next.eligible.contains(&node)
        {
            next.suspects.entry(node).or_insert(why);
        }
        if next.leader == Some(node) {
            next.leader = None;
            if let Some(choice @ election::Choice::Safe(_)) =
                election::choose(&self.state, &next, self.trust())
            {
                election::lead(&mut next, choice);
            }
        }
        self.change_or_leave(name, next, out, LeaderReason::LeaderGone);
        // Who was waited for because it is complete may not be eligible any more.
        self.elect_if_leaderless(name, LeaderReason::LeaderGone);
    }

    pub(super) fn process_ended(&mut self, node: NodeId, process: Option<u32>) {
        let registered = self.state.brokers.get(&node).and_then(|broker| broker.process);
        let another = process.zip(registered).is_some_and(|(ended, registered)| ended != registered);
        if !another {
            self.fence(node, FenceReason::ProcessEnded);
        }
    }

    /// A broker stops by order: others lead and it leaves every ISR that has somebody else. How many partitions only it can lead.
    pub(super) fn stop(&mut self, node: NodeId) -> usize {
        if self.state.takes_part(node) {
            self.change(Change::BrokerChanged { node, status: BrokerStatus::Stopping });
            self.event(ControllerEvent::Stopping { node });
        }
        let mut remaining = 0;
        for name in self.partitions_of(node) {
            let Some(partition) = self.state.partition(&name) else { continue };
            let mut next = partition.clone();
            if next.leader == Some(node) {
                let complete = |heir: &&NodeId| election::is_complete_heir(&self.state, &next, **heir);
                let in_sync = |heir: &&NodeId| {
                    next.damaged.contains(&node) && next.in_sync(**heir) && self.state.takes_part(**heir)
                };
                let heir = next.replicas.iter().find(complete).or_else(|| next.replicas.iter().find(in_sync));
                let Some(heir) = heir.copied() else {
                    remaining += 1;
                    continue;
                };
                next.leader = Some(heir);
            }
            if next.isr.len() > 1 {
                next.isr.retain(|member| *member != node);
            }
            self.change_or_leave(&name, next, OutReason::Stopping, LeaderReason::LeaderStops);
        }
        remaining
    }

    /// A leader gives up, or the log of a replica that counts has failed.
    pub(super) fn resign(
        &mut self,
        sender: Sender,
        (name, topic_id): (&TopicPartition, TopicId),
        epoch: LeaderEpoch,
        why: ResignCause,
    ) -> ControllerReply {
        let node = sender.node;
        let Some(partition) = self.state.partition_of(topic_id, name) else { return ControllerReply::Heard };
        let concerned = match why {
            ResignCause::LogFailed => partition.replicas.contains(&node),
            ResignCause::SecondIncarnation => partition.leader == Some(node),
        };
        if !concerned || partition.leader_epoch != epoch {
            return ControllerReply::Heard;
        }
        match why {
            ResignCause::LogFailed => {
                self.leave_isr(name, node, OutReason::Resigned, Some(Suspicion::LogFailed));
            }
            ResignCause::SecondIncarnation => {
                let mut next = partition.clone();
                next.leader = None;
                self.change_or_leave(name, next, OutReason::Asked, LeaderReason::LeaderGone);
                self.elect_if_leaderless(name, LeaderReason::Returned);
            }
        }
        ControllerReply::Heard
    }

    /// A replica says whether a range of its log is damaged. If it leads, somebody in the ISR who is complete does so from now on; if nobody
    /// is, it goes on.
    pub(super) fn report_integrity(
        &mut self,
        sender: Sender,
        name: &TopicPartition,
        topic_id: TopicId,
        integrity: Integrity,
    ) -> ControllerReply {
        let Some(partition) = self.state.partition_of(topic_id, name) else { return ControllerReply::Heard };
        if partition.replicas.contains(&sender.node) {
            let mut next = partition.clone();
            note_integrity(&mut next, sender.node, integrity);
            self.change_or_leave(name, next, OutReason::NotElected, LeaderReason::LeaderDamaged);
            self.elect_if_leaderless(name, LeaderReason::Returned);
        }
        ControllerReply::Heard
    }

    /// If this machine itself was not stepped when it was due, then nobody was silent: it was deaf. Everybody has his time again.
    pub(super) fn forgive_own_absence(&mut self) {
        let Some(due) = self.next_deadline() else { return };
        let late = self.now.monotonic.since(due);
        if late > self.config.session_timeout / 4 {
            for heard in self.heard.values_mut() {
                *heard = self.now.monotonic;
            }
        }
    }

    pub(super) fn fence_the_silent(&mut self) {
        let timeout = self.config.session_timeout;
        let silent: Vec<NodeId> = (self.heard.iter())
            .filter(|(_, heard)| self.now.monotonic >= heard.after(timeout))
            .map(|(node, _)| *node)
            .collect();
        for node in silent {
            self.fence(node, FenceReason::Silent);
        }
    }

    /// How long until a broker is fenced if it stays silent; for `status` and tests.
    pub fn session_left(&self, node: NodeId) -> Option<Duration> {
        let heard = self.heard.get(&node)?;
        Some(heard.after(self.config.session_timeout).since(self.now.monotonic))
    }

    fn partitions_of(&self, node: NodeId) -> Vec<TopicPartition> {
        (self.state.partitions())
            .filter(|(_, _, partition)| partition.replicas.contains(&node))
            .map(|(name, _, _)| name)
            .collect()
    }
}

fn note_integrity(partition: &mut PartitionState, node: NodeId, integrity: Integrity) {
    match integrity {
        Integrity::Damaged => partition.damaged.insert(node),
        Integrity::Whole => partition.damaged.remove(&node),
    };
}

/// The report of a broker that has no such log.
const NOTHING: ReplicaReport = ReplicaReport { last_epoch: None, end: Offset::ZERO, known_committed: None };

fn report_of(facts: &ReplicaFacts) -> ReplicaReport {
    ReplicaReport { last_epoch: facts.last_epoch, end: facts.end, known_committed: facts.known_committed }
}
