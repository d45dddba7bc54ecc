//! A record, its acknowledgement, the next record: what a careful caller feels.

use std::time::Instant;

use super::{Lane, Latencies, Window, no_latencies, record};
use crate::clock;
use crate::error::Result;

/// Sends single records over one lane, to its first partition.
pub(crate) fn one_by_one(lane: &mut Lane, window: Window) -> Result<Latencies> {
    let mut latencies = no_latencies();
    while clock::now() < window.end {
        let sent = one_record(lane)?;
        let at = clock::now();
        if window.counts(at) {
            record(&mut latencies, at - sent, 1);
        }
    }
    Ok(latencies)
}

/// Sends a record to the lane's first partition and waits for its acknowledgement; answers when it was sent.
pub(crate) fn one_record(lane: &mut Lane) -> Result<Instant> {
    let sent = lane.outgoing.send(&[1])?;
    lane.incoming.receive(&sent)?;
    Ok(sent.at)
}
