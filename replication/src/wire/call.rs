//! Requests and responses of all APIs, and their frames.
//!
//! A request's frame is its header and its body; bytes left over behind the body are tolerated, as Kafka does. It refuses to answer
//! anything, and to close connections: errors say what the host should do.

use bytes::Bytes;

use super::api::ApiKey;
use super::error_code::ErrorCode;
use super::field::{Field, Shape};
use super::parts::PARTS_MAX;
use super::read::{DecodeError, Reader};
use super::write::{EncodeError, Writer};
use super::{
    alter_partition_reassignments, api_versions, create_topics, delete_groups, delete_topics,
    describe_cluster, describe_configs, describe_groups, elect_leaders, fetch, find_coordinator, heartbeat,
    highwater, init_producer_id, join_group, leave_group, list_groups, list_offsets,
    list_partition_reassignments, metadata, offset_commit, offset_delete, offset_fetch,
    offset_for_leader_epoch, produce, sync_group,
};

macro_rules! calls {
    ($($api:ident($request:path, $response:path);)+) => {
        /// The body of a request.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant is the request of the API of its name")]
        pub enum Request { $( $api($request), )+ }

        /// The body of a response.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "each variant is the response of the API of its name")]
        pub enum Response { $( $api($response), )+ }

        calls!(@enum Request $($api($request);)+);
        calls!(@enum Response $($api($response);)+);
    };
    (@enum $enum:ident $($api:ident($body:path);)+) => {
        impl $enum {
            /// Whose message it is.
            pub const fn api(&self) -> ApiKey {
                match self { $( Self::$api(_) => ApiKey::$api, )+ }
            }

            fn decode(api: ApiKey, version: i16, reader: &mut Reader) -> Result<Self, DecodeError> {
                let shape = Shape::new(version, api.is_flexible(version));
                match api { $( ApiKey::$api => <$body>::decode(reader, shape).map(Self::$api), )+ }
            }

            fn encode(&self, version: i16, writer: &mut Writer) {
                let shape = Shape::new(version, self.api().is_flexible(version));
                match self { $( Self::$api(body) => body.encode(writer, shape), )+ }
            }

            /// The JSON that Kafka's converter gives for this version.
            #[cfg(any(test, feature = "json"))]
            pub fn to_json(&self, version: i16) -> serde_json::Value {
                match self { $( Self::$api(body) => super::json::ToJson::to_json(body, version), )+ }
            }
        }

        $(
            impl From<$body> for $enum {
                fn from(body: $body) -> Self {
                    Self::$api(body)
                }
            }

            /// Gives the message back if it is another.
            impl TryFrom<$enum> for $body {
                type Error = $enum;

                fn try_from(message: $enum) -> Result<Self, $enum> {
                    match message {
                        $enum::$api(body) => Ok(body),
                        other => Err(other),
                    }
                }
            }
        )+
    };
}

calls! {
    Produce(produce::ProduceRequest, produce::ProduceResponse);
    Fetch(fetch::FetchRequest, fetch::FetchResponse);
    ListOffsets(list_offsets::ListOffsetsRequest, list_offsets::ListOffsetsResponse);
    Metadata(metadata::MetadataRequest, metadata::MetadataResponse);
    OffsetCommit(offset_commit::OffsetCommitRequest, offset_commit::OffsetCommitResponse);
    OffsetFetch(offset_fetch::OffsetFetchRequest, offset_fetch::OffsetFetchResponse);
    FindCoordinator(find_coordinator::FindCoordinatorRequest, find_coordinator::FindCoordinatorResponse);
    JoinGroup(join_group::JoinGroupRequest, join_group::JoinGroupResponse);
    Heartbeat(heartbeat::HeartbeatRequest, heartbeat::HeartbeatResponse);
    LeaveGroup(leave_group::LeaveGroupRequest, leave_group::LeaveGroupResponse);
    SyncGroup(sync_group::SyncGroupRequest, sync_group::SyncGroupResponse);
    DescribeGroups(describe_groups::DescribeGroupsRequest, describe_groups::DescribeGroupsResponse);
    ListGroups(list_groups::ListGroupsRequest, list_groups::ListGroupsResponse);
    ApiVersions(api_versions::ApiVersionsRequest, api_versions::ApiVersionsResponse);
    CreateTopics(create_topics::CreateTopicsRequest, create_topics::CreateTopicsResponse);
    DeleteTopics(delete_topics::DeleteTopicsRequest, delete_topics::DeleteTopicsResponse);
    InitProducerId(init_producer_id::InitProducerIdRequest, init_producer_id::InitProducerIdResponse);
    OffsetForLeaderEpoch(offset_for_leader_epoch::OffsetForLeaderEpochRequest, offset_for_leader_epoch::OffsetForLeaderEpochResponse);
    DescribeConfigs(describe_configs::DescribeConfigsRequest, describe_configs::DescribeConfigsResponse);
    DeleteGroups(delete_groups::DeleteGroupsRequest, delete_groups::DeleteGroupsResponse);
    ElectLeaders(elect_leaders::ElectLeadersRequest, elect_leaders::ElectLeadersResponse);
    OffsetDelete(offset_delete::OffsetDeleteRequest, offset_delete::OffsetDeleteResponse);
    AlterPartitionReassignments(alter_partition_reassignments::AlterPartitionReassignmentsRequest, alter_partition_reassignments::AlterPartitionReassignmentsResponse);
    ListPartitionReassignments(list_partition_reassignments::ListPartitionReassignmentsRequest, list_partition_reassignments::ListPartitionReassignmentsResponse);
    DescribeCluster(describe_cluster::DescribeClusterRequest, describe_cluster::DescribeClusterResponse);
    Highwater(highwater::HighwaterRequest, highwater::HighwaterResponse);
}

