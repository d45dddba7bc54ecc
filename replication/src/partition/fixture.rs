//! What the tests of the machine share: a log of bare facts and a machine on top of it.

use std::time::Duration;

use highwater_engine::log::LogFacts;
use highwater_engine::segment::DamagedRange;
use highwater_engine::state::EpochHistory;
use highwater_engine::units::{
    LeaderEpoch, Monotonic, NodeId, Now, Offset, OffsetRange, Timestamp, TopicId, TopicPartition,
};

use super::*;
use crate::ids::{BrokerEpoch, PartitionEpoch};
use crate::rules::Rules;

pub(super) const A: i32 = 1;
pub(super) const B: i32 = 2;
pub(super) const C: i32 = 3;

pub(super) fn at(value: i64) -> Offset {
    Offset::new(value).unwrap()
}

pub(super) fn epoch(value: i32) -> LeaderEpoch {
    LeaderEpoch::new(value).unwrap()
}

pub(super) fn node(value: i32) -> NodeId {
    NodeId::new(value).unwrap()
}

/// The session of a node's broker; `count` tells one session from the next.
pub(super) fn session(id: i32, count: i64) -> Option<BrokerEpoch> {
    BrokerEpoch::new(count * 1_000 + i64::from(id))
}

pub(super) fn ms(value: u64) -> Monotonic {
    Monotonic::from_duration(Duration::from_millis(value))
}

pub(super) fn now(value: u64) -> Now {
    Now { monotonic: ms(value), wall: Timestamp::from_millis(0) }
}

/// A log of bare facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FakeLog {
    pub(super) start: Offset,
    pub(super) accepted: Offset,
    pub(super) written: Offset,
    pub(super) durable: Offset,
    pub(super) epochs: EpochHistory,
    pub(super) damaged: Vec<DamagedRange>,
    pub(super) cleaned_to: Offset,
    pub(super) replaced_by_repair: Vec<OffsetRange>,
}

impl FakeLog {
    /// A log that begins at 0, all of it durable.
    pub(super) fn new(end: i64, epochs: &[(i32, i64)]) -> Self {
        let mut history = EpochHistory::default();
        for (number, start) in epochs {
            history.assign(epoch(*number), at(*start));
        }
        Self {
            start: at(0),
            accepted: at(end),
            written: at(end),
            durable: at(end),
            epochs: history,
            damaged: Vec::new(),
            cleaned_to: at(0),
            replaced_by_repair: Vec::new(),
        }
    }

    pub(super) fn facts(&self) -> LogFacts<'_> {
        LogFacts {
            start: self.start,
            accepted: self.accepted,
            written: self.written,
            durable: self.durable,
            recovery_point: self.durable,
            cleaned_to: self.cleaned_to,
            damaged: &self.damaged,
            replaced_by_repair: &self.replaced_by_repair,
            epochs: &self.epochs,
        }
    }

    pub(super) fn set_end(&mut self, end: i64) {
        (self.accepted, self.written, self.durable) = (at(end), at(end), at(end));
    }
}

/// An assignment to A, B and C, all alive in their first session, all in sync, min ISR 2.
pub(super) fn assignment(leader: i32, leader_epoch: i32, partition_epoch: i32) -> Assignment {
    Assignment {
        topic_id: TopicId::new([7; 16]).unwrap(),
        replicas: [A, B, C].map(|id| member(id, 1, Standing::Alive)).to_vec(),
        isr: [A, B, C].map(node).to_vec(),
        eligible: Vec::new(),
        leader: Some(node(leader)),
        leader_epoch: epoch(leader_epoch),
        partition_epoch: PartitionEpoch::new(partition_epoch).unwrap(),
        min_isr: 2,
        durability: Durability::Written,
        truncation: TruncationRule::LeaderEpoch,
        losses: Vec::new(),
        damaged: Vec::new(),
    }
}

pub(super) fn member(id: i32, count: i64, standing: Standing) -> Member {
    Member { node: node(id), session: session(id, count), standing }
}

pub(super) fn with_isr(mut assignment: Assignment, isr: &[i32]) -> Assignment {
    assignment.isr = isr.iter().map(|id| node(*id)).collect();
    assignment
}

/// A machine and its log. What it wants of the log is done when it is asked for, except truncations, which wait.
pub(super) struct Replica {
    pub(super) machine: Partition,
    pub(super) log: FakeLog,
}

