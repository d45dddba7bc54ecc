//! Steps beside the one log's own life: a log that is deleted and made again, rot and its repair.

use highwater_engine::batch::ReplicatedBatches;
use highwater_engine::log::LogId;
use highwater_engine::store::{Job, JobDone, JobKind, Store};
use highwater_engine::units::OffsetRange;

use super::batches::{leader_epoch, offset};
use super::doors::{Door, done, told};
use super::model::{Ending, Model, UnderWay};
use super::open::everything;
use super::trial::{Trial, Verdict};

impl Trial {
    /// The log goes; until another is made in its place, nothing is done.
    pub(super) fn delete(&mut self, store: &Store) -> Verdict {
        let Some(job) = told(Door::StoreDeleteLog, store.delete_log(&self.name())) else { return Ok(()) };
        self.is_made = false;
        self.looker = None;
        self.void_tickets();
        self.watermarks.forget();
        self.model.under_way = Some(UnderWay::Delete);
        match done(job.kind(), job.run(store)) {
            JobDone::Deleted { .. } => {
                self.model = Model { epoch: self.model.epoch, ..Model::default() };
                Ok(())
            }
            other @ (JobDone::Failed { .. } | _) => self.excuse(&format!("a job gave {other:?}")),
        }
    }

    /// The batch of this number rots on the medium, below everything that is open to doubt.
    pub(super) fn rot(&mut self, batch: usize) -> Verdict {
        let Some(rotten) = self.model.batches.get(batch) else { return Ok(()) };
        let segments = self.model.batches.iter().map(|batch| batch.bytes.clone());
        let (bytes, range) = (rotten.bytes.clone(), (rotten.base, rotten.end));
        let before: usize = segments.take(batch).map(|bytes| bytes.len()).sum();
        let path = self.log_directory().join(format!("{:020}.log", self.model.origin));
        let rot = vec![0x55; bytes.len() - 20];
        let position = u64::try_from(before + 20).unwrap_or(u64::MAX);
        self.disk
            .damage(&path, position, &rot)
            .map_err(|error| format!("damaging {}: {error}", path.display()))?;
        self.model.damaged = Some(range);
        Ok(())
    }

    /// A closed log is opened again in the same process, and is what a kill leaves.
    pub(super) fn reopen_log(&mut self, store: &Store, log: LogId) -> Verdict {
        let now = self.now();
        self.looker = None;
        match done(JobKind::Reopen, Job::Reopen { log, now }.run(store)) {
            JobDone::Reopened { report: Some(_), .. } => {}
            JobDone::Reopened { report: None, .. } => return Ok(()),
            other @ (JobDone::Failed { .. } | _) => return self.excuse(&format!("a job gave {other:?}")),
        }
        self.void_tickets();
        let log = store.log(&self.name()).ok_or("a log that was opened again is gone")?;
        let found = everything(store, &log).map(Some).or_else(|what| self.excuse(&what).map(|()| None))?;
        let Some(found) = found else { return Ok(()) };
        self.model.survive(Ending::Kill, &found)?;
        self.model.durable = log.durable().value();
        if let Some(open) = &mut self.open {
            open.log = log;
        }
        Ok(())
    }

    /// What is damaged is replaced by what was appended there.
    pub(super) fn repair(&mut self, log: LogId) -> Verdict {
        let Some((from, until)) = self.model.damaged else { return Ok(()) };
        let batches = self.model.batches.iter().filter(|batch| from <= batch.base && batch.end <= until);
        let bytes: Vec<u8> = batches.flat_map(|batch| batch.bytes.iter().copied()).collect();
        let batches = ReplicatedBatches::check(bytes.into(), leader_epoch(i32::MAX))
            .map_err(|error| format!("what was appended is refused: {error}"))?;
        let offsets = OffsetRange::new(offset(from), offset(until)).ok_or("a damaged range is one")?;
        self.model.under_way = Some(UnderWay::Repair);
        let now = self.now();
        self.run(Job::Repair { log, offsets, batches, now })
    }
}
