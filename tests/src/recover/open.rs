//! Looks at an open log as a reader does: all that is in it, and single reads, each against what must be there.

use bytes::{Bytes, BytesMut};
use highwater_engine::batch::scan;
use highwater_engine::log::{Log, Read, ReadError, Records};
use highwater_engine::store::{Job, JobDone, JobKind, Store};

use super::batches::offset;
use super::doors::{Door, asked, done, told};
use super::model::{Found, Model};

/// Reads, from the device if need be.
pub fn read(
    store: &Store,
    log: &Log,
    from: i64,
    ceiling: i64,
    bytes_max: usize,
    at_least_one: bool,
) -> Result<Option<Records>, ReadError> {
    let read = log.read(offset(from), offset(ceiling), bytes_max, at_least_one);
    let mut read = asked(Door::LogRead, read)?;
    if let Read::Cold(wanted) = read {
        let read_now = done(JobKind::ColdRead, Job::ColdRead(wanted).run(store));
        let JobDone::Read { result, .. } = read_now else { panic!("a cold read gave {read_now:?}") };
        read = result?;
    }
    match read {
        Read::Records(records) => Ok(Some(records)),
        Read::Empty => Ok(None),
        Read::Cold(asked) => panic!("a cold read asks for a cold read: {asked:?}"),
    }
}

/// Everything that readers are given, and the epochs.
pub fn everything(store: &Store, log: &Log) -> Result<Found, String> {
    let start = told(Door::LogStart, log.start()).value();
    let end = told(Door::LogWritten, log.written()).value();
    let (mut batches, mut damaged) = (Vec::new(), Vec::new());
    let mut next = start;
    while next < end {
        let read = read(store, log, next, i64::MAX, 4_096, true);
        if let Err(ReadError::Damaged { offsets: Some(offsets), .. }) = &read
            && offsets.end().value() > next
        {
            damaged.push((offsets.start().value(), offsets.end().value()));
            next = offsets.end().value();
            continue;
        }
        let records = read.map_err(|error| format!("reading at {next}: {error}"))?;
        let Some(records) = records else { return Err(format!("nothing is read at {next} of {end}")) };
        batches.extend(split(&records, next)?);
        next = records.end.value();
    }
    let bytes = told(Door::LogSizeBytes, log.size_bytes());
    Ok(Found { start, end, batches, damaged, epochs: epochs(log), bytes })
}

/// The leader epochs of a log.
pub fn epochs(log: &Log) -> Vec<(i32, i64)> {
    let starts = log.with_facts(|facts| {
        facts.epochs.starts().iter().map(|entry| (entry.epoch.value(), entry.start.value())).collect()
    });
    told(Door::LogWithFacts, starts)
}

/// The batches that one read from `from` on gives; none where nothing may be seen.
pub fn read_batches(store: &Store, log: &Log, from: i64) -> Result<Vec<Bytes>, String> {
    let records = read(store, log, from, i64::MAX, 4_096, true).map_err(|error| error.to_string())?;
    records.map_or(Ok(Vec::new()), |records| split(&records, from))
}

/// The batches of a read, each sound, and the read's own figures right.
pub(super) fn split(records: &Records, from: i64) -> Result<Vec<Bytes>, String> {
    let mut bytes = BytesMut::with_capacity(records.size);
    for part in &records.parts {
        bytes.extend_from_slice(part);
    }
    let bytes = bytes.freeze();
    let mut batches = Vec::new();
    let mut end = None;
    for item in scan(&bytes, 0) {
        let (_, batch) = item.map_err(|stop| format!("a read from {from} gave no batch: {stop}"))?;
        if end.is_none() && batch.header().base_offset != records.first {
            return Err(format!("a read from {from} says that it begins at {}", records.first));
        }
        end = Some(batch.header().next_offset());
        batches.push(bytes.slice_ref(batch.bytes()));
    }
    if end != Some(records.end) || records.size != bytes.len() || records.end.value() <= from {
        return Err(format!("a read from {from} says that it ends at {} with {end:?}", records.end));
    }
    Ok(batches)
}

