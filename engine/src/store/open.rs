//! Opening a data directory: locked, the mark read and taken away, checkpoints read, each log recovered.
//!
//! ```text
//! lock -> incarnation, mark -> checkpoints -> mark away, directory synced -> small files written again -> leftovers removed
//!      -> each log: facts, plan, apply
//! ```
//! Nothing is written before the mark is gone for certain, so that a crash during the opening is an unclean stop like any other.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::checkpoints::Checkpoints;
use super::found::{Found, LockText};
use super::gather::LogSource;
use super::layout::DirectoryName;
use super::opening::OpeningWatch;
use super::refusal::{LoadError, LogRefusal};
use super::reopen::LeftAlone;
use super::{Machine, OpenReport, OpeningPlan, Stop, Store, StoreConfig, StoreInner};
use crate::checkpoint::{
    CLEAN_MARK, CLEANER_OFFSETS, DAMAGE_NOTE, HIGH_WATERMARKS, LOG_STARTS, META_PROPERTIES, OffsetCheckpoint,
    RECOVERY_POINTS, Reading, read_offsets, remove_clean_mark, renew_file,
};
use crate::disk::{Disk, LockError, Open};
use crate::log::{FileError, Limits, RESERVE_FILE, ReserveReport, Shared, lock};
use crate::state::ProducersConfig;
use crate::sync::{Mutex, RwLock};
use crate::units::Now;

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreOpenError {
    /// Somebody else has it, or it cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The device is full, also without the space in reserve. Nothing is lost, and it may succeed when there is room again.
    #[error("no space left on the device for {path}")]
    OutOfSpace {
        /// The file or directory.
        path: PathBuf,
    },
    /// No more files can be opened. Nothing is lost, and it may succeed when others are closed.
    #[error("no descriptor is left for {path}")]
    OutOfDescriptors {
        /// The file or directory.
        path: PathBuf,
    },
    /// A file or directory could not be read or changed.
    #[error("{path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl From<FileError> for StoreOpenError {
    fn from(error: FileError) -> Self {
        error.told(
            |path| Self::OutOfSpace { path },
            |path| Self::OutOfDescriptors { path },
            |path, source| Self::Io { path, source },
        )
    }
}

/// What opening gives.
#[derive(Debug)]
pub struct Opened {
    /// The store; all its logs run.
    pub store: Store,
    /// What was found and done.
    pub report: OpenReport,
}

