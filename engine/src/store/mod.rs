//! One data directory: its lock, its logs, the driver, jobs, opening and shutdown.

mod config;
mod job;
mod report;

pub use config::StoreConfig;
pub use job::{Job, JobDone, JobError, JobKind};
pub use report::{LogReport, Machine, OpenReport, Stop, StoreFailure, TurnReport};