impl Replica {
    pub(super) fn new(id: i32, log: FakeLog, known_committed: Option<i64>) -> Self {
        Self::with_rules(id, log, known_committed, Rules::default())
    }

    pub(super) fn with_rules(id: i32, log: FakeLog, known_committed: Option<i64>, rules: Rules) -> Self {
        let name = TopicPartition::new("t", 0).unwrap();
        let topic_id = TopicId::new([7; 16]).unwrap();
        let config = PartitionConfig::default();
        let machine = Partition::new(node(id), name, topic_id, config, rules, known_committed.map(at));
        Self { machine, log }
    }

    /// Tells, and takes what follows without events and wake-ups; leaderships begin in the log at once.
    pub(super) fn tell(&mut self, time: u64, input: Input) -> Vec<Effect> {
        let (mut kept, _) = self.tell_all(time, input);
        kept.retain(|effect| !matches!(effect, Effect::Wake(_)));
        kept
    }

    /// Tells, and takes what follows: effects and events apart.
    pub(super) fn tell_all(&mut self, time: u64, input: Input) -> (Vec<Effect>, Vec<PartitionEvent>) {
        self.machine.step(now(time), input, &self.log.facts());
        let (mut effects, mut events) = (Vec::new(), Vec::new());
        for effect in self.machine.take_effects() {
            if let Effect::BeginEpoch { epoch } = effect {
                self.log.epochs.assign(epoch, self.log.accepted);
            }
            if let Effect::Event(event) = effect {
                events.push(event);
            } else {
                effects.push(effect);
            }
        }
        (effects, events)
    }

    /// A leader of epoch 5 over this log, with all in sync.
    pub(super) fn leading(end: i64, known_committed: i64) -> Self {
        let mut replica = Self::new(A, FakeLog::new(end, &[(0, 0)]), Some(known_committed));
        replica.tell(0, Input::Assigned(assignment(A, 5, 10)));
        replica
    }

    /// The leader's log grows to `end`, written and durable.
    pub(super) fn grow(&mut self, time: u64, end: i64) -> Vec<Effect> {
        self.log.set_end(end);
        self.tell(time, Input::LogMoved)
    }

    /// A follower's Fetch in its first session.
    pub(super) fn fetched(&mut self, time: u64, id: i32, offset: i64) -> Vec<Effect> {
        let claim = self.claim(id, offset);
        self.tell(time, Input::FollowerFetched(claim))
    }

    pub(super) fn claim(&self, id: i32, offset: i64) -> FetchClaim {
        FetchClaim {
            fetcher: Fetcher::Follower { node: node(id), session: session(id, 1) },
            current_epoch: self.machine.leader_epoch(),
            offset: at(offset),
            last_fetched_epoch: offset
                .checked_sub(1)
                .and_then(Offset::new)
                .and_then(|last| self.log.epochs.epoch_at(last)),
            log_start: Some(at(0)),
        }
    }

    pub(super) fn hw(&self) -> i64 {
        self.machine.high_watermark().value()
    }
}

pub(super) fn wait(part: u32, leader_epoch: i32, end: i64, acks: Acks, deadline: u64) -> Input {
    Input::Wait(AckWait {
        id: WaitId { request: 1, part },
        epoch: epoch(leader_epoch),
        end: at(end),
        acks,
        deadline: ms(deadline),
    })
}

pub(super) fn acknowledged(part: u32, outcome: WaitOutcome) -> Effect {
    Effect::Acknowledge { wait: WaitId { request: 1, part }, outcome }
}

/// The ISR that is proposed by these effects, if one is.
pub(super) fn proposed(effects: &[Effect]) -> Option<(IsrProposal, Vec<i32>)> {
    effects.iter().find_map(|effect| {
        let Effect::ProposeIsr(proposal) = effect else { return None };
        Some((proposal.clone(), proposal.isr.iter().map(|(member, _)| member.value()).collect()))
    })
}

/// The same ISR, granted as the next version.
pub(super) fn granted(proposal: &IsrProposal) -> Input {
    let answer = IsrAnswer::Granted {
        isr: proposal.isr.iter().map(|(member, _)| *member).collect(),
        eligible: Vec::new(),
        partition_epoch: proposal.partition_epoch.next().unwrap(),
    };
    Input::IsrAnswered { proposal: proposal.clone(), answer }
}
