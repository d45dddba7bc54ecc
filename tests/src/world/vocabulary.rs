//! The words that scenarios are written in.

use std::time::Duration;

use highwater_engine::units::{NodeId, Offset, TopicPartition};
use highwater_replication::controller::{
    ControllerCall, ControllerReply, ControllerRequest, CreationPurpose, Election, FactorRule, NewTopic,
    PartitionState,
};
use highwater_replication::partition::{RoleName, Status};
use highwater_replication::wire::ErrorCode;

use super::controller::Caller;
use super::network::ClientId;
use super::{TopicOptions, World};
use crate::invariants::Violation;

const fn node(number: i32) -> NodeId {
    match NodeId::new(number) {
        Some(node) => node,
        None => panic!("a node's number is not negative"),
    }
}

/// The first broker.
pub const A: NodeId = node(1);
/// The second.
pub const B: NodeId = node(2);
/// The third.
pub const C: NodeId = node(3);
/// The fourth, where there are four.
pub const D: NodeId = node(4);

/// How long a scenario waits for what must come.
const PATIENCE: Duration = Duration::from_secs(30);

fn new_topic(options: &TopicOptions) -> ControllerRequest {
    ControllerRequest::CreateTopic(NewTopic {
        name: options.name.to_owned(),
        partitions: None,
        replication_factor: None,
        assignment: Some(options.assignment.clone()),
        configs: options.configs(),
        timeout_ms: 5_000,
        purpose: CreationPurpose::Create,
    })
}

