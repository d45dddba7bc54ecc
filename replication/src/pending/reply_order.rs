//! A connection's replies leave in the order of its requests, whatever order they are ready in. What a reply is, is the caller's.

use std::collections::{BTreeMap, VecDeque};

use super::ConnectionId;

/// The place of one request's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Whose request.
    pub connection: ConnectionId,
    /// The how-manieth of that connection.
    pub number: u64,
}

/// The connection has as many unanswered requests as it may: stop reading from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection {connection:?} has {open} unanswered requests already")]
pub struct TooManyRequests {
    /// Which connection.
    pub connection: ConnectionId,
    /// How many.
    pub open: usize,
}

/// The slots of all connections.
#[derive(Debug)]
pub struct ReplyOrder<R> {
    connections: BTreeMap<ConnectionId, Lane<R>>,
    open_max: usize,
}

#[derive(Debug)]
struct Lane<R> {
    /// The number of the first place in `places`.
    first: u64,
    places: VecDeque<Place<R>>,
}

#[derive(Debug)]
enum Place<R> {
    Open,
    Filled(R),
    /// A request that has no reply (acks=0).
    Silent,
}

impl<R> ReplyOrder<R> {
    /// No connections yet; each may have `open_max` requests that are not answered.
    pub fn new(open_max: usize) -> Self {
        Self { connections: BTreeMap::new(), open_max }
    }

    /// Takes a place behind the connection's earlier requests.
    pub fn open(&mut self, connection: ConnectionId) -> Result<Slot, TooManyRequests> {
        let lane =
            self.connections.entry(connection).or_insert_with(|| Lane { first: 0, places: VecDeque::new() });
        let open = lane.places.len();
        if open >= self.open_max {
            return Err(TooManyRequests { connection, open });
        }
        lane.places.push_back(Place::Open);
        Ok(Slot { connection, number: lane.first + open as u64 })
    }

    /// Puts a reply into its place; `None` for a request that has none. The first one counts; a place that is gone is no matter.
    pub fn fill(&mut self, slot: Slot, reply: Option<R>) {
        if let Some(place) = self.place(slot)
            && matches!(place, Place::Open)
        {
            *place = reply.map_or(Place::Silent, Place::Filled);
        }
    }

    /// Whether the request still waits for its reply.
    pub fn is_open(&self, slot: Slot) -> bool {
        let lane = self.connections.get(&slot.connection);
        let place = lane.and_then(|lane| lane.places.get(Self::index(lane.first, slot.number)?));
        matches!(place, Some(Place::Open))
    }

    /// How many requests of the connection are not answered.
    pub fn open_count(&self, connection: ConnectionId) -> usize {
        self.connections.get(&connection).map_or(0, |lane| lane.places.len())
    }

    /// Takes the replies that may leave now, in order.
    #[must_use = "a reply that is taken and not sent is lost"]
    pub fn take(&mut self, connection: ConnectionId) -> Vec<R> {
        let mut ready = Vec::new();
        let Some(lane) = self.connections.get_mut(&connection) else { return ready };
        while let Some(place) = lane.places.pop_front() {
            match place {
                Place::Open => {
                    lane.places.push_front(Place::Open);
                    break;
                }
                Place::Filled(reply) => ready.push(reply),
                Place::Silent => {}
            }
            lane.first += 1;
        }
        ready
    }

    /// The connection is gone, and its replies with it.
    pub fn disconnect(&mut self, connection: ConnectionId) {
        self.connections.remove(&connection);
    }

    fn place(&mut self, slot: Slot) -> Option<&mut Place<R>> {
        let lane = self.connections.get_mut(&slot.connection)?;
        lane.places.get_mut(Self::index(lane.first, slot.number)?)
    }

    fn index(first: u64, number: u64) -> Option<usize> {
        number.checked_sub(first).and_then(|index| usize::try_from(index).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ConnectionId = ConnectionId(1);

    #[test]
    fn replies_leave_in_the_order_of_requests() {
        let mut order = ReplyOrder::new(10);
        let slots: Vec<_> = (0..4).map(|_| order.open(ONE).unwrap()).collect();
        order.fill(slots[1], Some("b"));
        order.fill(slots[2], None);
        assert_eq!(order.take(ONE), Vec::<&str>::new());
        order.fill(slots[0], Some("a"));
        order.fill(slots[0], Some("again"));
        assert_eq!(order.take(ONE), ["a", "b"]);
        assert!(order.is_open(slots[3]) && !order.is_open(slots[2]));
        order.fill(slots[1], Some("late"));
        order.fill(slots[3], Some("d"));
        assert_eq!(order.take(ONE), ["d"]);
        assert_eq!(order.open(ONE).unwrap().number, 4);
    }

    #[test]
    fn open_requests_are_bounded_and_go_with_their_connection() {
        let mut order = ReplyOrder::new(1);
        let slot = order.open(ONE).unwrap();
        assert_eq!(order.open(ONE), Err(TooManyRequests { connection: ONE, open: 1 }));
        assert!(order.open(ConnectionId(2)).is_ok(), "each connection has its own bound");
        order.disconnect(ONE);
        order.fill(slot, Some("nobody hears it"));
        assert_eq!((order.take(ONE), order.open_count(ONE)), (vec![], 0));
    }
}
