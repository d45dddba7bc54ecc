//! The driver: submits what logs have accepted, reaps what is done, raises watermarks. One for each data directory.
//!
//! ```text
//!   ready logs ──> one write each, or a sync ──> Queue ──> completions ──> written, durable ──> waiters
//! ```
//! Whoever needs a turn may hold it. It decides nothing about a log but the order of its writes and syncs: at most one write in flight, and
//! a sync only after the writes that it covers.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::flights::{Flight, FlightKind, Flights};
use super::inner::Inner;
use super::queue::Write;
use super::shared::{Shared, lock};
use super::tail::Chunk;
use super::writer::{Phase, SyncedBy, Writer};
use super::{Closed, LogId};
use crate::disk::{Completion, Done, Operation, OperationKind, Patience, Queue, QueueCounters, Wait};
use crate::rules::Rule;
use crate::segment::FileKind;
use crate::units::Offset;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Driver {
    queue: Box<dyn Queue>,
    flights: Flights,
    // These four are empty between two turns, and are kept so that a turn allocates nothing.
    collected: Vec<Arc<Inner>>,
    operations: Vec<Operation>,
    completed: Vec<Completion>,
    /// Lists for the buffers of a write.
    buffers: Vec<Vec<Bytes>>,
    /// The chunks that are kept for readers, oldest first, of all logs.
    kept: VecDeque<(LogId, usize)>,
    kept_bytes: usize,
    kept_bytes_max: usize,
}

impl Driver {
    pub(crate) fn new(queue: Box<dyn Queue>, kept_bytes_max: usize) -> Self {
        Self {
            queue,
            flights: Flights::default(),
            collected: Vec::new(),
            operations: Vec::new(),
            completed: Vec::new(),
            buffers: Vec::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            kept_bytes_max,
        }
    }

