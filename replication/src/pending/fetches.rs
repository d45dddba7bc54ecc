//! Parked Fetches: those that found less than they want and may wait.
//!
//! A part waits for its ceiling to pass its offset. What it then finds in bytes only a read can tell; for a Fetch that wants one byte the
//! ceiling says enough.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::units::{Monotonic, Offset};

use super::{ConnectionId, Slot};

/// Where reading ends for whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ceiling {
    /// What is written: followers.
    Written,
    /// The high watermark: consumers.
    HighWatermark,
}

/// A Fetch to park.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedFetch<P> {
    /// Its reply's place.
    pub slot: Slot,
    /// How many bytes it wants before it is answered.
    pub min_bytes: usize,
    /// When it is answered with what there is.
    pub deadline: Monotonic,
    /// What it wants.
    pub parts: Vec<FetchPart<P>>,
}

impl<P> ParkedFetch<P> {
    /// How many of its parts [`FetchLimits`] count.
    fn counted(&self) -> usize {
        self.parts.iter().filter(|part| part.ceiling == Ceiling::HighWatermark).count()
    }
}

/// What a Fetch wants of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPart<P> {
    /// Which partition.
    pub partition: P,
    /// What it is woken by.
    pub ceiling: Ceiling,
    /// Its offset.
    pub from: Offset,
    /// How many bytes the read before parking found.
    pub bytes: usize,
}

/// What to do about a parked Fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchReady<P> {
    /// Read all its parts again and answer it; it is parked no longer.
    Answer(Slot),
    /// Tell with [`Fetches::gathered`] how many bytes this part has now.
    Measure {
        /// The Fetch.
        slot: Slot,
        /// The part.
        partition: P,
        /// The part's offset.
        from: Offset,
    },
}

/// The bounds of what is parked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// How many parts the parked Fetches of consumers may have together on one connection. A follower's are not counted: one is parked only if
    /// it has proved to be what it says, one for each connection, and the cluster's limit bounds what it follows.
    pub parts_per_connection_max: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { parts_per_connection_max: 10_000 }
    }
}

/// The connection has too many parts parked: answer this Fetch with what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection {connection:?} would have {parts} parts parked")]
pub struct TooManyParts {
    /// Which connection.
    pub connection: ConnectionId,
    /// How many it would have.
    pub parts: usize,
}

/// All parked Fetches.
#[derive(Debug)]
pub struct Fetches<P> {
    limits: FetchLimits,
    parked: BTreeMap<Slot, ParkedFetch<P>>,
    interests: BTreeMap<(P, Ceiling), BTreeSet<(Offset, Slot)>>,
    deadlines: BTreeSet<(Monotonic, Slot)>,
    measuring: BTreeSet<(Slot, P)>,
    ready: Vec<FetchReady<P>>,
}

impl<P: Ord + Clone> Fetches<P> {
    /// Nothing parked.
    pub fn new(limits: FetchLimits) -> Self {
        Self {
            limits,
            parked: BTreeMap::new(),
            interests: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            measuring: BTreeSet::new(),
            ready: Vec::new(),
        }
    }

    /// Parks a Fetch.
    pub fn park(&mut self, fetch: ParkedFetch<P>) -> Result<(), TooManyParts> {
        let connection = fetch.slot.connection;
        let held: usize = self.of(connection).map(|(_, parked)| parked.counted()).sum();
        let parts = held.saturating_add(fetch.counted());
        if parts > self.limits.parts_per_connection_max {
            return Err(TooManyParts { connection, parts });
        }
        self.remove(fetch.slot);
        for part in &fetch.parts {
            let places = self.interests.entry((part.partition.clone(), part.ceiling)).or_default();
            places.insert((part.from, fetch.slot));
        }
        self.deadlines.insert((fetch.deadline, fetch.slot));
        self.parked.insert(fetch.slot, fetch);
        Ok(())
    }

    /// A partition's ceiling has been raised.
    pub fn raised(&mut self, partition: &P, ceiling: Ceiling, to: Offset) {
        let Some(places) = self.interests.get(&(partition.clone(), ceiling)) else { return };
        let woken: Vec<_> = places.iter().take_while(|(from, _)| *from < to).copied().collect();
        for (from, slot) in woken {
            if self.parked.get(&slot).is_some_and(|fetch| fetch.min_bytes > 1) {
                if self.measuring.insert((slot, partition.clone())) {
                    self.ready.push(FetchReady::Measure { slot, partition: partition.clone(), from });
                }
            } else {
                self.answer(slot);
            }
        }
    }

