//! One broker: `highwater serve`. The host of a shard, with its sockets, its clock, its job thread and its way to the controller.
//!
//! What is decided about data is decided below; what is here can be slow or wrong about a connection, and never about a record.

mod alarm;
mod apis;
mod broker;
mod configure;
mod controller;
mod groups;
mod herald;
mod home;
mod jobs;
mod mailbox;
mod peers;
mod sockets;
mod start;

pub(crate) use configure::topic_defaults;
pub use controller::{Caller, ControllerHost, ControllerHostError, ControllerNews, ControllerOptions};
pub use herald::Form;
pub use home::HomeError;
pub(crate) use home::SESSION_PROPERTY;
pub use sockets::ListenError;
pub use start::{ControllerAt, Running, ServeError, ServeOptions, Stopper, serve, start};

use std::io;

/// A seed that is another one each time.
pub(crate) fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    fill_with_chance(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn fill_with_chance(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|error| io::Error::other(format!("no random bytes: {error}")))
}
