//! What tools ask by the private message: the cluster, how far this broker's partitions are, another leader.

use bytes::Bytes;
use highwater_engine::units::{LeaderEpoch, Offset, TopicPartition};
use highwater_replication::controller::{ControllerReply, ControllerRequest, ElectionRefusal};
use highwater_replication::partition::{RoleName, Status};
use highwater_replication::wire::Response;
use highwater_replication::wire::highwater::HighwaterResponse;

use super::{Answer, Facts};
use crate::ask::{ClusterStatus, PartitionMarks, ToolReply, ToolRequest};

pub(super) fn answer(facts: &Facts<'_>, json: &Bytes) -> Answer {
    let request: ToolRequest = match serde_json::from_slice(json) {
        Ok(request) => request,
        Err(error) => {
            let words = format!("the request cannot be read ({error}); is the tool of this version?");
            return Answer::Now(response(&ToolReply::Refused(words)));
        }
    };
    match request {
        ToolRequest::Status => Answer::Now(response(&ToolReply::Status(ClusterStatus::of(facts.state)))),
        ToolRequest::Marks => {
            let led = (facts.replicas)().into_iter().filter(|replica| replica.role == RoleName::Leader);
            Answer::Now(response(&ToolReply::Marks(led.map(marks).collect())))
        }
        ToolRequest::Elect { partition, election } => Answer::Ask {
            requests: vec![ControllerRequest::Elect { partition: partition.clone(), election }],
            finish: Box::new(move |replies| response(&elected(&partition, replies))),
        },
    }
}

fn elected(partition: &TopicPartition, replies: Vec<Option<ControllerReply>>) -> ToolReply {
    match replies.into_iter().next().flatten() {
        // Who leads already leads as was asked for.
        Some(ControllerReply::Elected {
            outcome: Ok(leader) | Err(ElectionRefusal::NotNeeded { leader }),
            ..
        }) => ToolReply::Elected { leader: leader.value() },
        Some(ControllerReply::Elected { outcome: Err(refusal), .. }) => {
            let hint = match refusal {
                ElectionRefusal::NotInSync { .. }
                | ElectionRefusal::Damaged { .. }
                | ElectionRefusal::NobodyAvailable => "; `highwater status` shows who is in sync",
                ElectionRefusal::UnknownPartition => "; `highwater topics list` shows what there is",
                ElectionRefusal::NotNeeded { .. } | ElectionRefusal::EpochsUsedUp | _ => "",
            };
            ToolReply::Refused(format!("{partition}: {refusal}{hint}"))
        }
        _ => ToolReply::Refused("the controller does not answer; try again".to_owned()),
    }
}

fn marks(replica: Status) -> PartitionMarks {
    PartitionMarks {
        partition: replica.name,
        leader_epoch: replica.leader_epoch.map_or(-1, LeaderEpoch::value),
        high_watermark: Some(Offset::value(replica.high_watermark)),
        log_end: replica.log_end.value(),
    }
}

fn response(reply: &ToolReply) -> Response {
    let json = serde_json::to_vec(reply)
        .unwrap_or_else(|error| unreachable!("a reply is plain data with text keys: {error}"));
    HighwaterResponse { json: json.into() }.into()
}
