//! What can happen to the controller's machine, and what it wants done.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::units::NodeId;

use super::change::Change;
use super::event::ControllerEvent;
use super::protocol::{ControllerCall, ControllerReply};

/// Names a call towards its host, so that the reply finds back. Never used twice by a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A call came in. Exactly one [`Effect::Reply`] follows, now or later, unless the caller goes away.
    Call {
        /// For the reply.
        id: CallId,
        /// The call.
        call: ControllerCall,
    },
    /// Nobody waits for the reply any more.
    CallerGone {
        /// Which call.
        id: CallId,
    },
    /// The supervisor in the same process saw a broker's process end.
    ProcessEnded {
        /// Which broker.
        node: NodeId,
        /// Which process; a broker that has registered from another one since is not meant.
        process: Option<u32>,
    },
    /// Time has passed: what is due is done. Every other input does so too.
    Tick,
}

/// Something the machine wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A change of the state, applied to the machine's own copy already. It has to be durable before any effect behind it, or
    /// any in front of it that came of the same step, leaves the host.
    Persist(Change),
    /// The answer to a call.
    Reply {
        /// Which call.
        id: CallId,
        /// The answer.
        reply: ControllerReply,
    },
    /// Something people should know.
    Event(ControllerEvent),
}

/// The controller's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerConfig {
    /// How long a broker may be silent (`broker.session.timeout.ms`).
    pub session_timeout: Duration,
    /// How often preferred leaders get their leaderships back (`leader.imbalance.check.interval.seconds`).
    pub imbalance_check_interval: Duration,
    /// How many brokers the cluster is configured to have; `None`: as many as register.
    pub brokers_configured: Option<usize>,
    /// Partitions of a topic that does not say (`num.partitions`).
    pub partitions_default: u32,
    /// Replicas of a topic that does not say (`default.replication.factor`), but at most the configured brokers.
    pub replication_factor_default: u16,
    /// Settings of topics that do not say, `min.insync.replicas`, `durability` and `truncation` above all.
    pub topic_defaults: BTreeMap<String, String>,
    /// The most brokers that may register.
    pub brokers_max: usize,
    /// The most partitions that one topic may have.
    pub topic_partitions_max: usize,
    /// The most partitions of all topics together.
    pub partitions_max: usize,
    /// The most creations that wait for brokers, and the most calls that are held back.
    pub waiting_max: usize,
    /// The id of a cluster that is created; `None`: a random one.
    pub new_cluster_id: Option<String>,
    /// How many changes lie behind a snapshot when the next one is written.
    pub snapshot_changes: u64,
    /// How many changes are kept for brokers that poll; an older broker gets the whole.
    pub recent_changes_max: usize,
}

impl Default for ControllerConfig {
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(9),
            imbalance_check_interval: Duration::from_secs(300),
            brokers_configured: None,
            partitions_default: 1,
            replication_factor_default: 3,
            topic_defaults: BTreeMap::from([
                (super::MIN_ISR.to_owned(), "2".to_owned()),
                (super::DURABILITY.to_owned(), "written".to_owned()),
                (super::TRUNCATION.to_owned(), "leader-epoch".to_owned()),
            ]),
            brokers_max: 1_000,
            topic_partitions_max: 10_000,
            partitions_max: 200_000,
            waiting_max: 1_000,
            new_cluster_id: None,
            snapshot_changes: 4_096,
            recent_changes_max: 4_096,
        }
    }
}
