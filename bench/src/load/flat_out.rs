//! As fast as acknowledgements come. One thread a connection: it fills what may be in flight, then waits for the oldest.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Acks, Lane, Latencies, Window, merge, no_latencies, record};
use crate::clock;
use crate::error::Result;

/// What was carried.
#[derive(Clone, Debug)]
pub(crate) struct Throughput {
    pub(crate) records: u64,
    pub(crate) elapsed: Duration,
    /// From a request's sending to its acknowledgement, under this load; once for each record. Empty with acks 0.
    pub(crate) latencies: Latencies,
}

impl Throughput {
    /// Records in a second.
    pub(crate) fn records_per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let records = self.records as f64;
        records / self.elapsed.as_secs_f64()
    }
}

/// Sends over all lanes for the time of the window. With acks 0 everything is counted that was in the leaders' logs at the end, and the
/// time until then; there is no warm-up.
pub(crate) fn flat_out(lanes: &mut [Lane], window: Window, in_flight: usize) -> Result<Throughput> {
    let outcomes: Vec<Result<Throughput>> = std::thread::scope(|scope| {
        let carry = |lane: &mut Lane| match lane.acks() {
            Acks::None => unacknowledged(lane, window),
            Acks::Leader | Acks::All => acknowledged(lane, window, in_flight),
        };
        let threads: Vec<_> = lanes.iter_mut().map(|lane| scope.spawn(move || carry(lane))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut total = Throughput { records: 0, elapsed: Duration::ZERO, latencies: no_latencies() };
    for outcome in outcomes {
        let outcome = outcome?;
        total.records += outcome.records;
        total.elapsed = total.elapsed.max(outcome.elapsed);
        merge(&mut total.latencies, &outcome.latencies);
    }
    Ok(total)
}

fn acknowledged(lane: &mut Lane, window: Window, in_flight: usize) -> Result<Throughput> {
    let counts = vec![lane.outgoing.records_per_batch; lane.partitions()];
    let mut open = VecDeque::with_capacity(in_flight);
    let mut total = Throughput { records: 0, elapsed: window.measured(), latencies: no_latencies() };
    loop {
        while open.len() < in_flight.max(1) && clock::now() < window.end {
            open.push_back(lane.outgoing.send(&counts)?);
        }
        let Some(sent) = open.pop_front() else { return Ok(total) };
        let records = lane.incoming.receive(&sent)?;
        let at: Instant = clock::now();
        if window.counts(at) {
            total.records += records;
            record(&mut total.latencies, at - sent.at, records);
        }
    }
}

fn unacknowledged(lane: &mut Lane, window: Window) -> Result<Throughput> {
    let counts = vec![lane.outgoing.records_per_batch; lane.partitions()];
    let mut records = 0;
    while clock::now() < window.end {
        records += lane.outgoing.send(&counts)?.records;
    }
    records += lane.await_everything()?;
    Ok(Throughput { records, elapsed: clock::now() - window.start, latencies: no_latencies() })
}
