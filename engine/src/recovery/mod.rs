//! What to do with a partition's directory before its log is served again: *facts -> plan -> apply*.
//!
//! ```text
//! listing, checkpoints, mark --> plan_scan --> which segments to read, and how deep
//!          the owner reads them, a SegmentScanner takes in what it finds --> Facts
//! Facts --> plan_recovery --> Plan: steps, start, end, recovery point, epochs, damage, reasons for suspicion
//!          the owner applies the steps in their order
//! ```
//! All of this is pure: no file is touched, so a dry run is the plan, printed. Applying a plan again, or making and applying a new one after
//! a crash between any two steps, leads to the same end: steps that take something away begin with what lies last.
//!
//! Bytes that are no batch are of one of three kinds, and the kind decides:
//!
//! | where | what else | it is | what happens |
//! |---|---|---|---|
//! | at or above the recovery point | no whole batch behind it | the torn end of the last write | cut |
//! | at or above the recovery point | whole batches behind it, and the machine crashed | a hole: pages were written out of order | cut, the bytes kept aside, the replica is suspect |
//! | anywhere else | | damage | never cut: a damaged range, which is not served, and the log keeps its end |
//!
//! After a kill the page cache is whole and there is one write in flight at most, so holes cannot come from it. After a clean stop nothing
//! may be missing at all. The tail is looked at on every start, also after a clean stop (Kafka trusts it then, appends behind
//! a torn batch, and loses what it appended). Recovery never advances the recovery point: what it read may be in memory only.

mod context;
#[cfg(test)]
mod context_test;
#[cfg(test)]
mod crash_test;
mod decide;
mod epochs;
#[cfg(test)]
mod epochs_test;
mod facts;
#[cfg(test)]
mod model_test;
mod orders;
mod plan;
#[cfg(test)]
mod recovery_test;
mod scan;
#[cfg(test)]
mod scan_test;
mod swaps;

pub(crate) use context::{Gaps, SegmentContext};
pub(crate) use decide::plan_recovery;
pub use facts::Refusal;
pub(crate) use facts::{EpochFacts, EpochWitness, Facts, FileFact, Machine, RecoveryPoint, StartGuard, Stop};
pub(crate) use orders::{ScanDepth, ScanOrder, plan_scan};
pub use plan::{Plan, Step, SuspectReason};
pub use scan::BadKind;
pub(crate) use scan::{EpochRun, Placed, SegmentScan, SegmentScanner};
pub(crate) use swaps::{names_behind, plan_exchange, swapped_logs};
