//! What a log remembers of its own past: the history of its leader epochs and the state of its producers.
//!
//! Both are derived from the log's batches and can always be made again. Pure: no file is touched here, and no clock is read.

mod epochs;

pub use epochs::{EpochEnd, EpochHistory, EpochStart};
