//! Many partitions over one data directory, as a value that is polled.
//!
//! A host tells it what happened ([`Shard::tell`]), gives it turns ([`Shard::turn`]) and does what comes out ([`Out`]). There is no thread,
//! socket, runtime or clock inside, so that production, the simulator and those who embed it run the same shard.
//!
//! ```text
//!  frames, answers, jobs done --> inbox
//!                                   |      turn(now)
//!     +-----------------------------v------------------------------+
//!     | requests -> machines -> appends -> one turn of the driver   |
//!     |     ^                                   | written, durable  |
//!     |     +---- effects <---- machines <------+   again while     |
//!     |                                             there is news   |
//!     +-----------------------------|------------------------------+
//!                                   v
//!     frames for clients and leaders, calls to the controller, jobs, news
//! ```
//!
//! What a crash leaves is what the log and the controller leave: the shard has no state of its own on disk but the high watermarks,
//! which are safe when stale, because no log grows below them.

mod compact;
mod config;
mod effects;
mod errors;
mod event;
mod fetch;
mod fetch_session;
mod follow;
mod jobs;
mod link;
mod mend;
#[cfg(test)]
mod mend_test;
mod offsets;
mod produce;
mod registration;
mod repair;
mod replica;
mod requests;
mod status;
mod topics;
mod turn;
mod watermarks;

pub use config::ShardConfig;
pub use event::{AskId, CloseReason, ControllerCallId, Event, Lane, LaneKind, News, Out};

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use highwater_engine::checkpoint::Reading;
use highwater_engine::log::LogId;
use highwater_engine::store::{OpenReport, Store, TurnReport};
use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Now, Offset, TopicId, TopicPartition};

use crate::controller::ClusterView;
use crate::partition::Acks;
use crate::rules::Rules;
use crate::wire::ApiKey;
use follow::Followers;
use link::Link;
use registration::{Known, OnBehalf};
use replica::Replica;
use watermarks::Watermarks;

/// The name of the checkpoint of high watermarks, as Kafka has it.
pub use highwater_engine::checkpoint::HIGH_WATERMARKS;

/// A replica's place in the shard's table; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReplicaKey(u32);

/// See the module's documentation.
#[derive(Debug)]
pub struct Shard {
    config: ShardConfig,
    rules: Rules,
    store: Store,
    /// The memory for what a turn of the driver tells.
    report: TurnReport,
    view: ClusterView,
    link: Link<OnBehalf>,
    known: Known,
    replicas: BTreeMap<ReplicaKey, Replica>,
    next_key: u32,
    by_name: HashMap<TopicPartition, ReplicaKey>,
    by_id: HashMap<(TopicId, i32), ReplicaKey>,
    by_log: HashMap<LogId, ReplicaKey>,
    /// Logs that could not be made, and when they are tried again.
    unmade: BTreeMap<TopicPartition, Monotonic>,
    /// Logs whose files are being removed.
    deleting: BTreeMap<LogId, topics::Deleting>,
    followers: Followers,
    requests: requests::Requests,
    inbox: VecDeque<Event>,
    /// Replicas whose machines have effects to be taken.
    touched: BTreeSet<ReplicaKey>,
    timers: BTreeSet<(Monotonic, ReplicaKey)>,
    due: jobs::Due,
    compacting: compact::Compacting,
    watermarks: Watermarks,
    mending: mend::Mending,
    repairs: repair::Repairs,
    stopping: jobs::Stopping,
    out: Vec<Out>,
}

impl Shard {
    /// A shard over a store that was just opened. It registers with the controller in its first turn and has no replica before the
    /// controller has spoken. No two processes have the same `seed`: the controller tells them apart by what is drawn from it.
    pub fn new(
        store: Store,
        report: &OpenReport,
        config: ShardConfig,
        rules: Rules,
        seed: u64,
        now: Now,
    ) -> Self {
        let found = store.read_offset_checkpoint(HIGH_WATERMARKS);
        let watermarks = Watermarks::new(now.monotonic, config.high_watermark_interval, &found);
        // What cannot be read is unknown, and never zero: whoever has such a log is suspect.
        let run = fastrand::Rng::with_seed(seed).u64(..);
        let known = Known::at_opening(report, found.ok().and_then(Reading::known), run);
        let link = Link::new(config.node, known.last_stop(), now.monotonic);
        Self {
            view: ClusterView::new(config.node),
            followers: Followers::new(&config),
            due: jobs::Due::new(now.monotonic, &config),
            compacting: compact::Compacting::new(now.monotonic, &config),
            watermarks,
            mending: mend::Mending::default(),
            repairs: repair::Repairs::default(),
            requests: requests::Requests::new(seed),
            rules,
            store,
            report: TurnReport::default(),
            link,
            known,
            config,
            replicas: BTreeMap::new(),
            next_key: 0,
            by_name: HashMap::new(),
            by_id: HashMap::new(),
            by_log: HashMap::new(),
            unmade: BTreeMap::new(),
            deleting: BTreeMap::new(),
            inbox: VecDeque::new(),
            touched: BTreeSet::new(),
            timers: BTreeSet::new(),
            stopping: jobs::Stopping::No,
            out: Vec::new(),
        }
    }

    /// Whether requests of this API are for the shard; the host answers the others.
    pub const fn answers(api: ApiKey) -> bool {
        matches!(api, ApiKey::Produce | ApiKey::Fetch | ApiKey::ListOffsets | ApiKey::OffsetForLeaderEpoch)
    }

    /// Something happened. It is looked at in the next turn.
    pub fn tell(&mut self, event: Event) {
        self.inbox.push_back(event);
    }

    /// The cluster as this broker knows it.
    pub const fn view(&self) -> &ClusterView {
        &self.view
    }

    /// This node.
    pub const fn node(&self) -> NodeId {
        self.config.node
    }

    /// The present session with the controller.
    pub const fn session(&self) -> Option<crate::ids::BrokerEpoch> {
        self.link.session()
    }

    /// The present session with the controller, or the last one that is over.
    pub fn last_session(&self) -> Option<crate::ids::BrokerEpoch> {
        self.link.last_session()
    }

    /// The data directory.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The high watermark of a replica of this node; `None` if it has none.
    pub fn high_watermark(&self, name: &TopicPartition) -> Option<Offset> {
        Some(self.replica(name)?.machine.high_watermark())
    }

    /// In which epoch this node leads a partition, and where its log ends; `None` if it does not lead, or has not begun to.
    pub fn leads(&self, name: &TopicPartition) -> Option<(LeaderEpoch, Offset)> {
        self.replica(name)?.look(|machine, facts| {
            let permit = machine.may_append(Acks::None, facts).ok()?;
            Some((permit.epoch(), facts.accepted))
        })
    }

    fn replica(&self, name: &TopicPartition) -> Option<&Replica> {
        self.replicas.get(self.by_name.get(name)?)
    }
}
