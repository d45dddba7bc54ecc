//! What tools ask by the private message: the cluster, how far this broker's partitions are, another leader.

use bytes::Bytes;
use highwater_engine::units::{LeaderEpoch, Offset};
use highwater_replication::controller::{ControllerReply, ControllerRequest};
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
            requests: vec![ControllerRequest::Elect { partition, election }],
            finish: Box::new(|replies| response(&elected(replies))),
        },
    }
}

fn elected(replies: Vec<Option<ControllerReply>>) -> ToolReply {
    match replies.into_iter().next().flatten() {
        Some(ControllerReply::Elected { outcome: Ok(leader), .. }) => {
            ToolReply::Elected { leader: leader.value() }
        }
        Some(ControllerReply::Elected { outcome: Err(refusal), .. }) => {
            ToolReply::Refused(refusal.to_string())
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