impl World {
    /// Lets time pass.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.now.after(time);
        while self.step(until) {}
    }

    /// Lets time pass until something is so; panics if it does not come.
    pub fn until(&mut self, what: &str, mut is_so: impl FnMut(&Self) -> bool) {
        let end = self.now.after(PATIENCE);
        while !is_so(self) {
            if !self.step(end) {
                self.note(format!("waited in vain: {what}"));
                panic!("waited in vain: {what}\n{}", self.report());
            }
        }
    }

    /// Whether something comes to be so within some time.
    pub fn within(&mut self, time: Duration, mut is_so: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now.after(time);
        while !is_so(self) {
            if !self.step(end) {
                return false;
            }
        }
        true
    }

    /// Makes a topic and waits until its partitions have leaders and everybody is in sync.
    pub fn topic(&mut self, options: &TopicOptions) -> Vec<TopicPartition> {
        let nodes = self.options.nodes.len();
        self.until("all brokers register", |world| {
            world.controller.state().is_some_and(|state| state.brokers.len() == nodes)
        });
        let reply = self.order(new_topic(options));
        assert!(matches!(&reply, ControllerReply::TopicCreated { outcome: Ok(_), .. }), "{reply:?}");
        let names: Vec<TopicPartition> = (0..options.assignment.len())
            .map(|number| {
                let number = i32::try_from(number).expect("few partitions");
                TopicPartition::new(options.name, number).expect("a good name")
            })
            .collect();
        let made = names.clone();
        self.until("the topic's leaders lead and followers follow", |world| {
            made.iter().all(|name| {
                let state = world.state(name);
                state.isr.len() == state.replicas.len()
                    && state.replicas.iter().all(|node| {
                        let role = world.status(*node, name).map(|status| status.role);
                        let leads = state.leader == Some(*node);
                        role == Some(if leads { RoleName::Leader } else { RoleName::Follower })
                    })
            })
        });
        self.partitions.extend(names.iter().cloned());
        names
    }

    /// Deletes a topic by order.
    pub fn delete_topic(&mut self, partition: &TopicPartition) {
        let reply =
            self.order(ControllerRequest::DeleteTopic { name: partition.topic().to_owned(), id: None });
        assert!(matches!(&reply, ControllerReply::TopicDeleted { outcome: Ok(_), .. }), "{reply:?}");
        self.partitions.retain(|known| known.topic() != partition.topic());
    }

    /// Makes a topic by order, and waits until somebody leads its partitions.
    pub fn topic_again(&mut self, options: &TopicOptions, partition: &TopicPartition) {
        let reply = self.order(new_topic(options));
        assert!(matches!(&reply, ControllerReply::TopicCreated { outcome: Ok(_), .. }), "{reply:?}");
        self.until("somebody leads", |world| {
            world.leader(partition).is_some_and(|leader| world.leads(leader, partition))
        });
        self.partitions.push(partition.clone());
    }

    /// An order to the controller, and its answer.
    pub fn order(&mut self, request: ControllerRequest) -> ControllerReply {
        self.note(format!("the operator orders {request:?}"));
        self.until("the controller runs", |world| world.controller.state().is_some());
        self.controller.told_operator = None;
        self.tell_controller(Caller::Operator, ControllerCall { sender: None, request });
        self.until("the controller answers the operator", |world| world.controller.told_operator.is_some());
        self.controller.told_operator.clone().expect("it was just told")
    }

    /// Hands a leadership over, to a replica in sync.
    pub fn elect(&mut self, partition: &TopicPartition, to: NodeId) {
        let request = ControllerRequest::Elect { partition: partition.clone(), election: Election::To(to) };
        let reply = self.order(request);
        assert!(
            matches!(&reply, ControllerReply::Elected { outcome: Ok(_), .. }),
            "{reply:?}\n{}",
            self.report()
        );
    }

    /// Makes a replica the leader whatever it lacks, while nobody leads.
    pub fn elect_unclean(&mut self, partition: &TopicPartition, to: NodeId) {
        let request =
            ControllerRequest::Elect { partition: partition.clone(), election: Election::Unclean(to) };
        let reply = self.order(request);
        assert!(
            matches!(&reply, ControllerReply::Elected { outcome: Ok(_), .. }),
            "{reply:?}\n{}",
            self.report()
        );
    }

    /// Puts a partition on these nodes, the preferred leader first.
    pub fn reassign(&mut self, partition: &TopicPartition, to: &[NodeId]) {
        let (partition, replicas) = (partition.clone(), Some(to.to_vec()));
        let reply =
            self.order(ControllerRequest::Reassign { partition, replicas, factor: FactorRule::MayChange });
        assert!(
            matches!(&reply, ControllerReply::Reassigned { outcome: Ok(()), .. }),
            "{reply:?}\n{}",
            self.report()
        );
    }

    /// What the controller says of a partition.
    pub fn state(&self, partition: &TopicPartition) -> &PartitionState {
        let state = self.controller.state().and_then(|state| state.partition(partition));
        state.unwrap_or_else(|| panic!("the controller does not know {partition}"))
    }

    /// Who leads.
    pub fn leader(&self, partition: &TopicPartition) -> Option<NodeId> {
        self.state(partition).leader
    }

    /// The in-sync replicas.
    pub fn isr(&self, partition: &TopicPartition) -> Vec<NodeId> {
        self.state(partition).isr.clone()
    }

    /// How a replica looks from outside, if its process runs and has it.
    pub fn status(&self, node: NodeId, partition: &TopicPartition) -> Option<Status> {
        let process = self.node(node).process()?;
        process.shard.replicas(self.now_at(node)).into_iter().find(|status| status.name == *partition)
    }

    /// Whether a node's process leads, as it sees itself.
    pub fn leads(&self, node: NodeId, partition: &TopicPartition) -> bool {
        self.status(node, partition).is_some_and(|status| status.role == RoleName::Leader)
    }

    /// The high watermark of a replica that runs.
    pub fn high_watermark(&self, node: NodeId, partition: &TopicPartition) -> i64 {
        self.status(node, partition).map_or(0, |status| status.high_watermark.value())
    }

    /// Where a replica's log ends, or ended when it went down.
    pub fn end(&self, node: NodeId, partition: &TopicPartition) -> i64 {
        self.ghost.end_of(partition, node)
    }

    /// Below it everything of a running replica is synced.
    pub fn durable(&self, node: NodeId, partition: &TopicPartition) -> i64 {
        let log = self.node(node).process().and_then(|process| process.shard.store().log(partition));
        log.map_or(0, |log| log.durable().value())
    }

    /// Whether a node's process runs.
    pub fn runs(&self, node: NodeId) -> bool {
        self.node(node).process().is_some()
    }

    /// Sends batches of one record and waits until all of them are acknowledged.
    pub fn produce(&mut self, client: ClientId, batches: usize) {
        let numbers: Vec<u64> = (0..batches).map(|_| self.send_batch(client, 1)).collect();
        self.until("the batches are acknowledged", |world| {
            numbers.iter().all(|number| world.acknowledged(client, *number).is_some())
        });
    }

    /// Where a batch is, as the producer was told.
    pub fn acknowledged(&self, client: ClientId, batch: u64) -> Option<i64> {
        let producer = self.clients.producers.get(&client)?;
        producer.answered.iter().find(|(number, _)| *number == batch).map(|(_, base)| *base)
    }

    /// The last error that a client was told.
    pub fn last_error(&self, client: ClientId) -> Option<ErrorCode> {
        match self.clients.producers.get(&client) {
            Some(producer) => producer.last_error,
            None => self.clients.consumers.get(&client)?.last_error,
        }
    }

    /// What a producer was told last is forgotten.
    pub fn forget_error(&mut self, producer: ClientId) {
        self.producer_of(producer).last_error = None;
    }

    /// Whether the controller's process runs.
    pub fn controller_runs(&self) -> bool {
        self.controller.state().is_some()
    }

    /// The latest offset that a consumer was told.
    pub fn latest_told(&self, client: ClientId) -> Option<i64> {
        self.clients.consumers.get(&client)?.latest_told
    }

    /// Waits until nothing is left to be done: everybody in sync, all logs alike, all requests answered.
    pub fn settle(&mut self) {
        let partitions = self.partitions.clone();
        self.until("all replicas are alike and in sync", |world| {
            partitions.iter().all(|name| world.ghost.unrest(name).is_none())
        });
    }

    /// Waits until a replica has so many records.
    pub fn until_end(&mut self, node: NodeId, partition: &TopicPartition, end: i64) {
        let name = partition.clone();
        self.until(&format!("{node} has ..{end}"), |world| world.end(node, &name) == end);
    }

    /// Violations are gathered instead of stopping the world.
    pub fn watch(&mut self) {
        self.watching = true;
    }

    /// What was found.
    pub fn found(&self) -> &[Violation] {
        &self.found
    }

    /// Whether an invariant was seen violated.
    pub fn saw(&self, invariant: u8) -> bool {
        self.found.iter().any(|violation| violation.invariant == invariant)
    }

    /// The records of a replica as (base offset, epoch, CRC).
    pub fn log(&self, node: NodeId, partition: &TopicPartition) -> Vec<(i64, i32, u32)> {
        self.ghost.log_of(partition, node)
    }

    /// The first offset that is not known to be committed by a running replica, as it would write it down.
    pub fn known_committed(&self, node: NodeId, partition: &TopicPartition) -> Option<Offset> {
        self.status(node, partition)?.known_committed
    }
}
