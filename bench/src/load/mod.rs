//! The generator: what is sent, when, and what is measured of it.
//!
//! - [`flat_out()`]: as fast as acknowledgements come, a bounded number of requests in flight. Throughput.
//! - [`at_rate`]: each record has a time at which it should be sent, and its latency counts from then, however late the generator or the
//!   broker is: no coordinated omission.
//! - [`one_by_one()`]: a record, its acknowledgement, the next record.
//!
//! A lane is the connection to one leader. It refuses to retry: an error ends the run.

mod flat_out;
mod gate;
mod lane;
mod one_by_one;
mod rate;
mod schedule;

use std::time::{Duration, Instant};

use clap::ValueEnum;
use hdrhistogram::Histogram;

pub(crate) use flat_out::{Throughput, flat_out};
#[cfg(test)]
pub(crate) use lane::Acknowledged;
pub(crate) use lane::{Lane, Ledger, Shape, open_lanes};
pub(crate) use one_by_one::{one_by_one, one_record};
pub(crate) use rate::at_rate;

use crate::clock;

/// What a producer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
pub(crate) enum Acks {
    /// Nothing
    #[value(name = "0")]
    #[serde(rename = "0")]
    None,
    /// The leader
    #[value(name = "1")]
    #[serde(rename = "1")]
    Leader,
    /// All in-sync replicas
    #[value(name = "all")]
    #[serde(rename = "all")]
    All,
}

impl Acks {
    /// As requests carry it.
    pub(crate) fn code(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }

    /// As people write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "0",
            Self::Leader => "1",
            Self::All => "all",
        }
    }
}

/// What is counted: from when, up to when. Before it everything warms up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: Instant,
    pub(crate) counted_from: Instant,
    pub(crate) end: Instant,
}

impl Window {
    /// Begins now, after a warm-up of a fifth.
    pub(crate) fn of(measured: Duration) -> Self {
        let start = clock::now();
        let counted_from = start + measured / 5;
        Self { start, counted_from, end: counted_from + measured }
    }

    /// How long is counted.
    pub(crate) fn measured(&self) -> Duration {
        self.end - self.counted_from
    }

    fn counts(&self, at: Instant) -> bool {
        self.counted_from <= at && at < self.end
    }
}

/// Latencies in nanoseconds, to three digits.
pub(crate) type Latencies = Histogram<u64>;

pub(crate) fn no_latencies() -> Latencies {
    let histogram = Histogram::new_with_bounds(1_000, 120_000_000_000, 3);
    histogram.expect("1 µs to 120 s with three digits are bounds that a histogram can have")
}

fn record(latencies: &mut Latencies, latency: Duration, times: u64) {
    latencies.saturating_record_n(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX), times);
}

fn merge(into: &mut Latencies, other: &Latencies) {
    let added = into.add(other);
    debug_assert!(added.is_ok(), "all histograms here have the same bounds");
}
