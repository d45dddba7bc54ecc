//! Which connection is which lane's: at most one for each, to where its leader is.

use std::collections::{BTreeMap, HashMap};

use highwater_replication::pending::ConnectionId;
use highwater_replication::shard::Lane;

use crate::settings::HostPort;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Peers {
    by_lane: BTreeMap<Lane, (ConnectionId, HostPort)>,
    by_connection: HashMap<ConnectionId, Lane>,
}

impl Peers {
    /// The lane of a connection, if it is one's.
    pub(super) fn lane_of(&self, connection: ConnectionId) -> Option<Lane> {
        self.by_connection.get(&connection).copied()
    }

    /// The lane's connection, made if there is none.
    pub(super) fn connection(
        &mut self,
        lane: Lane,
        address: HostPort,
        connect: impl FnOnce(HostPort) -> ConnectionId,
    ) -> ConnectionId {
        let by_connection = &mut self.by_connection;
        let (connection, _) = self.by_lane.entry(lane).or_insert_with(|| {
            let connection = connect(address.clone());
            by_connection.insert(connection, lane);
            (connection, address)
        });
        *connection
    }

    /// Takes the lane's connection out if the leader is somewhere else now.
    pub(super) fn remove_if_elsewhere(&mut self, lane: Lane, address: &HostPort) -> Option<ConnectionId> {
        let (_, known) = self.by_lane.get(&lane)?;
        if known == address { None } else { self.remove(lane) }
    }

    /// Takes the lane's connection out.
    pub(super) fn remove(&mut self, lane: Lane) -> Option<ConnectionId> {
        let (connection, _) = self.by_lane.remove(&lane)?;
        self.by_connection.remove(&connection);
        Some(connection)
    }

    /// The connection is gone; whose it was.
    pub(super) fn remove_connection(&mut self, connection: ConnectionId) -> Option<Lane> {
        let lane = self.by_connection.remove(&connection)?;
        self.by_lane.remove(&lane);
        Some(lane)
    }
}

#[cfg(test)]
mod tests {
    use highwater_engine::units::NodeId;
    use highwater_replication::shard::LaneKind;

    use super::*;

    #[test]
    fn a_lane_has_one_connection_and_follows_its_leader() {
        let lane = Lane { leader: NodeId::new(2).unwrap(), kind: LaneKind::Written };
        let at = |port| HostPort { host: "127.0.0.1".to_owned(), port };
        let mut peers = Peers::default();
        assert_eq!(peers.connection(lane, at(1), |_| ConnectionId(7)), ConnectionId(7));
        assert_eq!(peers.connection(lane, at(1), |_| unreachable!()), ConnectionId(7));
        assert_eq!(peers.lane_of(ConnectionId(7)), Some(lane));
        assert_eq!(peers.remove_if_elsewhere(lane, &at(1)), None);
        assert_eq!(peers.remove_if_elsewhere(lane, &at(2)), Some(ConnectionId(7)));
        assert_eq!(peers.lane_of(ConnectionId(7)), None);
        peers.connection(lane, at(2), |_| ConnectionId(8));
        assert_eq!(peers.remove_connection(ConnectionId(8)), Some(lane));
        assert_eq!(peers.remove(lane), None);
    }
}
