//! What the controller says of one partition, in the words of the machine.

use highwater_engine::units::{LeaderEpoch, NodeId, Offset, TopicId};

use crate::ids::{BrokerEpoch, PartitionEpoch};

/// Everything the controller says of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// The topic's id; an assignment for another topic of the same name is not for this replica.
    pub topic_id: TopicId,
    /// The assigned replicas in their order, with the sessions of their brokers. The first is the preferred leader.
    pub replicas: Vec<Member>,
    /// The committed in-sync replicas. Members that are not assigned are legal (KAFKA-9672): they hold nothing back.
    pub isr: Vec<NodeId>,
    /// Who may lead besides the ISR (KIP-966).
    pub eligible: Vec<NodeId>,
    /// Who leads, if anybody does.
    pub leader: Option<NodeId>,
    /// The number of the leadership.
    pub leader_epoch: LeaderEpoch,
    /// The version of this state.
    pub partition_epoch: PartitionEpoch,
    /// `min.insync.replicas`; the number of replicas caps it, and as long as some are being added, the number of the others.
    pub min_isr: usize,
    /// What counts as having a record.
    pub durability: Durability,
    /// How a follower finds where to cut.
    pub truncation: TruncationRule,
    /// What elections have lost, oldest first.
    pub losses: Vec<LossRecord>,
    /// Replicas of which the controller knows that a range of their log is damaged.
    pub damaged: Vec<NodeId>,
}

impl Assignment {
    /// The replica of this node, if it is assigned.
    pub fn member(&self, node: NodeId) -> Option<&Member> {
        self.replicas.iter().find(|member| member.node == node)
    }

    /// How many in-sync replicas acks=all needs: `min.insync.replicas`, at most the number of replicas, at least one.
    pub fn min_isr_effective(&self) -> usize {
        self.min_isr.min(self.replicas.len()).max(1)
    }

    /// Whether a replica whose newest record is of `latest` may cut its log to `target`, below what it knows to be committed.
    ///
    /// Only an election that it has not followed yet, and that is recorded to have lost from there on, permits it. A replica that has
    /// records of such a leadership, or of a later one, has gone through the loss already and owes it nothing more.
    pub(super) fn permits_loss(&self, latest: Option<LeaderEpoch>, target: Offset) -> bool {
        self.losses.iter().any(|loss| {
            let covered = match loss.by {
                LossCause::BestOfAll => loss.from <= target,
                LossCause::Order => true,
            };
            self.is_unseen(loss, latest) && covered
        })
    }

    /// From where on records are given up by elections that a replica has not followed yet.
    pub(super) fn gives_up_from(&self, latest: Option<LeaderEpoch>) -> Option<Offset> {
        self.losses.iter().filter(|loss| self.is_unseen(loss, latest)).map(|loss| loss.from).min()
    }

    fn is_unseen(&self, loss: &LossRecord, latest: Option<LeaderEpoch>) -> bool {
        loss.epoch <= self.leader_epoch && latest.is_none_or(|newest| newest < loss.epoch)
    }
}

/// One assigned replica and its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// The broker's node.
    pub node: NodeId,
    /// The broker's present session; `None` if it never registered.
    pub session: Option<BrokerEpoch>,
    /// Whether the broker may be counted on.
    pub standing: Standing,
}

impl Member {
    /// Whether the replica may become in-sync (KIP-841).
    pub const fn may_join(&self) -> bool {
        matches!(self.standing, Standing::Alive) && self.session.is_some()
    }
}

/// How the controller sees a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Registered, and its session is kept alive.
    Alive,
    /// Alive, and about to stop: it leads nothing new and joins nothing.
    Stopping,
    /// Its session has ended, or never began.
    Fenced,
}

/// What counts as a replica's contribution; chosen when a topic is created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// What is in the operating system, as in Kafka: survives the death of a process.
    #[default]
    Written,
    /// What is synced: an acknowledged record survives the power loss of all machines at once.
    Fsync,
}

/// How a follower finds where its log has to be cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TruncationRule {
    /// By comparing leader epochs in each Fetch (KIP-101, KIP-279, KIP-595).
    #[default]
    LeaderEpoch,
    /// To the high watermark that it knows. Loses (S01) and forks (S02); kept to show why.
    HighWatermark,
}

/// Whether everything that a log has passes its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Integrity {
    /// As far as anybody has looked.
    Whole,
    /// Some range of offsets does not, and cannot be read.
    Damaged,
}

/// What an election gave up: committed records `from..to` that the leader of `epoch` does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct LossRecord {
    /// The leadership that began without them.
    pub epoch: LeaderEpoch,
    /// The end of that leader's log.
    pub from: Offset,
    /// The first offset behind them; `None` when nobody knows how far they went.
    pub to: Option<Offset>,
    /// Who decided it.
    pub by: LossCause,
}

/// Who decided that records are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossCause {
    /// Every eligible replica had registered and the best of them was taken: nothing below its end is given up.
    BestOfAll,
    /// An operator ordered it, whoever was complete: whatever that leader does not have is given up.
    Order,
}
