//! From the command on an empty directory to the first record that all in-sync replicas have acknowledged.

use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::error::{BenchError, Result};
use crate::load::{self, Acks, Lane, Ledger, Shape, Window};
use crate::{clock, topic};

const WITHIN: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(10);
const TOPIC: &str = "first";
const SHAPE: Shape = Shape { record_bytes: 1024, batch_bytes: 1024, in_flight: 1 };

/// Asks for a topic, which is made on the way, and sends a record, until one is acknowledged. Its leader must say that there are at least
/// two replicas in sync, so that it is not a record of one broker alone.
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
    let mut lanes = load::open_lanes(&layout, 1, Acks::All, &SHAPE)?;
    let at = clock::now();
    for lane in lanes.iter_mut().take(1) {
        // A window that is over after one record.
        load::one_by_one(lane, Window { start: at, counted_from: at, end: at + Duration::from_micros(1) })?;
    }
    let acknowledged = |ledger: &Ledger| !ledger.acknowledged.is_empty();
    if lanes.iter().flat_map(Lane::ledgers).any(|ledger| acknowledged(&ledger)) && layout.isr_min >= 2 {
        return Ok(());
    }
    Err(BenchError::LogWrong {
        topic: TOPIC.to_owned(),
        why: "nothing was acknowledged by two replicas".to_owned(),
    })
}