    /// A partition's leadership or log has changed: whoever waits there is answered now, with an error perhaps.
    pub fn changed(&mut self, partition: &P) {
        for ceiling in [Ceiling::Written, Ceiling::HighWatermark] {
            let places = self.interests.get(&(partition.clone(), ceiling));
            let woken: Vec<Slot> = places.into_iter().flatten().map(|(_, slot)| *slot).collect();
            for slot in woken {
                self.answer(slot);
            }
        }
    }

    /// How many bytes a part has now.
    pub fn gathered(&mut self, slot: Slot, partition: &P, bytes: usize) {
        self.measuring.remove(&(slot, partition.clone()));
        let Some(fetch) = self.parked.get_mut(&slot) else { return };
        if let Some(part) = fetch.parts.iter_mut().find(|part| part.partition == *partition) {
            part.bytes = bytes;
        }
        let gathered = fetch.parts.iter().fold(0usize, |sum, part| sum.saturating_add(part.bytes));
        if gathered >= fetch.min_bytes {
            self.answer(slot);
        }
    }

    /// A Fetch has arrived behind the parked ones of the same follower's connection: they are answered now, so that a partition that it adds
    /// or has truncated does not wait.
    pub fn release(&mut self, connection: ConnectionId) {
        for slot in self.of(connection).map(|(slot, _)| *slot).collect::<Vec<_>>() {
            self.answer(slot);
        }
    }