    pub(crate) fn wake_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.queue.wake_descriptor()
    }

    pub(crate) fn counters(&self) -> QueueCounters {
        self.queue.counters()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    /// Submits and reaps until nothing is left to do without waiting; then, if nothing came of it and the caller wants to, waits for one.
    ///
    /// Gives the logs that have to be sealed before they can be synced. Whoever may block does that when he has let go of the driver,
    /// because a seal waits for whoever cuts the log, who in turn waits for the driver; for whoever must not block it is a job.
    pub(crate) fn turn(&mut self, shared: &Shared, wait: Wait, patience: Patience) -> Vec<Arc<Inner>> {
        let _watch = shared.watch();
        let (mut news, mut unsealed) = (false, Vec::new());
        loop {
            self.collect(shared, patience, &mut unsealed);
            if !self.operations.is_empty() {
                self.queue.submit(&mut self.operations);
            }
            let must_wait = wait == Wait::ForOne && !news && self.queue.in_flight() > 0;
            self.queue.reap(if must_wait { Wait::ForOne } else { Wait::Not }, &mut self.completed);
            if self.completed.is_empty() {
                return unsealed;
            }
            news = true;
            let mut completed = std::mem::take(&mut self.completed);
            for completion in completed.drain(..) {
                self.complete(shared, completion);
            }
            self.completed = completed;
        }
    }

    /// Waits for what is in flight and lets go of it. Nothing of this store reaches the disk afterwards, so that the directory may be
    /// opened again.
    pub(crate) fn finish(&mut self) {
        while self.queue.in_flight() > 0 {
            self.queue.reap(Wait::ForOne, &mut self.completed);
            if self.completed.is_empty() {
                break;
            }
            self.completed.clear();
        }
        for Flight { log, kind } in self.flights.take_all() {
            if matches!(kind, FlightKind::Sync { .. }) {
                log.writer().sync.under_way = None;
            }
        }
    }

    fn collect(&mut self, shared: &Shared, patience: Patience, unsealed: &mut Vec<Arc<Inner>>) {
        // The two lists change places, so that neither a turn nor an append has to make one.
        let mut ready = std::mem::take(&mut self.collected);
        std::mem::swap(&mut *lock(&shared.ready), &mut ready);
        for log in ready.drain(..) {
            log.is_ready.store(false, Ordering::Release);
            self.collect_log(&log, patience);
            // When it is sealed the log is ready again.
            if log.needs_seal_before_sync() {
                match patience {
                    Patience::MayBlock => unsealed.push(log),
                    // A job's, or that of a thread that waits for the sync.
                    Patience::MustNotBlock => log.wake_sleepers(),
                }
            }
        }
        self.collected = ready;
    }

    fn collect_log(&mut self, log: &Arc<Inner>, patience: Patience) {
        let mut writer = log.writer();
        if matches!(writer.phase, Phase::Closed(_)) || log.shared.has_failed() {
            return;
        }
        // Somebody else may have synced what is wanted.
        writer.sync.covers(log.marks.durable.get());
        // While something waits to be written or synced it stays open; a seal opens what recovery has found.
        let Some(file) = writer.active.segment.open_file() else { return };
        let sync_first =
            if log.holds(Rule::SyncOnlyAfterItsWrites) { None } else { take_sync(log, &mut writer, true) };
        let write = writer.queue.take();
        if let Some(early) = write.as_ref().filter(|_| !log.holds(Rule::NobodySeesAboveWritten)) {
            log.marks.written.set(early.end);
        }
        let sync = sync_first.or_else(|| take_sync(log, &mut writer, false));
        drop(writer);
        if let Some(covers) = sync {
            let token = self.flights.begin(log, FlightKind::Sync { covers });
            let kind = OperationKind::Sync { patience };
            self.operations.push(Operation { token, file: Arc::clone(&file), kind });
        }
        if let Some(mut write) = write {
            if !log.holds(Rule::NobodySeesAboveWritten) {
                self.keep(&log.shared, log, write.chunks.iter().cloned());
            }
            let mut buffers = self.buffers.pop().unwrap_or_default();
            write.lend_buffers(&mut buffers);
            let kind = OperationKind::Write { position: write.position, buffers };
            let token = self.flights.begin(log, FlightKind::Write(write));
            self.operations.push(Operation { token, file, kind });
        }
    }

    fn complete(&mut self, shared: &Shared, completion: Completion) {
        let Some(Flight { log, kind }) = self.flights.end(completion.token) else { return };
        match kind {
            FlightKind::Write(mut write) => {
                let is_written = completion.result.is_ok();
                if let Ok(Done::Written { mut buffers }) = completion.result {
                    write.take_buffers(&mut buffers);
                    self.buffers.push(buffers);
                }
                self.complete_write(shared, &log, write, is_written);
            }
            FlightKind::Sync { covers } => complete_sync(shared, &log, covers, completion.result.err()),
        }
        log.wake_reached();
    }

    fn complete_write(&mut self, shared: &Shared, log: &Arc<Inner>, mut write: Write, is_written: bool) {
        if !is_written {
            log.writer().queue.landed(write.chunks);
            log.close(Closed::WriteFailed);
            lock(&shared.news).failed.push(log.id);
            return;
        }
        if log.holds(Rule::NobodySeesAboveWritten) {
            self.keep(shared, log, write.chunks.drain(..));
        }
        let more = {
            let mut writer = log.writer();
            writer.queue.landed(write.chunks);
            writer.active.segment.set_size(write.position + write.bytes as u64);
            log.marks.written.set(write.end);
            writer.queue.is_waiting() || writer.sync.is_wanted()
        };
        lock(&shared.news).moved.push(log.id);
        if more {
            log.make_ready();
        }
    }

    /// Keeps what was written for readers, and drops what was written first, of all logs, when it is too much.
    fn keep(&mut self, shared: &Shared, log: &Arc<Inner>, chunks: impl Iterator<Item = Chunk>) {
        {
            let mut tail = lock(&log.tail);
            for chunk in chunks {
                self.kept.push_back((log.id, chunk.bytes.len()));
                self.kept_bytes += chunk.bytes.len();
                tail.push(chunk);
            }
        }
        while self.kept_bytes > self.kept_bytes_max {
            let Some((id, bytes)) = self.kept.pop_front() else { break };
            self.kept_bytes -= bytes;
            if id == log.id {
                lock(&log.tail).pop_oldest();
            } else if let Some(other) = shared.log(id) {
                lock(&other.tail).pop_oldest();
            }
        }
    }
}

/// Decides whether to sync now; what it will cover.
fn take_sync(log: &Inner, writer: &mut Writer, early: bool) -> Option<Offset> {
    let written = if early { log.marks.accepted.get() } else { log.marks.written.get() };
    // A cut has waited for what was under way. A sync that began meanwhile would count for the bytes that take the place of those which go.
    let is_being_cut = writer.phase == Phase::Truncating;
    if is_being_cut || !writer.sync.is_due(written) || writer.needs_seal() {
        return None;
    }
    // One write may go first, so that those who came meanwhile share the sync; a second one would let the first waiter starve.
    if !early && writer.queue.is_flying() && !writer.sync.waited {
        writer.sync.waited = true;
        return None;
    }
    writer.sync.waited = false;
    writer.sync.under_way = Some(SyncedBy::Driver);
    writer.sync.covers(written);
    Some(written)
}

fn complete_sync(shared: &Shared, log: &Arc<Inner>, covers: Offset, failed: Option<io::Error>) {
    let is_synced = failed.is_none();
    if let Some(error) = failed {
        // Before anybody else may sync the file, which would succeed and prove nothing.
        let path = log.writer().active.segment.path(FileKind::Log);
        shared.fail(&path, "sync", &error);
    }
    let more = {
        let mut writer = log.writer();
        writer.sync.under_way = None;
        if is_synced {
            log.raise_durable(covers);
            writer.note_synced(log.marks.accepted.get(), log.marks.durable.get());
        }
        writer.sync.is_wanted()
    };
    if !is_synced {
        return;
    }
    lock(&shared.news).moved.push(log.id);
    if more {
        log.make_ready();
    }
}
