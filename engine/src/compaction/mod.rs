//! What stays of a compacted log: *facts -> plan -> apply*, of which facts and plan are here, and what becomes of each batch.
//!
//! ```text
//!   cleaned before     | dirty                        | not to be cleaned yet
//!   start .. first_dirty| .. until                     | active segment, ceiling, minimal lag
//!                        keys -> KeyMap (newest offset of each)
//!   every segment below `until` is written anew, several into one: a record stays if the map knows no newer one of its key
//! ```
//! Offsets never change, and neither does the order. Source: `LogCleaner`, `LogCleanerManager`, `Cleaner`, `MemoryRecords.filterTo`, KIP-58,
//! KIP-354 (lags), KIP-534 (delete horizons).
//!
//! | what | stays |
//! |---|---|
//! | a record with a newer one of its key below the map's end | no |
//! | a record without a key | no |
//! | a tombstone | until its delete horizon, which the first round that meets it gives to its batch |
//! | a record of an aborted transaction | no |
//! | a marker | while batches of its transaction are there; then it is given a delete horizon, and goes behind it |
//! | any other control record | yes |
//! | a batch without records | if it has the last sequence of a producer that is known, or the last offset of its segment |
//!
//! The last of these keeps a segment as long as those it replaces, so that an exchange that was interrupted covers just them (Kafka keeps the
//! last batch of the round alone). Pure: no file is touched here.

mod hash;
mod key_map;
mod plan;
mod survivors;
#[cfg(test)]
mod survivors_test;
mod transactions;

pub(crate) use key_map::{Full, KeyMap};
pub(crate) use plan::{Facts, Plan, Rules, SegmentFacts, group_segments, plan_compaction};
pub(crate) use survivors::{LastOf, Place, Survivor, Survivors, map_batch};
pub(crate) use transactions::Transactions;
