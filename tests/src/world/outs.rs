//! What comes out of a shard is carried out, and what the network brings is told to it.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use highwater_engine::units::NodeId;
use highwater_replication::controller::{ControllerCall, ControllerReply, ControllerRequest};
use highwater_replication::pending::ConnectionId;
use highwater_replication::shard::{ControllerCallId, Event, Lane, News, Out};
use highwater_replication::wire::{self, Request};

use super::World;
use super::agenda::{Happening, Incarnation};
use super::network::{End, Link, Opener, Toward};

/// Bytes of the length in front of a frame.
const LENGTH_BYTES: usize = 4;
/// How long a host waits for the controller beyond what it asked for itself.
const CALL_PATIENCE: Duration = Duration::from_millis(700);

impl World {
    pub(super) fn carry_out(&mut self, id: NodeId, life: Incarnation, out: Out) {
        match out {
            Out::Frame { slot, parts } => {
                let Some(process) = self.process_of(id, life) else { return };
                let reply = (!parts.is_empty()).then(|| without_length(&parts));
                process.order.fill(slot, reply);
                let ready = process.order.take(slot.connection);
                for frame in ready {
                    self.reply_leaves(id, slot.connection.0, frame);
                }
            }
            Out::Close { connection, why } => {
                self.note(format!("{id} closes a connection: {why}"));
                self.count("connections closed by a broker");
                if let Some(process) = self.process_of(id, life) {
                    process.order.disconnect(connection);
                    process.shard.tell(Event::Disconnected { connection });
                }
                self.break_connection(connection.0);
            }
            Out::PeerFrame { lane, parts } => self.peer_frame(id, life, lane, without_length(&parts)),
            Out::PeerClose { lane } => {
                if let Some(connection) =
                    self.process_of(id, life).and_then(|process| process.lanes.remove(&lane))
                {
                    self.break_connection(connection);
                }
            }
            Out::Controller { call, request } => self.call_leaves(id, life, call, request),
            Out::Answer { .. } => {}
            Out::Job(job) => {
                let wait = self.some(Duration::from_millis(5));
                let Some(process) = self.process_of(id, life) else { return };
                let number = process.next_job;
                process.next_job += 1;
                process.jobs.insert(number, job);
                self.plan_in(wait, Happening::Job(id, life, number));
            }
            Out::MayStop => self.plan_soon(Happening::Stops(id, life)),
            Out::News(news) => self.hear_news(id, &news),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the rest is only written down")]
    fn hear_news(&mut self, id: NodeId, news: &News) {
        match news {
            News::Partition { name, event } => self.note(format!("{id} {name}: {event:?}")),
            News::Panicked { name, dump } => {
                self.note(format!("{id} {name}: {dump}"));
                panic!("{}", self.report());
            }
            News::LogFailed { name, why } => {
                self.count("failed logs");
                self.note(format!("{id} {name}: its log failed: {why}"));
            }
            News::LogReopened { name, end } => {
                self.count("logs opened again");
                self.note(format!("{id} {name}: its log is open again and ends at {end}"));
                self.ghost.reopened(id, name);
            }
            News::StoreFailed(failure) => {
                // A broker whose only directory has failed ends; its supervisor starts it again.
                self.count("failed directories");
                self.note(format!("{id}: {failure}"));
                self.process_dies(id, crate::invariants::Leaving::Process);
            }
            other => self.note(format!("{id}: {other:?}")),
        }
    }

    /// A frame of a follower for its leader.
    fn peer_frame(&mut self, id: NodeId, life: Incarnation, lane: Lane, frame: Bytes) {
        let opener = Opener::Follower { node: id, life, lane };
        let known = self.process_of(id, life).and_then(|process| process.lanes.get(&lane).copied());
        let connection = match known.filter(|known| self.network.connection(*known).is_some()) {
            Some(known) => known,
            None => self.network.connect(opener, lane.leader),
        };
        if let Some(process) = self.process_of(id, life) {
            process.lanes.insert(lane, connection);
        }
        self.send(connection, Toward::Server, frame);
    }

    pub(super) fn send(&mut self, connection: u64, toward: Toward, frame: Bytes) {
        let earliest = self.now.after(self.latency());
        self.network.send(&mut self.agenda, connection, toward, frame, earliest);
    }

    /// An answer leaves a broker; what it promises must be true now.
    fn reply_leaves(&mut self, id: NodeId, connection: u64, frame: Bytes) {
        if let Some(Opener::Client(client)) =
            self.network.connection(connection).map(|connection| connection.opener)
        {
            self.check_reply(client, id, &frame);
        }
        self.send(connection, Toward::Opener, frame);
    }

    /// A frame arrives, unless its link says otherwise.
    pub(super) fn arrives(&mut self, id: u64, toward: Toward, frame: Bytes) {
        let Some(connection) = self.network.connection(id) else { return };
        let (opener, server, server_life) = (connection.opener, connection.server, connection.server_life);
        let (from, to) = match toward {
            Toward::Server => (opener.end(), End::Node(server)),
            Toward::Opener => (End::Node(server), opener.end()),
        };
        match self.network.link(from, to) {
            Link::Open => {}
            Link::Cut => {
                self.count("frames lost");
                return self.break_connection(id);
            }
            Link::Held => {
                return self.network.hold(from, to, Happening::Arrives { connection: id, toward, frame });
            }
        }
        match (toward, opener) {
            (Toward::Server, _) => {
                let node = self.node(server);
                let (life, runs) = (node.life, node.process().is_some());
                if !runs || server_life.is_some_and(|known| known != life) {
                    return self.break_connection(id);
                }
                if let Some(connection) = self.network.connection(id) {
                    connection.server_life = Some(life);
                }
                self.serve(id, server, life, opener, frame);
            }
            (Toward::Opener, Opener::Follower { node, life, lane }) => {
                let Some(process) = self.process_of(node, life) else { return };
                if process.lanes.get(&lane) == Some(&id) {
                    process.shard.tell(Event::PeerFrame { lane, frame });
                    self.wake(node);
                }
            }
            (Toward::Opener, Opener::Client(client)) => self.client_hears(client, id, frame),
        }
    }

    fn serve(&mut self, id: u64, server: NodeId, life: Incarnation, opener: Opener, frame: Bytes) {
        if let Opener::Follower { node, .. } = opener {
            self.note_fetch(node, server, &frame);
        }
        let Some(process) = self.process_of(server, life) else { return };
        match process.order.open(ConnectionId(id)) {
            Ok(slot) => process.shard.tell(Event::Frame { slot, frame }),
            Err(_) => return self.break_connection(id),
        }
        self.wake(server);
    }

    /// The ghost notes in which epoch a follower asks.
    fn note_fetch(&mut self, follower: NodeId, leader: NodeId, frame: &Bytes) {
        if let Ok((_, Request::Fetch(fetch))) = wire::decode_request(frame.clone()) {
            self.ghost.fetch_arrived(follower, leader, &fetch);
        }
    }

    /// A connection is no more. Each end hears of it some time.
    pub(super) fn break_connection(&mut self, id: u64) {
        if !self.network.break_off(id) {
            return;
        }
        for toward in [Toward::Server, Toward::Opener] {
            let wait = self.some(Duration::from_millis(100));
            self.plan_in(wait, Happening::Broken { connection: id, toward });
        }
    }

    pub(super) fn hears_of_break(&mut self, id: u64, toward: Toward) {
        let Some(connection) = self.network.any_connection(id) else { return };
        let (opener, server, server_life) = (connection.opener, connection.server, connection.server_life);
        self.network.heard_of_break(id);
        match (toward, opener) {
            (Toward::Server, _) => {
                if let Some(life) = server_life
                    && let Some(process) = self.process_of(server, life)
                {
                    process.order.disconnect(ConnectionId(id));
                    process.shard.tell(Event::Disconnected { connection: ConnectionId(id) });
                    self.wake(server);
                }
            }
            (Toward::Opener, Opener::Follower { node, life, lane }) => {
                let Some(process) = self.process_of(node, life) else { return };
                if process.lanes.get(&lane) == Some(&id) {
                    process.lanes.remove(&lane);
                    process.shard.tell(Event::PeerDown { lane });
                    self.wake(node);
                }
            }
            (Toward::Opener, Opener::Client(client)) => self.client_loses(client, id),
        }
    }

    /// A call for the controller leaves its broker.
    #[expect(clippy::wildcard_enum_match_arm, reason = "only a poll is held back")]
    fn call_leaves(
        &mut self,
        node: NodeId,
        life: Incarnation,
        call: ControllerCallId,
        request: ControllerCall,
    ) {
        let patience = match request.request {
            ControllerRequest::Poll { wait_ms, .. } => CALL_PATIENCE + Duration::from_millis(wait_ms),
            _ => CALL_PATIENCE,
        };
        if let Some(process) = self.process_of(node, life) {
            process.calls.insert(call);
        }
        let latency = self.latency();
        self.plan_in(latency, Happening::CallArrives { node, life, call, request: Box::new(request) });
        self.plan_in(patience, Happening::CallOverdue { node, life, call });
    }

    pub(super) fn reply_arrives(
        &mut self,
        node: NodeId,
        life: Incarnation,
        call: ControllerCallId,
        reply: Box<ControllerReply>,
    ) {
        match self.network.link(End::Controller, End::Node(node)) {
            Link::Open => {}
            Link::Cut => {
                self.count("answers of the controller lost");
                return self.lose_controller(node, life);
            }
            Link::Held => {
                let happening = Happening::ReplyArrives { node, life, call, reply };
                return self.network.hold(End::Controller, End::Node(node), happening);
            }
        }
        self.answered(node, life, call, Some(*reply));
    }

    /// What goes to the controller goes over one connection: one frame is lost, and all calls on it have no answer.
    pub(super) fn lose_controller(&mut self, node: NodeId, life: Incarnation) {
        let open: Vec<ControllerCallId> = self
            .process_of(node, life)
            .map(|process| process.calls.iter().copied().collect())
            .unwrap_or_default();
        for call in open {
            let wait = self.some(Duration::from_millis(100));
            self.plan_in(wait, Happening::CallOverdue { node, life, call });
        }
    }

    pub(super) fn call_overdue(&mut self, node: NodeId, life: Incarnation, call: ControllerCallId) {
        if self.process_of(node, life).is_some_and(|process| process.calls.contains(&call)) {
            self.count("calls to the controller without an answer");
            self.answered(node, life, call, None);
            self.caller_gone(node, life, call);
        }
    }

    fn answered(
        &mut self,
        node: NodeId,
        life: Incarnation,
        call: ControllerCallId,
        reply: Option<ControllerReply>,
    ) {
        let Some(process) = self.process_of(node, life) else { return };
        if process.calls.remove(&call) {
            process.shard.tell(Event::ControllerAnswered { call, reply });
            self.wake(node);
        }
    }
}

fn without_length(parts: &[Bytes]) -> Bytes {
    let mut whole = BytesMut::new();
    for part in parts {
        whole.extend_from_slice(part);
    }
    whole.freeze().slice(LENGTH_BYTES..)
}
