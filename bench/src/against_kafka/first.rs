//! From the command on an empty directory to the first record that all in-sync replicas have acknowledged.

use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::error::{BenchError, Result};
use crate::load::{self, Acks, Shape};
use crate::{clock, topic};

const WITHIN: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(10);
const TOPIC: &str = "first";
const SHAPE: Shape = Shape { record_bytes: 1024, batch_bytes: 1024, in_flight: 1 };

/// Asks for a topic, which is made on the way, and sends a record, until one is acknowledged. At least two replicas must be in sync, so
/// that it is not a record of one broker alone.
pub(super) fn acknowledged(cluster: &mut impl Cluster, given: Instant) -> Result<Duration> {
    let mut last = None;
    let first = clock::poll(WITHIN, PAUSE, || {
        if let Err(ended) = cluster.check() {
            return Some(Err(ended));
        }
        match try_once(cluster) {
            Ok(()) => Some(Ok(clock::now() - given)),
            Err(error) => {
                last = Some(error.to_string());
                None
            }
        }
    });
    let what = format!("a first acknowledged record by {}", cluster.name());
    first.unwrap_or(Err(BenchError::TooLate { what, seconds: WITHIN.as_secs(), last }))
}

fn try_once(cluster: &impl Cluster) -> Result<()> {
    let layout = topic::find(cluster.bootstrap(), TOPIC, true)?;
    if layout.isr_min < 2 {
        let why = format!("its ISR has {} members", layout.isr_min);
        return Err(BenchError::LogWrong { topic: TOPIC.to_owned(), why });
    }
    for lane in load::open_lanes(&layout, 1, Acks::All, &SHAPE)?.iter_mut().take(1) {
        load::one_record(lane)?;
    }
    Ok(())
}
