//! `highwater reassign`: partitions are put on other brokers, by Kafka's own messages (KIP-455).

use highwater_engine::units::TopicPartition;
use highwater_replication::wire::Response;
use highwater_replication::wire::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use highwater_replication::wire::list_partition_reassignments::ListPartitionReassignmentsRequest;

use super::topics::{WAIT_MS, refused};
use super::{AskError, Connection};

const ALTER_VERSION: i16 = 1;
const LIST_VERSION: i16 = 0;

/// A partition on its way to other brokers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovingLine {
    /// The topic.
    pub topic: String,
    /// The partition's number.
    pub partition: i32,
    /// Who holds it now, those that are added and those that go included.
    pub replicas: Vec<i32>,
    /// Who is being added.
    pub adding: Vec<i32>,
    /// Who goes when they have everything.
    pub removing: Vec<i32>,
}

/// Puts a partition on these brokers, the preferred leader first; `None` cancels what is under way.
///
/// Returns when it has begun. It goes on by itself, and survives the end of everybody who takes part.
pub fn reassign(
    broker: &mut Connection,
    partition: &TopicPartition,
    replicas: Option<Vec<i32>>,
) -> Result<(), AskError> {
    let wanted = ReassignablePartition { partition_index: partition.partition(), replicas };
    let topic = ReassignableTopic { name: partition.topic().to_owned(), partitions: vec![wanted] };
    let request =
        AlterPartitionReassignmentsRequest { timeout_ms: WAIT_MS, topics: vec![topic], ..Default::default() };
    let Response::AlterPartitionReassignments(answer) = broker.call(ALTER_VERSION, &request.into())? else {
        return Err(broker.something_else());
    };
    let result = answer.responses.first().and_then(|topic| topic.partitions.first());
    let Some(result) = result else { return Err(broker.something_else()) };
    if result.error_code.is_none() {
        Ok(())
    } else {
        Err(refused(&partition.to_string(), result.error_code, result.error_message.as_deref()))
    }
}

/// All partitions that are on their way.
pub fn list_reassignments(broker: &mut Connection) -> Result<Vec<MovingLine>, AskError> {
    let request = ListPartitionReassignmentsRequest { timeout_ms: WAIT_MS, topics: None };
    let Response::ListPartitionReassignments(answer) = broker.call(LIST_VERSION, &request.into())? else {
        return Err(broker.something_else());
    };
    let lines = answer.topics.into_iter().flat_map(|topic| {
        let name = topic.name;
        topic.partitions.into_iter().map(move |partition| MovingLine {
            topic: name.clone(),
            partition: partition.partition_index,
            replicas: partition.replicas,
            adding: partition.adding_replicas,
            removing: partition.removing_replicas,
        })
    });
    Ok(lines.collect())
}
