//! Appends over many logs in turn: what a log more costs.

use bytes::Bytes;

use super::ground::{self, Ground, timed};
use super::rows::{Asked, Rows};
use crate::error::Result;
use crate::goal::Goal;

const APPENDS: usize = 4096;

/// 64 KiB to each of many logs in turn, beside the same appends to one.
pub(super) fn in_turn(ground: &Ground, rows: &mut Rows) -> Result<()> {
    let batch = ground::batch(63, 1024)?;
    let over = |logs: i32| {
        let batch = &batch;
        move || {
            let room = ground.room()?;
            let store = ground.store(room.path())?;
            let logs = (0..logs).map(|number| ground.log(&store, number)).collect::<Result<Vec<_>>>()?;
            // The first append to a log writes its epoch down, which the next ones do not.
            for log in &logs {
                ground::append(log, Bytes::from(batch.to_vec()), ground.now())?;
            }
            ground::write(&store);
            let appends: Vec<_> = logs.iter().cycle().zip(ground::copies(batch, APPENDS)).collect();
            let ((), took) = timed(|| {
                for (log, batch) in appends {
                    ground::append(log, batch, ground.now())?;
                    ground::write(&store);
                }
                Ok(())
            })?;
            Ok(1e6 * took.as_secs_f64() / f64::from(u32::try_from(APPENDS).unwrap_or(u32::MAX)))
        }
    };
    for (name, logs) in [("64 KiB in turn over 100 logs", 100), ("64 KiB in turn over 4,000 logs", 4_000)] {
        let asked =
            Asked { name, unit: "µs", limit_is: "the same on one log", goal: Goal::RatioAtMost(1.3) };
        rows.measure(ground.rounds, asked, over(logs), over(1))?;
    }
    Ok(())
}
