//! Who may lead and who is in the ISR: one versioned state, a pure machine that decides, and a log that keeps it.
//!
//! The machine gets calls and time and gives changes, replies and events. A host persists the changes before the replies leave.
//! Brokers hold a copy of the state, made of the changes they poll. No record data is seen here.

mod change;
mod event;
mod input;
mod protocol;
mod state;

pub use change::{Change, StateError};
pub use event::{ControllerEvent, FenceReason, LeaderReason};
pub use input::{CallId, ControllerConfig, Effect, Input};
pub use protocol::{
    Condition, ControllerCall, ControllerReply, ControllerRequest, CreatedTopic, CreationPurpose, Election,
    ElectionRefusal, IsrAnswer, IsrGranted, IsrMember, IsrProposal, IsrRefusal, LastStop, MessageError,
    NewTopic, POLL_WAIT_MS_MAX, ProducerIdBlock, Registration, RegistrationRefusal, ReplicaFacts,
    ReportedReplica, Sender, SessionBegun, TopicRefusal,
};
pub use state::{
    Broker, BrokerStatus, ClusterState, DURABILITY, FORMAT_VERSION, LossCause, LossRecord, MIN_ISR,
    OutOfSync, OutReason, PartitionState, PossibleLoss, ReplicaReport, Suspicion, TRUNCATION, Topic,
};
