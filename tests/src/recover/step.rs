//! What a trial does, as values that can be drawn, written down and printed in words.

use std::fmt;

use super::choices::Choices;
use super::model::{Model, Sent};
use super::wide::Wide;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A leader appends.
    Append(Content),
    /// A follower appends what a leader sent: each batch so many offsets behind the last, in an epoch so much higher.
    Replicate(Vec<(Content, i64, i32)>),
    /// A leadership begins.
    BeginEpoch,
    /// The driver turns.
    Turn {
        /// Whether it waits for one completion.
        wait: bool,
        /// Whether it may hold the caller up.
        may_block: bool,
    },
    /// The disk completes one operation.
    Complete,
    /// Somebody wants durability.
    WantDurable,
    /// A background sync.
    Sync,
    /// Rolled segments are sealed.
    Seal,
    /// What the store wants done is done, so much later.
    DueJobs {
        /// Milliseconds.
        after_ms: i64,
    },
    /// Recovery points and starts are written down.
    Checkpoint,
    /// Old segments are deleted.
    Retention {
        /// Nothing at or above it.
        ceiling: i64,
        /// The time is so much later.
        after_ms: i64,
    },
    /// The log is cut.
    Truncate(i64),
    /// The log begins anew.
    RestartAt(i64),
    /// The start is moved.
    RaiseStart(i64),
    /// Somebody reads.
    Read {
        /// The first offset.
        from: i64,
        /// Nothing at or above it.
        ceiling: i64,
        /// The most bytes.
        bytes_max: i64,
        /// Whether one batch comes in any case.
        at_least_one: bool,
    },
    /// Somebody looks for a time.
    Find {
        /// The time.
        time: i64,
        /// Nothing at or above it.
        ceiling: i64,
    },
    /// Somebody looks for the greatest time.
    FindNewest {
        /// Nothing at or above it.
        ceiling: i64,
    },
    /// The medium has so many bytes left, or no end.
    Room(Option<i64>),
    /// The store is closed and opened.
    Reopen,
    /// From here on it is about the log of this number.
    TurnTo(i32),
    /// The log is deleted.
    Delete,
    /// A log is made where one was deleted.
    Make,
    /// A batch in the first segment rots.
    Rot {
        /// Its number among all batches.
        batch: usize,
    },
    /// A segment is read for damage.
    Examine {
        /// Its base.
        segment: i64,
    },
    /// What is damaged is replaced.
    Repair,
    /// A log that a failed write has closed is opened again.
    ReopenLog,
    /// One that only a broad trial has.
    Wide(Wide),
}

/// What a batch holds.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Content {
    /// The timestamp of each record; there is at least one.
    pub times: Vec<i64>,
    /// The size of each value.
    pub value_bytes: i64,
    /// Whether the batch is compressed.
    pub compressed: bool,
    /// Its idempotent producer, with the sequences of its records.
    pub sent: Option<Sent>,
}

impl Content {
    /// A plain batch.
    pub fn plain(records: usize, value_bytes: i64, time: i64) -> Self {
        Self { times: vec![time; records], value_bytes, compressed: false, sent: None }
    }

    /// The same, of a producer.
    pub fn of(self, id: i64, first: i32) -> Self {
        let last = first + i32::try_from(self.times.len()).unwrap_or(i32::MAX) - 1;
        Self { sent: Some(Sent { id, first, last }), ..self }
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records of {} bytes at {:?} ms", self.times.len(), self.value_bytes, self.times)?;
        if let Some(Sent { id, first, last }) = self.sent {
            write!(f, ", sequences {first} to {last} of producer {id}")?;
        }
        if self.compressed { write!(f, ", compressed") } else { Ok(()) }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Append(content) => write!(f, "append {content}"),
            Self::Replicate(batches) => {
                write!(f, "append as a follower")?;
                for (content, gap, up) in batches {
                    write!(f, "; {content}, {gap} offsets further, {up} epochs up")?;
                }
                Ok(())
            }
            Self::BeginEpoch => write!(f, "begin the next epoch"),
            Self::Turn { wait, may_block } => {
                write!(f, "turn the driver (waits: {wait}, may block: {may_block})")
            }
            Self::Complete => write!(f, "the disk completes one operation"),
            Self::WantDurable => write!(f, "want everything durable"),
            Self::Sync => write!(f, "run a background sync"),
            Self::Seal => write!(f, "run a seal"),
            Self::DueJobs { after_ms } => write!(f, "run the due jobs {after_ms} ms later"),
            Self::Checkpoint => write!(f, "run a checkpoint"),
            Self::Retention { ceiling, after_ms } => {
                write!(f, "run retention below {ceiling}, {after_ms} ms later")
            }
            Self::Truncate(to) => write!(f, "truncate to {to}"),
            Self::RestartAt(offset) => write!(f, "restart at {offset}"),
            Self::RaiseStart(to) => write!(f, "raise the start to {to}"),
            Self::Read { from, ceiling, bytes_max, at_least_one } => {
                let least = if *at_least_one { ", one batch at least" } else { "" };
                write!(f, "read from {from} below {ceiling}, at most {bytes_max} bytes{least}")
            }
            Self::Find { time, ceiling } => write!(f, "look for {time} ms below {ceiling}"),
            Self::FindNewest { ceiling } => write!(f, "look for the greatest timestamp below {ceiling}"),
            Self::Room(Some(bytes)) => write!(f, "the medium has {bytes} bytes left"),
            Self::Room(None) => write!(f, "the medium has room again"),
            Self::Reopen => write!(f, "close and open"),
            Self::TurnTo(number) => write!(f, "turn to log {number}"),
            Self::Delete => write!(f, "delete the log"),
            Self::Make => write!(f, "make the log anew"),
            Self::Rot { batch } => write!(f, "batch {batch} rots"),
            Self::Examine { segment } => write!(f, "examine segment {segment}"),
            Self::Repair => write!(f, "repair what is damaged"),
            Self::ReopenLog => write!(f, "open the closed log again"),
            Self::Wide(step) => write!(f, "{step}"),
        }
    }
}

