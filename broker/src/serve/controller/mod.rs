//! The controller as the host has it: run in a thread of its own, and called by a broker, over TCP or in the same process.

mod host;
mod link;

pub use host::{Caller, ControllerHost, ControllerHostError, ControllerNews, ControllerOptions};
pub(super) use link::{ControllerLink, Reached};
