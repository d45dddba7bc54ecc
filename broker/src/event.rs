//! What happens in a cluster, for people: one line each. Brokers write events to their standard output as JSON, one a line, when a
//! supervisor started them; the supervisor prints them as sentences. Nothing reads an event to decide anything about data.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One event. The fields are plain, because this is what other programs read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    /// A broker takes connections.
    Listening {
        /// The broker.
        broker: i32,
        /// Where, as `HOST:PORT`.
        address: String,
        /// The process id.
        process: u32,
    },
    /// A broker has opened its data directory.
    Opened {
        /// The broker.
        broker: i32,
        /// How many partitions are in it.
        partitions: usize,
        /// Whether the last stop was clean.
        clean: bool,
        /// Bytes that were cut from the ends of logs, because they were not whole.
        cut_bytes: u64,
    },
    /// A partition has a leader.
    Leads {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The leader; none, if nobody may lead.
        leader: Option<i32>,
        /// The epoch of its leadership.
        leader_epoch: i32,
        /// The in-sync replicas.
        isr: Vec<i32>,
    },
    /// A replica left the ISR.
    IsrLeft {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The replica.
        replica: i32,
        /// Why, in words.
        reason: String,
        /// Who is left.
        isr: Vec<i32>,
    },
    /// A replica is in the ISR again.
    IsrJoined {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The replica.
        replica: i32,
        /// Who is in it now.
        isr: Vec<i32>,
    },
    /// A replica cut its log.
    Truncated {
        /// The broker.
        broker: i32,
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The end before.
        from: i64,
        /// The end after.
        to: i64,
        /// Why, in words.
        reason: String,
    },
    /// Records that were committed are gone, and the controller wrote it down.
    Lost {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The first offset that is gone.
        from: i64,
        /// The first behind what is gone, if anybody knows.
        to: Option<i64>,
    },
    /// The controller no longer counts on a broker.
    Fenced {
        /// The broker.
        broker: i32,
        /// Why, in words.
        reason: String,
    },
    /// The controller counts on a broker, in a new session.
    Registered {
        /// The broker.
        broker: i32,
    },
    /// A topic was made.
    TopicCreated {
        /// The topic.
        topic: String,
        /// Its partitions.
        partitions: i32,
        /// Replicas of each.
        replicas: usize,
    },
    /// A topic was deleted.
    TopicDeleted {
        /// The topic.
        topic: String,
    },
    /// A log or a data directory can no longer be used.
    Failed {
        /// The broker.
        broker: i32,
        /// What failed, and why.
        what: String,
    },
    /// A broker's process was started.
    Started {
        /// The broker.
        broker: i32,
        /// The process id.
        process: u32,
    },
    /// A broker's process ended.
    Ended {
        /// The broker.
        broker: i32,
        /// The process id.
        process: u32,
        /// How: its exit code or the signal.
        how: String,
        /// In how many milliseconds it is started again; none, if it stays down.
        again_in_ms: Option<u64>,
    },
    /// A broker's process ended when the whole cluster stopped.
    Stopped {
        /// The broker.
        broker: i32,
        /// The process id.
        process: u32,
        /// How: cleanly, its exit code or the signal.
        how: String,
    },
    /// Something else that people should know.
    Note {
        /// The broker, if it is one broker's.
        broker: Option<i32>,
        /// The sentence.
        text: String,
    },
}

impl Event {
    /// The event as one line of JSON, without the line's end.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self)
            .unwrap_or_else(|error| unreachable!("an event has no key that JSON lacks: {error}"))
    }

    /// Reads a line; what is not an event becomes a note of that broker's.
    pub fn from_line(broker: i32, line: &str) -> Self {
        serde_json::from_str(line)
            .unwrap_or_else(|_| Self::Note { broker: Some(broker), text: line.to_owned() })
    }
}

/// Writes `1, 2 and 3`, or `nobody`.
struct People<'a>(&'a [i32]);

