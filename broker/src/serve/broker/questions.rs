//! Requests about the cluster: read, answered, or kept until the controller has spoken.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use highwater_engine::units::Now;
use highwater_replication::controller::{ControllerReply, ControllerRequest};
use highwater_replication::pending::Slot;
use highwater_replication::shard::{AskId, Event};
use highwater_replication::wire::{self, RequestHeader, Response};

use super::Broker;
use crate::serve::apis::{self, Answer, Facts, Finish, ProducerIds, Read, Wanted};
use crate::serve::groups::{self, Asker, Due};

/// Topics that are being made because somebody asked for them; further ones are made when those are.
const CREATIONS_MAX: usize = 1_000;

/// Where a response goes.
#[derive(Clone, Copy, Debug)]
pub(in crate::serve) struct Place {
    slot: Slot,
    version: i16,
    correlation_id: i32,
}

/// What the controller was asked for.
enum Purpose {
    /// The `index`-th reply of a request that waits.
    Part { waiting: u64, index: usize },
    /// A topic that a client's question makes.
    Creation(String),
    /// A block of producer ids.
    ProducerIds,
}

/// A request whose replies are not all there.
struct Waiting {
    place: Place,
    replies: Vec<Option<ControllerReply>>,
    open: usize,
    finish: Finish,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Questions {
    next: u64,
    asked: BTreeMap<AskId, Purpose>,
    waiting: BTreeMap<u64, Waiting>,
    creating: BTreeSet<String>,
    ids: ProducerIds<Place>,
}

impl Broker {
    pub(super) fn question(&mut self, slot: Slot, frame: Bytes) {
        let (header, request) = match apis::read(frame) {
            Ok(Read::Request(header, request)) => (header, *request),
            Ok(Read::Response(header, version, response)) => {
                return self.respond(place(slot, &header, version), &response);
            }
            Err(error) => return self.close(slot.connection, &error.to_string()),
        };
        let place = place(slot, &header, header.version);
        let now = self.clock.now();
        if groups::handles(header.api) {
            let from = self.sockets.address_of(slot.connection);
            let asker = Asker { client_id: header.client_id, from, version: header.version };
            let state = self.shard.view().state();
            if let Some(response) = self.groups.request(now, place, asker, request, state) {
                self.respond(place, &response);
            }
            return;
        }
        let replicas = || self.shard.replicas(now);
        let facts = Facts {
            node: self.node,
            state: self.shard.view().state(),
            settings: &self.settings,
            replicas: &replicas,
        };
        match apis::answer(&facts, header.version, request) {
            Some(Answer::Now(response)) => self.respond(place, &response),
            Some(Answer::NowAndCreate(response, names)) => {
                self.respond(place, &response);
                for name in names {
                    self.create(name);
                }
            }
            Some(Answer::Ask { requests, finish }) => self.wait(place, requests, finish),
            Some(Answer::ProducerId) => self.producer_id(place),
            None => self.close(slot.connection, "a request for the shard came here"),
        }
    }

    /// Does what is due for groups.
    pub(super) fn turn_of_groups(&mut self, now: Now) {
        for due in self.groups.turn(now, &self.shard) {
            match due {
                Due::Tell(event) => self.tell(event),
                Due::Answer(place, response) => self.respond(place, &response),
                Due::Note(why) => self.herald.note(why),
            }
        }
    }

    fn respond(&mut self, place: Place, response: &Response) {
        match wire::encode_response(place.version, place.correlation_id, response) {
            Ok(parts) => {
                self.replies.fill(place.slot, Some(parts));
                self.dirty.insert(place.slot.connection);
            }
            Err(error) => self.close(place.slot.connection, &error.to_string()),
        }
    }

    fn ask(&mut self, request: ControllerRequest, purpose: Purpose) {
        let ask = AskId(self.questions.next);
        self.questions.next += 1;
        self.questions.asked.insert(ask, purpose);
        self.tell(Event::Ask { ask, request });
    }

    fn create(&mut self, name: String) {
        if self.questions.creating.len() >= CREATIONS_MAX || !self.questions.creating.insert(name.clone()) {
            return;
        }
        self.ask(apis::automatic_topic(&self.settings, name.clone()), Purpose::Creation(name));
    }

    fn wait(&mut self, place: Place, requests: Vec<ControllerRequest>, finish: Finish) {
        let open = requests.len();
        if open == 0 {
            return self.respond(place, &finish(Vec::new()));
        }
        let waiting = self.questions.next;
        self.questions.next += 1;
        let replies = vec![None; open];
        self.questions.waiting.insert(waiting, Waiting { place, replies, open, finish });
        for (index, request) in requests.into_iter().enumerate() {
            self.ask(request, Purpose::Part { waiting, index });
        }
    }

    fn producer_id(&mut self, place: Place) {
        match self.questions.ids.want(place) {
            Wanted::Now(response) => self.respond(place, &response),
            Wanted::Ask => self.ask(ControllerRequest::AllocateProducerIds, Purpose::ProducerIds),
            Wanted::Wait => {}
        }
    }

    /// The controller answered, or nobody did.
    pub(super) fn answered(&mut self, ask: AskId, reply: Option<ControllerReply>) {
        match self.questions.asked.remove(&ask) {
            Some(Purpose::Part { waiting, index }) => self.part(waiting, index, reply),
            Some(Purpose::Creation(name)) => {
                // Whoever asked for the topic asks again, and sees what became of it.
                self.questions.creating.remove(&name);
            }
            Some(Purpose::ProducerIds) => {
                for (place, response) in self.questions.ids.granted(reply.as_ref()) {
                    self.respond(place, &response);
                }
            }
            None => {}
        }
    }

    fn part(&mut self, id: u64, index: usize, reply: Option<ControllerReply>) {
        let Some(waiting) = self.questions.waiting.get_mut(&id) else { return };
        if let Some(place) = waiting.replies.get_mut(index) {
            *place = reply;
        }
        waiting.open = waiting.open.saturating_sub(1);
        if waiting.open > 0 {
            return;
        }
        if let Some(Waiting { place, replies, finish, .. }) = self.questions.waiting.remove(&id) {
            self.respond(place, &finish(replies));
        }
    }
}

fn place(slot: Slot, header: &RequestHeader, version: i16) -> Place {
    Place { slot, version, correlation_id: header.correlation_id }
}
