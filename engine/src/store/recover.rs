//! From a loaded log to one that runs.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use super::Store;
use crate::log::{
    AbortedIndexes, Active, Inner, Log, LogConfig, LogId, Marks, Names, Phase, SyncState, Tail, Unsealed,
    View, WriteQueue, Writer, lock,
};
use crate::segment::Segment;
use crate::state::{EpochHistory, Producers};
use crate::sync::atomic::AtomicBool;
use crate::sync::{Mutex, RwLock};
use crate::units::{Now, Offset, TopicId, TopicPartition};

/// All that is known of a log when it begins to run.
#[derive(Debug)]
pub(super) struct LoadedLog {
    pub(super) name: TopicPartition,
    pub(super) directory: Arc<Path>,
    pub(super) topic_id: Option<TopicId>,
    pub(super) config: LogConfig,
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) active: Active,
    pub(super) start: Offset,
    pub(super) end: Offset,
    pub(super) recovery_point: Offset,
    pub(super) epochs: EpochHistory,
    pub(super) producers: Producers,
    pub(super) unsealed: Vec<Unsealed>,
    /// What is known of the indexes of aborted transactions.
    pub(super) aborted: AbortedIndexes,
    pub(super) names_unsynced: bool,
    /// Whether its directory says that it may have gaps.
    pub(super) gaps_noted: bool,
    /// Whether it holds bytes that may not be durable.
    pub(super) is_dirty: bool,
    pub(super) now: Now,
}

impl Store {
    /// Makes a log that does not run yet, under a number of its own.
    pub(super) fn make_log(&self, loaded: LoadedLog) -> Log {
        let shared = self.shared();
        let id = {
            let mut logs = shared.logs.write().unwrap_or_else(PoisonError::into_inner);
            let number = u32::try_from(logs.len());
            logs.push(None);
            LogId(number.expect("four thousand million logs were made in one process"))
        };
        let config = Arc::new(loaded.config);
        let writer = Writer {
            config: Arc::clone(&config),
            phase: Phase::Open,
            epochs: loaded.epochs,
            uncut_epochs: None,
            uncut_start: None,
            epochs_unsynced: false,
            producers: loaded.producers,
            queue: WriteQueue::new(loaded.active.size),
            active: loaded.active,
            sync: SyncState::default(),
            names: Names { made: u64::from(loaded.names_unsynced), synced: 0 },
            unsealed: VecDeque::from(loaded.unsealed),
            damaged: Vec::new(),
            aborted: loaded.aborted,
            gaps_noted: loaded.gaps_noted,
            clock: loaded.now,
            listed_dirty: loaded.is_dirty,
        };
        Log(Arc::new(Inner {
            id,
            name: loaded.name,
            directory: loaded.directory,
            shared: Arc::clone(shared),
            maintenance: Mutex::default(),
            room: Mutex::default(),
            epoch_file: Mutex::default(),
            writer: Mutex::new(writer),
            view: RwLock::new(Arc::new(View { generation: 0, segments: loaded.segments })),
            tail: Mutex::new(Tail::default()),
            marks: Marks::opened(loaded.start, loaded.end, loaded.recovery_point),
            config: RwLock::new(config),
            topic_id: Mutex::new(loaded.topic_id),
            is_ready: AtomicBool::new(false),
            waiters: Mutex::default(),
        }))
    }

    /// From now on the log is found by its number and its name, and jobs are done for it.
    pub(super) fn run_log(&self, log: &Log, now: Now) {
        let (shared, id) = (self.shared(), log.id());
        {
            let mut logs = shared.logs.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(slot) = usize::try_from(id.number()).ok().and_then(|at| logs.get_mut(at)) {
                *slot = Some(Arc::clone(&log.0));
            }
        }
        let (seals, is_dirty, unsure) = {
            let writer = log.0.writer();
            // The one that grows is looked through when it grows no more.
            let active = writer.active.segment.base();
            let unsure: Vec<_> = writer.aborted.all_unsure().filter(|base| *base != active).collect();
            (!writer.unsealed.is_empty(), writer.listed_dirty, unsure)
        };
        for base in unsure {
            shared.unsure_aborted(id, base);
        }
        if seals {
            lock(&shared.sealing).push(id);
        }
        if is_dirty {
            lock(&shared.dirty).push_back((now.monotonic, id));
        }
        self.add_name(log);
    }
}
