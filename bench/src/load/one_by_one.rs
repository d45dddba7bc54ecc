//! A record, its acknowledgement, the next record: what a careful caller feels.

use super::{Lane, Latencies, Window, no_latencies, record};
use crate::clock;
use crate::error::Result;

/// Sends single records over one lane, to its first partition.
pub(crate) fn one_by_one(lane: &mut Lane, window: Window) -> Result<Latencies> {
    let mut latencies = no_latencies();
    while clock::now() < window.end {
        let sent = lane.outgoing.send(&[1])?;
        lane.incoming.receive(&sent)?;
        let at = clock::now();
        if window.counts(at) {
            record(&mut latencies, at - sent.at, 1);
        }
    }
    Ok(latencies)
}
