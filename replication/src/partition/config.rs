//! The settings of one replica.

use std::time::Duration;

use crate::rules::Rules;

/// The settings of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PartitionConfig {
    /// `replica.lag.time.max.ms`: a follower that was not caught up for longer leaves the ISR.
    pub lag_max: Duration,
    /// The first pause of a follower after a failed Fetch; it doubles with each further failure.
    pub fetch_backoff_min: Duration,
    /// The longest pause (`replica.fetch.backoff.ms`).
    pub fetch_backoff_max: Duration,
    /// How long a leader waits before it proposes an ISR again, or another one after a refusal.
    pub isr_retry: Duration,
    /// How many acknowledgements may be waited for at one time; behind it appends are refused.
    pub waits_max: usize,
}

impl Default for PartitionConfig {
    fn default() -> Self {
        Self {
            lag_max: Duration::from_secs(10),
            fetch_backoff_min: Duration::from_millis(50),
            fetch_backoff_max: Duration::from_secs(1),
            isr_retry: Duration::from_millis(500),
            waits_max: 100_000,
        }
    }
}

/// Settings and rules together, as the parts of the machine are handed them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Settings {
    pub(super) config: PartitionConfig,
    pub(super) rules: Rules,
}
