//! Makes room for appends: reserves bytes ahead of the writer, and makes the next segment. Both before an offset is given out, so that
//! a full disk is a refusal and never a hole.
//!
//! It is done by the thread that appends, outside the writer's lock: others go on appending, unless they need the room too.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::Cleanup;
use super::inner::Inner;
use super::progress::Wish;
use super::shared::{Shared, lock};
use super::writer::{Active, Demand, Need, Phase, SyncedBy, Unsealed};
use super::{Closed, LogConfig};
use crate::disk::{File, Open, Patience, Wait};
use crate::disk::{is_full, is_out_of_descriptors};
use crate::segment::{Exchanged, FileKind, Home, IndexSettings, Segment, file_path};
use crate::sync::yield_now;
use crate::units::{Offset, Timestamp};

const STEP_BYTES_MIN: u64 = 64 << 10;
const STEP_BYTES_MAX: u64 = 16 << 20;

/// Why there is no room.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoRoom {
    OutOfSpace,
    OutOfDescriptors,
    Truncating,
    Closed(Closed),
}

impl LogConfig {
    pub(crate) fn index_settings(&self) -> IndexSettings {
        IndexSettings {
            interval_bytes: u64::from(self.index_interval_bytes),
            bytes_max: usize::try_from(self.index_bytes_max).unwrap_or(usize::MAX),
        }
    }
}

impl Inner {
    /// Makes the room that `demand` lacks, if it still does.
    pub(crate) fn make_room(self: &Arc<Self>, demand: &Demand) -> Result<(), NoRoom> {
        let _room = lock(&self.room);
        let config = self.config();
        let need = {
            let mut writer = self.writer();
            match writer.phase {
                Phase::Open | Phase::Rolling => {}
                Phase::Truncating => return Err(NoRoom::Truncating),
                Phase::Closing => return Err(NoRoom::Closed(Closed::StoreClosed)),
                Phase::Closed(why) => return Err(NoRoom::Closed(why)),
            }
            let need = writer.active.need(demand, &config);
            if need == Some(Need::Roll) {
                writer.phase = Phase::Rolling;
            }
            need
        };
        match need {
            None => Ok(()),
            Some(Need::Room) => self.reserve_ahead(demand, &config),
            Some(Need::Roll) => {
                let rolled = self.roll(demand, &config);
                let mut writer = self.writer();
                if writer.phase == Phase::Rolling {
                    writer.phase = Phase::Open;
                }
                rolled
            }
        }
    }

    fn reserve_ahead(&self, demand: &Demand, config: &LogConfig) -> Result<(), NoRoom> {
        let (segment, size, reserved, step) = {
            let writer = self.writer();
            let active = &writer.active;
            (Arc::clone(&active.segment), active.size, active.reserved, active.reserve_step)
        };
        let file = self.open_for_appends(&segment)?;
        if size + demand.bytes as u64 <= reserved {
            return Ok(());
        }
        let least = size + demand.bytes as u64;
        self.allow(demand.bytes as u64)?;
        let most = u64::from(config.segment_bytes_max).max(least);
        let (reserved, step) = self.reserve(&file, least, (size + step).clamp(least, most), step)?;
        let mut writer = self.writer();
        if Arc::ptr_eq(&writer.active.segment, &segment) {
            writer.active.reserved = reserved.max(writer.active.reserved);
            writer.active.reserve_step = step;
        }
        Ok(())
    }

    /// The file of the segment that grows, opened if it was closed. Then it has to be the same one.
    fn open_for_appends(&self, segment: &Segment) -> Result<File, NoRoom> {
        if let Some(file) = segment.open_file() {
            return Ok(file);
        }
        self.shared.make_way();
        segment.file().map_err(|error| {
            if Exchanged::is_in(&error) || error.kind() == io::ErrorKind::NotFound {
                self.close(Closed::FileExchanged);
                lock(&self.shared.news).failed.push(self.id);
                return NoRoom::Closed(Closed::FileExchanged);
            }
            self.refuse_room(&self.directory, &error)
        })
    }

    /// Reserves up to `wished`, or at least up to `least`; gives what is reserved and the next step.
    fn reserve(&self, file: &File, least: u64, wished: u64, step: u64) -> Result<(u64, u64), NoRoom> {
        match file.reserve(wished) {
            Ok(()) => Ok((wished, (step * 2).min(STEP_BYTES_MAX))),
            // Then a full disk is found by the write, which closes the log; no offset is used twice that way either.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok((u64::MAX, step)),
            Err(error) if is_full(&error) && wished > least => {
                self.reserve(file, least, least, STEP_BYTES_MIN)
            }
            Err(error) => Err(self.refuse_room(&self.directory, &error)),
        }
    }