impl Step {
    /// Whether it can be done where the log is not.
    pub(super) fn needs_no_log(&self) -> bool {
        matches!(
            self,
            Self::Make | Self::TurnTo(_) | Self::Turn { .. } | Self::Complete | Self::Room(_) | Self::Reopen
        )
    }

    /// Draws a step that makes sense for the log as it is.
    pub fn draw(choices: &mut Choices, model: &Model, now_ms: i64) -> Self {
        match choices.below(64) {
            0..=13 => Self::Append(content(choices, now_ms)),
            14..=19 => Self::Append(sent(choices, model, now_ms, 0)),
            20..=22 => Self::Replicate(replicated(choices, now_ms)),
            23 => Self::BeginEpoch,
            24..=31 => Self::Turn { wait: choices.once_in(4), may_block: choices.once_in(2) },
            32..=34 => Self::Complete,
            35..=38 => Self::WantDurable,
            39 | 40 => Self::Sync,
            41 => Self::Seal,
            42 | 43 => Self::DueJobs { after_ms: choices.below(90_000) },
            44 | 45 => Self::Checkpoint,
            46 | 47 => Self::Retention { ceiling: place(choices, model), after_ms: choices.below(100_000) },
            48 | 49 => Self::Truncate(place(choices, model)),
            50 if choices.once_in(4) => Self::RestartAt(choices.below(model.end * 2 + 20)),
            51 => Self::RaiseStart(place(choices, model)),
            52 if choices.once_in(3) => Self::Room(Some(choices.below(60_000))),
            52 | 53 => Self::Room(None),
            54 if choices.once_in(2) => Self::Reopen,
            55 | 56 => Self::Find {
                time: now_ms - choices.below(now_ms + 1_000),
                ceiling: choices.below(model.end + 10),
            },
            57 => Self::FindNewest { ceiling: choices.below(model.end + 10) },
            _ => Self::Read {
                from: place(choices, model),
                ceiling: if choices.once_in(2) { i64::MAX } else { place(choices, model) },
                bytes_max: choices.below(20_000),
                at_least_one: choices.once_in(2),
            },
        }
    }
}

/// An offset in the log or just beside it, more often near the end.
pub(super) fn place(choices: &mut Choices, model: &Model) -> i64 {
    let length = model.end - model.start;
    let back = if choices.once_in(2) { choices.below(length.min(12) + 2) } else { choices.below(length + 4) };
    (model.end + 1 - back).max(0)
}

fn content(choices: &mut Choices, now_ms: i64) -> Content {
    let (records, value_bytes) = match choices.below(16) {
        0 => (1, 4_000 + choices.below(3_000)),
        1..=3 => (1 + choices.below(20), choices.below(8)),
        _ => (1 + choices.below(4), choices.below(400)),
    };
    let times = (0..records).map(|_| (now_ms - choices.below(5_000)).max(0)).collect();
    Content { times, value_bytes, compressed: choices.once_in(12), sent: None }
}

/// A batch of one of a few producers, from this one on: the next one, one of the last again, or one too far ahead.
pub(super) fn sent(choices: &mut Choices, model: &Model, now_ms: i64, first: i64) -> Content {
    let slot = first + choices.below(3);
    // A producer of which the log may remember something or nothing is never heard of again.
    let known =
        (0..).map(|generation| slot + 3 * generation).find_map(|id| Some((id, model.next_sequence(id)?)));
    let (id, next) = known.unwrap_or((slot, 0));
    let fresh = content(choices, now_ms);
    match choices.below(8) {
        0..=2 => {
            let newest = model.newest_of(id);
            let at = usize::try_from(choices.below(6)).unwrap_or(0);
            let again = newest.get(at).or(newest.first()).and_then(|batch| Some((batch.sent?, &batch.times)));
            match again {
                Some((sent, times)) => Content { times: times.clone(), sent: Some(sent), ..fresh },
                None => fresh.of(id, next),
            }
        }
        3 => fresh.of(id, next + 7),
        _ => fresh.of(id, next),
    }
}

fn replicated(choices: &mut Choices, now_ms: i64) -> Vec<(Content, i64, i32)> {
    let count = 1 + choices.below(5);
    let batch = |_| {
        let gap = if choices.once_in(10) { choices.below(30) } else { 0 };
        (content(choices, now_ms), gap, i32::from(choices.once_in(8)))
    };
    (0..count).map(batch).collect()
}
