//! How a world is made.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::units::NodeId;

use super::vocabulary::{A, B, C};

/// How a world is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// The brokers.
    pub nodes: Vec<NodeId>,
    /// The rules of the logs.
    pub engine: highwater_engine::Rules,
    /// The rules of the replicas and of the controller.
    pub rules: highwater_replication::Rules,
    /// The longest time that a frame takes.
    pub latency_max: Duration,
    /// The longest time that an operation of a disk takes.
    pub disk_latency_max: Duration,
    /// `broker.session.timeout.ms`.
    pub session_timeout: Duration,
    /// `replica.lag.time.max.ms`.
    pub lag_max: Duration,
    /// How often high watermarks are written down.
    pub high_watermark_interval: Duration,
    /// Whether a supervisor tells the controller when a process ends.
    pub ends_are_seen: bool,
    /// Whether a supervisor starts a process again, and after how long.
    pub restart_after: Option<Duration>,
    /// Bytes of a segment.
    pub segment_bytes: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            nodes: vec![A, B, C],
            engine: highwater_engine::Rules::default(),
            rules: highwater_replication::Rules::default(),
            latency_max: Duration::from_millis(1),
            disk_latency_max: Duration::from_micros(300),
            session_timeout: Duration::from_secs(1),
            lag_max: Duration::from_secs(1),
            high_watermark_interval: Duration::from_millis(500),
            ends_are_seen: true,
            restart_after: None,
            segment_bytes: 16 << 10,
        }
    }
}

/// How a topic is made.
#[derive(Clone, Debug)]
pub struct TopicOptions {
    /// Its name.
    pub name: &'static str,
    /// The replicas of each partition, preferred leaders first.
    pub assignment: Vec<Vec<NodeId>>,
    /// `min.insync.replicas`.
    pub min_isr: usize,
    /// `durability`: `written` or `fsync`.
    pub durability: &'static str,
    /// `truncation`: `leader-epoch` or `high-watermark`.
    pub truncation: &'static str,
}

impl Default for TopicOptions {
    fn default() -> Self {
        Self {
            name: "events",
            assignment: vec![vec![A, B, C]],
            min_isr: 2,
            durability: "written",
            truncation: "leader-epoch",
        }
    }
}

impl TopicOptions {
    pub(crate) fn configs(&self) -> BTreeMap<String, String> {
        [
            (highwater_replication::controller::MIN_ISR, self.min_isr.to_string()),
            (highwater_replication::controller::DURABILITY, self.durability.to_owned()),
            (highwater_replication::controller::TRUNCATION, self.truncation.to_owned()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    }
}
