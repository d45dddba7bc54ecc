//! Fetches that wait for records.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::units::{Monotonic, Offset};

use super::RequestNumber;

/// What a Fetch waits for at one partition: that the mark passes this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// A follower: `written`.
    Written(Offset),
    /// A consumer: the high watermark.
    Committed(Offset),
    /// Nothing that comes by itself: the part has its answer.
    Nothing,
}

/// Why a Fetch has to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// The parts that may have more than before.
    pub parts: BTreeSet<usize>,
    /// It is to be answered with what there is.
    pub over: bool,
}

#[derive(Debug)]
pub(super) struct Parked<K> {
    requests: BTreeMap<RequestNumber, Waiting<K>>,
    /// Who waits at a partition, and with which part.
    interests: BTreeMap<K, Vec<(RequestNumber, usize, Interest)>>,
    deadlines: BTreeSet<(Monotonic, RequestNumber)>,
    woken: BTreeMap<RequestNumber, Woken>,
}

#[derive(Debug)]
struct Waiting<K> {
    partitions: BTreeSet<K>,
    deadline: Monotonic,
}

impl<K> Default for Parked<K> {
    fn default() -> Self {
        Self {
            requests: BTreeMap::new(),
            interests: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            woken: BTreeMap::new(),
        }
    }
}

impl<K: Copy + Ord> Parked<K> {
    pub(super) fn park(&mut self, request: RequestNumber, interests: &[(K, Interest)], deadline: Monotonic) {
        self.drop_request(request);
        let mut partitions = BTreeSet::new();
        for (part, (partition, interest)) in interests.iter().enumerate() {
            if *interest != Interest::Nothing {
                partitions.insert(*partition);
                self.interests.entry(*partition).or_default().push((request, part, *interest));
            }
        }
        self.deadlines.insert((deadline, request));
        self.requests.insert(request, Waiting { partitions, deadline });
    }

    pub(super) fn wake(&mut self, request: RequestNumber) {
        self.woken.entry(request).or_default();
    }

    pub(super) fn release(&mut self, request: RequestNumber) {
        if self.requests.contains_key(&request) {
            self.woken.entry(request).or_default().over = true;
        }
    }

    pub(super) fn reached(&mut self, partition: K, passed: impl Fn(Interest) -> bool) {
        for (request, part, interest) in self.interests.get(&partition).into_iter().flatten() {
            if passed(*interest) {
                self.woken.entry(*request).or_default().parts.insert(*part);
            }
        }
    }

    pub(super) fn take_woken(&mut self, now: Monotonic) -> Vec<(RequestNumber, Woken)> {
        while let Some((_, request)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.pop_first();
            self.woken.entry(request).or_default().over = true;
        }
        let woken = std::mem::take(&mut self.woken);
        for request in woken.keys() {
            self.forget(*request);
        }
        woken.into_iter().collect()
    }

    pub(super) fn drop_request(&mut self, request: RequestNumber) {
        self.forget(request);
        self.woken.remove(&request);
    }

    fn forget(&mut self, request: RequestNumber) {
        let Some(waiting) = self.requests.remove(&request) else { return };
        self.deadlines.remove(&(waiting.deadline, request));
        for partition in waiting.partitions {
            if let Some(interests) = self.interests.get_mut(&partition) {
                interests.retain(|(who, _, _)| *who != request);
                if interests.is_empty() {
                    self.interests.remove(&partition);
                }
            }
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}
