//! Clients: who they are, how they find a leader, and which of them a frame is for.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::wire::{self, ApiKey, Request, RequestHeader, Response};

use super::World;
use super::agenda::Happening;
use super::consumer::Consumer;
use super::network::{ClientId, End, Link, Opener, Toward};
use super::producer::Producer;

/// All clients.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    pub(crate) producers: BTreeMap<ClientId, Producer>,
    pub(crate) consumers: BTreeMap<ClientId, Consumer>,
    next: u32,
    pub(crate) next_producer_id: i64,
    pub(crate) next_batch: u64,
}

impl Clients {
    pub(crate) fn next_id(&mut self) -> ClientId {
        self.next += 1;
        ClientId(self.next)
    }
}

/// A connection to a broker, and what was asked on it.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) to: Option<(u64, NodeId)>,
    correlation: i32,
}

impl Line {
    pub(crate) fn next_correlation(&mut self) -> i32 {
        self.correlation += 1;
        self.correlation
    }
}

impl World {
    pub(super) fn client_turn(&mut self, client: ClientId) {
        if self.clients.producers.contains_key(&client) {
            self.producer_turn(client);
        } else {
            self.consumer_turn(client);
        }
    }

    pub(super) fn client_hears(&mut self, client: ClientId, connection: u64, frame: Bytes) {
        let line = self.line(client).and_then(|line| line.to);
        if line.map(|(id, _)| id) != Some(connection) {
            return;
        }
        if self.clients.producers.contains_key(&client) {
            self.producer_hears(client, frame);
        } else {
            self.consumer_hears(client, frame);
        }
        self.plan_soon(Happening::Client(client));
    }

    pub(super) fn client_loses(&mut self, client: ClientId, connection: u64) {
        let line = self.line(client).and_then(|line| line.to);
        if line.map(|(id, _)| id) == Some(connection) {
            self.hang_up(client);
            self.plan_soon(Happening::Client(client));
        }
    }

    fn line(&mut self, client: ClientId) -> Option<&mut Line> {
        match self.clients.producers.get_mut(&client) {
            Some(producer) => Some(&mut producer.line),
            None => self.clients.consumers.get_mut(&client).map(|consumer| &mut consumer.line),
        }
    }

    /// Gives a connection up; what was not answered on it is asked again on another.
    pub(super) fn hang_up(&mut self, client: ClientId) {
        if let Some((connection, _)) = self.line(client).and_then(|line| line.to.take()) {
            self.break_connection(connection);
        }
        if let Some(producer) = self.clients.producers.get_mut(&client) {
            producer.ask_again();
        }
        if let Some(consumer) = self.clients.consumers.get_mut(&client) {
            consumer.forget_question();
        }
    }

    /// Who leads, if the controller can be asked.
    pub(super) fn leader_for(&self, client: ClientId, partition: &TopicPartition) -> Option<NodeId> {
        let open = |from, to| self.network.link(from, to) == Link::Open;
        let reached =
            open(End::Client(client), End::Controller) && open(End::Controller, End::Client(client));
        self.controller.state().filter(|_| reached)?.partition(partition)?.leader
    }

    /// A connection to this node; another one is given up.
    pub(super) fn dial(&mut self, client: ClientId, node: NodeId) -> Option<u64> {
        let known = self.line(client)?.to;
        if let Some((connection, to)) = known {
            if to == node && self.network.connection(connection).is_some() {
                return Some(connection);
            }
            self.hang_up(client);
        }
        let connection = self.network.connect(Opener::Client(client), node);
        self.line(client)?.to = Some((connection, node));
        Some(connection)
    }

    /// Sends a request; gives its number.
    pub(super) fn request(
        &mut self,
        client: ClientId,
        connection: u64,
        version: i16,
        request: &Request,
    ) -> i32 {
        let correlation_id = self.line(client).map_or(0, Line::next_correlation);
        let header = RequestHeader { api: request.api(), version, correlation_id, client_id: None };
        let parts = wire::encode_request(&header, request).expect("a client's request fits in a frame");
        let frame = Bytes::from(parts.concat()).slice(4..);
        self.send(connection, Toward::Server, frame);
        correlation_id
    }

    pub(super) fn answer(
        &mut self,
        client: ClientId,
        api: ApiKey,
        version: i16,
        frame: Bytes,
    ) -> (i32, Response) {
        match wire::decode_response(api, version, frame) {
            Ok(answer) => answer,
            Err(error) => {
                self.note(format!("client {} cannot read its answer: {error}", client.0));
                panic!("{}", self.report());
            }
        }
    }
}
