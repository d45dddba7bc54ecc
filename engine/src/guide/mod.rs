//! Pages for who embeds the crate: what it promises, what it does after a crash, what it takes. No code.
//!
//! - [`ladder`]: accepted, written, durable, and how to wait for each.
//! - [`recovery`]: facts, plan, apply; what is believed and why.
//! - [`crashes`]: what a kill and a power loss leave of every operation.
//! - [`resources`]: threads, memory and descriptors, and what runs nobody unasked.
//! - [`platforms`]: features of the crate, systems, file systems, and what weakens where.
//!
//! Errors say their fate at the place where they are defined: refuse this call ([`AppendError`](crate::log::AppendError)), close this log
//! ([`Closed`](crate::log::Closed)), or give this directory up ([`StoreFailure`](crate::store::StoreFailure)).
//! [`errors`](crate::errors) has them in one table.
//!
//! The repository's `engine/examples` are whole programs: `embedded` (append, durable ticket, read), `tail` (follow from a thread and from a
//! task), `many_logs` (group commit over many logs), `read_only` (look while another process writes).

#[doc = include_str!("ladder.md")]
pub mod ladder {}
#[doc = include_str!("recovery.md")]
pub mod recovery {}
#[doc = include_str!("crashes.md")]
pub mod crashes {}
#[doc = include_str!("resources.md")]
pub mod resources {}
#[doc = include_str!("platforms.md")]
pub mod platforms {}
