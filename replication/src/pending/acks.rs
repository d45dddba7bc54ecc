//! Produces that wait for acknowledgements.

use std::collections::BTreeMap;

use super::RequestNumber;
use crate::partition::{WaitId, WaitOutcome};

/// A Produce all of whose waits are over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Which.
    pub request: RequestNumber,
    /// How each wait ended, by part.
    pub outcomes: BTreeMap<u32, WaitOutcome>,
}

#[derive(Debug, Default)]
pub(super) struct AcksOpen {
    open: BTreeMap<RequestNumber, Open>,
    over: Vec<Acknowledged>,
}

#[derive(Debug)]
struct Open {
    parts: usize,
    outcomes: BTreeMap<u32, WaitOutcome>,
}

impl AcksOpen {
    pub(super) fn open(&mut self, request: RequestNumber, parts: usize) {
        self.open.insert(request, Open { parts, outcomes: BTreeMap::new() });
        self.complete(request);
    }

    pub(super) fn over(&mut self, wait: WaitId, outcome: WaitOutcome) {
        if let Some(open) = self.open.get_mut(&wait.request) {
            open.outcomes.entry(wait.part).or_insert(outcome);
            self.complete(wait.request);
        }
    }

    fn complete(&mut self, request: RequestNumber) {
        if self.open.get(&request).is_none_or(|open| open.outcomes.len() < open.parts) {
            return;
        }
        if let Some(open) = self.open.remove(&request) {
            self.over.push(Acknowledged { request, outcomes: open.outcomes });
        }
    }

    pub(super) fn take(&mut self) -> Vec<Acknowledged> {
        std::mem::take(&mut self.over)
    }

    pub(super) fn drop_request(&mut self, request: RequestNumber) {
        self.open.remove(&request);
        self.over.retain(|over| over.request != request);
    }
}
