//! Leader epochs and the ids of nodes.

use std::fmt;

/// The number of a leadership, `0 ..= i32::MAX`; it grows with each leadership of a partition.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "i32")]
pub struct LeaderEpoch(i32);

impl LeaderEpoch {
    /// The first epoch.
    pub const ZERO: Self = Self(0);

    /// The epoch with this number, or `None` if it is negative.
    pub const fn new(value: i32) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The number, as Kafka's files and messages write it.
    pub const fn value(self) -> i32 {
        self.0
    }

    /// The next epoch, or `None` when there are no more.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }
}

impl fmt::Display for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for LeaderEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {}", self.0)
    }
}

/// The id of a node of a cluster (Kafka's `node.id`), `0 ..= i32::MAX`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "i32")]
pub struct NodeId(i32);

impl NodeId {
    /// The node with this id, or `None` if it is negative.
    pub const fn new(value: i32) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The number, as Kafka's messages write it.
    pub const fn value(self) -> i32 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

impl TryFrom<i32> for LeaderEpoch {
    type Error = Negative;

    fn try_from(value: i32) -> Result<Self, Negative> {
        Self::new(value).ok_or(Negative { value: i64::from(value) })
    }
}

impl TryFrom<i32> for NodeId {
    type Error = Negative;

    fn try_from(value: i32) -> Result<Self, Negative> {
        Self::new(value).ok_or(Negative { value: i64::from(value) })
    }
}

/// A number that must not be negative was; what a deserializer says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value} is negative")]
pub struct Negative {
    /// The number that was found.
    pub value: i64,
}
