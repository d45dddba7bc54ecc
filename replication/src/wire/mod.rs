//! Messages of Kafka's protocol: bytes in, values out, and back.
//!
//! Each message is described once, field by field, in the form of Kafka's own specifications (see `schema`), one file per API.
//! Records are never copied: those of a request are slices of its frame, those of a response go out as parts of their own. Every
//! length is bounded by the bytes that are there. The floor refuses to know what a message means, and does no I/O.
//!
//! ```
//! use bytes::Bytes;
//! use highwater_replication::wire::{self, ApiKey, FrameReader, RequestHeader, fetch::FetchRequest};
//!
//! let header = RequestHeader { api: ApiKey::Fetch, version: 17, correlation_id: 7, client_id: None };
//! let request = FetchRequest { max_wait_ms: 500, ..Default::default() };
//! let parts = wire::encode_request(&header, &request.into()).unwrap();
//!
//! let mut stream = FrameReader::new(1 << 20);
//! parts.iter().for_each(|part| stream.feed(part));
//! let frame: Bytes = stream.next_frame().unwrap().expect("the frame is whole");
//! let (same, request) = wire::decode_request(frame).unwrap();
//! assert_eq!(same, header);
//! assert!(matches!(request, wire::Request::Fetch(fetch) if fetch.max_wait_ms == 500));
//! ```

mod api;
mod call;
mod error_code;
mod field;
mod frame;
#[cfg(any(test, feature = "json"))]
mod json;
mod parts;
mod read;
mod records;
mod schema;
mod write;

#[cfg(test)]
mod frame_test;
#[cfg(test)]
mod golden_test;
#[cfg(test)]
mod hostile_test;

pub mod alter_partition_reassignments;
pub mod api_versions;
pub mod common;
pub mod consumer_offsets;
pub mod create_topics;
pub mod delete_groups;
pub mod delete_topics;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod elect_leaders;
pub mod fetch;
pub mod find_coordinator;
pub mod heartbeat;
pub mod highwater;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_groups;
pub mod list_offsets;
pub mod list_partition_reassignments;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod produce;
pub mod sync_group;

pub use api::ApiKey;
pub use call::{
    Request, RequestError, RequestHeader, Response, decode_correlation_id, decode_request, decode_response,
    encode_request, encode_response, unsupported_api_versions,
};
pub use error_code::ErrorCode;
pub use frame::{FrameError, FrameReader};
#[cfg(any(test, feature = "json"))]
pub use json::ToJson;
pub use parts::PARTS_MAX;
pub use read::{ARRAYS_BYTES_MAX, DecodeError, DecodeFault};
pub use records::Records;
pub use write::EncodeError;
