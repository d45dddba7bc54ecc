//! What can be ordered, as JSON.

use highwater_engine::log::LogConfig;
use serde::Deserialize;

/// One line of the input.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub(crate) enum Order {
    /// Make an empty log.
    Create { log: String, topic_id: Option<String> },
    /// Give a log other settings.
    Config { log: String, config: LogConfig },
    /// Begin a leader epoch.
    Epoch { log: String, epoch: i32 },
    /// Append batches.
    Append(Append),
    /// Cut everything from an offset on.
    Cut { log: String, to: i64 },
    /// Raise the start.
    Raise { log: String, to: i64 },
    /// Delete old segments, as the settings say.
    Retain { log: String, time: i64 },
    /// Compact what is synced, in pieces of so many bytes.
    Compact { log: String, time: i64, piece: u64 },
    /// Sync everything, and write down how far that is.
    Sync { log: String },
    /// Find the first record that is not older.
    Find { log: String, time: i64 },
    /// Show everything that is known of a log and in it.
    Look { log: String },
}

/// Batches to be appended.
#[derive(Debug, Deserialize)]
pub(crate) struct Append {
    pub(crate) log: String,
    pub(crate) batches: usize,
    pub(crate) records: usize,
    pub(crate) codec: String,
    /// The time of the first record in milliseconds; each is one later than the one before.
    pub(crate) time: i64,
    /// What the values begin with.
    pub(crate) label: String,
    /// Keys are taken in turn from so many; without it every third record has none.
    pub(crate) keys: Option<usize>,
    pub(crate) producer: Option<Numbered>,
}

/// An idempotent producer and its next sequence.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Numbered {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) sequence: i32,
}
