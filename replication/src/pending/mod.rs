//! Requests that cover many partitions and wait. Pure: it is told, it is taken from, it knows neither bytes nor why a partition is ready.
//!
//! A waiting Fetch has an interest at each of its partitions, keyed by the offset that has to be passed: followers wait for what is
//! written, consumers for what is committed. A waiting Produce has parts whose acknowledgements are open. What a connection may have
//! waiting is bounded; what it has is dropped when it goes. The order of answers on a connection is its host's.

mod acks;
mod parked;

#[cfg(test)]
mod pending_test;

pub use acks::Acknowledged;
pub use parked::{Interest, Woken};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use highwater_engine::units::{Monotonic, Offset};

use crate::partition::{WaitId, WaitOutcome};
use acks::AcksOpen;
use parked::Parked;

/// Names a waiting request; never used twice.
pub type RequestNumber = u64;

/// All requests that wait. `K` names a partition, `C` a connection.
#[derive(Debug)]
pub struct Pending<K, C> {
    requests_per_connection_max: usize,
    next_request: RequestNumber,
    by_connection: BTreeMap<C, BTreeSet<RequestNumber>>,
    parked: Parked<K>,
    acks: AcksOpen,
}

/// A connection has as many requests waiting as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} requests of the connection wait already")]
pub struct TooManyRequests {
    /// How many.
    pub waiting: usize,
}

impl<K: Copy + Ord + Debug, C: Copy + Ord + Debug> Pending<K, C> {
    /// Nothing waits. A connection may have that many requests waiting.
    pub fn new(requests_per_connection_max: usize) -> Self {
        Self {
            requests_per_connection_max,
            next_request: 0,
            by_connection: BTreeMap::new(),
            parked: Parked::default(),
            acks: AcksOpen::default(),
        }
    }

    /// A request begins to wait.
    pub fn begin(&mut self, connection: C) -> Result<RequestNumber, TooManyRequests> {
        let waiting = self.by_connection.entry(connection).or_default();
        if waiting.len() >= self.requests_per_connection_max {
            return Err(TooManyRequests { waiting: waiting.len() });
        }
        let request = self.next_request;
        self.next_request += 1;
        waiting.insert(request);
        Ok(request)
    }

    /// A Fetch waits until one of its interests is passed or the deadline is reached. The index of an interest is that of its part.
    pub fn park(&mut self, request: RequestNumber, interests: &[(K, Interest)], deadline: Monotonic) {
        self.parked.park(request, interests, deadline);
    }

    /// Something that a Fetch waits for outside, such as a read from the device, is there.
    pub fn wake(&mut self, request: RequestNumber) {
        self.parked.wake(request);
    }

    /// Parked Fetches of this connection are to be answered with what there is, because another one arrived behind them.
    pub fn release(&mut self, connection: C) {
        for request in self.by_connection.get(&connection).into_iter().flatten() {
            self.parked.release(*request);
        }
    }

    /// Everything of the partition below the offset is written.
    pub fn reached_written(&mut self, partition: K, offset: Offset) {
        self.parked
            .reached(partition, |interest| matches!(interest, Interest::Written(from) if from < offset));
    }

    /// Everything of the partition below the offset is committed.
    pub fn reached_committed(&mut self, partition: K, offset: Offset) {
        self.parked
            .reached(partition, |interest| matches!(interest, Interest::Committed(from) if from < offset));
    }

    /// Leadership or log of the partition changed so that what waits at it has to be judged again.
    pub fn look_again(&mut self, partition: K) {
        self.parked.reached(partition, |_| true);
    }

    /// Takes the Fetches that have to be looked at: an interest was passed, or the time is over.
    pub fn take_woken(&mut self, now: Monotonic) -> Vec<(RequestNumber, Woken)> {
        self.parked.take_woken(now)
    }

    /// A Produce waits for that many parts.
    pub fn await_acks(&mut self, request: RequestNumber, parts: usize) {
        self.acks.open(request, parts);
    }

    /// A part's wait is over; parts of requests that were dropped are ignored.
    pub fn acknowledged(&mut self, wait: WaitId, outcome: WaitOutcome) {
        self.acks.over(wait, outcome);
    }

    /// Takes the Produces all of whose parts are over.
    pub fn take_acknowledged(&mut self) -> Vec<Acknowledged> {
        self.acks.take()
    }

    /// The request is answered.
    pub fn finish(&mut self, connection: C, request: RequestNumber) {
        self.parked.drop_request(request);
        if let Some(waiting) = self.by_connection.get_mut(&connection) {
            waiting.remove(&request);
            if waiting.is_empty() {
                self.by_connection.remove(&connection);
            }
        }
    }

    /// The connection is gone. Says which requests were dropped, so that waits elsewhere can be forgotten.
    pub fn disconnected(&mut self, connection: C) -> BTreeSet<RequestNumber> {
        let dropped = self.by_connection.remove(&connection).unwrap_or_default();
        for request in &dropped {
            self.parked.drop_request(*request);
            self.acks.drop_request(*request);
        }
        dropped
    }

    /// When a parked Fetch's time is over.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.parked.next_deadline()
    }

    /// How many requests wait.
    pub fn waiting(&self) -> usize {
        self.by_connection.values().map(BTreeSet::len).sum()
    }
}
