//! The proofs: a simulated world in which the real engine, shard and controller run, the invariants that must hold in it after every
//! event, and the rules that are switched off one by one to prove that the invariants see; one log against a model of it, on a disk
//! that crashes at any call; and bytes that nobody vouches for.
//!
//! Nothing here is part of a product, and nothing here changes one: invariants look through `&self` methods only.

pub mod damage;
pub mod exhaustive;
pub mod hostile;
pub mod invariants;
pub mod recover;
pub mod world;
