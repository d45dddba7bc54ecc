//! Produce requests whose parts are acknowledged one by one. Deadlines belong to the partitions that the parts wait for.

use std::collections::BTreeMap;

use super::{ConnectionId, Slot};
use crate::partition::WaitId;

/// The produce requests that have parts without an outcome. What an outcome is, is the caller's.
#[derive(Debug)]
pub struct Produces<O> {
    open: BTreeMap<u64, OpenProduce<O>>,
    next_request: u64,
    ready: Vec<(Slot, Vec<O>)>,
}

#[derive(Debug)]
struct OpenProduce<O> {
    slot: Slot,
    parts: Vec<Option<O>>,
    missing: usize,
}

impl<O> Default for Produces<O> {
    fn default() -> Self {
        Self { open: BTreeMap::new(), next_request: 0, ready: Vec::new() }
    }
}

impl<O> Produces<O> {
    /// A request with so many parts; what is returned names its part 0, the others follow. Without parts it is ready at once.
    pub fn open(&mut self, slot: Slot, parts: u32) -> WaitId {
        let request = self.next_request;
        self.next_request += 1;
        if parts == 0 {
            self.ready.push((slot, Vec::new()));
        } else {
            let outcomes: Vec<Option<O>> = (0..parts).map(|_| None).collect();
            self.open.insert(request, OpenProduce { slot, missing: outcomes.len(), parts: outcomes });
        }
        WaitId { request, part: 0 }
    }

    /// The outcome of a part; the first one counts.
    pub fn settle(&mut self, wait: WaitId, outcome: O) {
        let Some(produce) = self.open.get_mut(&wait.request) else { return };
        let part = usize::try_from(wait.part).ok().and_then(|part| produce.parts.get_mut(part));
        let Some(part @ None) = part else { return };
        *part = Some(outcome);
        produce.missing -= 1;
        if produce.missing == 0
            && let Some(done) = self.open.remove(&wait.request)
        {
            self.ready.push((done.slot, done.parts.into_iter().flatten().collect()));
        }
    }

    /// Takes the requests whose parts all have an outcome, in the order of their parts.
    #[must_use = "a request that is taken has to be answered"]
    pub fn take_ready(&mut self) -> Vec<(Slot, Vec<O>)> {
        std::mem::take(&mut self.ready)
    }

    /// The connection is gone: returns the waits that nobody waits for any more.
    pub fn disconnect(&mut self, connection: ConnectionId) -> Vec<WaitId> {
        self.ready.retain(|(slot, _)| slot.connection != connection);
        let gone: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, produce)| produce.slot.connection == connection)
            .map(|(request, _)| *request)
            .collect();
        let waits = gone.into_iter().filter_map(|request| Some((request, self.open.remove(&request)?)));
        waits
            .flat_map(|(request, produce)| {
                let missing = (0u32..)
                    .zip(produce.parts)
                    .filter(|(_, outcome)| outcome.is_none())
                    .map(|(part, _)| part);
                missing.map(move |part| WaitId { request, part }).collect::<Vec<_>>()
            })
            .collect()
    }

    /// How many requests are open.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(connection: u64, number: u64) -> Slot {
        Slot { connection: ConnectionId(connection), number }
    }

    #[test]
    fn a_request_is_ready_when_its_last_part_is() {
        let mut produces = Produces::default();
        let first = produces.open(slot(1, 0), 2);
        produces.settle(WaitId { part: 1, ..first }, "b");
        produces.settle(WaitId { part: 1, ..first }, "again");
        produces.settle(WaitId { part: 7, ..first }, "no such part");
        assert_eq!(produces.take_ready(), []);
        produces.settle(first, "a");
        assert_eq!(produces.take_ready(), [(slot(1, 0), vec!["a", "b"])]);
        produces.settle(first, "late");
        assert_eq!((produces.take_ready(), produces.open_count()), (vec![], 0));
        produces.open(slot(1, 1), 0);
        assert_eq!(produces.take_ready(), [(slot(1, 1), vec![])]);
    }

    #[test]
    fn a_disconnect_names_the_waits_that_are_left() {
        let mut produces = Produces::default();
        let gone = produces.open(slot(1, 0), 3);
        let stays = produces.open(slot(2, 0), 1);
        produces.settle(WaitId { part: 1, ..gone }, ());
        let waits = produces.disconnect(ConnectionId(1));
        assert_eq!(waits, [gone, WaitId { part: 2, ..gone }]);
        produces.settle(stays, ());
        assert_eq!(produces.take_ready(), [(slot(2, 0), vec![()])]);
    }
}
