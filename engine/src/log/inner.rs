//! The parts of a log and the ways to reach them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::Waker;

use super::config::LogConfig;
use super::facts::LogFacts;
use super::ladder::{LogId, Step, Ticket};
use super::marks::Marks;
use super::shared::{Shared, lock};
use super::tail::Tail;
use super::writer::{Phase, Writer};
use super::{Closed, TicketError};
use crate::rules::Rule;
use crate::segment::Segment;
use crate::sync::atomic::AtomicBool;
use crate::sync::{Mutex, MutexGuard, RwLock};
use crate::units::{Offset, TopicId, TopicPartition};

/// The segments of a log at one moment; never changed, only replaced.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) generation: u64,
    /// Sorted by base; never empty.
    pub(crate) segments: Vec<Arc<Segment>>,
}

impl View {
    /// The number of the segment that an offset lies in, or the first one.
    pub(crate) fn floor(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1)
    }
}

/// See the module's documentation. Locks are taken in the order of the fields; no disk call is made under `writer`, `view` or `tail`.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) id: LogId,
    pub(crate) name: TopicPartition,
    pub(crate) directory: Arc<Path>,
    pub(crate) shared: Arc<Shared>,
    /// Held by the jobs that change the log's files, one at a time.
    pub(crate) maintenance: Mutex<()>,
    /// Held while room is made for appends, which need it.
    pub(crate) room: Mutex<()>,
    /// Held while the file of epochs is written, so that the newest history is written last.
    pub(crate) epoch_file: Mutex<()>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) view: RwLock<Arc<View>>,
    pub(crate) tail: Mutex<Tail>,
    pub(crate) marks: Marks,
    pub(crate) config: RwLock<Arc<LogConfig>>,
    pub(crate) topic_id: Mutex<Option<TopicId>>,
    pub(crate) is_ready: AtomicBool,
    pub(crate) waiters: Mutex<Vec<Waiter>>,
}

/// So many tasks are taken off the list at once, without memory for it, and woken when it is free again.
const WOKEN: usize = 16;

/// A task that waits for a step.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) key: u64,
    pub(crate) ticket: Ticket,
    pub(crate) step: Step,
    pub(crate) waker: Waker,
}

