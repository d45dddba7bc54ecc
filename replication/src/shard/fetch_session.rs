//! What a Fetch asks for, with its session applied.
//!
//! Anybody may say that it is a follower. What is kept from one Fetch to the next is kept only for one that names its present session with
//! the controller, which nobody else knows; and only such a one may name more than a client.

use std::sync::Arc;

use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Offset, TopicId};

use super::Shard;
use crate::ids::BrokerEpoch;
use crate::partition::Fetcher;
use crate::pending::{OpenedSession, PartRequest, SessionError, SessionFetch, Slot};
use crate::wire::fetch::{FetchRequest, FetchResponse};
use crate::wire::{ErrorCode, PARTS_MAX, RequestHeader};

/// How a Fetch names a partition; what it is answered under. All parts of a topic share its name, which may be as long as a frame.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PartName {
    pub(super) topic: Arc<str>,
    pub(super) id: Option<TopicId>,
    pub(super) partition: i32,
}

/// Why there is nothing to answer a Fetch with.
#[derive(Debug)]
pub(super) enum FetchRefused {
    /// More than a client may name, and it is not known to be a follower.
    TooManyParts,
    /// Its session is not as it says.
    Session(SessionError),
}

impl Shard {
    pub(super) fn open_session(
        &mut self,
        now: Monotonic,
        fetcher: Fetcher,
        body: FetchRequest,
    ) -> Result<OpenedSession<PartName>, FetchRefused> {
        let follower = self.known_follower(fetcher);
        if follower.is_none() && body.parts() > PARTS_MAX {
            return Err(FetchRefused::TooManyParts);
        }
        let opened =
            self.requests.sessions.open(now, follower, session_fetch(body), &mut self.requests.chance);
        opened.map_err(FetchRefused::Session)
    }

    /// The follower that asks, if it names the session that it has with the controller.
    fn known_follower(&self, fetcher: Fetcher) -> Option<NodeId> {
        let Fetcher::Follower { node, session: Some(session) } = fetcher else { return None };
        let broker = self.view.state().brokers.get(&node)?;
        (broker.session == session).then_some(node)
    }

    pub(super) fn refuse_fetch(&mut self, slot: Slot, header: &RequestHeader, refused: &FetchRefused) {
        let error_code = match refused {
            FetchRefused::TooManyParts => ErrorCode::InvalidRequest,
            FetchRefused::Session(SessionError::InvalidEpoch { .. }) => ErrorCode::InvalidFetchSessionEpoch,
            FetchRefused::Session(SessionError::NotFound { .. }) => ErrorCode::FetchSessionIdNotFound,
        };
        self.reply(slot, header, &FetchResponse { error_code, ..Default::default() }.into());
    }
}

/// Who asks: since version 15 a follower names its session with itself.
pub(super) fn fetcher(body: &FetchRequest) -> Fetcher {
    let state = &body.replica_state;
    match (NodeId::new(state.replica_id), NodeId::new(body.replica_id)) {
        (Some(node), _) => Fetcher::Follower { node, session: BrokerEpoch::new(state.replica_epoch) },
        (None, Some(node)) => Fetcher::Follower { node, session: None },
        (None, None) => Fetcher::Consumer,
    }
}

fn session_fetch(body: FetchRequest) -> SessionFetch<PartName> {
    let mut fetch = SessionFetch {
        id: body.session_id,
        epoch: body.session_epoch,
        parts: Vec::new(),
        forgotten: Vec::new(),
    };
    for topic in body.topics {
        let (name, id): (Arc<str>, _) = (topic.topic.into(), topic.topic_id);
        for part in topic.partitions {
            let request = PartRequest {
                current_epoch: LeaderEpoch::new(part.current_leader_epoch),
                offset: Offset::new(part.fetch_offset).unwrap_or(Offset::MAX),
                last_fetched_epoch: LeaderEpoch::new(part.last_fetched_epoch),
                log_start: Offset::new(part.log_start_offset),
                bytes_max: usize::try_from(part.partition_max_bytes).unwrap_or(0),
            };
            fetch.parts.push((PartName { topic: name.clone(), id, partition: part.partition }, request));
        }
    }
    for topic in body.forgotten_topics_data {
        let (name, id): (Arc<str>, _) = (topic.topic.into(), topic.topic_id);
        for partition in topic.partitions {
            fetch.forgotten.push(PartName { topic: name.clone(), id, partition });
        }
    }
    fetch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fetch::{FetchPartition, FetchTopic, ForgottenTopic};

    #[test]
    fn the_parts_of_a_topic_share_its_name() {
        let (topic, partitions) = ("n".repeat(1 << 20), vec![FetchPartition::default(); PARTS_MAX]);
        let forgotten =
            ForgottenTopic { topic: topic.clone(), partitions: vec![0; PARTS_MAX], topic_id: None };
        let topics = vec![FetchTopic { topic, partitions, topic_id: None }];
        let body = FetchRequest { topics, forgotten_topics_data: vec![forgotten], ..Default::default() };
        let fetch = session_fetch(body);
        let named: Vec<&PartName> = fetch.parts.iter().map(|(name, _)| name).collect();
        assert!(named.windows(2).all(|two| Arc::ptr_eq(&two[0].topic, &two[1].topic)));
        assert!(fetch.forgotten.windows(2).all(|two| Arc::ptr_eq(&two[0].topic, &two[1].topic)));
    }
}
