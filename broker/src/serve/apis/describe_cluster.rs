//! `DescribeCluster`: which brokers there are.

use highwater_replication::controller::BrokerStatus;
use highwater_replication::wire::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
use highwater_replication::wire::{ErrorCode, Response};

use super::Facts;

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

pub(super) fn answer(facts: &Facts<'_>, request: &DescribeClusterRequest) -> Response {
    if request.endpoint_type != BROKERS {
        let error_code = if request.endpoint_type == CONTROLLERS {
            ErrorCode::MismatchedEndpointType
        } else {
            ErrorCode::UnsupportedEndpointType
        };
        let error_message = Some("brokers are described here".to_owned());
        return DescribeClusterResponse { error_code, error_message, ..Default::default() }.into();
    }
    let shown = facts
        .state
        .brokers
        .iter()
        .filter(|(_, broker)| request.include_fenced_brokers || broker.status != BrokerStatus::Fenced);
    let brokers = shown.map(|(id, broker)| DescribeClusterBroker {
        broker_id: id.value(),
        host: broker.host.clone(),
        port: i32::from(broker.port),
        rack: None,
        is_fenced: broker.status == BrokerStatus::Fenced,
    });
    DescribeClusterResponse {
        cluster_id: facts.state.cluster_id.clone(),
        controller_id: facts.controller(),
        brokers: brokers.collect(),
        ..Default::default()
    }
    .into()
}