/// What stands before a request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// The API that is asked.
    pub api: ApiKey,
    /// The version of request and response.
    pub version: i16,
    /// Comes back with the response.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
}

/// A frame that is not a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The header cannot be read: close the connection.
    #[error("the request's header cannot be read: {0}")]
    Header(#[source] DecodeError),
    /// No such API: close the connection.
    #[error("unknown API {api_key} in version {version}")]
    UnknownApi {
        /// The number of the API.
        api_key: i16,
        /// The version that was asked.
        version: i16,
    },
    /// A version that is not understood: close the connection, unless it is `ApiVersions`, which is answered by
    /// [`unsupported_api_versions`].
    #[error("{} is not understood in version {}", header.api, header.version)]
    UnsupportedVersion {
        /// The header, which is readable all the same.
        header: RequestHeader,
    },
    /// The body cannot be read: close the connection.
    #[error("the request {} in version {} cannot be read: {error}", header.api, header.version)]
    Body {
        /// The header.
        header: RequestHeader,
        /// What is wrong.
        error: DecodeError,
    },
    /// It names more than [`PARTS_MAX`] topics and partitions: close the connection.
    #[error("the request {} names {parts} topics and partitions; more than {PARTS_MAX} are not served at once", header.api)]
    TooManyParts {
        /// The header.
        header: RequestHeader,
        /// How many.
        parts: usize,
    },
}

/// A client id has the classic form in every version, so that a broker can read the header of a version it does not know.
const CLIENT_ID: Shape = Shape { version: 0, flexible: false, nullable: true };

fn skip_tagged(reader: &mut Reader) -> Result<(), DecodeError> {
    reader.tagged(|_, _| Ok(()))
}

/// Reads the header, or the number and version of an API that is not known.
fn decode_header(reader: &mut Reader) -> Result<Result<RequestHeader, (i16, i16)>, DecodeError> {
    let api_key = i16::from_be_bytes(reader.array()?);
    let version = i16::from_be_bytes(reader.array()?);
    let Some(api) = ApiKey::from_code(api_key) else { return Ok(Err((api_key, version))) };
    let correlation_id = i32::from_be_bytes(reader.array()?);
    let client_id = Option::<String>::decode(reader, CLIENT_ID)?;
    if api.request_header_version(version) >= 2 {
        skip_tagged(reader)?;
    }
    Ok(Ok(RequestHeader { api, version, correlation_id, client_id }))
}

/// Reads a request from its frame, behind the length.
pub fn decode_request(frame: Bytes) -> Result<(RequestHeader, Request), RequestError> {
    let mut reader = Reader::new(frame);
    let header = decode_header(&mut reader)
        .map_err(|error| RequestError::Header(error.within("RequestHeader", "header")))?
        .map_err(|(api_key, version)| RequestError::UnknownApi { api_key, version })?;
    if !header.api.versions().contains(&header.version) {
        return Err(RequestError::UnsupportedVersion { header });
    }
    match Request::decode(header.api, header.version, &mut reader) {
        Ok(request) => match request.parts() {
            0..=PARTS_MAX => Ok((header, request)),
            parts => Err(RequestError::TooManyParts { header, parts }),
        },
        Err(error) => Err(RequestError::Body { header, error }),
    }
}

/// Writes a request with its length, in parts.
pub fn encode_request(header: &RequestHeader, request: &Request) -> Result<Vec<Bytes>, EncodeError> {
    debug_assert_eq!(header.api, request.api());
    let mut writer = Writer::frame();
    writer.put(&header.api.code().to_be_bytes());
    writer.put(&header.version.to_be_bytes());
    writer.put(&header.correlation_id.to_be_bytes());
    header.client_id.encode(&mut writer, CLIENT_ID);
    if header.api.request_header_version(header.version) >= 2 {
        writer.unsigned_varint(0);
    }
    request.encode(header.version, &mut writer);
    writer.finish_frame()
}

/// Reads the correlation id of a response from its frame, behind the length, so that its request can be found.
pub fn decode_correlation_id(frame: &Bytes) -> Option<i32> {
    frame.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}

/// Reads the response to a request of this API and version from its frame, behind the length.
pub fn decode_response(api: ApiKey, version: i16, frame: Bytes) -> Result<(i32, Response), DecodeError> {
    let mut reader = Reader::new(frame);
    let header = |error: DecodeError| error.within("ResponseHeader", "header");
    let correlation_id = reader.array().map(i32::from_be_bytes).map_err(header)?;
    if api.response_header_version(version) >= 1 {
        skip_tagged(&mut reader).map_err(header)?;
    }
    Ok((correlation_id, Response::decode(api, version, &mut reader)?))
}

/// Writes a response with its length, in parts: record bytes are not copied, unless they are few.
pub fn encode_response(
    version: i16,
    correlation_id: i32,
    response: &Response,
) -> Result<Vec<Bytes>, EncodeError> {
    let mut writer = Writer::frame();
    writer.put(&correlation_id.to_be_bytes());
    if response.api().response_header_version(version) >= 1 {
        writer.unsigned_varint(0);
    }
    response.encode(version, &mut writer);
    writer.finish_frame()
}

/// The answer to `ApiVersions` in a version that is not understood: in version 0, with the versions that are (KIP-511).
pub fn unsupported_api_versions() -> (i16, Response) {
    let versions = ApiKey::ApiVersions.versions();
    let known = api_versions::ApiVersion {
        api_key: ApiKey::ApiVersions.code(),
        min_version: *versions.start(),
        max_version: *versions.end(),
    };
    let response = api_versions::ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion,
        api_keys: vec![known],
        ..Default::default()
    };
    (0, response.into())
}
