//! A broker's conversation with the controller: registration, heartbeats, the poll for changes, and calls on behalf of others. Pure.
//!
//! It knows sessions and calls, and refuses to know what a change means. The heartbeat is sent from the same turn that serves the
//! partitions, on purpose: a broker whose loop hangs is to be fenced, not kept alive by a thread that does not.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::units::{Monotonic, NodeId};

use super::event::ControllerCallId;
use crate::controller::{
    ControllerCall, ControllerReply, ControllerRequest, LastStop, Registration, RegistrationRefusal, Sender,
    SessionBegun,
};
use crate::ids::BrokerEpoch;

/// How long the controller may hold a poll back.
const POLL_WAIT: Duration = Duration::from_secs(10);
/// Between two tries while the controller cannot be reached.
const RETRY: Duration = Duration::from_millis(100);
/// Before the first session tells the real one.
const HEARTBEAT_FIRST: Duration = Duration::from_secs(1);

/// The conversation of one broker.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "which kinds of call are open, each on its own")]
pub(super) struct Link<T> {
    node: NodeId,
    session: Option<BrokerEpoch>,
    refused: bool,
    /// The session that ended while this process ran on.
    ended: Option<BrokerEpoch>,
    last_stop: LastStop,
    heartbeat_every: Duration,
    next_call: u64,
    open: BTreeMap<ControllerCallId, (Option<BrokerEpoch>, Open<T>)>,
    registering: bool,
    polling: bool,
    beating: bool,
    retry_at: Option<Monotonic>,
    heard_at: Monotonic,
    out: Vec<(ControllerCallId, ControllerCall)>,
}

/// What an open call is for.
#[derive(Debug)]
enum Open<T> {
    Register,
    Poll,
    Heartbeat,
    For(T),
}

/// What an answer brings.
#[derive(Debug)]
pub(super) enum Heard<T> {
    /// A session began; the view has to be had as a whole.
    Began(SessionBegun),
    /// The session is over.
    Ended,
    /// The controller does not let this broker in.
    Refused(RegistrationRefusal),
    /// News for the view: [`ControllerReply::Changes`] or [`ControllerReply::Whole`].
    View(ControllerReply),
    /// The answer to a call on behalf of somebody; `None` if there is none.
    Answer(T, Option<ControllerReply>),
    /// Nothing of interest.
    Nothing,
}

impl<T> Link<T> {
    /// Before the first registration.
    pub(super) fn new(node: NodeId, last_stop: LastStop, now: Monotonic) -> Self {
        Self {
            node,
            session: None,
            refused: false,
            ended: None,
            last_stop,
            heartbeat_every: HEARTBEAT_FIRST,
            next_call: 0,
            open: BTreeMap::new(),
            registering: false,
            polling: false,
            beating: false,
            retry_at: None,
            heard_at: now,
            out: Vec::new(),
        }
    }

    /// The present session.
    pub(super) const fn session(&self) -> Option<BrokerEpoch> {
        self.session
    }

    /// The present session, or the last one of this process that is over.
    pub(super) fn last_session(&self) -> Option<BrokerEpoch> {
        self.session.or(self.ended)
    }

    /// How the last session ended, for a registration.
    pub(super) fn last_stop(&self) -> LastStop {
        self.ended.map_or(self.last_stop, |session| LastStop::StillRunning { session })
    }

    /// Asks the controller something in this session; without a session there is no answer, which is told at once.
    pub(super) fn ask(&mut self, request: ControllerRequest, on_behalf: T) -> Result<(), T> {
        if self.session.is_none() {
            return Err(on_behalf);
        }
        self.call(request, Open::For(on_behalf));
        Ok(())
    }

    fn call(&mut self, request: ControllerRequest, purpose: Open<T>) {
        let id = ControllerCallId(self.next_call);
        self.next_call += 1;
        let sender = self.session.map(|session| Sender { node: self.node, session });
        self.out.push((id, ControllerCall { sender, request }));
        self.open.insert(id, (self.session, purpose));
    }

