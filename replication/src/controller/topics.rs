//! Topics are created and deleted: names, settings, and on which brokers the replicas lie.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use highwater_engine::checkpoint::GUARD_TOPIC;
use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, TopicId, TopicPartition};

use super::change::Change;
use super::event::{ControllerEvent, LeaderReason};
use super::input::CallId;
use super::machine::Controller;
use super::protocol::{ControllerReply, CreatedTopic, CreationPurpose, NewTopic};
use super::refusal::TopicRefusal;
use super::state::{
    ClusterState, DURABILITY, MIN_ISR, OutOfSync, OutReason, PartitionState, TRUNCATION, Topic,
};
use crate::ids::PartitionEpoch;

/// A creation that waits until enough brokers have registered.
#[derive(Clone, Debug)]
pub(super) struct HeldCreation {
    pub(super) id: CallId,
    pub(super) topic: NewTopic,
    pub(super) deadline: Monotonic,
}

/// What stands between a request and its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Obstacle {
    /// It can never be.
    Refused(TopicRefusal),
    /// Too few brokers so far.
    TooFewBrokers { needed: usize, registered: usize },
}

impl From<TopicRefusal> for Obstacle {
    fn from(refusal: TopicRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Controller {
    pub(super) fn create_topic(&mut self, id: CallId, topic: NewTopic) {
        // A day is for ever; the bound keeps the sum within the clock.
        let wait = Duration::from_millis(topic.timeout_ms.min(86_400_000));
        self.try_creation(HeldCreation { id, topic, deadline: self.now.monotonic.after(wait) });
    }

    /// Tries creations again that waited, and refuses those whose time is over.
    pub(super) fn look_at_creations(&mut self) {
        for creation in std::mem::take(&mut self.creations) {
            self.try_creation(creation);
        }
    }

    fn try_creation(&mut self, creation: HeldCreation) {
        let HeldCreation { id, topic, deadline } = creation;
        let outcome = match self.plan_topic(&topic) {
            Ok(plan) => Ok(self.finish_topic(&topic, plan)),
            Err(Obstacle::Refused(refusal)) => Err(refusal),
            Err(Obstacle::TooFewBrokers { needed, registered }) => {
                let is_over = deadline <= self.now.monotonic;
                if !is_over && self.creations.len() < self.config.waiting_max {
                    return self.creations.push_back(HeldCreation { id, topic, deadline });
                }
                Err(TopicRefusal::TooFewBrokers { needed, registered })
            }
        };
        self.reply(id, ControllerReply::TopicCreated { name: topic.name, outcome });
    }

    fn plan_topic(&mut self, topic: &NewTopic) -> Result<CreatedTopic, Obstacle> {
        check_name(&self.state, &topic.name)?;
        let configs = self.topic_configs(topic)?;
        let assignment = match &topic.assignment {
            Some(assignment) => {
                self.check_partition_count(assignment.len())?;
                self.check_assignment(assignment)?;
                assignment.clone()
            }
            None => self.place_replicas(topic)?,
        };
        Ok(CreatedTopic { id: None, assignment, configs })
    }

    fn finish_topic(&mut self, asked: &NewTopic, plan: CreatedTopic) -> CreatedTopic {
        if asked.purpose == CreationPurpose::Validate {
            return plan;
        }
        let id = self.new_id();
        let partitions: Vec<PartitionState> =
            plan.assignment.iter().map(|replicas| self.new_partition(replicas)).collect();
        self.event(ControllerEvent::TopicCreated {
            name: asked.name.clone(),
            partitions: partitions.len(),
            replicas: plan.assignment.first().map_or(0, Vec::len),
        });
        let led: Vec<_> =
            partitions.iter().map(|partition| (partition.leader, partition.leader_epoch)).collect();
        let topic = Topic { id, configs: plan.configs.clone(), partitions };
        self.change(Change::TopicCreated { name: asked.name.clone(), topic });
        for (number, (to, epoch)) in (0..).zip(led) {
            let Ok(partition) = TopicPartition::new(&asked.name, number) else { continue };
            self.event(ControllerEvent::Led { partition, from: None, to, epoch, why: LeaderReason::Created });
        }
        CreatedTopic { id: Some(id), ..plan }
    }

    pub(super) fn delete_topic(
        &mut self,
        name: &str,
        asked: Option<TopicId>,
    ) -> Result<TopicId, TopicRefusal> {
        let id = self.state.topics.get(name).ok_or(TopicRefusal::Unknown)?.id;
        if asked.is_some_and(|asked| asked != id) {
            return Err(TopicRefusal::UnknownId);
        }
        self.change(Change::TopicDeleted { name: name.to_owned(), id });
        self.event(ControllerEvent::TopicDeleted { name: name.to_owned() });
        Ok(id)
    }

    fn topic_configs(&self, topic: &NewTopic) -> Result<BTreeMap<String, String>, TopicRefusal> {
        let mut configs = self.config.topic_defaults.clone();
        configs.extend(topic.configs.iter().map(|(key, value)| (key.clone(), value.clone())));
        let invalid = |key: &str, why: &str| TopicRefusal::InvalidConfig {
            key: key.to_owned(),
            value: configs.get(key).cloned().unwrap_or_default(),
            why: why.to_owned(),
        };
        let value = |key: &str| configs.get(key).map(String::as_str);
        if value(MIN_ISR).is_some_and(|value| value.parse::<u16>().map_or(true, |count| count == 0)) {
            return Err(invalid(MIN_ISR, "a number of at least 1 is expected"));
        }
        if !matches!(value(DURABILITY), None | Some("written" | "fsync")) {
            return Err(invalid(DURABILITY, "'written' or 'fsync' is expected"));
        }
        match (value(TRUNCATION), value(DURABILITY)) {
            (Some("high-watermark"), Some("fsync")) => Err(invalid(
                TRUNCATION,
                "it loses what was acknowledged, so it is refused together with durability=fsync",
            )),
            (None | Some("leader-epoch" | "high-watermark"), _) => Ok(configs),
            (Some(_), _) => Err(invalid(TRUNCATION, "'leader-epoch' or 'high-watermark' is expected")),
        }
    }

    fn check_partition_count(&self, partitions: usize) -> Result<(), TopicRefusal> {
        let held: usize = self.state.topics.values().map(|topic| topic.partitions.len()).sum();
        let max = self.config.topic_partitions_max.min(self.config.partitions_max.saturating_sub(held));
        if (1..=max).contains(&partitions) {
            Ok(())
        } else {
            Err(TopicRefusal::InvalidPartitions { partitions, max })
        }
    }

    /// Replicas round robin from a random broker on, the followers shifted with each round (as Kafka's placer without racks), on
    /// brokers that are alive; on fenced ones as well only if there are too few.
    fn place_replicas(&mut self, topic: &NewTopic) -> Result<Vec<Vec<NodeId>>, Obstacle> {
        let count =
            usize::try_from(topic.partitions.unwrap_or(self.config.partitions_default)).unwrap_or(usize::MAX);
        self.check_partition_count(count)?;
        let factor = self.replication_factor(topic)?;
        let known: Vec<NodeId> = self.state.brokers.keys().copied().collect();
        let alive: Vec<NodeId> = known.iter().copied().filter(|node| self.state.takes_part(*node)).collect();
        let registered = known.len();
        if registered < factor || alive.is_empty() {
            return Err(Obstacle::TooFewBrokers { needed: factor, registered: registered.min(alive.len()) });
        }
        let brokers = if alive.len() >= factor { alive } else { known };
        let (start, shift) = (self.rng.usize(..brokers.len()), self.rng.usize(..brokers.len()));
        let placed = place(&brokers, count, factor, start, shift);
        self.check_assignment(&placed)?;
        Ok(placed)
    }

    fn replication_factor(&self, topic: &NewTopic) -> Result<usize, TopicRefusal> {
        let configured = self.config.brokers_configured;
        let Some(factor) = topic.replication_factor else {
            let default = usize::from(self.config.replication_factor_default);
            return Ok(default.min(configured.unwrap_or(default)).max(1));
        };
        let (factor, brokers) = (usize::from(factor), configured.unwrap_or(self.config.brokers_max));
        if (1..=brokers).contains(&factor) {
            Ok(factor)
        } else {
            Err(TopicRefusal::InvalidReplicationFactor { factor, brokers })
        }
    }

    /// Every partition has the same number of replicas, no broker twice, only brokers that have registered, one of them alive.
    fn check_assignment(&self, assignment: &[Vec<NodeId>]) -> Result<(), Obstacle> {
        let state = &self.state;
        let all_are_there = self.config.brokers_configured.is_some_and(|count| state.brokers.len() >= count);
        let invalid = |why: String| Obstacle::Refused(TopicRefusal::InvalidAssignment { why });
        let factor = assignment.first().map_or(0, Vec::len);
        for (number, replicas) in assignment.iter().enumerate() {
            if replicas.is_empty() || replicas.len() != factor {
                return Err(invalid(format!(
                    "partition {number} has {} replicas, the first has {factor}",
                    replicas.len()
                )));
            }
            if let Some(twice) = replicas
                .iter()
                .enumerate()
                .find(|(at, node)| replicas.iter().take(*at).any(|other| other == *node))
            {
                return Err(invalid(format!("partition {number} names broker {} twice", twice.1)));
            }
            let stranger = replicas.iter().find(|node| !state.brokers.contains_key(node));
            if let Some(stranger) = stranger.filter(|_| all_are_there) {
                return Err(invalid(format!(
                    "partition {number} names broker {stranger}, and all of the cluster's {} brokers are others",
                    state.brokers.len()
                )));
            }
            let registered = replicas.iter().filter(|node| state.brokers.contains_key(node)).count();
            let alive = replicas.iter().any(|node| state.takes_part(*node));
            if registered < replicas.len() || !alive {
                return Err(Obstacle::TooFewBrokers { needed: replicas.len(), registered });
            }
        }
        Ok(())
    }

    fn new_partition(&self, replicas: &[NodeId]) -> PartitionState {
        let isr: Vec<NodeId> = replicas.iter().copied().filter(|node| self.state.takes_part(*node)).collect();
        let absent = OutOfSync { since_ms: self.now.wall.millis(), reason: OutReason::NotThereYet };
        PartitionState {
            replicas: replicas.to_vec(),
            adding: Vec::new(),
            removing: Vec::new(),
            eligible: isr.clone(),
            leader: isr.first().copied(),
            leader_epoch: LeaderEpoch::ZERO,
            partition_epoch: PartitionEpoch::ZERO,
            out_of_sync: replicas
                .iter()
                .filter(|node| !isr.contains(node))
                .map(|node| (*node, absent))
                .collect(),
            suspects: BTreeMap::new(),
            damaged: BTreeSet::new(),
            reports: BTreeMap::new(),
            losses: Vec::new(),
            possible_losses: Vec::new(),
            isr,
        }
    }
}

/// The replicas of each of `count` partitions, on `brokers`, of which there are `factor` at least.
fn place(brokers: &[NodeId], count: usize, factor: usize, start: usize, shift: usize) -> Vec<Vec<NodeId>> {
    let at = |index: usize| brokers.iter().copied().nth(index % brokers.len());
    (0..count)
        .map(|number| {
            let first = start + number;
            let others = brokers.len().saturating_sub(1).max(1);
            let round = shift + number / brokers.len();
            (0..factor)
                .filter_map(|replica| match replica {
                    0 => at(first),
                    _ => at(first + 1 + (round + replica - 1) % others),
                })
                .collect()
        })
        .collect()
}

fn check_name(state: &ClusterState, name: &str) -> Result<(), TopicRefusal> {
    TopicPartition::check_topic(name)
        .map_err(|error| TopicRefusal::InvalidName { why: error.to_string() })?;
    // Its entry in an offset checkpoint would be taken for the guard, and the file for damaged.
    if name == GUARD_TOPIC {
        return Err(TopicRefusal::InvalidName { why: format!("no topic can be called {GUARD_TOPIC}") });
    }
    if state.topics.contains_key(name) {
        return Err(TopicRefusal::Exists { name: name.to_owned() });
    }
    // Metrics replace dots by underscores, so Kafka lets only one of the two exist.
    let metric = name.replace('.', "_");
    match state.topics.keys().find(|other| other.replace('.', "_") == metric) {
        Some(other) => Err(TopicRefusal::Collides { name: other.clone() }),
        None => Ok(()),
    }
}
