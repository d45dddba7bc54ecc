//! `InitProducerId`, API 22: gives a producer its id and epoch.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for a producer id.
    pub struct InitProducerIdRequest {
        /// The transactional id, if the producer has one.
        transactional_id: Option<String>, 0.., nullable 0..;
        /// How long a transaction may stay open.
        transaction_timeout_ms: i32, 0..;
        /// The id that the producer has, -1 for none (KIP-360).
        producer_id: i64, 3.., default -1;
        /// The epoch that the producer has, -1 for none.
        producer_epoch: i16, 3.., default -1;
    }
}

message! {
    /// The producer id.
    pub struct InitProducerIdResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 0..;
        /// Why there is none.
        error_code: ErrorCode, 0..;
        /// The id, -1 for none.
        producer_id: i64, 0.., default -1;
        /// The epoch.
        producer_epoch: i16, 0..;
    }
}
