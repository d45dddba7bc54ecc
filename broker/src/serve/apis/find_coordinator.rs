//! `FindCoordinator`: there are no groups and no transactions yet, and so no coordinators.
//!
//! It is answered all the same, because librdkafka switches compression off for a broker that does not know it.

use highwater_replication::wire::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use highwater_replication::wire::{ErrorCode, Response};

const WHY: &str = "there are no groups and no transactions yet";

pub(super) fn answer(version: i16, request: FindCoordinatorRequest) -> Response {
    let error_code = ErrorCode::CoordinatorNotAvailable;
    let error_message = Some(WHY.to_owned());
    if version >= 4 {
        let none = |key| Coordinator {
            key,
            node_id: -1,
            port: -1,
            error_code,
            error_message: error_message.clone(),
            ..Default::default()
        };
        let coordinators = request.coordinator_keys.into_iter().map(none).collect();
        return FindCoordinatorResponse { coordinators, ..Default::default() }.into();
    }
    FindCoordinatorResponse { error_code, error_message, node_id: -1, port: -1, ..Default::default() }.into()
}