    /// Does what is due: registers, polls since `version`, says that it is there.
    pub(super) fn turn(
        &mut self,
        now: Monotonic,
        version: Option<u64>,
        registration: impl FnOnce(LastStop) -> Registration,
    ) {
        if self.refused || self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        self.retry_at = None;
        if self.session.is_none() {
            if !self.registering {
                self.registering = true;
                let registration = registration(self.last_stop());
                self.call(ControllerRequest::Register(registration), Open::Register);
            }
            return;
        }
        if !self.polling {
            self.polling = true;
            let wait_ms = u64::try_from(POLL_WAIT.as_millis()).unwrap_or(u64::MAX);
            self.call(ControllerRequest::Poll { since: version, wait_ms }, Open::Poll);
            self.heard_at = now;
        } else if !self.beating && now.since(self.heard_at) >= self.heartbeat_every {
            self.beating = true;
            self.heard_at = now;
            self.call(ControllerRequest::Heartbeat, Open::Heartbeat);
        }
    }

    /// Takes what came of a call.
    pub(super) fn answered(
        &mut self,
        now: Monotonic,
        id: ControllerCallId,
        reply: Option<ControllerReply>,
    ) -> Heard<T> {
        let Some((session, purpose)) = self.open.remove(&id) else { return Heard::Nothing };
        match &purpose {
            Open::Register => self.registering = false,
            Open::Poll => self.polling = false,
            Open::Heartbeat => self.beating = false,
            Open::For(_) => {}
        }
        if reply.is_none() && !matches!(purpose, Open::For(_)) {
            self.retry_at = Some(now.after(RETRY));
            return Heard::Nothing;
        }
        if reply == Some(ControllerReply::SessionFenced) {
            return self.fenced(session, purpose);
        }
        match (purpose, reply) {
            (Open::Register, Some(ControllerReply::Registered(Ok(begun)))) => {
                self.session = Some(begun.session);
                self.ended = None;
                self.heartbeat_every = Duration::from_millis(begun.session_timeout_ms) / 4;
                self.heard_at = now;
                Heard::Began(begun)
            }
            (Open::Register, Some(ControllerReply::Registered(Err(refusal)))) => {
                self.refused = !matches!(refusal, RegistrationRefusal::DuplicateNode { .. });
                self.retry_at = Some(now.after(RETRY));
                Heard::Refused(refusal)
            }
            (Open::Poll, Some(reply @ (ControllerReply::Changes { .. } | ControllerReply::Whole(_)))) => {
                Heard::View(reply)
            }
            (Open::For(on_behalf), reply) => Heard::Answer(on_behalf, reply),
            (Open::Register | Open::Poll | Open::Heartbeat, _) => Heard::Nothing,
        }
    }

    /// A session is over: the present one, unless the call was of an earlier one. Calls on behalf of others that are still open get their
    /// own answers; its poll and its heartbeat mean nothing any more.
    fn fenced(&mut self, session: Option<BrokerEpoch>, purpose: Open<T>) -> Heard<T> {
        if let Open::For(on_behalf) = purpose {
            // The poll or the heartbeat hears it too and begins the new session.
            return Heard::Answer(on_behalf, None);
        }
        if session.is_none() || session != self.session {
            return Heard::Nothing;
        }
        self.ended = self.session.take();
        self.open.retain(|_, (_, purpose)| matches!(purpose, Open::For(_)));
        (self.polling, self.beating) = (false, false);
        Heard::Ended
    }

    /// The calls that were made since.
    pub(super) fn take_calls(&mut self) -> Vec<(ControllerCallId, ControllerCall)> {
        std::mem::take(&mut self.out)
    }

    /// When [`Link::turn`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        if self.refused {
            return None;
        }
        if let Some(at) = self.retry_at {
            return Some(at);
        }
        match self.session {
            Some(_) if self.polling && !self.beating => Some(self.heard_at.after(self.heartbeat_every)),
            _ => None,
        }
    }
}
