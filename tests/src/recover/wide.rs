//! Steps that only some trials have, so that what the others find they go on finding as often: several logs, transactions, tickets that are
//! waited for, somebody who looks on, other settings, deletion, and the small doors.

use std::fmt;

use highwater_engine::batch::TransactionEnd;
use highwater_engine::log::{LogId, Step as Rung};
use highwater_engine::store::Store;

use super::choices::Choices;
use super::model::Model;
use super::step::{Step, place, sent};
use super::tickets::Waiting;
use super::transactions::TRANSACTIONAL;
use super::trial::{Trial, Verdict};

/// How much of the engine a trial goes through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breadth {
    /// One log, and what becomes of its records.
    #[default]
    OneLog,
    /// Everything, with so many logs.
    Everything {
        /// How many.
        logs: i32,
    },
}

/// A step that only a broad trial has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wide {
    /// A transaction is ended.
    EndTransaction {
        /// Its producer.
        id: i64,
        /// How.
        end: TransactionEnd,
    },
    /// Somebody waits for an append.
    Wait {
        /// How many were appended since.
        back: usize,
        /// For what.
        rung: Rung,
        /// How.
        waiting: Waiting,
    },
    /// Somebody looks at the log without opening the directory.
    LookIn,
    /// Everything that the log and the store say of themselves is asked.
    Facts {
        /// And what is at this offset.
        at: i64,
    },
    /// The log has other settings from here on.
    Configure {
        /// The size of its segments.
        segment_bytes: u32,
        /// The bytes between two entries of their indexes.
        index_interval_bytes: u32,
    },
    /// It is said of which topic the log is.
    NameTopic,
    /// It is written down how far the logs are committed.
    Watermarks,
    /// The log is compacted, a piece of a round. No key is there twice, so that every record stays, and only the files are others.
    Compact {
        /// Nothing at or above it.
        ceiling: i64,
        /// The size of the piece.
        bytes_max: u64,
    },
    /// A batch is replaced by itself.
    Replace {
        /// That or the next one.
        at: i64,
    },
}

impl fmt::Display for Wide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EndTransaction { id, end } => write!(f, "{end:?} the transaction of producer {id}"),
            Self::Wait { back, rung, waiting } => {
                write!(f, "a {waiting:?} waits until the append that is the last but {back} is {rung:?}")
            }
            Self::LookIn => write!(f, "somebody looks in"),
            Self::Facts { at } => write!(f, "ask for all facts, and those of {at}"),
            Self::Configure { segment_bytes, index_interval_bytes } => {
                write!(f, "segments of {segment_bytes}, index every {index_interval_bytes} from here on")
            }
            Self::NameTopic => write!(f, "say the topic"),
            Self::Watermarks => write!(f, "write the high watermarks down"),
            Self::Compact { ceiling, bytes_max } => {
                write!(f, "compact below {ceiling}, {bytes_max} bytes of it")
            }
            Self::Replace { at } => write!(f, "replace the batch at {at} by itself"),
        }
    }
}

impl Step {
    /// Draws a step that only a broad trial has, for the log as it is.
    pub(super) fn draw_wide(choices: &mut Choices, model: &Model, logs: i32, now_ms: i64) -> Self {
        let transactional = |choices: &mut Choices| TRANSACTIONAL + choices.below(4);
        Self::Wide(match choices.below(32) {
            0..=7 => return Self::TurnTo(i32::try_from(choices.below(logs.into())).unwrap_or(0)),
            8..=11 => return Self::Append(sent(choices, model, now_ms, TRANSACTIONAL)),
            12..=14 => Wide::EndTransaction {
                id: transactional(choices),
                end: if choices.once_in(2) { TransactionEnd::Abort } else { TransactionEnd::Commit },
            },
            15..=18 => Wide::Wait {
                back: usize::try_from(choices.below(6)).unwrap_or(0),
                rung: if choices.once_in(2) { Rung::Durable } else { Rung::Written },
                waiting: if choices.once_in(2) { Waiting::Task } else { Waiting::Thread },
            },
            19..=21 => Wide::LookIn,
            22 | 23 => Wide::Facts { at: place(choices, model) },
            24 => Wide::Compact {
                ceiling: if choices.once_in(2) { i64::MAX } else { place(choices, model) },
                bytes_max: [1, 3_000, u64::MAX, u64::MAX][usize::try_from(choices.below(4)).unwrap_or(0)],
            },
            25 => Wide::Configure {
                segment_bytes: [1_500, 4_000, 8_192, 20_000][usize::try_from(choices.below(4)).unwrap_or(0)],
                index_interval_bytes: [1, 300, 4_096][usize::try_from(choices.below(3)).unwrap_or(0)],
            },
            26 => Wide::NameTopic,
            27 => Wide::Watermarks,
            28 => Wide::Replace { at: place(choices, model) },
            29 => {
                let at = place(choices, model);
                return Self::Examine { segment: model.from(at).first().map_or(at, |batch| batch.base) };
            }
            30 => return Self::ReopenLog,
            _ if choices.once_in(3) => return Self::Delete,
            _ => return Self::Turn { wait: true, may_block: true },
        })
    }
}

impl Trial {
    /// Carries out a step that only a broad trial has.
    pub(super) fn perform_wide(&mut self, step: &Wide, store: &Store, id: LogId) -> Verdict {
        match step {
            Wide::EndTransaction { id, end } => self.end_transaction(*id, *end),
            // What a cut that failed has left is waited for by nobody.
            Wide::Wait { .. } if self.model.under_way.is_some() => Ok(()),
            Wide::Wait { back, rung, waiting } => self.wait_for(store, *back, *rung, *waiting),
            Wide::LookIn => self.look_in(),
            Wide::Facts { at } => self.check_facts(store, *at),
            Wide::Configure { segment_bytes, index_interval_bytes } => {
                self.set_config(store, id, *segment_bytes, *index_interval_bytes)
            }
            Wide::NameTopic => self.set_topic(store),
            Wide::Watermarks => self.write_watermarks(store),
            Wide::Compact { ceiling, bytes_max } => self.compact(store, id, *ceiling, *bytes_max),
            Wide::Replace { at } => self.replace(id, *at),
        }
    }
}
