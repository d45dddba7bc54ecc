//! Carries out what a machine wants done.

use highwater_engine::log::BeginEpochError;
use highwater_engine::store::Job;
use highwater_engine::units::{LeaderEpoch, NodeId, Now};

use super::event::{Lane, LaneKind, News, Out};
use super::registration::OnBehalf;
use super::{ReplicaKey, Shard};
use crate::controller::{ControllerRequest, IsrProposal as AskedIsr};
use crate::partition::{Durability, Effect, Input, IsrAnswer, IsrProposal, PartitionEvent, Wake};
use crate::pending::Ceiling;

impl Shard {
    pub(super) fn carry_out(&mut self, now: Now, key: ReplicaKey, effect: Effect) {
        let Some(replica) = self.replicas.get(&key) else { return };
        let log = replica.log.id();
        match effect {
            Effect::BeginEpoch { epoch } => self.begin_epoch(now, key, epoch),
            Effect::WantDurable => self.store.want_durable(&replica.log),
            Effect::HighWatermark(offset) => {
                let known = replica.machine.known_committed();
                self.watermarks.changed(now.monotonic, &replica.name, known);
                replica.log.settle_below(offset);
                self.requests.fetches.raised(&key, Ceiling::HighWatermark, offset);
            }
            Effect::ProposeIsr(proposal) => self.propose_isr(now, key, proposal),
            Effect::FetchFrom { leader, .. } => self.fetch_from(key, leader),
            Effect::StopFetching => self.stop_fetching(key),
            Effect::AskRange { leader, epoch } => {
                let lane = self.lane_of(key, leader);
                self.followers.ask_range(lane, key, epoch);
            }
            Effect::Truncate { to, .. } => self.out.push(Out::Job(Job::Truncate { log, to })),
            Effect::RestartAt { offset } => self.out.push(Out::Job(Job::RestartAt { log, offset })),
            Effect::FetchRange { leader, epoch, offsets } => self.repairs.want(key, leader, epoch, offsets),
            Effect::Repair { offsets } => self.repair(now, key, offsets),
            Effect::ReportIntegrity => self.report_integrity(now, key),
            Effect::RaiseStart { to } => self.out.push(Out::Job(Job::RaiseStart { log, to })),
            Effect::Acknowledge { wait, outcome } => self.requests.produces.settle(wait, Some(outcome)),
            Effect::Wake(Wake::Written(offset)) => {
                self.requests.fetches.raised(&key, Ceiling::Written, offset);
            }
            Effect::Wake(Wake::Everything) => self.requests.fetches.changed(&key),
            Effect::Resign { epoch, why } => self.resign(now, key, epoch, why),
            Effect::Event(event) => {
                let name = replica.name.clone();
                if matches!(event, PartitionEvent::TruncationRefused { .. }) {
                    self.refused_to_cut(now, key);
                }
                self.out.push(Out::News(News::Partition { name, event }));
            }
        }
    }

    pub(super) fn begin_epoch(&mut self, now: Now, key: ReplicaKey, epoch: LeaderEpoch) {
        let Some(replica) = self.replicas.get(&key) else { return };
        match replica.log.begin_epoch(epoch) {
            Ok(()) => {}
            Err(BeginEpochError::OutOfSpace | BeginEpochError::OutOfDescriptors) => {
                self.begin_again(now, key, epoch);
            }
            Err(error) => self.fail_log(now, key, &error.to_string()),
        }
    }

    fn propose_isr(&mut self, now: Now, key: ReplicaKey, proposal: IsrProposal) {
        let Some(replica) = self.replicas.get(&key) else { return };
        let asked = AskedIsr::of_machine(replica.name.clone(), replica.topic_id, &proposal);
        if let Err(OnBehalf::Isr { key, proposal }) =
            self.link.ask(ControllerRequest::AlterIsr(asked), OnBehalf::Isr { key, proposal })
        {
            self.step(now, key, Input::IsrAnswered { proposal, answer: IsrAnswer::Unanswered });
        }
    }

    /// The connection for a replica: topics that count what is durable have their own.
    pub(super) fn lane_of(&self, key: ReplicaKey, leader: NodeId) -> Lane {
        let durability = self.replicas.get(&key).map(|replica| replica.machine.durability());
        let kind = match durability {
            Some(Durability::Fsync) => LaneKind::Durable,
            Some(Durability::Written) | None => LaneKind::Written,
        };
        Lane { leader, kind }
    }

    fn fetch_from(&mut self, key: ReplicaKey, leader: NodeId) {
        let lane = self.lane_of(key, leader);
        let Some(replica) = self.replicas.get_mut(&key) else { return };
        if let Some(old) = replica.lane.replace(lane).filter(|old| *old != lane) {
            self.followers.leave(old, key);
        }
        self.followers.join(lane, key);
    }

    pub(super) fn stop_fetching(&mut self, key: ReplicaKey) {
        let Some(replica) = self.replicas.get_mut(&key) else { return };
        if let Some(lane) = replica.lane.take() {
            self.followers.leave(lane, key);
        }
    }
}
