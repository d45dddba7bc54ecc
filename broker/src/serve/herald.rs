//! What a broker tells people, as lines on its standard output: JSON for a supervisor, sentences otherwise.
//!
//! A thread writes them, because whoever reads the other end of the pipe may hang, and the loop must not hang with it. What it cannot
//! take is dropped and counted.

use std::io::{self, Write};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use highwater_engine::units::Monotonic;
use highwater_replication::controller::RegistrationRefusal;
use highwater_replication::partition::{PartitionEvent, TruncationReason};
use highwater_replication::shard::News;

use crate::event::Event;
use crate::settings::HostPort;

/// Lines that wait for the thread.
const LINES_MAX: usize = 1024;
/// Not more often than this is it said that connections were closed.
const CLOSED_EVERY: Duration = Duration::from_secs(1);

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON object a line.
    Json,
    /// Sentences.
    Words,
}

/// See the module's documentation.
pub(super) struct Herald {
    broker: i32,
    lines: Sender<Event>,
    thread: JoinHandle<()>,
    dropped: u64,
    closed_at: Option<Monotonic>,
    closed_since: u64,
    duplicate_is_said: bool,
    unreachable_is_said: bool,
}

impl Herald {
    /// Starts the thread.
    pub(super) fn start(broker: i32, form: Form) -> io::Result<Self> {
        let (lines, waiting) = crossbeam_channel::bounded(LINES_MAX);
        let thread =
            std::thread::Builder::new().name("events".to_owned()).spawn(move || write(&waiting, form))?;
        Ok(Self {
            broker,
            lines,
            thread,
            dropped: 0,
            closed_at: None,
            closed_since: 0,
            duplicate_is_said: false,
            unreachable_is_said: false,
        })
    }

    /// Says something.
    pub(super) fn say(&mut self, event: Event) {
        if self.dropped > 0 {
            let text = format!("{} lines were not written", self.dropped);
            let note = Event::Note { broker: Some(self.broker), text };
            if self.lines.try_send(note).is_ok() {
                self.dropped = 0;
            }
        }
        if self.lines.try_send(event).is_err() {
            self.dropped += 1;
        }
    }

    /// Says a sentence.
    pub(super) fn note(&mut self, text: String) {
        self.say(Event::Note { broker: Some(self.broker), text });
    }

    /// The broker takes connections.
    pub(super) fn listening(&mut self, address: &HostPort) {
        let address = address.to_string();
        self.say(Event::Listening { broker: self.broker, address, process: std::process::id() });
    }

    /// The controller cannot be connected to; it is tried again until it can.
    pub(super) fn controller_unreachable(&mut self, why: &str) {
        if !std::mem::replace(&mut self.unreachable_is_said, true) {
            self.note(format!("the controller cannot be reached ({why}); trying again until it can"));
        }
    }

    /// The controller answered.
    pub(super) fn controller_heard(&mut self) {
        if std::mem::replace(&mut self.unreachable_is_said, false) {
            self.note("the controller answers".to_owned());
        }
    }

    /// A client's connection was closed for what it did. What a client sent is not repeated.
    pub(super) fn connection_closed(&mut self, now: Monotonic, why: &str) {
        self.closed_since += 1;
        if self.closed_at.is_some_and(|at| now.since(at) < CLOSED_EVERY) {
            return;
        }
        let count = std::mem::take(&mut self.closed_since);
        self.closed_at = Some(now);
        let others = if count > 1 { format!(", and {} before it", count - 1) } else { String::new() };
        let why = why.escape_debug();
        self.note(format!("a connection was closed{others}: {why}"));
    }

