//! A broker's way to the controller: calls go out, replies come in whatever order, and a call that can have none is told so.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::units::Monotonic;
use highwater_replication::controller::{ControllerCall, ControllerReply, ControllerRequest};
use highwater_replication::pending::ConnectionId;
use highwater_replication::shard::ControllerCallId;
use highwater_replication::wire::highwater::HighwaterRequest;
use highwater_replication::wire::{self, ApiKey, RequestHeader, Response};

use super::Caller;
use crate::serve::broker::Letter;
use crate::serve::mailbox::Mailbox;
use crate::serve::sockets::Sockets;
use crate::settings::HostPort;

/// How long a controller may take beyond the time that a request allows it.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// How the controller is reached.
#[derive(Clone, Debug)]
pub(crate) enum Reached {
    /// Over TCP.
    At(HostPort),
    /// By a call in this process.
    Here(Caller),
}

/// See the module's documentation.
pub(crate) struct ControllerLink {
    reached: Reached,
    mailbox: Mailbox<Letter>,
    connection: Option<ConnectionId>,
    /// By correlation id; with the time at which the reply is given up.
    open: BTreeMap<i32, (ControllerCallId, Monotonic)>,
    last_correlation_id: i32,
}

/// A call that has no reply, and may have been carried out all the same.
pub(crate) type Unanswered = Vec<ControllerCallId>;

impl ControllerLink {
    pub(crate) fn new(reached: Reached, mailbox: Mailbox<Letter>) -> Self {
        Self { reached, mailbox, connection: None, open: BTreeMap::new(), last_correlation_id: 0 }
    }

    /// Calls; a lost connection is made again.
    pub(crate) fn call(
        &mut self,
        now: Monotonic,
        id: ControllerCallId,
        call: ControllerCall,
        sockets: &mut Sockets<Letter>,
    ) {
        let address = match &self.reached {
            Reached::At(address) => address.clone(),
            Reached::Here(caller) => {
                let mailbox = self.mailbox.clone();
                return caller.call(call, move |reply| mailbox.push(Letter::Controller(id, reply)));
            }
        };
        let connection = *self.connection.get_or_insert_with(|| sockets.connect(address));
        self.last_correlation_id = self.last_correlation_id.wrapping_add(1);
        let header = RequestHeader {
            api: ApiKey::Highwater,
            version: *ApiKey::Highwater.versions().end(),
            correlation_id: self.last_correlation_id,
            client_id: None,
        };
        let due = now.after(patience(&call.request));
        match wire::encode_request(&header, &HighwaterRequest { json: call.encode() }.into()) {
            Ok(parts) => {
                self.open.insert(self.last_correlation_id, (id, due));
                sockets.send(connection, parts);
                sockets.flush(connection);
            }
            // Larger than a frame can be.
            Err(_) => self.mailbox.push(Letter::Controller(id, None)),
        }
    }

    /// Whether the connection is this link's.
    pub(crate) fn owns(&self, connection: ConnectionId) -> bool {
        self.connection == Some(connection)
    }

    /// A frame came on the link's connection. `Err` if it cannot be read: the connection is of no use any more.
    pub(crate) fn frame(
        &mut self,
        frame: Bytes,
    ) -> Result<Option<(ControllerCallId, ControllerReply)>, Unreadable> {
        let version = *ApiKey::Highwater.versions().end();
        let (correlation_id, Response::Highwater(body)) =
            wire::decode_response(ApiKey::Highwater, version, frame).map_err(|_| Unreadable)?
        else {
            return Err(Unreadable);
        };
        let reply = ControllerReply::decode(&body.json).map_err(|_| Unreadable)?;
        // Whoever was given up may still be answered.
        Ok(self.open.remove(&correlation_id).map(|(id, _)| (id, reply)))
    }

    /// The connection is gone, and the replies with it.
    pub(crate) fn gone(&mut self) -> Unanswered {
        self.connection = None;
        std::mem::take(&mut self.open).into_values().map(|(id, _)| id).collect()
    }

    /// Gives up calls whose time is over.
    pub(crate) fn overdue(&mut self, now: Monotonic) -> Unanswered {
        if self.next_deadline().is_none_or(|due| due > now) {
            return Vec::new();
        }
        let late: Vec<i32> =
            self.open.iter().filter(|(_, (_, due))| *due <= now).map(|(id, _)| *id).collect();
        late.iter().filter_map(|id| Some(self.open.remove(id)?.0)).collect()
    }

    /// When [`ControllerLink::overdue`] has something to do.
    pub(crate) fn next_deadline(&self) -> Option<Monotonic> {
        self.open.values().map(|(_, due)| *due).min()
    }

    /// The connection to be closed, if there is one.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        self.connection
    }
}

/// What came is not a reply.
#[derive(Debug)]
pub(crate) struct Unreadable;

fn patience(request: &ControllerRequest) -> Duration {
    match request {
        ControllerRequest::Poll { wait_ms, .. } => ANSWER_WAIT + Duration::from_millis(*wait_ms),
        ControllerRequest::CreateTopic(topic) => {
            ANSWER_WAIT + Duration::from_millis(topic.timeout_ms.min(24 * 3_600_000))
        }
        ControllerRequest::Register(_)
        | ControllerRequest::Heartbeat
        | ControllerRequest::AlterIsr(_)
        | ControllerRequest::Report(_)
        | ControllerRequest::Resign { .. }
        | ControllerRequest::DeleteTopic { .. }
        | ControllerRequest::AllocateProducerIds
        | ControllerRequest::Elect { .. }
        | ControllerRequest::ControlledStop
        | ControllerRequest::ReportIntegrity { .. }
        | ControllerRequest::Reassign { .. }
        | ControllerRequest::ProcessEnded { .. } => ANSWER_WAIT,
    }
}