impl Inner {
    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(|poisoned| {
            let mut writer = poisoned.into_inner();
            if !matches!(writer.phase, Phase::Closed(_)) {
                writer.phase = Phase::Closed(Closed::Panicked);
            }
            writer
        })
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn config(&self) -> Arc<LogConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_config(&self, config: LogConfig) {
        let mut writer = self.writer();
        writer.config = Arc::new(config);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&writer.config);
    }

    /// Replaces the segments. The writer's lock is held by the caller, so that nobody else does.
    pub(crate) fn set_segments(&self, segments: Vec<Arc<Segment>>) {
        let view = Arc::new(View { generation: self.marks.generation(), segments });
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = view;
    }

    pub(crate) fn holds(&self, rule: Rule) -> bool {
        self.shared.limits.rules.holds(rule)
    }

    /// Calls with the facts of this moment. The log's writer waits meanwhile.
    pub(crate) fn with_facts<R>(&self, call: impl FnOnce(&LogFacts<'_>) -> R) -> R {
        let _watch = self.watch();
        let writer = self.writer();
        let durable = self.marks.durable.get();
        let replaced_by_repair = self.replaced_by_repair(&writer);
        call(&LogFacts {
            start: self.marks.start.get(),
            accepted: self.marks.accepted.get(),
            written: self.marks.written.get(),
            durable,
            recovery_point: durable,
            cleaned_to: self.marks.cleaned.get(),
            damaged: &writer.damaged,
            replaced_by_repair: &replaced_by_repair,
            epochs: &writer.epochs,
        })
    }

    /// Where the log begins, for the checkpoint.
    pub(crate) fn start_to_note(&self) -> Offset {
        // A cut lowers the mark under this lock.
        let writer = self.writer();
        writer.uncut_start.unwrap_or_else(|| self.marks.start.get())
    }

    /// Puts the log on the driver's list. What the driver is to find was changed under the writer's lock: then either the driver takes that
    /// lock later, or it is seen here that the log is off the list.
    pub(crate) fn make_ready(self: &Arc<Self>) {
        if !self.is_ready.load(Ordering::Acquire) && !self.is_ready.swap(true, Ordering::AcqRel) {
            lock(&self.shared.ready).push(Arc::clone(self));
        }
    }

    /// Why the log takes no appends, if so.
    pub(crate) fn closed(&self) -> Option<Closed> {
        if self.shared.has_failed() {
            return Some(Closed::StoreFailed);
        }
        match self.writer().phase {
            Phase::Closed(why) => Some(why),
            Phase::Open | Phase::Rolling | Phase::Truncating | Phase::Closing => None,
        }
    }

    /// Refuses a change of the files of a log that is closed: a cut or a write may have ended in the middle, and only recovery knows then what
    /// they are.
    pub(crate) fn refuse_if_closed(&self) -> Result<(), Closed> {
        self.closed().map_or(Ok(()), Err)
    }

    /// Whether a ticket's step has come; `Ok(false)` if not yet.
    pub(crate) fn reached(&self, ticket: Ticket, step: Step) -> Result<bool, TicketError> {
        if ticket.generation != self.marks.generation() {
            return Err(TicketError::Truncated);
        }
        let mark = match step {
            Step::Written => self.marks.written.get(),
            Step::Durable => self.marks.durable.get(),
        };
        if mark >= ticket.end {
            // A truncation lowers marks after it has begun a generation.
            return if ticket.generation == self.marks.generation() {
                Ok(true)
            } else {
                Err(TicketError::Truncated)
            };
        }
        self.closed().map_or(Ok(false), |why| Err(why.into()))
    }

    /// Everything below `end` is durable, which the next checkpoint says too.
    pub(crate) fn raise_durable(&self, end: Offset) {
        self.marks.durable.raise(end);
        self.note_moved();
    }

    /// What checkpoints say of this log has changed.
    pub(crate) fn note_moved(&self) {
        self.shared.has_moved.store(true, Ordering::Release);
    }

    /// Asks for a sync of everything below `end`.
    pub(crate) fn want_durable(self: &Arc<Self>, end: Offset) {
        if self.marks.durable.get() < end {
            let mut writer = self.writer();
            // A ticket from before a cut may be for more than there is, and nobody could sync that.
            writer.sync.want(end.min(self.marks.accepted.get()));
            // Recovery does not know whether what it found is on the medium. No roll has listed it, and nobody else will.
            let found_alone = writer.unsealed.is_empty() && writer.needs_seal();
            drop(writer);
            if found_alone {
                lock(&self.shared.sealing).push(self.id);
            }
            self.tell_ready();
        }
    }

    /// Closes the log for appends; what waits to be written is dropped with it. The first reason stays, unless the log is deleted.
    pub(crate) fn close(&self, why: Closed) {
        let mut writer = self.writer();
        if !matches!(writer.phase, Phase::Closed(_)) || why == Closed::Deleted {
            writer.phase = Phase::Closed(why);
        }
        drop(writer);
        self.wake_all_tasks();
        self.wake_sleepers();
    }

    /// The store is being closed: what is accepted is still written, nothing more is accepted.
    pub(crate) fn refuse_appends(&self) {
        let _room = lock(&self.room);
        let mut writer = self.writer();
        if matches!(writer.phase, Phase::Open | Phase::Rolling) {
            writer.phase = Phase::Closing;
        }
    }

    /// Wakes the tasks whose step has come or will not come.
    pub(super) fn wake_tasks(&self) {
        loop {
            let mut woken = [const { None::<Waiter> }; WOKEN];
            {
                let mut waiters = lock(&self.waiters);
                let is_due = |waiter: &mut Waiter| self.reached(waiter.ticket, waiter.step) != Ok(false);
                for (place, waiter) in woken.iter_mut().zip(waiters.extract_if(.., is_due)) {
                    *place = Some(waiter);
                }
            }
            let are_more = woken.last().is_some_and(Option::is_some);
            wake(woken.into_iter().flatten());
            if !are_more {
                return;
            }
        }
    }

    pub(crate) fn wake_all_tasks(&self) {
        wake(std::mem::take(&mut *lock(&self.waiters)));
    }
}

/// A waker is somebody else's: one that panics is the misfortune of its own task.
fn wake(waiters: impl IntoIterator<Item = Waiter>) {
    for waiter in waiters {
        drop(catch_unwind(AssertUnwindSafe(|| waiter.waker.wake())));
    }
}
