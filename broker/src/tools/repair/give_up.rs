//! Gives ranges up: bytes aside, a note, empty batches in their place.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use highwater_engine::batch::{BatchBuilder, BuildError, Compression, ReplicatedBatches};
use highwater_engine::log::Log;
use highwater_engine::segment::{DamagedRange, FileKind, file_path, parse_file_name};
use highwater_engine::state::EpochHistory;
use highwater_engine::store::{Job, JobDone, Opened, Stop, Store};
use highwater_engine::units::{LeaderEpoch, Now, Offset, OffsetRange};
use serde_json::json;

use super::print::Printer;
use super::{Range, RepairError};
use crate::tools::recover;

/// What was given up, one JSON object a line, in the data directory. Nobody reads it but people.
const GIVEN_UP: &str = "highwater-given-up";
/// A batch reaches no farther.
const OFFSETS_MAX: i64 = 1 << 31;

pub(super) fn give_up(
    directory: &Path,
    ranges: &[Range],
    now: Now,
    printer: &mut Printer<'_>,
) -> Result<(), RepairError> {
    recover::refuse_untold(&recover::plan(directory, now)?)?;
    let Opened { store, report } = recover::open(directory, now)?;
    for range in ranges {
        let not_damaged = || RepairError::NotDamaged { range: range.clone() };
        let log = store.log(&range.log).ok_or_else(not_damaged)?;
        let known = damage(&store, &log, range.offsets).ok_or_else(not_damaged)?;
        let kept = keep_aside(&log, &known)?;
        note(directory, range, &known, kept.as_deref())?;
        let epochs = log.with_facts(|facts| facts.epochs.clone());
        let build = |why| RepairError::Build { range: range.clone(), why };
        let batches = empty_batches(range.offsets, &epochs).map_err(build)?;
        let job = Job::Repair { log: log.id(), offsets: range.offsets, batches, now };
        if let JobDone::Failed { error, .. } = job.run(&store) {
            return Err(RepairError::Job { range: range.clone(), why: error });
        }
        printer.given_up(range, kept.as_deref())?;
    }
    // After any other stop the next opening has more to find out than whether this was one.
    if report.stop == Stop::Clean {
        let mut extra = report.mark_extra;
        let session = extra.remove("brokerEpoch").and_then(|session| session.as_i64());
        store.close(extra, session)?;
    }
    Ok(())
}

/// The damaged range with these offsets, when its segment was examined.
fn damage(store: &Store, log: &Log, offsets: OffsetRange) -> Option<DamagedRange> {
    let known = || log.damaged().into_iter().find(|range| range.offsets == offsets);
    known().or_else(|| {
        let entries = fs::read_dir(log.directory()).ok()?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let parsed = names.filter_map(|name| parse_file_name(&name));
        let bases = parsed.filter(|(base, kind)| *kind == FileKind::Log && *base <= offsets.start());
        let segment = bases.map(|(base, _)| base).max()?;
        let _examined = Job::Examine { log: log.id(), segment }.run(store);
        known()
    })
}

/// Copies the damaged bytes into a file of their own, durably. None are there of a file that is gone.
fn keep_aside(log: &Log, known: &DamagedRange) -> Result<Option<PathBuf>, RepairError> {
    let path = file_path(log.directory(), known.segment, FileKind::Log);
    let failed = |path: &Path, source| RepairError::Aside { path: path.to_owned(), source };
    let segment = File::open(&path).map_err(|error| failed(&path, error))?;
    let size = segment.metadata().map_err(|error| failed(&path, error))?.len();
    let (from, until) = (known.bytes.0.min(size), known.bytes.1.min(size));
    if from == until {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(until - from).unwrap_or(usize::MAX)];
    segment.read_exact_at(&mut bytes, from).map_err(|error| failed(&path, error))?;
    let aside = log.directory().join(format!("{:020}-{from}.lost", known.segment.value()));
    let write = || -> io::Result<()> {
        // The same range again, after a crash, has the same bytes.
        let mut file = File::create(&aside)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        File::open(log.directory())?.sync_all()
    };
    write().map_err(|error| failed(&aside, error))?;
    Ok(Some(aside))
}

fn note(
    directory: &Path,
    range: &Range,
    known: &DamagedRange,
    kept: Option<&Path>,
) -> Result<(), RepairError> {
    let path = directory.join(GIVEN_UP);
    let line = json!({
        "log": range.log.to_string(),
        "from": range.offsets.start().value(),
        "until": range.offsets.end().value(),
        "segment": known.segment.value(),
        "bytes": [known.bytes.0, known.bytes.1],
        "kept": kept.map(|kept| kept.display().to_string()),
    });
    let write = || -> io::Result<()> {
        let mut file = File::options().create(true).append(true).open(&path)?;
        writeln!(file, "{line}")?;
        file.sync_all()?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|source| RepairError::Aside { path: path.clone(), source })
}

/// Batches without records that reach over the range, one for each leader epoch that the log has there.
fn empty_batches(range: OffsetRange, epochs: &EpochHistory) -> Result<ReplicatedBatches, BuildError> {
    let mut bytes = BytesMut::new();
    let mut next = range.start();
    while next < range.end() {
        let begins = epochs.starts().iter().map(|entry| entry.start).find(|start| *start > next);
        let reach = next.checked_add(OFFSETS_MAX).unwrap_or(Offset::MAX);
        let end = begins.unwrap_or(Offset::MAX).min(range.end()).min(reach);
        let epoch = epochs.epoch_at(next).unwrap_or(LeaderEpoch::ZERO);
        let mut builder = BatchBuilder::new(Compression::None).base_offset(next).leader_epoch(epoch);
        let delta = end.distance_from(next).unwrap_or(1) - 1;
        builder.reach(i32::try_from(delta).unwrap_or(i32::MAX));
        bytes.extend_from_slice(&builder.finish()?);
        next = end;
    }
    let newest = epochs.latest().map_or(LeaderEpoch::ZERO, |latest| latest.epoch);
    Ok(ReplicatedBatches::check(bytes.freeze(), newest)
        .expect("they lie behind one another, in the log's epochs"))
}

#[cfg(test)]
mod tests {
    use highwater_engine::state::EpochStart;

    use super::*;

    #[test]
    fn empty_batches_reach_over_the_range_in_the_epochs_of_the_log() {
        let at = |offset| Offset::new(offset).unwrap();
        let epoch = |number| LeaderEpoch::new(number).unwrap();
        let starts = [(1, 0), (2, 15), (4, 40)]
            .map(|(number, start)| EpochStart { epoch: epoch(number), start: at(start) });
        let history = EpochHistory::from_starts(starts);
        let made = |from, until| {
            let batches = empty_batches(OffsetRange::new(at(from), at(until)).unwrap(), &history).unwrap();
            let headers = batches.batches().map(|(_, header)| {
                assert_eq!(header.record_count, 0);
                (
                    header.base_offset.value(),
                    header.next_offset().value(),
                    header.leader_epoch.unwrap().value(),
                )
            });
            headers.collect::<Vec<_>>()
        };
        assert_eq!(made(3, 10), [(3, 10, 1)]);
        assert_eq!(made(10, 20), [(10, 15, 1), (15, 20, 2)]);
        assert_eq!(made(50, 50 + (1 << 31)), [(50, 50 + (1 << 31), 4)]);
    }
}
