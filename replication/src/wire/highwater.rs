//! The private API: JSON between Highwater's brokers and their controller, never advertised.
//!
//! It refuses to know what the JSON says.

use bytes::Bytes;

use super::schema::message;

message! {
    /// A question of the controller's protocol.
    pub struct HighwaterRequest {
        /// The question, a slice of the frame.
        json: Bytes, 0..;
    }
}

message! {
    /// An answer of the controller's protocol.
    pub struct HighwaterResponse {
        /// The answer, a slice of the frame.
        json: Bytes, 0..;
    }
}
