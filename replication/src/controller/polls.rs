//! Brokers ask for the changes since a version; who is up to date waits here.

use std::time::Duration;

use highwater_engine::units::{Monotonic, NodeId};

use super::input::CallId;
use super::machine::Controller;
use super::protocol::{ControllerReply, POLL_WAIT_MS_MAX};

/// A poll that is held back until there is news.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldPoll {
    pub(super) id: CallId,
    pub(super) node: NodeId,
    pub(super) since: u64,
    pub(super) deadline: Monotonic,
}

impl Controller {
    pub(super) fn poll(&mut self, id: CallId, node: NodeId, since: Option<u64>, wait_ms: u64) {
        let wait = Duration::from_millis(wait_ms.min(POLL_WAIT_MS_MAX));
        match since {
            Some(since) if since == self.state.version && self.polls.len() < self.config.waiting_max => {
                let deadline = self.now.monotonic.after(wait);
                self.polls.push(HeldPoll { id, node, since, deadline });
            }
            since => {
                let reply = self.changes_since(since);
                self.reply(id, reply);
            }
        }
    }

    fn changes_since(&self, since: Option<u64>) -> ControllerReply {
        let whole = || ControllerReply::Whole(Box::new(self.state.clone()));
        let Some(from) = since else { return whole() };
        let count = self.state.version.checked_sub(from).and_then(|count| usize::try_from(count).ok());
        match count.and_then(|count| self.recent.len().checked_sub(count)) {
            Some(skip) => {
                ControllerReply::Changes { from, changes: self.recent.iter().skip(skip).cloned().collect() }
            }
            None => whole(),
        }
    }

    /// Answers who waited for what is there now, or waited long enough.
    pub(super) fn answer_polls(&mut self) {
        let (version, now) = (self.state.version, self.now.monotonic);
        let (due, held) = self.polls.iter().partition(|poll| poll.since != version || poll.deadline <= now);
        self.polls = held;
        let due: Vec<HeldPoll> = due;
        for poll in due {
            let reply = self.changes_since(Some(poll.since));
            self.reply(poll.id, reply);
        }
    }

    /// Tells a broker's polls that its session is over.
    pub(super) fn drop_polls_of(&mut self, node: NodeId) {
        let (dropped, held): (Vec<HeldPoll>, Vec<HeldPoll>) =
            self.polls.iter().partition(|poll| poll.node == node);
        self.polls = held;
        for poll in dropped {
            self.reply(poll.id, ControllerReply::SessionFenced);
        }
    }
}
