//! Somebody who looks at the directory while it is open, without a lock: what they see is a beginning of the log, and all that is written.

use highwater_engine::checkpoint::HIGH_WATERMARKS;
use highwater_engine::store::{Fault, ReadOnlyLog, ReadOnlyStore, Refreshed};

use super::batches::offset;
use super::doors::{Door, asked, told};
use super::model::Model;
use super::open::split;
use super::trial::{Trial, Verdict};

/// What a read says that another look has to come before.
const CHANGED: &str = "the log was changed since it was looked at";

impl Trial {
    /// Looks at the log, again if somebody has looked before, and reads all that is to be seen.
    pub(super) fn look_in(&mut self) -> Verdict {
        if self.model.under_way.is_some() || self.model.damaged.is_some() || !self.is_made {
            self.looker = None;
            return Ok(());
        }
        let seen = match self.looker.take() {
            Some(looker) => look_again(looker),
            None => self.begin_to_look(),
        };
        let checked = seen.and_then(|looker| match check_sight(&looker, &self.model) {
            // It was repaired, which a read may be the first to meet.
            Err(what) if what.contains(CHANGED) => {
                let looker = look_again(looker)?;
                check_sight(&looker, &self.model).map(|()| looker)
            }
            checked => checked.map(|()| looker),
        });
        match checked {
            Ok(looker) => {
                self.looker = Some(looker);
                Ok(())
            }
            // Of a disk that goes away in the middle not everything is an error of its own.
            Err(_) if self.disk.is_down() => Ok(()),
            Err(what) => self.excuse_look(what),
        }
    }

    fn begin_to_look(&self) -> Result<ReadOnlyLog, String> {
        let disk = self.any_disk();
        let store = ReadOnlyStore::open(&disk, &self.directory, self.store_config());
        let store = asked(Door::ReadOnlyStoreOpen, store).map_err(|error| error.to_string())?;
        if told(Door::ReadOnlyStoreDirectory, store.directory()) != self.directory {
            return Err(format!("{} is looked at", store.directory().display()));
        }
        let names = asked(Door::ReadOnlyStoreNames, store.names()).map_err(|error| error.to_string())?;
        if !names.contains(&self.name()) {
            return Err(format!("{} is not among {names:?}", self.name()));
        }
        let read = store.read_offset_checkpoint(HIGH_WATERMARKS);
        let read = asked(Door::ReadOnlyStoreReadOffsetCheckpoint, read);
        self.watermarks
            .check(read.map_err(|error| format!("the checkpoint of high watermarks: {error}"))?)?;
        self.verify(&store)?;
        let log =
            asked(Door::ReadOnlyStoreLog, store.log(&self.name())).map_err(|error| error.to_string())?;
        if told(Door::ReadOnlyLogName, log.name()) == &self.name() {
            Ok(log)
        } else {
            Err(format!("{} is looked at", log.name()))
        }
    }
}

impl Trial {
    /// Nothing that the writer does, and nothing that a crash has left and recovery mended, is a fault. The high watermarks are drawn, and
    /// may be above the end.
    fn verify(&self, store: &ReadOnlyStore) -> Verdict {
        let files = asked(Door::ReadOnlyStoreVerifyFiles, store.verify_files());
        let log = asked(Door::ReadOnlyStoreVerifyLog, store.verify_log(&self.name(), &|_| {}));
        let mut findings = files.map_err(|error| error.to_string())?;
        let verified = log.map_err(|error| error.to_string())?;
        findings.extend(verified.findings);
        findings.retain(|finding| !matches!(finding.fault, Fault::BelowHighWatermark { .. }));
        let first = self.log_directory().join(format!("{:020}.log", self.model.origin));
        let alone = ReadOnlyStore::verify_file(&self.any_disk(), &first, 1 << 20, &|_| {});
        // Retention may have taken it, below the start a power loss may have left holes, and a write that failed a part of itself.
        let alone = asked(Door::ReadOnlyStoreVerifyFile, alone).ok().flatten();
        let is_written = self.open.as_ref().is_none_or(|open| open.log.closed().is_none());
        let alone = alone.filter(|_| is_written && self.model.start == self.model.origin);
        findings.extend(alone.into_iter().flat_map(|verified| verified.findings));
        match findings.first() {
            None => Ok(()),
            Some(finding) => Err(format!("verification finds {finding}")),
        }
    }
}

/// Nothing is cut while somebody looks; but of a log of which everything is deleted that was seen, nothing says so.
fn look_again(mut looker: ReadOnlyLog) -> Result<ReadOnlyLog, String> {
    let (before, generation_before) = ((looker.start(), looker.end()), looker.generation());
    let refreshed = asked(Door::ReadOnlyLogRefresh, looker.refresh()).map_err(|error| error.to_string())?;
    let is_same = before == (looker.start(), looker.end());
    let generation = told(Door::ReadOnlyLogGeneration, looker.generation());
    match refreshed {
        Refreshed::Cut { to } if to == before.1 && looker.start() >= to => Ok(looker),
        Refreshed::Cut { to } => Err(format!("nobody has cut the log to {to}")),
        Refreshed::Same if !is_same => Err(format!("{before:?} has moved and is called the same")),
        Refreshed::Same | Refreshed::Moved if generation == generation_before => Ok(looker),
        Refreshed::Same | Refreshed::Moved => Err(format!("nobody has cut the log {generation} times")),
    }
}

fn check_sight(looker: &ReadOnlyLog, model: &Model) -> Verdict {
    let start = told(Door::ReadOnlyLogStart, looker.start()).value();
    let end = told(Door::ReadOnlyLogEnd, looker.end()).value();
    if start > model.start || end < model.written || end > model.end {
        return Err(format!(
            "{start}..{end} is seen of {}..{}, {} of it written",
            model.start, model.end, model.written
        ));
    }
    let examined = asked(Door::ReadOnlyLogExamine, looker.examine()).map_err(|error| error.to_string())?;
    if let Some(range) = examined.first() {
        return Err(format!("{range} is found by somebody who looks"));
    }
    let damaged = told(Door::ReadOnlyLogDamaged, looker.damaged());
    if !damaged.is_empty() {
        return Err(format!("{damaged:?} is seen as damaged"));
    }
    let starts = told(Door::ReadOnlyLogEpochs, looker.epochs()).starts().iter();
    let epochs: Vec<_> = starts.map(|entry| (entry.epoch.value(), entry.start.value())).collect();
    let seen = model.batches.iter().filter(|batch| batch.end <= end).cloned().collect();
    Model { batches: seen, ..model.clone() }.check_epochs(&epochs, true)?;
    let mut next = model.start;
    let mut expected = model.from(next).iter();
    while next < end {
        let read = asked(Door::ReadOnlyLogRead, looker.read(offset(next), 3_000));
        let records = read.map_err(|error| format!("somebody who looks reads at {next}: {error}"))?;
        let records = records.ok_or(format!("somebody who looks reads nothing at {next} of {end}"))?;
        for batch in split(&records, next)? {
            if expected.next().is_none_or(|expected| expected.bytes != batch) {
                return Err(format!("somebody who looks reads another batch behind {next}"));
            }
        }
        next = records.end.value();
    }
    Ok(())
}
