//! The two epochs that only replication knows: of a broker's session and of a partition's state.

use std::fmt;

use highwater_engine::units::Negative;

/// The number of one session of a broker with the controller (KIP-380), `0 ..= i64::MAX`.
///
/// A restarted broker, or one that was fenced and comes back, has a new and greater one. The lower 32 bits are random and the
/// number is shown nowhere, so that a Fetch in the name of another replica cannot be made up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "i64")]
pub struct BrokerEpoch(i64);

impl BrokerEpoch {
    /// The epoch with this number, or `None` if it is negative.
    pub const fn new(value: i64) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The number, as Kafka's messages carry it.
    pub const fn value(self) -> i64 {
        self.0
    }

    /// The epoch of the `count`-th session that a cluster began, with `random` as its lower half.
    pub const fn of_session(count: u32, random: u32) -> Self {
        // The uppermost bit stays clear, so that the number is never negative: 2^31 sessions.
        Self((((count as i64) & 0x7fff_ffff) << 32) | random as i64)
    }

    /// Which of the cluster's sessions it is.
    pub fn session(self) -> u32 {
        // 31 bits are left of 63.
        u32::try_from(self.0 >> 32).unwrap_or(u32::MAX)
    }
}

impl TryFrom<i64> for BrokerEpoch {
    type Error = Negative;

    fn try_from(value: i64) -> Result<Self, Negative> {
        Self::new(value).ok_or(Negative { value })
    }
}

impl fmt::Debug for BrokerEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only the half that counts: the random half is a secret.
        write!(f, "session {}", self.0 >> 32)
    }
}

/// The version of a partition's state at the controller (KIP-497), `0 ..= i32::MAX`; grows with each change of it.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "i32")]
pub struct PartitionEpoch(i32);

impl PartitionEpoch {
    /// The first version.
    pub const ZERO: Self = Self(0);

    /// The version with this number, or `None` if it is negative.
    pub const fn new(value: i32) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The number, as Kafka's messages carry it.
    pub const fn value(self) -> i32 {
        self.0
    }

    /// The next version, or `None` when there are no more.
    pub const fn next(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(value) => Some(Self(value)),
            None => None,
        }
    }
}

impl TryFrom<i32> for PartitionEpoch {
    type Error = Negative;

    fn try_from(value: i32) -> Result<Self, Negative> {
        Self::new(value).ok_or(Negative { value: i64::from(value) })
    }
}

impl fmt::Display for PartitionEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PartitionEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partition epoch {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_grow_whatever_their_random_half() {
        let (old, new) = (BrokerEpoch::of_session(1, u32::MAX), BrokerEpoch::of_session(2, 0));
        assert!(old < new && new.value() > 0);
        assert!(BrokerEpoch::of_session(u32::MAX, u32::MAX).value() > 0);
        assert_eq!(format!("{new:?}"), "session 2");
    }

    #[test]
    fn negative_epochs_are_refused_from_json() {
        assert!(serde_json::from_str::<BrokerEpoch>("-1").is_err());
        assert!(serde_json::from_str::<PartitionEpoch>("-1").is_err());
        assert_eq!(serde_json::from_str::<PartitionEpoch>("4").ok(), PartitionEpoch::new(4));
    }
}
