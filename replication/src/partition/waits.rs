//! Who waits for an acknowledgement. Bounded by whoever asks before it appends.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::units::{Monotonic, Offset};

use super::input::{AckWait, Acks, WaitId};

/// The waits of one leadership, by the offset that they wait for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Waits {
    by_id: BTreeMap<WaitId, AckWait>,
    /// Those that wait for the leader alone.
    by_leader: BTreeSet<(Offset, WaitId)>,
    /// Those that wait for the high watermark.
    by_all: BTreeSet<(Offset, WaitId)>,
    deadlines: BTreeSet<(Monotonic, WaitId)>,
}

impl Waits {
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn add(&mut self, wait: AckWait) {
        self.remove(wait.id);
        let places = match wait.acks {
            Acks::None | Acks::Leader => &mut self.by_leader,
            Acks::All => &mut self.by_all,
        };
        places.insert((wait.end, wait.id));
        self.deadlines.insert((wait.deadline, wait.id));
        self.by_id.insert(wait.id, wait);
    }

    pub(super) fn remove(&mut self, id: WaitId) {
        if let Some(wait) = self.by_id.remove(&id) {
            self.by_leader.remove(&(wait.end, id));
            self.by_all.remove(&(wait.end, id));
            self.deadlines.remove(&(wait.deadline, id));
        }
    }

    /// Takes those that need the leader alone, which has everything below `end`.
    pub(super) fn take_leader_reached(&mut self, end: Offset) -> Vec<WaitId> {
        let reached = reached(&self.by_leader, end);
        for id in &reached {
            self.remove(*id);
        }
        reached
    }

    /// Takes those that need all in-sync replicas, which have everything below `high_watermark`.
    pub(super) fn take_all_reached(&mut self, high_watermark: Offset) -> Vec<WaitId> {
        let reached = reached(&self.by_all, high_watermark);
        for id in &reached {
            self.remove(*id);
        }
        reached
    }

    /// Takes those whose deadline is due.
    pub(super) fn take_expired(&mut self, now: Monotonic) -> Vec<WaitId> {
        let due: Vec<_> = self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
        for id in &due {
            self.remove(*id);
        }
        due
    }

    /// Takes all, in the order of their names.
    pub(super) fn take_every(&mut self) -> Vec<WaitId> {
        let every = std::mem::take(self);
        every.by_id.into_keys().collect()
    }

    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        self.deadlines.first().map(|(at, _)| *at)
    }
}

fn reached(places: &BTreeSet<(Offset, WaitId)>, end: Offset) -> Vec<WaitId> {
    places.iter().take_while(|(needed, _)| *needed <= end).map(|(_, id)| *id).collect()
}
