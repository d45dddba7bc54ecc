//! The queue of a simulated disk: operations complete in a seeded order, at submission or when the world releases them.
//!
//! A sync covers what had completed when it was *submitted*, never more, so that whoever submits it too early is found out.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use bytes::{Bytes, BytesMut};
use fastrand::Rng;

use super::file::SimulatedFile;
use super::names::NodeId;
use super::state::{CallKind, Interruption, State, Verdict, crashed};
use super::{Completing, Shared};
use crate::disk::{Completion, Done, File, Operation, OperationKind, Queue, QueueCounters, Wait};

/// One queue, as the disk keeps it.
#[derive(Debug, Default)]
pub(super) struct QueueState {
    pending: Vec<Pending>,
    ready: VecDeque<Completion>,
    counters: QueueCounters,
}

/// An operation that has been submitted.
#[derive(Debug)]
struct Pending {
    token: u64,
    node: NodeId,
    work: Work,
    /// `Err` is an operation that cannot be begun.
    verdict: io::Result<Verdict>,
    /// Keeps the file open.
    file: File,
}

#[derive(Debug)]
enum Work {
    Write { position: u64, buffers: Vec<Bytes>, bytes: Vec<u8> },
    Sync { step: u64 },
    Read { position: u64, length: usize },
}

/// The driver's end.
#[derive(Debug)]
pub(super) struct SimulatedQueue {
    shared: Shared,
    life: u64,
    number: u64,
}

impl SimulatedQueue {
    pub(super) fn new(shared: Shared, life: u64) -> Self {
        let mut state = shared.state();
        let number = state.queues.last_key_value().map_or(0, |(number, _)| number + 1);
        state.queues.insert(number, QueueState::default());
        drop(state);
        Self { shared, life, number }
    }

    fn state_of<T>(&self, look: impl FnOnce(&QueueState) -> T) -> T {
        look(&self.shared.state().queues[&self.number])
    }
}

impl Queue for SimulatedQueue {
    fn submit(&mut self, operations: &mut Vec<Operation>) {
        let mut state = self.shared.state();
        let completing = state.completing;
        for operation in operations.drain(..) {
            let pending = state.admit(self.life, operation);
            let queue = state.queue(self.number);
            queue.count(&pending, completing);
            queue.pending.push(pending);
        }
        if state.down || self.life != state.life {
            state.fail_pending(self.number);
        } else if completing == Completing::AtOnce {
            let mut rng = state.rng.fork();
            while state.complete_next(Some(self.number), &mut rng) {}
        }
    }

    fn reap(&mut self, wait: Wait, completed: &mut Vec<Completion>) {
        let mut state = self.shared.state();
        if wait == Wait::ForOne && state.queue(self.number).ready.is_empty() {
            let mut rng = state.rng.fork();
            state.complete_next(Some(self.number), &mut rng);
        }
        completed.extend(state.queue(self.number).ready.drain(..));
    }

    fn in_flight(&self) -> usize {
        self.state_of(|queue| queue.pending.len() + queue.ready.len())
    }

    fn wake_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }

    fn counters(&self) -> QueueCounters {
        self.state_of(|queue| queue.counters)
    }
}

impl Drop for SimulatedQueue {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let mut rng = state.rng.fork();
        while state.complete_next(Some(self.number), &mut rng) {}
        let queue = state.queues.remove(&self.number);
        drop(state);
        drop(queue);
    }
}

impl QueueState {
    fn count(&mut self, pending: &Pending, completing: Completing) {
        let counters = &mut self.counters;
        let (held, at_once) = match pending.work {
            Work::Write { .. } => (&mut counters.writes_ring, &mut counters.writes_inline),
            Work::Sync { .. } => (&mut counters.syncs_ring, &mut counters.syncs_inline),
            Work::Read { .. } => (&mut counters.reads_ring, &mut counters.reads_inline),
        };
        match completing {
            Completing::WhenTold => *held += 1,
            Completing::AtOnce => *at_once += 1,
        }
    }
}

impl State {
    fn queue(&mut self, number: u64) -> &mut QueueState {
        self.queues.entry(number).or_default()
    }

    /// Numbers an operation as a call and takes it in. The crash that it may be comes at once.
    fn admit(&mut self, life: u64, operation: Operation) -> Pending {
        let Operation { token, file, kind } = operation;
        let step = self.step();
        let (call, work) = match kind {
            OperationKind::Write { position, buffers } => {
                let bytes = buffers.concat();
                (CallKind::Write, Work::Write { position, buffers, bytes })
            }
            OperationKind::Sync { .. } => (CallKind::Sync, Work::Sync { step }),
            OperationKind::Read { position, length } => (CallKind::Read, Work::Read { position, length }),
        };
        let any: &dyn std::any::Any = &*file;
        let known = any.downcast_ref::<SimulatedFile>();
        let node = known.map_or(0, |file| file.node);
        let verdict = match known {
            None => Err(io::ErrorKind::InvalidInput.into()),
            Some(file) if call == CallKind::Write => {
                file.check_writable().and_then(|()| self.begin(life, call, &file.path))
            }
            Some(file) => self.begin(life, call, &file.path),
        };
        if let (Work::Sync { .. }, Ok(body)) = (&work, self.tree.file_mut(node)) {
            body.syncs_in_flight += 1;
        }
        let is_crash = matches!(verdict, Ok(Verdict::Crash));
        let pending = Pending { token, node, work, verdict, file };
        if is_crash {
            self.interrupt(&pending);
            self.go_down();
        }
        pending
    }

