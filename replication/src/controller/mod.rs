//! Who may lead and who is in the ISR: one versioned state, a pure machine that decides, and a log that keeps it.
//!
//! The machine gets calls and time and gives changes, replies and events. A host persists the changes before the replies leave.
//! Brokers hold a copy of the state, made of the changes they poll. No record data is seen here.

mod change;
mod election;
mod event;
mod input;
mod isr;
mod machine;
mod node;
mod orders;
mod polls;
mod proof;
mod protocol;
mod reassign;
mod rebuild;
mod refusal;
mod sessions;
mod state;
mod store;
mod topics;
mod view;

#[cfg(test)]
mod damage_test;
#[cfg(test)]
mod election_test;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod isr_test;
#[cfg(test)]
mod node_test;
#[cfg(test)]
mod reassign_test;
#[cfg(test)]
mod rebuild_test;
#[cfg(test)]
mod sessions_test;
#[cfg(test)]
mod state_test;
#[cfg(test)]
mod topics_test;
#[cfg(test)]
mod view_test;

pub use change::{Change, StateError};
pub use event::{ControllerEvent, FenceReason, LeaderReason};
pub use input::{CallId, ControllerConfig, Effect, Input};
pub use machine::Controller;
pub use node::{ControllerNode, ControllerOut};
pub use protocol::{
    Condition, ControllerCall, ControllerReply, ControllerRequest, CreatedTopic, CreationPurpose, Election,
    FactorRule, IsrAnswer, IsrGranted, IsrMember, IsrProposal, LastStop, MessageError, NewTopic,
    POLL_WAIT_MS_MAX, ProducerIdBlock, Registration, ReplicaFacts, ReportedReplica, ResignCause, Sender,
    SessionBegun,
};
pub use rebuild::{FoundBroker, FoundLog, RebuildError, RebuildRefusal, rebuild, write_rebuilt};
pub use refusal::{ElectionRefusal, IsrRefusal, ReassignRefusal, RegistrationRefusal, TopicRefusal};
pub use state::{
    Broker, BrokerStatus, ClusterState, DURABILITY, FORMAT_VERSION, MIN_ISR, OutOfSync, OutReason,
    PartitionState, PossibleLoss, RegisteredAs, ReplicaReport, Suspicion, TRUNCATION, Topic,
};
pub use store::{ControllerFailure, ControllerOpenError};
pub use view::{ClusterView, ViewChange, ViewError};
