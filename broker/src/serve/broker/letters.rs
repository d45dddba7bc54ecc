//! What happens to a broker: each letter becomes an event of the shard, or is answered here.

use std::time::Duration;

use bytes::Bytes;
use highwater_replication::pending::ConnectionId;
use highwater_replication::shard::{Event, Shard};
use highwater_replication::wire::ApiKey;

use super::{Broker, Ending, Letter, Stage};
use crate::serve::sockets::{Gone, SocketNews};
use crate::supervisor::lifeline::StopOrder;

/// How long handing over may take.
const HAND_OVER_WAIT: Duration = Duration::from_secs(10);

impl Broker {
    pub(super) fn read(&mut self, letter: Letter) {
        match letter {
            Letter::Socket(news) => self.socket(news),
            Letter::JobDone(done) => self.tell(Event::JobDone(done)),
            Letter::Controller(call, reply) => self.tell(Event::ControllerAnswered { call, reply }),
            Letter::Stop(order) => self.stop(order),
            Letter::Fail(why) => self.fail(why),
            Letter::Say(event) => self.herald.say(event),
        }
    }

    fn socket(&mut self, news: SocketNews) {
        match news {
            SocketNews::Accepted(stream) => {
                // At the bound it is closed at once.
                let _id = self.sockets.accept(stream);
            }
            SocketNews::Connected { id, stream } => self.sockets.connected(id, stream),
            SocketNews::Frame { id, frame, charged } => {
                if self.sockets.request_came(id, charged) {
                    self.frame(id, frame);
                }
            }
            SocketNews::Writable { id } => self.sockets.writable(id),
            SocketNews::Gone { id, why } => self.gone(id, &why),
        }
    }

    fn frame(&mut self, id: ConnectionId, frame: Bytes) {
        if let Some(lane) = self.peers.lane_of(id) {
            self.tell(Event::PeerFrame { lane, frame });
        } else if self.link.owns(id) {
            self.herald.controller_heard();
            match self.link.frame(frame) {
                Ok(Some((call, reply))) => self.tell(Event::ControllerAnswered { call, reply: Some(reply) }),
                Ok(None) => {}
                Err(_) => self.gone(id, &Gone::NotARequest),
            }
        } else {
            self.request(id, frame);
        }
    }

    /// A client's or a follower's request takes its place among the answers of its connection.
    fn request(&mut self, id: ConnectionId, frame: Bytes) {
        let Ok(slot) = self.replies.open(id) else {
            // The reader has a permit for each place, so there is always one.
            return self.close(id, "it has too many requests under way");
        };
        let api = frame.first_chunk().and_then(|key| ApiKey::from_code(i16::from_be_bytes(*key)));
        if api.is_some_and(Shard::answers) {
            self.tell(Event::Frame { slot, frame });
        } else {
            self.question(slot, frame);
        }
    }

    /// A connection ended: whoever waited at it hears of it.
    fn gone(&mut self, id: ConnectionId, why: &Gone) {
        if !self.sockets.close(id) {
            return;
        }
        if let Some(lane) = self.peers.remove_connection(id) {
            self.tell(Event::PeerDown { lane });
        } else if self.link.owns(id) {
            // One that ended is made again at once; only if that fails, people should know.
            match why {
                Gone::Broken(error) => self.herald.controller_unreachable(&error.to_string()),
                Gone::ConnectTimeout => self.herald.controller_unreachable(&why.to_string()),
                Gone::Closed
                | Gone::Idle
                | Gone::BadFrame(_)
                | Gone::NotARequest
                | Gone::Slow
                | Gone::Stalled => {}
            }
            let unanswered = self.link.gone();
            self.nobody_answers(&unanswered);
        } else {
            match why {
                Gone::Closed | Gone::Broken(_) | Gone::Idle | Gone::ConnectTimeout => {}
                Gone::BadFrame(_) | Gone::NotARequest | Gone::Slow | Gone::Stalled => {
                    self.herald.connection_closed(self.clock.now().monotonic, &why.to_string());
                }
            }
            self.replies.disconnect(id);
            self.tell(Event::Disconnected { connection: id });
        }
    }

    /// Closes a client's connection, and nobody else's.
    pub(super) fn close(&mut self, id: ConnectionId, why: &str) {
        if self.sockets.close(id) {
            self.herald.connection_closed(self.clock.now().monotonic, why);
            self.replies.disconnect(id);
            self.tell(Event::Disconnected { connection: id });
        }
    }

    fn stop(&mut self, order: StopOrder) {
        match (&self.stage, order) {
            (Stage::Serving, StopOrder::HandOver) => {
                self.stage = Stage::HandingOver { until: self.clock.now().monotonic.after(HAND_OVER_WAIT) };
                self.tell(Event::Stop);
            }
            // There is nothing to hand over, or nobody to hand it to, or no more time.
            (Stage::Joining(_) | Stage::Serving | Stage::HandingOver { .. }, _) => {
                self.stage = Stage::Over(Ending::Clean);
            }
            (Stage::Over(_), _) => {}
        }
    }
}
