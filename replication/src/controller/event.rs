//! What the controller tells people, in facts; the words are in `Display`.

use std::fmt;

use highwater_engine::units::{LeaderEpoch, NodeId, Offset, TopicPartition};

use super::state::{OutReason, Suspicion};

/// Something that happened in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControllerEvent {
    /// A broker began a session.
    Registered {
        /// Which.
        node: NodeId,
    },
    /// A broker's session is over.
    Fenced {
        /// Which.
        node: NodeId,
        /// Why.
        why: FenceReason,
    },
    /// A broker stops by order.
    Stopping {
        /// Which.
        node: NodeId,
    },
    /// A partition has another leader, or none.
    Led {
        /// Which partition.
        partition: TopicPartition,
        /// Who led.
        from: Option<NodeId>,
        /// Who leads.
        to: Option<NodeId>,
        /// Since which epoch.
        epoch: LeaderEpoch,
        /// Why.
        why: LeaderReason,
    },
    /// A replica left the ISR.
    LeftIsr {
        /// Which partition.
        partition: TopicPartition,
        /// Which replica.
        node: NodeId,
        /// Why.
        why: OutReason,
    },
    /// A replica joined the ISR.
    JoinedIsr {
        /// Which partition.
        partition: TopicPartition,
        /// Which replica.
        node: NodeId,
    },
    /// A replica may have lost records that it counted for.
    Suspected {
        /// Which partition.
        partition: TopicPartition,
        /// Which replica.
        node: NodeId,
        /// Why.
        why: Suspicion,
    },
    /// A range of a replica's log is damaged.
    Damaged {
        /// Which partition.
        partition: TopicPartition,
        /// Which replica.
        node: NodeId,
    },
    /// Nothing of a replica's log is damaged any more.
    Whole {
        /// Which partition.
        partition: TopicPartition,
        /// Which replica.
        node: NodeId,
    },
    /// An election gave committed records up.
    Lost {
        /// Which partition.
        partition: TopicPartition,
        /// The first lost offset.
        from: Offset,
        /// The first behind them; `None` when nobody knows.
        to: Option<Offset>,
    },
    /// A suspect leads; records from there on may be lost.
    PossiblyLost {
        /// Which partition.
        partition: TopicPartition,
        /// From which offset on.
        from: Offset,
    },
    /// A partition is on its way to other brokers.
    Reassigning {
        /// Which partition.
        partition: TopicPartition,
        /// Who is to hold it.
        adding: Vec<NodeId>,
        /// Who goes then.
        removing: Vec<NodeId>,
    },
    /// A reassignment is complete, or cancelled.
    Reassigned {
        /// Which partition.
        partition: TopicPartition,
        /// Who holds it.
        replicas: Vec<NodeId>,
    },
    /// A topic was created.
    TopicCreated {
        /// Its name.
        name: String,
        /// How many partitions.
        partitions: usize,
        /// How many replicas.
        replicas: usize,
    },
    /// A topic was deleted.
    TopicDeleted {
        /// Its name.
        name: String,
    },
}

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FenceReason {
    /// Nothing was heard of it for `broker.session.timeout.ms`.
    Silent,
    /// Its process ended.
    ProcessEnded,
    /// It registered again.
    NewSession,
}

/// Why a partition has another leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaderReason {
    /// The topic was created.
    Created,
    /// The old one's session is over.
    LeaderGone,
    /// The old one stops by order.
    LeaderStops,
    /// A range of the old one's log is damaged, and this one is complete.
    LeaderDamaged,
    /// A replica that may lead came back.
    Returned,
    /// Every eligible replica has registered; this is the best of them.
    BestOfAll,
    /// The preferred leader got its leadership back.
    Preferred,
    /// The old one holds the partition no more.
    Reassigned,
    /// An operator's order.
    Order,
    /// An operator's order that accepts loss.
    UncleanOrder,
}

impl fmt::Display for FenceReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silent => "nothing was heard of it in time",
            Self::ProcessEnded => "its process ended",
            Self::NewSession => "it registered again",
        })
    }
}

impl fmt::Display for LeaderReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "the topic is new",
            Self::LeaderGone => "the leader is gone",
            Self::LeaderStops => "the leader stops",
            Self::LeaderDamaged => "a range of the leader's log is damaged, and this one is complete",
            Self::Returned => "a replica that may lead came back",
            Self::BestOfAll => "every eligible replica has registered, and it has the most",
            Self::Preferred => "it is the preferred leader",
            Self::Reassigned => "the leader holds the partition no more",
            Self::Order => "by order",
            Self::UncleanOrder => "by an order that accepts loss",
        })
    }
}

/// Brokers for people.
fn listed(nodes: &[NodeId]) -> String {
    match nodes {
        [] => "nobody".to_owned(),
        nodes => format!("broker {}", nodes.iter().map(NodeId::to_string).collect::<Vec<_>>().join(", ")),
    }
}

impl fmt::Display for ControllerEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered { node } => write!(f, "broker {node} registered"),
            Self::Fenced { node, why } => write!(f, "broker {node} is out: {why}"),
            Self::Stopping { node } => write!(f, "broker {node} stops"),
            Self::Led { partition, to: Some(to), epoch, why, .. } => {
                write!(f, "{partition}: broker {to} leads in epoch {epoch}: {why}")
            }
            Self::Led { partition, to: None, epoch, why, .. } => {
                write!(f, "{partition}: nobody leads in epoch {epoch}: {why}")
            }
            Self::LeftIsr { partition, node, why } => {
                write!(f, "{partition}: broker {node} left the ISR: {why}")
            }
            Self::JoinedIsr { partition, node } => write!(f, "{partition}: broker {node} joined the ISR"),
            Self::Suspected { partition, node, why } => {
                write!(f, "{partition}: broker {node} may have lost records: {why}")
            }
            Self::Damaged { partition, node } => {
                write!(f, "{partition}: a range of the log of broker {node} is damaged")
            }
            Self::Whole { partition, node } => {
                write!(f, "{partition}: the log of broker {node} is whole again")
            }
            Self::Lost { partition, from, to: Some(to) } => {
                write!(f, "{partition}: committed records {from}..{to} are lost")
            }
            Self::Lost { partition, from, to: None } => {
                write!(f, "{partition}: records from {from} on are given up by order")
            }
            Self::PossiblyLost { partition, from } => {
                write!(f, "{partition}: records from {from} on may be lost")
            }
            Self::Reassigning { partition, adding, removing } => write!(
                f,
                "{partition} is being reassigned: {} to be added, {} to go",
                listed(adding),
                listed(removing)
            ),
            Self::Reassigned { partition, replicas } => {
                write!(f, "{partition} lies on {}", listed(replicas))
            }
            Self::TopicCreated { name, partitions, replicas } => {
                write!(f, "topic {name} created: {partitions} partitions, {replicas} replicas")
            }
            Self::TopicDeleted { name } => write!(f, "topic {name} deleted"),
        }
    }
}
