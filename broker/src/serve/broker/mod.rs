//! The broker's loop: letters in, the shard's turn, what came of it out. One thread does sockets, machines and writes.
//!
//! ```text
//!   frames, jobs done, replies --letters--> tell -> turn(now) -> outs: answers, Fetches, calls, jobs, news
//!        ^                                                        |
//!        +---- sockets, controller, job thread <------------------+
//! ```
//! It reads the clock once a turn and decides nothing about data: it is the shard's host.

mod letters;
mod outs;
mod questions;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use highwater_engine::store::{JobDone, Store};
use highwater_engine::units::{Monotonic, NodeId};
use highwater_replication::controller::ControllerReply;
use highwater_replication::pending::{ConnectionId, ReplyOrder};
use highwater_replication::shard::{ControllerCallId, Event, Shard};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::JoinHandle;

pub(super) use self::questions::Place;
use self::questions::Questions;
use super::alarm::Alarm;
use super::controller::ControllerLink;
use super::groups::Groups;
use super::herald::Herald;
use super::home::Home;
use super::jobs::Jobs;
use super::mailbox::Mailbox;
use super::peers::Peers;
use super::sockets::{Bound, SocketNews, Sockets};
use crate::clock::Clock;
use crate::settings::Settings;
use crate::supervisor::lifeline::StopOrder;

/// What happens to a broker from outside.
#[derive(Debug)]
pub(crate) enum Letter {
    /// A connection's news.
    Socket(SocketNews),
    /// A job was run.
    JobDone(JobDone),
    /// What came of a call to the controller.
    Controller(ControllerCallId, Option<ControllerReply>),
    /// It has to stop.
    Stop(StopOrder),
    /// It cannot go on, and why.
    Fail(String),
    /// The controller of the same process has something for people.
    Say(crate::event::Event),
}

impl From<SocketNews> for Letter {
    fn from(news: SocketNews) -> Self {
        Self::Socket(news)
    }
}

/// How a broker ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// By order; the store can be closed.
    Clean,
    /// It cannot go on.
    Failed(String),
}

/// Where in its life a broker is.
#[derive(Debug)]
enum Stage {
    /// It takes no connections before it knows the cluster.
    Joining(Bound),
    Serving,
    /// Leaderships are being handed over, at the longest until then.
    HandingOver {
        until: Monotonic,
    },
    Over(Ending),
}

/// What a broker is made of.
pub(super) struct Parts {
    pub(super) node: NodeId,
    pub(super) clock: Clock,
    pub(super) mailbox: Mailbox<Letter>,
    pub(super) settings: Settings,
    pub(super) groups: Groups<Place>,
    pub(super) shard: Shard,
    pub(super) sockets: Sockets<Letter>,
    pub(super) link: ControllerLink,
    pub(super) jobs: Jobs,
    pub(super) herald: Herald,
    pub(super) home: Home,
    pub(super) bound: Bound,
    pub(super) requests_max: usize,
}

/// See the module's documentation.
pub(super) struct Broker {
    node: NodeId,
    clock: Clock,
    mailbox: Mailbox<Letter>,
    settings: Settings,
    groups: Groups<Place>,
    shard: Shard,
    sockets: Sockets<Letter>,
    replies: ReplyOrder<Vec<Bytes>>,
    /// Connections that have something to be written.
    dirty: BTreeSet<ConnectionId>,
    peers: Peers,
    link: ControllerLink,
    questions: Questions,
    jobs: Jobs,
    herald: Herald,
    home: Home,
    stage: Stage,
    accepting: Option<JoinHandle<()>>,
    /// Whether the shard was told something since its last turn.
    told: bool,
}

/// What is left of a broker when its loop has ended.
pub(super) struct Remains {
    pub(super) ending: Ending,
    pub(super) shard: Shard,
    pub(super) jobs: Jobs,
    pub(super) herald: Herald,
}