    /// Makes the next segment. What was accepted into the old one is written first, so that a kill leaves no hole between the two:
    /// it leaves an empty next segment, or none.
    pub(crate) fn roll(self: &Arc<Self>, demand: &Demand, config: &LogConfig) -> Result<(), NoRoom> {
        self.allow(demand.bytes as u64)?;
        self.drain().map_err(NoRoom::Closed)?;
        let (old, base) = {
            let writer = self.writer();
            (Arc::clone(&writer.active.segment), next_base(self.marks.accepted.get(), demand))
        };
        let made = self.make_segment(base, demand.bytes as u64, config, demand.now);
        let emptied = old.size() == 0 && old.base() < base;
        let active = made.and_then(|active| {
            // Nothing of it may stay: between two segments it would look like an end that a power loss has taken.
            let removed = if emptied { old.remove() } else { Ok(()) };
            removed.map(|()| active).map_err(|error| self.refuse_room(&old.path(FileKind::Log), &error))
        });
        let active = match active {
            Ok(active) => active,
            Err(no_room) => return Err(self.unmake_segment(base, no_room)),
        };
        {
            let mut writer = self.writer();
            if writer.phase != Phase::Rolling {
                return Err(NoRoom::Truncating);
            }
            let mut segments = self.view().segments.clone();
            if emptied {
                segments.pop();
            } else {
                let producers = &writer.producers;
                let snapshot = (!producers.lacks_something()).then(|| (base, producers.encode_snapshot()));
                writer.unsealed.push_back(Unsealed { segment: Arc::clone(&old), snapshot });
            }
            segments.push(Arc::clone(&active.segment));
            writer.queue = super::queue::WriteQueue::new(0);
            writer.active = active;
            writer.names.made += 1;
            self.set_segments(segments);
        }
        lock(&self.shared.sealing).push(self.id);
        Ok(())
    }

    /// Removes the next segment, for which there is no room. Beside what is appended to the old one it would hide that from readers of the
    /// next opening; where it cannot be removed, nothing is appended before it is the next one.
    fn unmake_segment(&self, base: Offset, no_room: NoRoom) -> NoRoom {
        let path = file_path(&self.directory, base, FileKind::Log);
        match self.shared.disk.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let refused = self.refuse_room(&path, &error);
                self.writer().active.next_is_there = true;
                refused
            }
            Ok(()) | Err(_) => no_room,
        }
    }

    /// An empty segment with room for `bytes`.
    pub(crate) fn make_segment(
        &self,
        base: Offset,
        bytes: u64,
        config: &LogConfig,
        now: Timestamp,
    ) -> Result<Active, NoRoom> {
        let refuse = |error: io::Error| self.refuse_room(&self.directory, &error);
        let make = || {
            self.shared.make_way();
            new_active(&self.shared, &self.directory, base, config, now)
        };
        // Without records it is for what has to go through.
        let new = if bytes == 0 { self.shared.with_reserve(make) } else { make() };
        let mut active = new.map_err(refuse)?;
        let file = active.segment.file().map_err(refuse)?;
        let wished = STEP_BYTES_MIN.min(u64::from(config.segment_bytes_max)).max(bytes);
        if bytes > 0 {
            (active.reserved, active.reserve_step) = self.reserve(&file, bytes, wished, STEP_BYTES_MIN)?;
        }
        Ok(active)
    }

    /// Turns the driver until everything that is accepted is written. The caller has seen to it that nothing more is accepted.
    pub(crate) fn drain(self: &Arc<Self>) -> Result<(), Closed> {
        loop {
            if let Some(why) = self.closed() {
                return Err(why);
            }
            let (is_idle, syncs) = {
                let writer = self.writer();
                (writer.queue.is_idle(), writer.sync.under_way)
            };
            match syncs {
                None if is_idle => return Ok(()),
                Some(SyncedBy::Job) if is_idle => self.wait_for_job(),
                None | Some(_) => {
                    self.make_ready();
                    self.turn_driver();
                }
            }
        }
    }

    /// Waits until nothing of a closed log is under way.
    pub(crate) fn wait_until_landed(self: &Arc<Self>) {
        self.wait_for_sync();
        while self.writer().queue.is_flying() && !self.shared.has_failed() {
            self.turn_driver();
        }
    }

    /// Waits until no sync is under way that may cover the same bytes as the one that the caller is about to make.
    pub(crate) fn wait_for_sync(&self) {
        loop {
            // Whoever has the driver reaps it.
            let wish = Wish { log: self.id, ticket: None, drives: true };
            let turn = self.shared.progress.wait_unless(wish, || match self.writer().sync.under_way {
                None => Some(None),
                // Whoever was to end it may be no more.
                Some(_) if self.shared.has_failed() => Some(None),
                Some(SyncedBy::Job) => None,
                Some(SyncedBy::Driver) => self.shared.try_drive().map(Some),
            });
            match turn {
                Some(None) => return self.shared.hand_driver_on(),
                Some(Some(mut driver)) => {
                    let _by_jobs = driver.turn(&self.shared, Wait::ForOne, Patience::MustNotBlock);
                }
                None => {}
            }
        }
    }

    fn wait_for_job(&self) {
        let is_over = || (self.writer().sync.under_way != Some(SyncedBy::Job)).then_some(());
        self.shared.progress.wait_unless(Wish { log: self.id, ticket: None, drives: false }, is_over);
    }

    fn turn_driver(&self) {
        let mut driver = self.shared.drive();
        let _by_jobs = driver.turn(&self.shared, Wait::ForOne, Patience::MustNotBlock);
        let is_idle = driver.in_flight() == 0;
        drop(driver);
        if is_idle {
            // Another thread has what is waited for, and may be just about to put it on the driver's list.
            yield_now();
        }
    }

    /// Records get no room while the space in reserve is given back.
    fn allow(&self, bytes: u64) -> Result<(), NoRoom> {
        if bytes == 0 {
            return Ok(());
        }
        let allowed = self.shared.reserve.allow(self.shared.disk.as_ref(), bytes);
        allowed.map_err(|_missing| NoRoom::OutOfSpace)
    }

    pub(crate) fn refuse_room(&self, path: &Path, error: &io::Error) -> NoRoom {
        if is_full(error) {
            return NoRoom::OutOfSpace;
        }
        if is_out_of_descriptors(error) {
            return NoRoom::OutOfDescriptors;
        }
        self.shared.fail(path, "make room for appends", error);
        NoRoom::Closed(Closed::StoreFailed)
    }
}

