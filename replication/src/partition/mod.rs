//! The pure state machine of one replica.
//!
//! Everything that can happen is an [`Input`], everything it wants done is an [`Effect`]; time is an argument, and the facts of the
//! log are borrowed. There is no socket, file, clock or record byte here, and nothing that comes from outside makes it panic.

mod assign;
mod assignment;
mod config;
mod effect;
mod follow;
mod follower;
mod input;
mod judge;
mod leader;
mod machine;
mod progress;
mod refusal;
mod repair;
mod status;
mod waits;
mod watermark;

pub use assignment::{
    Assignment, Durability, Integrity, LossCause, LossRecord, Member, Standing, TruncationRule,
};
pub use config::PartitionConfig;
pub use effect::{
    Effect, FetchProblem, IgnoredReason, OutOfSyncReason, PartitionEvent, RepairProblem, ResignReason,
    TruncationReason, WaitOutcome, Wake,
};
pub use input::{
    AckWait, Acks, FetchAnswer, FetchClaim, FetchFailure, FetchOutcome, Fetcher, Input, IsrAnswer,
    IsrProposal, WaitId,
};
pub use machine::Partition;
pub use refusal::{Asker, Fenced, FetchRefusal, FetchRequest, FetchVerdict, ListBound, ProduceRefusal};
pub use status::{OutOfSync, RoleName, Status};

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod follower_test;
#[cfg(test)]
mod judge_test;
#[cfg(test)]
mod leader_test;
#[cfg(test)]
mod repair_test;
#[cfg(test)]
mod world_test;
