//! What people read, in the order that helps them: the greeting first, then what came of what happened before it, then each event as it
//! comes.
//!
//! Knows no event but those of a start: brokers come one by one, and every partition hears of each; only the last word counts.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use crate::event::Event;

/// Events that are held back until the greeting; a further one is more than a start has to tell, and is told at once.
const HELD_MAX: usize = 100_000;

/// The standard output of a supervisor, shared by everybody who has something to tell.
#[derive(Debug)]
pub struct Voice {
    /// What waits for the greeting; `None` once it is said.
    held: Mutex<Option<Vec<Event>>>,
}

impl Voice {
    /// Nothing is told yet.
    pub(super) fn new() -> Self {
        Self { held: Mutex::new(Some(Vec::new())) }
    }

    /// An event, for people.
    pub fn tell(&self, event: Event) {
        self.tell_to(&mut io::stdout().lock(), event);
    }

    /// The first lines; what was held back follows.
    pub(super) fn greet(&self, greeting: &str) {
        self.greet_to(&mut io::stdout().lock(), Some(greeting));
    }

    /// There is no greeting any more: what was held back is told.
    pub(super) fn release(&self) {
        self.greet_to(&mut io::stdout().lock(), None);
    }

    fn tell_to(&self, out: &mut impl Write, event: Event) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *held {
            Some(events) if events.len() < HELD_MAX => events.push(event),
            Some(_) | None => write(out, &event.to_string()),
        }
    }

    fn greet_to(&self, out: &mut impl Write, greeting: Option<&str>) {
        // Whoever speaks meanwhile waits, so that no line comes between.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(events) = held.take() {
            if let Some(greeting) = greeting {
                write(out, greeting);
            }
            for event in last_words(events) {
                write(out, &event.to_string());
            }
        }
    }
}

/// A line that does not wait for the greeting.
pub(super) fn say_now(line: &str) {
    write(&mut io::stdout().lock(), line);
}

/// A terminal that is gone must not end a cluster.
fn write(out: &mut impl Write, line: &str) {
    let _nobody_reads = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// What a start came to: of each partition who leads in the end, of each broker that it is there. The sessions of the last run end when
/// the new ones begin, and each end takes its replica out of every ISR for a moment; that is no news.
fn last_words(events: Vec<Event>) -> Vec<Event> {
    let mut led = BTreeSet::new();
    let mut registered = BTreeSet::new();
    let mut kept: Vec<Event> = events
        .into_iter()
        .rev()
        .filter(|event| match event {
            Event::Leads { topic, partition, .. } => led.insert((topic.clone(), *partition)),
            Event::Registered { broker } => registered.insert(*broker),
            Event::Fenced { broker, .. } => !registered.contains(broker),
            Event::IsrLeft { .. } | Event::IsrJoined { .. } => false,
            Event::Listening { .. }
            | Event::Opened { .. }
            | Event::Truncated { .. }
            | Event::Lost { .. }
            | Event::TopicCreated { .. }
            | Event::TopicDeleted { .. }
            | Event::Failed { .. }
            | Event::Started { .. }
            | Event::Ended { .. }
            | Event::Stopped { .. }
            | Event::Note { .. } => true,
        })
        .collect();
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leads(partition: i32, leader_epoch: i32) -> Event {
        Event::Leads { topic: "t".to_owned(), partition, leader: Some(1), leader_epoch, isr: vec![1] }
    }

    #[test]
    fn the_greeting_comes_first_and_only_once() {
        let (voice, mut out) = (Voice::new(), Vec::new());
        voice.tell_to(&mut out, Event::Registered { broker: 1 });
        assert!(out.is_empty());
        voice.greet_to(&mut out, Some("hello\nthere"));
        voice.tell_to(&mut out, Event::Registered { broker: 2 });
        voice.greet_to(&mut out, Some("hello"));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "hello\nthere\nbroker 1 is part of the cluster\nbroker 2 is part of the cluster\n"
        );
    }

    #[test]
    fn of_a_start_the_last_word_counts() {
        let fenced = |broker| Event::Fenced { broker, reason: "it registered again".to_owned() };
        let registered = |broker| Event::Registered { broker };
        let left = Event::IsrLeft {
            topic: "t".to_owned(),
            partition: 0,
            replica: 1,
            reason: "its session ended".to_owned(),
            isr: vec![2],
        };
        let events = vec![
            fenced(1),
            left.clone(),
            leads(0, 1),
            registered(1),
            leads(1, 1),
            fenced(2),
            left,
            leads(0, 2),
            registered(2),
            fenced(3),
        ];
        assert_eq!(last_words(events), [registered(1), leads(1, 1), leads(0, 2), registered(2), fenced(3)]);
    }
}