impl Broker {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            node: parts.node,
            clock: parts.clock,
            mailbox: parts.mailbox,
            settings: parts.settings,
            groups: parts.groups,
            shard: parts.shard,
            sockets: parts.sockets,
            replies: ReplyOrder::new(parts.requests_max),
            dirty: BTreeSet::new(),
            peers: Peers::default(),
            link: parts.link,
            questions: Questions::default(),
            jobs: parts.jobs,
            herald: parts.herald,
            home: parts.home,
            stage: Stage::Joining(parts.bound),
            accepting: None,
            told: false,
        }
    }

    /// Runs until it is over.
    pub(super) async fn run(mut self) -> Remains {
        let wake = match wake_of(self.shard.store()) {
            Ok(wake) => wake,
            Err(error) => {
                self.fail(format!("the disk's completions cannot be watched: {error}"));
                None
            }
        };
        let mut alarm = Alarm::new(self.clock);
        let mut letters = Vec::new();
        loop {
            self.mailbox.take(&mut letters);
            letters.drain(..).for_each(|letter| self.read(letter));
            self.turn();
            if matches!(self.stage, Stage::Over(_)) {
                return self.end();
            }
            alarm.set(self.next_deadline());
            tokio::select! {
                biased;
                () = self.mailbox.rings() => {}
                () = disk_wakes(wake.as_ref()) => {}
                () = alarm.rings() => {}
            }
        }
    }

    /// Gives the shard its turn until nothing is told to it any more, then writes to every connection once.
    fn turn(&mut self) {
        loop {
            let now = self.clock.now();
            self.told = false;
            for out in self.shard.turn(now) {
                self.carry_out(now.monotonic, out);
            }
            self.turn_of_groups(now);
            self.give_up_what_is_overdue(now.monotonic);
            if !self.told {
                break;
            }
        }
        self.begin_to_serve();
        self.write();
    }

    fn tell(&mut self, event: Event) {
        self.shard.tell(event);
        self.told = true;
    }

    fn fail(&mut self, why: String) {
        self.stage = Stage::Over(Ending::Failed(why));
    }

    /// Takes connections once the cluster is known: before, every answer would be that there is none.
    fn begin_to_serve(&mut self) {
        if !matches!(self.stage, Stage::Joining(_)) || self.shard.view().since().is_none() {
            return;
        }
        let Stage::Joining(bound) = std::mem::replace(&mut self.stage, Stage::Serving) else { return };
        let address = bound.address();
        match bound.serve(self.mailbox.clone()) {
            Ok(accepting) => {
                self.accepting = Some(accepting);
                self.herald.listening(&address);
            }
            Err(error) => self.fail(format!("cannot listen on {address}: {error}")),
        }
    }

    /// One write for each connection that has answers.
    fn write(&mut self) {
        while let Some(id) = self.dirty.pop_first() {
            let before = self.replies.open_count(id);
            for parts in self.replies.take(id) {
                self.sockets.send(id, parts);
            }
            self.sockets.requests_done(id, before.saturating_sub(self.replies.open_count(id)));
            self.sockets.flush(id);
        }
    }

    fn give_up_what_is_overdue(&mut self, now: Monotonic) {
        let unanswered = self.link.overdue(now);
        if !unanswered.is_empty() {
            // Whoever does not answer may be gone without a word; the next call makes a new connection.
            if let Some(connection) = self.link.connection() {
                self.sockets.close(connection);
                let all = self.link.gone();
                self.nobody_answers(&all);
            }
            self.nobody_answers(&unanswered);
        }
        if let Stage::HandingOver { until } = self.stage
            && until <= now
        {
            self.stage = Stage::Over(Ending::Clean);
        }
    }

    fn nobody_answers(&mut self, calls: &[ControllerCallId]) {
        for call in calls {
            self.tell(Event::ControllerAnswered { call: *call, reply: None });
        }
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        let over = match self.stage {
            Stage::HandingOver { until } => Some(until),
            Stage::Joining(_) | Stage::Serving | Stage::Over(_) => None,
        };
        [self.shard.next_deadline(), self.groups.next_deadline(), self.link.next_deadline(), over]
            .into_iter()
            .flatten()
            .min()
    }

    fn end(self) -> Remains {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
        let ending = match self.stage {
            Stage::Over(ending) => ending,
            Stage::Joining(_) | Stage::Serving | Stage::HandingOver { .. } => Ending::Clean,
        };
        Remains { ending, shard: self.shard, jobs: self.jobs, herald: self.herald }
    }
}

/// Where the disk's completions are announced, registered with the runtime.
#[expect(
    deprecated,
    reason = "for types that do not own their descriptor; this one does, and closes it after the registration"
)]
fn wake_of(store: &Store) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    store.wake_descriptor()?.map(|fd| AsyncFd::with_interest(fd, Interest::READABLE)).transpose()
}

/// Returns when the disk has completed something. The driver's turn reads the descriptor.
async fn disk_wakes(wake: Option<&AsyncFd<OwnedFd>>) {
    match wake {
        Some(wake) => match wake.readable().await {
            Ok(mut ready) => ready.clear_ready(),
            // The runtime ends; so does the loop.
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}