    pub(super) fn uncompleted(&self) -> usize {
        self.queues.values().map(|queue| queue.pending.len()).sum()
    }

    /// Completes one pending operation, of one queue or of any; `false` if there is none.
    pub(super) fn complete_next(&mut self, only: Option<u64>, rng: &mut Rng) -> bool {
        let candidates = self.queues.iter().filter(|(number, _)| only.is_none_or(|only| only == **number));
        let mut places: Vec<(u64, usize)> = Vec::new();
        for (number, queue) in candidates {
            places.extend((0..queue.pending.len()).map(|place| (*number, place)));
        }
        let Some(&(number, place)) = rng.choice(&places) else { return false };
        self.counters.overtakings += u64::from(place > 0);
        let pending = self.queue(number).pending.remove(place);
        let token = pending.token;
        let result = self.perform(pending);
        self.queue(number).ready.push_back(Completion { token, result });
        true
    }

    fn perform(&mut self, pending: Pending) -> io::Result<Done> {
        let Pending { node, work, verdict, file, .. } = pending;
        let result = match work {
            Work::Write { position, buffers, bytes } => verdict
                .and_then(|verdict| self.write_with(verdict, node, position, &bytes))
                .map(|()| Done::Written { buffers }),
            Work::Sync { step } => {
                self.sync_ended(node);
                verdict.and_then(|verdict| self.sync_with(verdict, node, step)).map(|()| Done::Synced)
            }
            Work::Read { position, length } => {
                verdict.and_then(|verdict| self.read_with(verdict, node, position, length)).map(Done::Read)
            }
        };
        drop(file);
        result
    }

    fn read_with(
        &mut self,
        verdict: Verdict,
        node: NodeId,
        position: u64,
        length: usize,
    ) -> io::Result<Bytes> {
        match verdict {
            Verdict::Go => {
                let mut buffer = BytesMut::zeroed(length);
                let count = self.tree.file(node)?.read(&mut buffer, position);
                buffer.truncate(count);
                Ok(buffer.freeze())
            }
            Verdict::Fail(fault) => Err(self.fail(fault)),
            Verdict::Crash => Err(crashed()),
        }
    }

    fn sync_ended(&mut self, node: NodeId) {
        if let Ok(body) = self.tree.file_mut(node) {
            body.syncs_in_flight = body.syncs_in_flight.saturating_sub(1);
        }
    }

    /// What a crash makes of an operation in flight: of a write a prefix, of a sync all or nothing.
    fn interrupt(&mut self, pending: &Pending) {
        match &pending.work {
            Work::Write { position, bytes, .. } => self.write_part(pending.node, *position, bytes),
            Work::Sync { step } => {
                let is_done = self.is_done();
                if let (true, Ok(body)) = (is_done, self.tree.file_mut(pending.node)) {
                    body.commit(*step);
                }
            }
            Work::Read { .. } => {}
        }
    }

    /// Decides all operations in flight at a crash and gives them back as failed.
    pub(super) fn abort_in_flight(&mut self, rng: &mut Rng) {
        let numbers: Vec<u64> = self.queues.keys().copied().collect();
        for number in numbers {
            for pending in &std::mem::take(&mut self.queue(number).pending) {
                if matches!(pending.verdict, Ok(Verdict::Go)) && self.goes_on_in_flight(rng) {
                    self.interrupt(pending);
                } else {
                    self.counters.dropped_operations += 1;
                }
                self.fail_one(number, pending);
            }
        }
    }

    /// Whether anything becomes of an operation that is in flight when a crash comes.
    fn goes_on_in_flight(&self, rng: &mut Rng) -> bool {
        match self.interruption {
            Interruption::Chosen | Interruption::Part(_) => rng.bool(),
            Interruption::Undone => false,
            Interruption::Done => true,
        }
    }

    fn fail_pending(&mut self, number: u64) {
        for pending in &std::mem::take(&mut self.queue(number).pending) {
            self.fail_one(number, pending);
        }
    }

    fn fail_one(&mut self, number: u64, pending: &Pending) {
        if matches!(pending.work, Work::Sync { .. }) {
            self.sync_ended(pending.node);
        }
        let completion = Completion { token: pending.token, result: Err(crashed()) };
        self.queue(number).ready.push_back(completion);
    }
}
