//! Does what the shard wants done.

use highwater_engine::units::Monotonic;
use highwater_replication::controller::RegistrationRefusal;
use highwater_replication::shard::{Event, Lane, News, Out};

use super::{Broker, Ending, Stage};
use crate::serve::groups;
use crate::settings::HostPort;

impl Broker {
    pub(super) fn carry_out(&mut self, now: Monotonic, out: Out) {
        match out {
            Out::Frame { slot, parts } if groups::is_own(slot) => {
                self.groups.own_answer(self.clock.now(), slot, &parts);
            }
            Out::Frame { slot, parts } => {
                self.replies.fill(slot, Some(parts).filter(|parts| !parts.is_empty()));
                self.dirty.insert(slot.connection);
            }
            Out::Close { connection, why } => self.close(connection, &why.to_string()),
            Out::PeerFrame { lane, parts } => self.ask_leader(lane, parts),
            Out::PeerClose { lane } => {
                if let Some(connection) = self.peers.remove(lane) {
                    self.sockets.close(connection);
                }
            }
            Out::Controller { call, request } => self.link.call(now, call, request, &mut self.sockets),
            Out::Answer { ask, reply } => self.answered(ask, reply),
            Out::Job(job) => self.jobs.run(job),
            Out::MayStop => self.stage = Stage::Over(Ending::Clean),
            Out::News(news) => self.news(news),
        }
    }

    /// Sends a leader a request; a connection is made if there is none to where the leader is now.
    fn ask_leader(&mut self, lane: Lane, parts: Vec<bytes::Bytes>) {
        let Some(broker) = self.shard.view().state().brokers.get(&lane.leader) else {
            return self.tell(Event::PeerDown { lane });
        };
        let address = HostPort { host: broker.host.clone(), port: broker.port };
        if let Some(old) = self.peers.remove_if_elsewhere(lane, &address) {
            self.sockets.close(old);
        }
        let sockets = &mut self.sockets;
        let connection = self.peers.connection(lane, address, |address| sockets.connect(address));
        self.sockets.send(connection, parts);
        self.dirty.insert(connection);
    }

    fn news(&mut self, news: News) {
        match &news {
            News::SessionBegan { cluster_id } => {
                // Without one it is over again already, and the next begins.
                if let Some(session) = self.shard.session() {
                    match self.home.bind(self.shard.store(), cluster_id, session) {
                        Ok(None) => {}
                        Ok(Some(why)) => self.herald.note(format!("the session is not written down: {why}")),
                        Err(error) => self.fail(error.to_string()),
                    }
                }
            }
            // Its old session is not over yet; it is tried again.
            News::RegistrationRefused(RegistrationRefusal::DuplicateNode { .. }) => {}
            News::RegistrationRefused(refusal) => {
                self.fail(format!("the controller refuses this broker: {refusal}"));
            }
            News::StoreFailed(failure) => self.fail(failure.to_string()),
            News::SessionEnded
            | News::Partition { .. }
            | News::Truncated { .. }
            | News::LogFailed { .. }
            | News::Stray { .. }
            | News::Panicked { .. }
            | _ => {}
        }
        self.herald.news(news);
    }
}