/// One read against the model.
pub fn check_read(
    model: &Model,
    asked: (i64, i64, i64, bool),
    read: &Result<Option<Records>, ReadError>,
) -> Result<(), String> {
    let (from, ceiling, bytes_max, at_least_one) = asked;
    let records = match read {
        Err(ReadError::OutOfRange { .. }) if from < model.start || from > model.end => return Ok(()),
        Err(error) => return Err(format!("reading from {from}: {error}")),
        Ok(_) if from < model.start || from > model.end => {
            return Err(format!("{from} lies outside {}..{}", model.start, model.end));
        }
        Ok(None) => None,
        Ok(Some(records)) => Some(records),
    };
    let visible = ceiling.min(model.written);
    let expected = model.from(from).iter().take_while(|batch| batch.end <= visible);
    let expected: Vec<&Bytes> = expected.map(|batch| &batch.bytes).collect();
    let Some(records) = records else {
        let must = expected.first().is_some_and(|first| at_least_one || first.len() <= size(bytes_max));
        return if must && from < visible { Err(format!("nothing is read at {from}")) } else { Ok(()) };
    };
    if records.end.value() > visible {
        return Err(format!("a read from {from} reaches to {}, above {visible}", records.end));
    }
    let batches = split(records, from)?;
    if records.size > size(bytes_max) && (batches.len() > 1 || !at_least_one) {
        return Err(format!("a read of {bytes_max} bytes gave {}", records.size));
    }
    let is_right =
        batches.len() <= expected.len() && batches.iter().zip(&expected).all(|(is, was)| is == *was);
    if is_right { Ok(()) } else { Err(format!("a read from {from} gave other batches than were appended")) }
}

/// Every batch is found by itself, and every time as a walk over all records finds it.
pub fn check_lookups(store: &Store, log: &Log, model: &Model) -> Result<(), String> {
    for batch in model.from(model.start) {
        let from = (batch.end - 1).max(model.start);
        let read = read(store, log, from, i64::MAX, 1, true);
        check_read(model, (from, i64::MAX, 1, true), &read)?;
        let time = batch.times.iter().copied().max().unwrap_or(0);
        check_time(log, model, time, batch.end)?;
        check_time(log, model, time + 1, i64::MAX)?;
    }
    check_newest(log, model, i64::MAX)
}

/// A lookup by time against a walk over all records.
pub fn check_time(log: &Log, model: &Model, time: i64, ceiling: i64) -> Result<(), String> {
    let found =
        log.offset_for_timestamp(highwater_engine::units::Timestamp::from_millis(time), offset(ceiling));
    let found = asked(Door::LogOffsetForTimestamp, found)
        .map_err(|error| format!("looking for {time} ms: {error}"))?;
    let found = found.map(|found| (found.offset.value(), found.timestamp.millis()));
    let expected = model.first_not_older(time, ceiling);
    if found == expected {
        return Ok(());
    }
    Err(format!("the first record not older than {time} ms below {ceiling} is {expected:?}, not {found:?}"))
}

/// A lookup of the greatest time against a walk over all records.
pub fn check_newest(log: &Log, model: &Model, ceiling: i64) -> Result<(), String> {
    let found = asked(Door::LogMaxTimestamp, log.max_timestamp(offset(ceiling)));
    let found = found.map_err(|error| format!("the greatest time: {error}"))?;
    let found = found.map(|found| (found.offset.value(), found.timestamp.millis()));
    let expected = model.newest(ceiling);
    if found == expected {
        return Ok(());
    }
    Err(format!("the greatest timestamp below {ceiling} is {expected:?}, not {found:?}"))
}

fn size(bytes: i64) -> usize {
    usize::try_from(bytes).unwrap_or(0)
}