impl fmt::Display for People<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("nobody"),
            [one] => one.fmt(f),
            [first @ .., last] => {
                for (at, id) in first.iter().enumerate() {
                    write!(f, "{}{id}", if at == 0 { "" } else { ", " })?;
                }
                write!(f, " and {last}")
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening { broker, address, process } => {
                write!(f, "broker {broker} listens on {address}, process {process}")
            }
            Self::Opened { broker, partitions, clean, cut_bytes } => {
                let stop = if *clean { "after a clean stop" } else { "after a crash" };
                write!(f, "broker {broker} opened {partitions} partitions {stop}")?;
                if *cut_bytes > 0 {
                    write!(f, ", {cut_bytes} bytes that were not whole were cut")
                } else {
                    Ok(())
                }
            }
            Self::Leads { topic, partition, leader: Some(leader), leader_epoch, isr } => {
                write!(
                    f,
                    "{topic}-{partition}: broker {leader} leads in epoch {leader_epoch}, in sync: {}",
                    People(isr)
                )
            }
            Self::Leads { topic, partition, leader: None, leader_epoch, isr } => {
                write!(
                    f,
                    "{topic}-{partition}: nobody can lead in epoch {leader_epoch}, last in sync: {}",
                    People(isr)
                )
            }
            Self::IsrLeft { topic, partition, replica, reason, isr } => {
                write!(
                    f,
                    "{topic}-{partition}: broker {replica} left the ISR: {reason}; in sync: {}",
                    People(isr)
                )
            }
            Self::IsrJoined { topic, partition, replica, isr } => {
                write!(f, "{topic}-{partition}: broker {replica} is in the ISR; in sync: {}", People(isr))
            }
            Self::Truncated { broker, topic, partition, from, to, reason } => {
                write!(f, "{topic}-{partition}: broker {broker} cut its log from {from} to {to}: {reason}")
            }
            Self::Lost { topic, partition, from, to } => {
                let to = to.map_or_else(String::new, |to| format!(" up to {to}"));
                write!(f, "{topic}-{partition}: LOST: the committed records from {from} on{to} are gone")
            }
            Self::Fenced { broker, reason } => write!(f, "broker {broker} is fenced: {reason}"),
            Self::Registered { broker } => write!(f, "broker {broker} is part of the cluster"),
            Self::TopicCreated { topic, partitions, replicas } => {
                write!(f, "topic {topic} made: {partitions} partitions, {replicas} replicas each")
            }
            Self::TopicDeleted { topic } => write!(f, "topic {topic} deleted"),
            Self::Failed { broker, what } => write!(f, "broker {broker}: {what}"),
            Self::Started { broker, process } => write!(f, "broker {broker} started, process {process}"),
            Self::Ended { broker, process, how, again_in_ms: Some(wait) } => {
                write!(f, "broker {broker} (process {process}) ended: {how}; starts again in {wait} ms")
            }
            Self::Ended { broker, process, how, again_in_ms: None } => {
                write!(f, "broker {broker} (process {process}) ended: {how}; stays down")
            }
            Self::Stopped { broker, process, how } => write!(f, "broker {broker} (process {process}) {how}"),
            Self::Note { broker: Some(broker), text } => write!(f, "broker {broker}: {text}"),
            Self::Note { broker: None, text } => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written() {
        let left = Event::IsrLeft {
            topic: "t".to_owned(),
            partition: 0,
            replica: 3,
            reason: "no fetch reached the end for 10,000 ms".to_owned(),
            isr: vec![1, 2],
        };
        assert_eq!(Event::from_line(1, &left.to_line()), left);
        assert_eq!(
            left.to_string(),
            "t-0: broker 3 left the ISR: no fetch reached the end for 10,000 ms; in sync: 1 and 2"
        );
    }

    #[test]
    fn what_is_not_an_event_is_shown_all_the_same() {
        assert_eq!(Event::from_line(2, "thread panicked").to_string(), "broker 2: thread panicked");
    }

    #[test]
    fn people_are_counted() {
        let words: Vec<_> =
            [&[][..], &[1], &[1, 2], &[1, 2, 3]].iter().map(|ids| People(ids).to_string()).collect();
        assert_eq!(words, ["nobody", "1", "1 and 2", "1, 2 and 3"]);
    }
}