/// Where the next segment begins: at the log's end, also where a leader's compacted log has nothing for a while, so that a gap lies inside
/// of a segment. Between two of them it would look like an end that a power loss has taken, behind which recovery cuts.
fn next_base(end: Offset, demand: &Demand) -> Offset {
    let is_near = demand.last.distance_from(end).is_some_and(|distance| distance <= i64::from(i32::MAX));
    if is_near { end } else { end.max(demand.first) }
}

/// Makes an empty segment. Nothing is reserved for it yet.
pub(crate) fn new_active(
    shared: &Shared,
    directory: &Path,
    base: Offset,
    config: &LogConfig,
    now: Timestamp,
) -> io::Result<Active> {
    let disk = &shared.disk;
    // What an earlier segment of this base has left behind.
    for kind in [FileKind::OffsetIndex, FileKind::TimeIndex, FileKind::AbortedIndex] {
        match disk.remove_file(&file_path(directory, base, kind)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    let file = disk.open(&file_path(directory, base, FileKind::Log), Open::Create)?;
    file.set_size(0)?;
    let home = shared.home(directory.into(), config);
    let index = home.settings.empty(base);
    let segment = Segment::active(home, base, &file, 0, index)?;
    Ok(Active {
        segment: Arc::new(segment),
        size: 0,
        reserved: 0,
        reserve_step: STEP_BYTES_MIN,
        first: None,
        next_is_there: false,
        created: now,
        age_max: shared.age_max(config),
        index_is_full: false,
    })
}

impl Shared {
    /// Where the segments of a log are.
    pub(crate) fn home(&self, directory: Arc<Path>, config: &LogConfig) -> Home {
        Home {
            directory,
            disk: Arc::clone(&self.disk),
            files: Arc::clone(&self.files),
            settings: config.index_settings(),
        }
    }

    /// How long the next segment may grow.
    pub(crate) fn age_max(&self, config: &LogConfig) -> Duration {
        let age_max = match config.compaction_lag_max {
            // Only what is closed can be compacted.
            Some(lag) if config.cleanup != Cleanup::Delete => config.segment_age_max.min(lag),
            Some(_) | None => config.segment_age_max,
        };
        let jitter_ms = config.segment_jitter_max.min(age_max).as_millis();
        let jitter_ms = u64::try_from(jitter_ms).unwrap_or(u64::MAX);
        let taken = if jitter_ms == 0 { 0 } else { lock(&self.random).u64(..jitter_ms) };
        age_max.saturating_sub(Duration::from_millis(taken))
    }
}
