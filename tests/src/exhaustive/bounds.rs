//! How far a search goes. What has no bound here (who acts when, what arrives before what) is tried in every order.

use std::fmt;

use highwater_replication::partition::Durability;

/// How often each thing may happen on the way to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Replicas of the partition.
    pub replicas: i32,
    /// `min.insync.replicas`.
    pub min_isr: usize,
    /// What counts as having a record.
    pub durability: Durability,
    /// Records that are produced, one at a time, each with acks=all.
    pub records: u8,
    /// Processes killed: what is written stays.
    pub kills: u8,
    /// Machines that lose power: what is not synced may be gone, from its end.
    pub power_cuts: u8,
    /// Sessions ended although the process goes on: what follows is a zombie until it hears of it.
    pub fences: u8,
    /// Requests, or answers to them, that are lost.
    pub losses: u8,
    /// How often a clock goes on by more than `replica.lag.time.max.ms`.
    pub lags: u8,
}

impl Bounds {
    /// Several that take a minute together.
    pub fn small() -> Vec<Self> {
        let (two, three) = (Self { records: 1, ..Self::of(2) }, Self { records: 1, ..Self::of(3) });
        vec![
            Self { kills: 1, power_cuts: 1, ..two },
            Self { records: 2, kills: 2, ..two },
            Self { records: 2, kills: 1, fences: 1, ..two },
            Self { records: 2, kills: 1, lags: 1, min_isr: 1, ..two },
            Self { records: 2, power_cuts: 2, durability: Durability::Fsync, ..two },
            Self { losses: 1, ..three },
            Self { lags: 1, ..three },
            Self { fences: 1, ..three },
            Self { kills: 1, ..three },
        ]
    }

    /// Nothing goes wrong, and nothing is written.
    pub const fn of(replicas: i32) -> Self {
        Self {
            replicas,
            min_isr: 2,
            durability: Durability::Written,
            records: 0,
            kills: 0,
            power_cuts: 0,
            fences: 0,
            losses: 0,
            lags: 0,
        }
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} replicas, min ISR {}, {} records", self.replicas, self.min_isr, self.records)?;
        if self.durability == Durability::Fsync {
            f.write_str(", fsync")?;
        }
        let faults = [
            (self.kills, "kills"),
            (self.power_cuts, "power cuts"),
            (self.fences, "fences"),
            (self.losses, "losses"),
            (self.lags, "lags"),
        ];
        faults
            .iter()
            .filter(|(count, _)| *count > 0)
            .try_for_each(|(count, what)| write!(f, ", {count} {what}"))
    }
}
