//! `highwater` without a command: a cluster on one machine. A broker is a process, so that one can be killed without the others;
//! this keeps them running, and carries out orders to stop, kill and start them.
//!
//! Knows nothing of logs, replicas or clients.

mod child;
pub mod claims;
mod cluster;
mod holders;
mod launch;
pub mod lifeline;
mod orders;
mod process;
mod run;
mod voice;

pub use cluster::{Cluster, Greeted, Surroundings};
pub use holders::Holder;
pub use launch::{HOST, Launch, LaunchError, for_people};
pub use orders::{Answer, BrokerOrder, OrderError, close as close_orders, give, listen as listen_for_orders};
pub use process::Order;
pub use run::{ControllerSide, RunError, run};
pub use voice::Voice;
