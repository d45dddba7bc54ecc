//! Replicated logs: follower fetches, in-sync replicas, high watermarks, leader epochs, and who may lead.
//!
//! The machines are pure: facts and time go in, effects come out. There is no thread, socket or clock in this crate that its user
//! did not ask for.

pub mod controller;
pub mod ids;
pub mod node;
pub mod partition;
pub mod pending;
mod rules;
pub mod shard;
pub mod transport;
pub mod wire;

pub use rules::{Rule, Rules};