impl Store {
    /// Opens a directory, which is made if it is not there, and recovers every log in it. Blocks for as long as the scan takes.
    ///
    /// A crash on the way leaves an unclean stop; opening again does the same again.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        config: StoreConfig,
        now: Now,
    ) -> Result<Opened, StoreOpenError> {
        Self::open_watched(disk, directory, config, now, &|_| {})
    }

    /// As [`Store::open`], and tells `watch` of each log that is done, so that people can see how far a long opening is.
    pub fn open_watched(
        disk: Arc<dyn Disk>,
        directory: &Path,
        config: StoreConfig,
        now: Now,
        watch: &OpeningWatch<'_>,
    ) -> Result<Opened, StoreOpenError> {
        match Self::open_once(Arc::clone(&disk), directory, config.clone(), now, watch) {
            // What the last process has left in reserve is for this.
            Err(StoreOpenError::OutOfSpace { .. })
                if disk.remove_file(&directory.join(RESERVE_FILE)).is_ok() =>
            {
                Self::open_once(disk, directory, config, now, watch)
            }
            opened => opened,
        }
    }

    fn open_once(
        disk: Arc<dyn Disk>,
        directory: &Path,
        config: StoreConfig,
        now: Now,
        watch: &OpeningWatch<'_>,
    ) -> Result<Opened, StoreOpenError> {
        make_directory(disk.as_ref(), directory).map_err(io(directory))?;
        let Looked { store, found } = look(disk, directory, config)?;
        let disk = Arc::clone(store.disk());
        let mark_path = directory.join(CLEAN_MARK);
        remove_clean_mark(disk.as_ref(), &mark_path).map_err(io(&mark_path))?;
        if found.stop == Stop::FirstUse {
            make_name_certain(disk.as_ref(), directory).map_err(io(directory))?;
        }
        if found.stop != Stop::Clean {
            for name in
                [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANER_OFFSETS, META_PROPERTIES, DAMAGE_NOTE]
            {
                let path = directory.join(name);
                renew_file(disk.as_ref(), &path).map_err(io(&path))?;
            }
        }
        store.shared().has_moved.store(found.stop == Stop::Unclean, Ordering::Release);
        let mut report = OpenReport {
            stop: found.stop,
            machine: found.machine,
            mark_extra: found.mark_extra.clone(),
            logs: Vec::new(),
            refused: Vec::new(),
            deleted: Vec::new(),
            foreign: Vec::new(),
            reserve: ReserveReport::SwitchedOff,
        };
        let mut sources = Vec::new();
        for (name, what) in found.directories() {
            let path = directory.join(name);
            match what {
                DirectoryName::Log(name) => {
                    sources.push(LogSource { name, directory: path, trust: found.trust() });
                }
                DirectoryName::Deleted => {
                    disk.remove_directory(&path).map_err(io(&path))?;
                    report.deleted.push(name.to_owned());
                }
                DirectoryName::Foreign => report.foreign.push(name.to_owned()),
            }
        }
        let loaded = store.load_logs(&sources, now, watch);
        for ((_, loaded), source) in loaded.into_iter().zip(sources) {
            match loaded {
                Ok(log) => report.logs.push(log),
                Err(LoadError::Directory(error)) => return Err(error.into()),
                Err(LoadError::Log(why)) => {
                    let known = LeftAlone::new(disk.as_ref(), &source);
                    store.leave_alone(source.name, known);
                    report.refused.push((source.directory, why));
                }
            }
        }
        store.open_where_room_was_missing(&mut report, now);
        // A log that is made from now on is not in the file of recovery points until the next checkpoint; that the file is there says that
        // it was not lost. Where no log is there nothing was promised, also if that could not be read.
        let is_known = matches!(found.points, Reading::Known { .. });
        if store.names().is_empty() && store.left_alone().is_empty() && !is_known {
            store.write_offset_file(RECOVERY_POINTS, &OffsetCheckpoint::new())?;
        }
        store.renew_damage_note()?;
        report.reserve = store.shared().reserve.open(disk.as_ref());
        // Without suspicion there is no proof to be kept; otherwise the owner says when it has been told.
        if found.stop != Stop::Unclean || found.machine == Machine::Same {
            store.confirm_incarnation().map_err(io(directory))?;
        }
        Ok(Opened { store, report })
    }

    /// Tries logs again whose recovery found no room, if there is something in reserve for them.
    fn open_where_room_was_missing(&self, report: &mut OpenReport, now: Now) {
        let lacks_room = |why: &LogRefusal| matches!(why, LogRefusal::OutOfSpace { .. });
        if !report.refused.iter().any(|(_, why)| lacks_room(why))
            || self.disk().remove_file(&self.directory().join(RESERVE_FILE)).is_err()
        {
            return;
        }
        for (name, _) in self.left_alone() {
            let directory = self.directory().join(name.to_string());
            let is_short = |(path, why): &(PathBuf, LogRefusal)| *path == directory && lacks_room(why);
            let Some(at) = report.refused.iter().position(is_short) else { continue };
            if let Ok(Some(log)) = self.reopen_log(&name, now) {
                report.refused.remove(at);
                report.logs.push(log);
            }
        }
        report.logs.sort_unstable_by(|left, right| left.name.cmp(&right.name));
    }

    /// What [`Store::open`] would do, without doing it: for each log the plan of its recovery, or why it would be left alone. The directory
    /// is locked meanwhile and nothing in it changes, except that a missing `.lock` is made.
    pub fn plan_opening(
        disk: Arc<dyn Disk>,
        directory: &Path,
        config: StoreConfig,
        now: Now,
    ) -> Result<OpeningPlan, StoreOpenError> {
        disk.list(directory).map_err(io(directory))?;
        let Looked { store, found } = look(disk, directory, config)?;
        let noted = found.damage.clone();
        let mut plan = OpeningPlan { stop: found.stop, machine: found.machine, logs: Vec::new(), noted };
        for (name, what) in found.directories() {
            if let DirectoryName::Log(log) = what {
                let source =
                    LogSource { name: log.clone(), directory: directory.join(name), trust: found.trust() };
                match store.plan_log(&source, now) {
                    Ok(planned) => plan.logs.push((log, Ok(planned))),
                    Err(LoadError::Log(why)) => plan.logs.push((log, Err(why))),
                    Err(LoadError::Directory(error)) => return Err(error.into()),
                }
            }
        }
        Ok(plan)
    }

    /// Writes down in which incarnation the store runs, so that the next opening can tell whether the page cache survived. To be called
    /// when those who have to know have been told that records may have been lost; without suspicion, opening has done it.
    pub fn confirm_incarnation(&self) -> io::Result<()> {
        let incarnation = self.disk().incarnation(self.directory());
        let text = LockText { process: std::process::id(), incarnation };
        let text = serde_json::to_vec(&text).map_err(io::Error::other)?;
        match &*lock(&self.shared().directory_lock) {
            // A directory that has failed proves nothing.
            Some(directory_lock) if !self.shared().has_failed() => {
                self.shared().with_reserve(|| directory_lock.write(&text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Reads a named offset checkpoint, as [`super::Job::OffsetCheckpoint`] writes it.
    pub fn read_offset_checkpoint(&self, name: &str) -> io::Result<Reading<OffsetCheckpoint>> {
        read_offsets(self.disk().as_ref(), &self.directory().join(name))
    }
}

fn io(path: &Path) -> impl FnOnce(io::Error) -> StoreOpenError {
    let path = path.to_owned();
    move |source| FileError { path, source }.into()
}

/// A data directory as it was found: locked and read, nothing changed yet.
struct Looked {
    /// Has no log yet.
    store: Store,
    found: Found,
}

fn look(disk: Arc<dyn Disk>, directory: &Path, config: StoreConfig) -> Result<Looked, StoreOpenError> {
    let directory_lock = disk.lock(directory)?;
    let limits = Limits {
        batch_bytes_max: config.batch_bytes_max,
        pending_bytes_max: config.pending_bytes_max,
        tail_bytes_max: config.tail_bytes_max,
        open_files_max: config.open_files_max_on(disk.as_ref()),
        mapped_indexes_max: config.mapped_indexes_max,
        reserve_bytes: config.reserve_bytes,
        producers: ProducersConfig { expiration: config.producer_age_max, ..ProducersConfig::default() },
        rules: config.rules,
    };
    let text = LockText::parse(&directory_lock.read().unwrap_or_default());
    let machine = text.machine(disk.as_ref(), directory);
    let shared = Shared::new(disk, directory, directory_lock, limits, config.seed).map_err(io(directory))?;
    let found = Found::read(shared.disk.as_ref(), directory, machine)
        .map_err(|(path, source)| FileError { path, source })?;
    let checkpoints = Checkpoints {
        recovery_points: found.points.clone().known(),
        starts: found.starts.clone().known(),
        cleaned: found.cleaned.clone(),
        damage: found.damage.clone(),
    };
    let store = Store {
        inner: Arc::new(StoreInner {
            shared,
            config,
            names: RwLock::default(),
            left_alone: Mutex::default(),
            deleting: Mutex::default(),
            leftovers: Mutex::default(),
            making: Mutex::default(),
            checkpoints: Mutex::new(checkpoints),
            next_checkpoint: Mutex::default(),
            compaction: Mutex::default(),
        }),
    };
    Ok(Looked { store, found })
}

/// Makes the directory, and its name certain: also where an earlier opening made it and crashed before that.
fn make_directory(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    let is_there = |path: &Path| disk.list(path).is_ok();
    let missing =
        directory.ancestors().take_while(|path| !path.as_os_str().is_empty() && !is_there(path)).count();
    disk.create_directory(directory)?;
    for parent in directory.ancestors().take(missing.max(1)).filter_map(parent_of) {
        match disk.sync_directory(parent) {
            // The directory of another user, in which ours was there before: it is not for us to sync.
            Err(_) if missing == 0 => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// An earlier opening may have made the directory and failed to sync its name, which is not written again before something else changes
/// beside it. That it cannot be changed there, in the directory of another user, says that it was not made by us.
fn make_name_certain(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    let Some(parent) = parent_of(directory) else { return Ok(()) };
    let beside = directory.with_extension("highwater.tmp");
    match disk.open(&beside, Open::Create) {
        Ok(_) => {}
        Err(error) if is_forbidden(&error) => return Ok(()),
        Err(error) => return Err(error),
    }
    disk.remove_file(&beside)?;
    disk.sync_directory(parent)
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

fn parent_of(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    Some(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
}