    /// Says what the shard has to say. What the controller says of the whole cluster is not said again.
    pub(super) fn news(&mut self, news: News) {
        let broker = self.broker;
        match news {
            News::SessionBegan { .. } => self.duplicate_is_said = false,
            News::SessionEnded => {
                self.note("the session with the controller is over; registering again".to_owned());
            }
            News::RegistrationRefused(refusal @ RegistrationRefusal::DuplicateNode { .. })
                if !std::mem::replace(&mut self.duplicate_is_said, true) =>
            {
                self.note(format!("not let in yet: {refusal}"));
            }
            News::Partition { name, event } => {
                if let Some(event) = partition(broker, name.topic(), name.partition(), &event) {
                    self.say(event);
                }
            }
            News::LogFailed { name, why } => {
                self.say(Event::Failed { broker, what: format!("{name} is offline: {why}") });
            }
            News::NotCompacted { name, why } => {
                self.note(format!("{name} is not compacted: {why}"));
            }
            News::NotCut { name, why } => {
                self.note(format!("{name} cannot be cut yet: {why}"));
            }
            News::Panicked { name, dump } => {
                self.say(Event::Failed {
                    broker,
                    what: format!("{name} is offline, by a mistake of ours: {dump}"),
                });
            }
            News::Stray { name } => {
                self.note(format!("{name} belongs to no topic of this cluster and is left alone"));
            }
            // What is being cut was said before, with its reason; what ends the broker is said by its end.
            News::Truncated { .. } | News::RegistrationRefused(_) | News::StoreFailed(_) | _ => {}
        }
    }

    /// Writes what waits, and ends the thread.
    pub(super) fn finish(self) {
        drop(self.lines);
        let _panicked = self.thread.join();
    }
}

fn write(lines: &Receiver<Event>, form: Form) {
    for event in lines {
        let line = match form {
            Form::Json => event.to_line(),
            Form::Words => event.to_string(),
        };
        // Nobody reads any more; the lines are taken all the same.
        let _closed = writeln!(io::stdout().lock(), "{line}").and_then(|()| io::stdout().flush());
    }
}

fn partition(broker: i32, topic: &str, partition: i32, event: &PartitionEvent) -> Option<Event> {
    let topic = topic.to_owned();
    let note = |text: String| Some(Event::Note { broker: Some(broker), text });
    match event {
        // Histories can part in an epoch that has no record: nothing is cut then.
        PartitionEvent::Truncating { from, to, .. } if from == to => None,
        PartitionEvent::Truncating { from, to, why } => {
            let reason = match why {
                TruncationReason::Diverged => "its history parts from the leader's",
                TruncationReason::HighWatermark => "everything above the high watermark is given up",
                TruncationReason::BeyondLeaderEnd => "the leader's log ends there",
                _ => "the leader's log differs",
            };
            let (from, to, reason) = (from.value(), to.value(), reason.to_owned());
            Some(Event::Truncated { broker, topic, partition, from, to, reason })
        }
        PartitionEvent::TruncationRefused { target, known_committed, leader, epoch } => note(format!(
            "{topic}-{partition}: not cut to {target}: {known_committed} is committed, and leader {leader} in epoch {epoch} lacks it"
        )),
        PartitionEvent::LossAccepted { from, to } => note(format!(
            "{topic}-{partition}: committed records {from} to {to} are given up here, as the loss record says"
        )),
        PartitionEvent::PossibleLoss { from, to } => note(format!(
            "{topic}-{partition}: records {from} to {to} may be lost: they were known to be committed"
        )),
        PartitionEvent::Restarting { from, at } => note(format!(
            "{topic}-{partition}: begins again at {at}: the leader no longer has what follows {from}"
        )),
        PartitionEvent::HighWatermarkUnknown => {
            note(format!("{topic}-{partition}: the high watermark is not known; leader epochs are used"))
        }
        // The controller says who leads and who is in sync; the rest is ordinary.
        PartitionEvent::Leads { .. }
        | PartitionEvent::Follows { .. }
        | PartitionEvent::LeftIsr { .. }
        | PartitionEvent::JoinedIsr { .. }
        | PartitionEvent::FetchFailed { .. }
        | PartitionEvent::AssignmentIgnored { .. }
        | _ => None,
    }
}
