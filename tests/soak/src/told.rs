//! What a writer tells the judge, one line each, before it does a thing and after. What it did not live to tell may have happened.

use std::path::PathBuf;

use highwater_engine::disk::IoMode;
use highwater_tests::recover::{Content, Ending, Found};
use serde::{Deserialize, Serialize};

use crate::story::Story;

/// One line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Told {
    /// The store is about to be opened.
    Opening,
    /// The directory is open.
    Opened {
        /// Whether the last life stopped with a mark.
        is_clean: bool,
        /// Whether the page cache is said to have survived since.
        is_same_machine: bool,
        /// Each log that was there.
        logs: Vec<LogFound>,
    },
    /// From here on this life's boot is written down.
    Confirmed,
    /// A log is there for certain.
    Made(usize),
    /// Something about one log.
    Of(usize, What),
    /// The starts of all logs are about to be written down, by this thread.
    Checkpointing(u64),
    /// They are.
    Checkpointed(u64),
    /// The store is about to be closed.
    Closing,
    /// It is, with a mark.
    Closed,
    /// A call failed. Right only where the medium is gone.
    Failed(String),
    /// The writer itself saw something wrong.
    Wrong(String),
}

/// A log as an opening found it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LogFound {
    pub(crate) log: usize,
    pub(crate) found: Found,
    pub(crate) durable: i64,
    pub(crate) is_suspect: bool,
    pub(crate) is_damaged: bool,
    /// What recovery did, for people.
    pub(crate) plan: String,
}

/// What a writer is told before it begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
    /// The number of this life, which makes its batches unlike those of others.
    pub(crate) life: u64,
    pub(crate) io: IoMode,
    pub(crate) threads: usize,
    /// For each thread.
    pub(crate) steps: u64,
    pub(crate) segment_bytes_max: u32,
    /// How the last life ended.
    pub(crate) ending: Ending,
    /// Each log so far.
    pub(crate) stories: Vec<Story>,
}

/// What is done to a log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum What {
    /// A leader is about to append.
    Appending {
        content: Content,
        tag: u64,
        epoch: i32,
    },
    /// It has.
    Appended {
        base: i64,
        end: i64,
        is_duplicate: bool,
    },
    /// The producer was refused.
    Refused,
    /// The batch is larger than a segment may be.
    TooLarge,
    /// A follower is about to append: each batch so many offsets behind the last, in an epoch so much higher. The tags are this one and
    /// those behind it.
    Replicating {
        batches: Vec<(Content, i64, i32)>,
        tag: u64,
        epoch: i32,
    },
    /// It has, up to this end.
    Replicated(i64),
    /// Everything below is written, or durable.
    Written(i64),
    Durable(i64),
    /// A leadership is about to begin.
    BeginningEpoch(i32),
    /// The log is about to be cut there.
    Cutting(i64),
    /// It was, to this end.
    Cut(i64),
    /// The log is about to begin anew there.
    Restarting(i64),
    Restarted(i64),
    /// The start is about to be moved there, as far as the log reaches.
    Raising(i64),
    /// Old segments below are about to be deleted.
    Retaining(i64),
    /// The start is this now.
    Started(i64),
}
