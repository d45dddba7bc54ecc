//! The reference broker on Kafka's protocol, its supervisor and the operator's tools: everything of the `highwater` binary but its `main`.
//!
//! Decides nothing about logs or replicas: it has the processes, the sockets, the clocks, the settings and the people.

pub mod ask;
pub mod cli;
pub mod clock;
pub mod event;
mod groups;
pub mod serve;
pub mod settings;
pub mod supervisor;
pub mod tools;
