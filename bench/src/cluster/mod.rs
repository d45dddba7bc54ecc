//! The clusters under test: three broker processes each, on free ports of loopback, with their data in a directory made for the run.
//!
//! It ends only what it started, and it does so however the bench itself ends: see [`guard`].

mod guard;
mod highwater;
mod kafka;
mod ports;

use std::net::SocketAddr;

pub(crate) use highwater::{Highwater, program};
pub(crate) use kafka::{Kafka, script};

use crate::error::Result;

/// How many brokers a cluster has.
pub(crate) const BROKERS: usize = 3;

/// A cluster that runs.
pub(crate) trait Cluster {
    /// What it is called in tables.
    fn name(&self) -> &'static str;
    /// Where its first broker listens, or will.
    fn bootstrap(&self) -> SocketAddr;
    /// Where all brokers listen, for tools.
    fn bootstrap_all(&self) -> String;
    /// The ids of all its processes.
    fn processes(&self) -> Result<Vec<u32>>;
    /// An error if it has ended on its own.
    fn check(&mut self) -> Result<()>;
}

/// The end of what a program said, for an error.
fn tail(log: &std::path::Path) -> String {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = said.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
