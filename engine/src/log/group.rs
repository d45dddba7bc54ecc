//! Syncs several logs in one submission, for those who wait for nobody: background syncs, and whoever needs a file that may be closed.
//!
//! A sync is *claimed* first, so that no other is made of the same file meanwhile. While claims are held nothing is waited for but the disk.

use std::io;
use std::sync::Arc;

use super::LogId;
use super::inner::Inner;
use super::shared::{Shared, lock};
use super::trouble::FileError;
use super::writer::{Phase, SyncedBy, Writer};
use crate::disk::{File, Operation, OperationKind, Patience, Wait};
use crate::segment::{FileKind, Segment};
use crate::units::{Monotonic, Offset};

/// How many logs are synced at once to make way for another file.
const GROUP: usize = 64;
/// How often that is tried while others write and sync.
const ATTEMPTS_MAX: usize = 64;

/// The right to sync a log's active segment, and the duty.
#[derive(Debug)]
pub(crate) struct SyncClaim {
    log: Arc<Inner>,
    segment: Arc<Segment>,
    covers: Offset,
}

impl Inner {
    /// Claims a sync of everything that is written. `None` if somebody is at it, or something older comes first.
    pub(crate) fn claim_sync(self: &Arc<Self>) -> Option<SyncClaim> {
        self.claim(&mut self.writer())
    }

    /// As [`Inner::claim_sync`], for a log that was taken from the list of dirty ones, which it comes back to otherwise.
    fn claim_listed_sync(self: &Arc<Self>) -> Option<SyncClaim> {
        let mut writer = self.writer();
        if !writer.queue.is_idle() {
            // Its file would have to stay open all the same.
            return None;
        }
        let claim = self.claim(&mut writer)?;
        // What is appended from now on lists the log again.
        writer.listed_dirty = false;
        Some(claim)
    }

    fn claim(self: &Arc<Self>, writer: &mut Writer) -> Option<SyncClaim> {
        if writer.sync.under_way.is_some() || writer.phase != Phase::Open || writer.needs_seal() {
            return None;
        }
        let covers = self.marks.written.get();
        writer.sync.under_way = Some(SyncedBy::Job);
        writer.sync.covers(covers);
        Some(SyncClaim { log: Arc::clone(self), segment: Arc::clone(&writer.active.segment), covers })
    }

    /// Whether it has a file that stays open because it is not synced.
    fn holds_a_file(&self) -> bool {
        let writer = self.writer();
        let mut rolled = writer.unsealed.iter();
        writer.active.segment.is_file_held() || rolled.any(|unsealed| unsealed.segment.is_file_held())
    }

    /// Seals what was rolled, unless that would be waiting for somebody.
    fn seal_without_waiting(self: &Arc<Self>) -> Result<(), FileError> {
        let Ok(_maintenance) = self.maintenance.try_lock() else { return Ok(()) };
        let is_free = {
            let writer = self.writer();
            // From here on until it is sealed nobody begins a sync of it.
            writer.sync.under_way.is_none() && writer.has_older_unsynced()
        };
        if is_free { self.seal_rolled_held() } else { Ok(()) }
    }
}

