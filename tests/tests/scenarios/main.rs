//! The scenarios of the catalogue, one short script each, and random runs.
//!
//! Names are those of the catalogue (S01, S02, ...): a replication protocol's classic ways to lose, fork or repeat records. Each script
//! states what has to come of it; the invariants are checked after every event besides.

mod committing;
mod crashes;
mod damage;
mod elections;
mod fences;
mod isr;
mod machines;
mod old_words;
mod producers;
mod random_runs;
mod reassignments;
mod smoke;
mod topics;
mod truncation;
mod zoo;