    /// Time passed.
    pub fn expire(&mut self, now: Monotonic) {
        let due: Vec<_> =
            self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, slot)| *slot).collect();
        for slot in due {
            self.answer(slot);
        }
    }

    /// The connection is gone, and its Fetches with it.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        for slot in self.of(connection).map(|(slot, _)| *slot).collect::<Vec<_>>() {
            self.remove(slot);
        }
        self.ready.retain(|ready| match ready {
            FetchReady::Answer(slot) | FetchReady::Measure { slot, .. } => slot.connection != connection,
        });
    }

    /// Takes what is to be done.
    #[must_use = "a Fetch that is taken has to be answered"]
    pub fn take_ready(&mut self) -> Vec<FetchReady<P>> {
        std::mem::take(&mut self.ready)
    }

    /// When [`Fetches::expire`] has something to do.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// How many Fetches are parked.
    pub fn parked_count(&self) -> usize {
        self.parked.len()
    }

    fn of(&self, connection: ConnectionId) -> impl Iterator<Item = (&Slot, &ParkedFetch<P>)> {
        let (first, last) = (Slot { connection, number: 0 }, Slot { connection, number: u64::MAX });
        self.parked.range(first..=last)
    }

    fn answer(&mut self, slot: Slot) {
        if self.remove(slot) {
            self.ready.retain(|ready| !matches!(ready, FetchReady::Measure { slot: of, .. } if *of == slot));
            self.ready.push(FetchReady::Answer(slot));
        }
    }

    fn remove(&mut self, slot: Slot) -> bool {
        let Some(fetch) = self.parked.remove(&slot) else { return false };
        self.deadlines.remove(&(fetch.deadline, slot));
        for part in fetch.parts {
            self.measuring.remove(&(slot, part.partition.clone()));
            let key = (part.partition, part.ceiling);
            if let Some(places) = self.interests.get_mut(&key) {
                places.remove(&(part.from, slot));
                if places.is_empty() {
                    self.interests.remove(&key);
                }
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn slot(connection: u64, number: u64) -> Slot {
        Slot { connection: ConnectionId(connection), number }
    }

    fn at(value: i64) -> Offset {
        Offset::new(value).unwrap()
    }

    fn ms(value: u64) -> Monotonic {
        Monotonic::from_duration(Duration::from_millis(value))
    }

    fn fetch(
        slot: Slot,
        min_bytes: usize,
        ceiling: Ceiling,
        parts: &[(&'static str, i64)],
    ) -> ParkedFetch<&'static str> {
        let part = |(partition, from): &(&'static str, i64)| FetchPart {
            partition: *partition,
            ceiling,
            from: at(*from),
            bytes: 0,
        };
        ParkedFetch { slot, min_bytes, deadline: ms(500), parts: parts.iter().map(part).collect() }
    }

    #[test]
    fn followers_wake_on_written_and_consumers_on_the_high_watermark() {
        let mut fetches = Fetches::new(FetchLimits::default());
        fetches.park(fetch(slot(1, 0), 1, Ceiling::Written, &[("p", 10), ("q", 0)])).unwrap();
        fetches.park(fetch(slot(2, 0), 1, Ceiling::HighWatermark, &[("p", 8)])).unwrap();
        fetches.raised(&"p", Ceiling::Written, at(10));
        assert_eq!(fetches.take_ready(), [], "the offset itself is not below the ceiling yet");
        fetches.raised(&"p", Ceiling::Written, at(11));
        assert_eq!(fetches.take_ready(), [FetchReady::Answer(slot(1, 0))]);
        fetches.raised(&"q", Ceiling::Written, at(11));
        assert_eq!(fetches.take_ready(), [], "it is parked no longer");
        fetches.raised(&"p", Ceiling::HighWatermark, at(9));
        assert_eq!(fetches.take_ready(), [FetchReady::Answer(slot(2, 0))]);
        assert_eq!((fetches.parked_count(), fetches.next_deadline()), (0, None));
    }

    #[test]
    fn a_fetch_that_wants_more_is_measured_until_it_has_enough() {
        let mut fetches = Fetches::new(FetchLimits::default());
        let one = slot(1, 0);
        fetches.park(fetch(one, 100, Ceiling::HighWatermark, &[("p", 0), ("q", 0)])).unwrap();
        fetches.raised(&"p", Ceiling::HighWatermark, at(1));
        fetches.raised(&"p", Ceiling::HighWatermark, at(2));
        let measure = |partition| FetchReady::Measure { slot: one, partition, from: at(0) };
        assert_eq!(fetches.take_ready(), [measure("p")], "once is enough");
        fetches.gathered(one, &"p", 60);
        fetches.raised(&"q", Ceiling::HighWatermark, at(1));
        assert_eq!(fetches.take_ready(), [measure("q")]);
        fetches.gathered(one, &"q", 39);
        assert_eq!(fetches.take_ready(), []);
        fetches.raised(&"p", Ceiling::HighWatermark, at(3));
        fetches.gathered(one, &"p", 61);
        assert_eq!(fetches.take_ready(), [FetchReady::Answer(one)], "the measure that was asked for is void");
    }

    #[test]
    fn deadlines_changes_and_a_fetch_behind_release() {
        let mut fetches = Fetches::new(FetchLimits::default());
        fetches.park(fetch(slot(1, 0), 1, Ceiling::Written, &[("p", 0)])).unwrap();
        fetches.park(fetch(slot(2, 0), 1, Ceiling::HighWatermark, &[("p", 0)])).unwrap();
        fetches.park(fetch(slot(3, 0), 1, Ceiling::HighWatermark, &[("q", 0)])).unwrap();
        fetches.park(fetch(slot(4, 7), 1, Ceiling::Written, &[("q", 0)])).unwrap();
        fetches.changed(&"p");
        assert_eq!(fetches.take_ready(), [FetchReady::Answer(slot(1, 0)), FetchReady::Answer(slot(2, 0))]);
        fetches.release(ConnectionId(4));
        assert_eq!(fetches.take_ready(), [FetchReady::Answer(slot(4, 7))]);
        fetches.expire(ms(499));
        assert_eq!((fetches.take_ready(), fetches.next_deadline()), (vec![], Some(ms(500))));
        fetches.expire(ms(500));
        assert_eq!(fetches.take_ready(), [FetchReady::Answer(slot(3, 0))]);
    }

    #[test]
    fn parked_parts_are_bounded_and_go_with_their_connection() {
        let mut fetches = Fetches::new(FetchLimits { parts_per_connection_max: 2 });
        let consumer = |number, parts| fetch(slot(1, number), 1, Ceiling::HighWatermark, parts);
        fetches.park(consumer(0, &[("p", 0), ("q", 0)])).unwrap();
        let refused = fetches.park(consumer(1, &[("r", 0)]));
        assert_eq!(refused, Err(TooManyParts { connection: ConnectionId(1), parts: 3 }));
        fetches.raised(&"p", Ceiling::HighWatermark, at(1));
        fetches.disconnect(ConnectionId(1));
        fetches.park(fetch(slot(2, 0), 1, Ceiling::Written, &[("p", 0), ("q", 0), ("r", 0)])).unwrap();
        fetches.disconnect(ConnectionId(2));
        assert_eq!(fetches.take_ready(), []);
        assert!(fetches.interests.is_empty() && fetches.deadlines.is_empty() && fetches.parked.is_empty());
    }
}