impl Shared {
    /// Sees to it that another file may be opened: closes one that nobody has used for long. If all hold bytes that are not synced, what waits
    /// is written, and the logs that are dirty for longest are synced, in one submission. It may not succeed; then more are open than should be.
    ///
    /// The caller may hold a log's `room` and `maintenance`. For others' it does not wait, because they may wait for those.
    pub(crate) fn make_way(&self) {
        for _ in 0..ATTEMPTS_MAX {
            if self.files.has_place() {
                return;
            }
            let in_flight = self.write_what_waits();
            match self.sync_dirty_for_longest() {
                Ok(synced) if synced > 0 || in_flight > 0 => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// A log keeps its file while batches wait to be written to it. Gives how many operations are in flight afterwards.
    fn write_what_waits(&self) -> usize {
        let mut driver = self.drive();
        let _by_jobs = driver.turn(self, Wait::ForOne, Patience::MustNotBlock);
        driver.in_flight()
    }

    /// Logs that are dirty for longest and hold files, if most files are held: synced by a job, they leave nobody to wait for a sync who needs
    /// another file. The caller has them synced.
    pub(crate) fn take_holders(&self) -> Vec<LogId> {
        if !self.files.are_mostly_held() {
            return Vec::new();
        }
        let mut dirty = std::mem::take(&mut *lock(&self.dirty));
        let mut holders = Vec::new();
        dirty.retain(|(_, id)| {
            let Some(log) = self.log(*id).filter(|_| holders.len() < GROUP) else { return true };
            let holds = log.holds_a_file();
            if holds {
                // What is appended from now on lists the log again.
                log.writer().listed_dirty = false;
                holders.push(*id);
            }
            !holds
        });
        self.put_back(dirty);
        holders
    }

    /// Puts logs back in front of those that were listed meanwhile.
    fn put_back(&self, listed: impl IntoIterator<Item = (Monotonic, LogId), IntoIter: DoubleEndedIterator>) {
        let mut dirty = lock(&self.dirty);
        for entry in listed.into_iter().rev() {
            dirty.push_front(entry);
        }
    }

    /// Gives how many logs were synced.
    fn sync_dirty_for_longest(&self) -> Result<usize, FileError> {
        let mut dirty = std::mem::take(&mut *lock(&self.dirty));
        let (mut claims, mut passed_over) = (Vec::new(), Vec::new());
        let mut sealed = Ok(());
        while claims.len() < GROUP && sealed.is_ok() {
            let Some((since, id)) = dirty.pop_front() else { break };
            let Some(log) = self.log(id) else { continue };
            if log.holds_a_file() {
                sealed = log.seal_without_waiting();
                if let Some(claim) = log.claim_listed_sync() {
                    claims.push(claim);
                    continue;
                }
            }
            passed_over.push((since, id));
        }
        passed_over.extend(dirty);
        self.put_back(passed_over);
        let synced = claims.len();
        self.sync_claimed(claims)?;
        sealed.map(|()| synced)
    }

    /// Syncs what was claimed. A sync that fails gives the directory up.
    pub(crate) fn sync_claimed(&self, claims: Vec<SyncClaim>) -> Result<(), FileError> {
        let results = self.sync_files(claims.iter().map(|claim| claim.segment.file()).collect());
        let mut failure = None;
        for (SyncClaim { log, segment, covers }, result) in claims.into_iter().zip(results) {
            let is_synced = match result {
                Ok(()) => true,
                Err(source) => {
                    failure.get_or_insert(log.failed("sync", segment.path(FileKind::Log), source));
                    false
                }
            };
            let mut writer = log.writer();
            writer.sync.under_way = None;
            // Nothing was rolled or cut meanwhile, which waits for the sync.
            if is_synced {
                log.raise_durable(covers);
                writer.note_synced(log.marks.accepted.get(), log.marks.durable.get());
            }
            let more = writer.sync.is_wanted();
            drop(writer);
            if more {
                log.tell_ready();
            }
            log.wake_reached();
        }
        failure.map_or(Ok(()), Err)
    }

    fn sync_files(&self, files: Vec<io::Result<File>>) -> Vec<io::Result<()>> {
        if files.len() < 2 {
            return files.into_iter().map(|file| file?.sync()).collect();
        }
        let mut spare = lock(&self.group_queue);
        let queue = match spare.take() {
            Some(queue) => Ok(queue),
            None => self.disk.queue(),
        };
        let Ok(queue) = queue else {
            return files.into_iter().map(|file| file?.sync()).collect();
        };
        let queue = spare.insert(queue);
        let mut results = Vec::with_capacity(files.len());
        let mut operations = Vec::with_capacity(files.len());
        for (token, file) in (0..).zip(files) {
            // Until its completion says otherwise it is not synced.
            results.push(file.and_then(|file| {
                let kind = OperationKind::Sync { patience: Patience::MayBlock };
                operations.push(Operation { token, file, kind });
                Err(io::ErrorKind::Interrupted.into())
            }));
        }
        queue.submit(&mut operations);
        let mut completed = Vec::new();
        while queue.in_flight() > 0 {
            queue.reap(Wait::ForOne, &mut completed);
        }
        for done in completed {
            if let Some(slot) = usize::try_from(done.token).ok().and_then(|at| results.get_mut(at)) {
                *slot = done.result.map(|_| ());
            }
        }
        results
    }
}
