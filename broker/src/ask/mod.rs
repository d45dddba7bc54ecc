//! Asking a cluster, as the operator's commands do: Kafka's messages where Kafka has them, and one private message where it has none.
//!
//! Blocks; nothing of a broker's own work goes through here.

mod client;
mod message;
mod reassign;
mod status;
mod topics;
mod unclean;

pub use client::{AskError, Connection, any, elect};
pub use message::{PartitionMarks, ToolReply, ToolRequest};
pub use reassign::{MovingLine, list_reassignments, reassign};
pub use status::{BrokerLine, ClusterStatus, OutOfSyncLine, PartitionLine, ReportLine, gather};
pub use topics::{NewTopic, TopicLine, create_topic, delete_topic, list_topics, parse_assignment};
pub use unclean::{UncleanRefusal, what_may_be_lost};
