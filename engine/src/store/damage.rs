//! Damage that recovery did not look for: bytes below the recovery point that turn out to be no batch when the state of producers is made
//! again. The log opens all the same, and says so.

use std::io;
use std::sync::Arc;

use super::scan::{Place, scan_segment};
use crate::log::Inner;
use crate::recovery::{DamagedRange, Plan, SuspectReason};
use crate::segment::{IndexSettings, Segment};
use crate::units::OffsetRange;

/// Reads segments in which there is damage, and adds what the plan does not know of.
pub(super) fn add_damage(
    plan: &mut Plan,
    log: &Inner,
    segments: &[Arc<Segment>],
    batch_bytes_max: usize,
) -> io::Result<()> {
    let view = log.view();
    for segment in segments {
        let base = segment.base();
        if plan.damaged.iter().any(|known| known.segment == base) {
            continue;
        }
        let next = view.segments.iter().map(|segment| segment.base()).find(|next| *next > base);
        let place = Place { base, log_bytes: segment.size(), from: 0, expected: base };
        // Its index is of no use here, and stays empty.
        let index = IndexSettings { interval_bytes: u64::MAX, bytes_max: 0 }.empty(base);
        for bad in scan_segment(&segment.file()?, place, index, batch_bytes_max)?.scan.bad {
            let until = bad.next.or(next).unwrap_or(plan.end);
            let Some(offsets) = OffsetRange::new(bad.expected, until.max(bad.expected)) else { continue };
            // Nobody misses what lies below the start.
            if until > plan.start {
                plan.damaged.push(DamagedRange { segment: base, offsets, bytes: (bad.position, bad.until) });
                plan.suspect.push(SuspectReason::Damaged { offsets });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::test_support::*;
    use super::super::{Job, JobDone};
    use crate::disk::{Disk, SimulatedDisk};
    use crate::log::{Permit, Read, ReadError};
    use crate::units::Offset;
    use std::sync::Arc;

    #[test]
    fn one_damaged_log_keeps_nobody_from_opening_and_is_told_of() {
        let simulated = SimulatedDisk::new(1);
        let disk: Arc<dyn Disk> = Arc::new(simulated.clone());
        let (store, _) = open(&disk, Path::new("/data"));
        for log in ["t-0", "t-1"] {
            let log = store.create_log(&name(log), None, small_segments(400), now(0)).unwrap();
            for number in 0..16 {
                log.append(Permit::new(epoch(0)), numbered(1, number * 2, 2), now(1)).unwrap();
            }
            store.want_durable(&log);
            turn(&store);
            assert!(log.segment_count() > 3);
        }
        for log in store.logs() {
            Job::Seal { log: log.id() }.run(&store);
            store.want_durable(&log);
            turn(&store);
        }
        assert!(matches!(Job::Checkpoint { now: now(2) }.run(&store), JobDone::Checkpointed));
        drop(store);

        // A header in the first segment, below the recovery point; what the windows of producers are made from again lies there.
        let path = Path::new("/data/t-0/00000000000000000000.log");
        let length: [u8; 4] = simulated.contents(path).unwrap()[8..12].try_into().unwrap();
        let batch_bytes = u64::from(u32::from_be_bytes(length)) + 12;
        simulated.damage(path, batch_bytes, &[0xff; 61]).unwrap();
        let next: Arc<dyn Disk> = Arc::new(simulated.crash_kill(&mut fastrand::Rng::with_seed(1)));
        let (store, report) = open(&next, Path::new("/data"));
        let [damaged, whole] = &report.logs[..] else { panic!("{report:?}") };
        assert!(whole.plan.damaged.is_empty() && !whole.suspect);
        let [range] = &damaged.plan.damaged[..] else { panic!("{}", damaged.plan) };
        assert_eq!((range.segment, range.offsets.start(), range.offsets.end()), (at(0), at(2), at(4)));
        assert_eq!(range.bytes, (batch_bytes, 2 * batch_bytes));
        assert!(damaged.suspect && damaged.end == at(32));

        let log = store.log(&name("t-0")).unwrap();
        let mut inside = log.read(at(2), Offset::MAX, 100, true);
        if let Ok(Read::Cold(asked)) = inside {
            let done = Job::ColdRead(asked).run(&store);
            let JobDone::Read { result, .. } = done else { panic!("{done:?}") };
            inside = result;
        }
        assert!(matches!(inside, Err(ReadError::Damaged { .. })), "{inside:?}");
        assert!(!read_all(&store, &log, 8).is_empty(), "the other segments are whole");
    }
}
