//! What Kafka itself wrote: each recorded frame is read, compared with the JSON that Kafka's own converter gave, and written again.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;
use serde_json::{Value, json};

use super::consumer_offsets::{GroupValue, Key, OffsetValue};
use super::json::ToJson as _;
use super::{
    ApiKey, Request, RequestError, RequestHeader, Response, decode_request, decode_response, encode_request,
    encode_response, unsupported_api_versions,
};

/// The frames of one request and its response, and what is in them.
pub(super) struct Exchange {
    place: String,
    pub(super) version: i16,
    pub(super) api: ApiKey,
    pub(super) request: Bytes,
    pub(super) response: Option<Bytes>,
    json: Value,
}

fn unpacked(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/wire").join(file);
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    text
}

/// All exchanges that a file records.
pub(super) fn exchanges(file: &str) -> Vec<Exchange> {
    let text = unpacked(file);
    text.lines().enumerate().map(|(line, text)| exchange(&format!("{file}:{}", line + 1), text)).collect()
}

fn exchange(place: &str, text: &str) -> Exchange {
    let json: Value = serde_json::from_str(text).unwrap();
    let number = |name: &str| i16::try_from(json[name].as_i64().unwrap()).unwrap();
    let version = number("api_version");
    Exchange {
        place: format!("{place} {} v{version}", json["api"]),
        version,
        api: ApiKey::from_code(number("api_key")).unwrap(),
        request: from_hex(json["request_hex"].as_str().unwrap()),
        response: json["response_hex"].as_str().map(from_hex),
        json,
    }
}

fn from_hex(hex: &str) -> Bytes {
    let digit = |at: u8| u8::try_from(char::from(at).to_digit(16).unwrap()).unwrap();
    hex.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// The frame without its length, which is checked.
pub(super) fn frame(parts: &[Bytes]) -> Bytes {
    let whole = parts.concat();
    let length = usize::try_from(u32::from_be_bytes(*whole.first_chunk().unwrap())).unwrap();
    assert_eq!(length, whole.len() - 4, "the length before the frame");
    Bytes::from(whole).slice(4..)
}

fn check_request(exchange: &Exchange) {
    let place = &exchange.place;
    let (header, request) =
        decode_request(exchange.request.clone()).unwrap_or_else(|e| panic!("{place}: {e}"));
    let expected = &exchange.json["request"];
    assert_eq!(header_json(&header), expected["header"], "{place}");
    assert_eq!(request.to_json(header.version), expected["body"], "{place}");

    let written = frame(&encode_request(&header, &request).unwrap());
    match exchange.json["not_identical"].as_str() {
        None => assert_eq!(written, exchange.request, "{place}"),
        Some(why) => {
            assert_eq!(why, "request: 3 bytes left over", "{place}");
            assert_eq!(written, exchange.request.slice(..exchange.request.len() - 3), "{place}");
        }
    }
}

fn header_json(header: &RequestHeader) -> Value {
    json!({
        "requestApiKey": header.api.code(),
        "requestApiVersion": header.version,
        "correlationId": header.correlation_id,
        "clientId": header.client_id,
    })
}

fn check_response(exchange: &Exchange, version: i16, frame_bytes: &Bytes) -> Response {
    let place = &exchange.place;
    let (correlation_id, response) = decode_response(exchange.api, version, frame_bytes.clone())
        .unwrap_or_else(|e| panic!("{place}: {e}"));
    let expected = &exchange.json["response"];
    assert_eq!(json!({ "correlationId": correlation_id }), expected["header"], "{place}");
    assert_eq!(response.to_json(version), expected["body"], "{place}");
    assert_eq!(frame(&encode_response(version, correlation_id, &response).unwrap()), frame_bytes, "{place}");
    response
}

/// A client asks in a version of the future: the header is understood, and the answer is the one that Kafka gives.
fn check_unsupported(exchange: &Exchange) {
    let error = decode_request(exchange.request.clone()).unwrap_err();
    let RequestError::UnsupportedVersion { header } = error else { panic!("{}: {error}", exchange.place) };
    assert_eq!(header_json(&header), exchange.json["request"]["header"]);
    assert_eq!(header.api, ApiKey::ApiVersions);
    let (version, ours) = unsupported_api_versions();
    let theirs = check_response(exchange, version, exchange.response.as_ref().unwrap());
    assert_eq!(ours, theirs);
}

/// Requests and responses by API.
type Counts = BTreeMap<&'static str, (usize, usize)>;

fn check_all(files: &[&str]) -> Counts {
    let mut counts = Counts::new();
    for exchange in files.iter().flat_map(|file| exchanges(file)) {
        let (requests, responses) = counts.entry(exchange.api.name()).or_default();
        *requests += 1;
        *responses += usize::from(exchange.response.is_some());
        if exchange.api.versions().contains(&exchange.version) {
            check_request(&exchange);
            if let Some(response) = &exchange.response {
                check_response(&exchange, exchange.version, response);
            }
        } else {
            check_unsupported(&exchange);
        }
    }
    counts
}

#[test]
fn recorded_exchanges_are_read_and_written_as_kafka_does() {
    let counts = check_all(&[
        "aiokafka.jsonl.gz",
        "brokers-to-controller.jsonl.gz",
        "brokers.jsonl.gz",
        "confluent-kafka.jsonl.gz",
        "franz-go.jsonl.gz",
        "java.jsonl.gz",
        "kafka-python.jsonl.gz",
        "kafkajs.jsonl.gz",
        "kcat.jsonl.gz",
    ]);
    let expected = Counts::from([
        ("ApiVersions", (32, 32)),
        ("CreateTopics", (17, 17)),
        ("DeleteGroups", (9, 9)),
        ("DeleteTopics", (9, 9)),
        ("DescribeCluster", (6, 6)),
        ("DescribeConfigs", (10, 10)),
        ("DescribeGroups", (12, 12)),
        ("ElectLeaders", (7, 7)),
        ("Fetch", (46, 46)),
        ("FindCoordinator", (33, 33)),
        ("Heartbeat", (17, 17)),
        ("InitProducerId", (22, 22)),
        ("JoinGroup", (31, 31)),
        ("LeaveGroup", (25, 25)),
        ("ListGroups", (13, 13)),
        ("ListOffsets", (39, 39)),
        ("Metadata", (36, 36)),
        ("OffsetCommit", (35, 35)),
        ("OffsetDelete", (4, 4)),
        ("OffsetFetch", (37, 37)),
        ("OffsetForLeaderEpoch", (6, 6)),
        // With acks=0 there is no response.
        ("Produce", (31, 27)),
        ("SyncGroup", (28, 28)),
    ]);
    assert_eq!(counts, expected);
}

/// Bodies made at random and written by Kafka's own classes, so that no version goes unseen that no recorded client speaks.
#[test]
fn every_version_is_read_and_written_as_kafka_does() {
    let counts = check_all(&["kafka-clients.jsonl.gz"]);
    for api in ApiKey::ALL.iter().filter(|api| **api != ApiKey::Highwater) {
        let exchanges = 4 * api.versions().count();
        assert_eq!(counts.get(api.name()), Some(&(exchanges, exchanges)), "{}", api.name());
    }
}

#[test]
fn the_private_api_carries_json_both_ways() {
    let json = Bytes::from_static(br#"{"poll":{"since":7}}"#);
    let header = RequestHeader { api: ApiKey::Highwater, version: 0, correlation_id: 9, client_id: None };
    let request = Request::from(super::highwater::HighwaterRequest { json: json.clone() });
    let bytes = frame(&encode_request(&header, &request).unwrap());
    assert_eq!(
        bytes.as_ref(),
        [&[0x48, 0x57, 0, 0, 0, 0, 0, 9, 0xff, 0xff, 0, 0, 0, 20][..], &json].concat()
    );
    assert_eq!(decode_request(bytes).unwrap(), (header, request));

    let response = Response::from(super::highwater::HighwaterResponse { json });
    let bytes = frame(&encode_response(0, 9, &response).unwrap());
    assert_eq!(decode_response(ApiKey::Highwater, 0, bytes).unwrap(), (9, response));
}

#[test]
fn what_is_advertised_is_a_part_of_what_kafka_advertises() {
    let kafka: Value = serde_json::from_str(include_str!("../../testdata/wire/api-versions.json")).unwrap();
    let ours = super::api_versions::ApiVersionsResponse::advertised().api_keys;
    assert_eq!(ours.len(), 25);
    for api in ours {
        let name = ApiKey::from_code(api.api_key).unwrap().name();
        assert_eq!(
            json!({ "key": api.api_key, "min": api.min_version, "max": api.max_version }),
            kafka[name],
            "{name}"
        );
    }
    assert_eq!(ApiKey::Highwater.versions_advertised(), None);
}

#[test]
fn records_of_groups_are_read_and_written_as_kafka_does() {
    let mut written = BTreeMap::<String, usize>::new();
    for line in unpacked("consumer-offsets.jsonl.gz").lines() {
        let json: Value = serde_json::from_str(line).unwrap();
        let name = json["record"].as_str().unwrap();
        let version = i16::try_from(json["version"].as_i64().unwrap()).unwrap();
        let bytes = from_hex(json["hex"].as_str().unwrap());
        let mut body = json["body"].clone();
        let (read, ours) = match name {
            "OffsetCommitValue" => {
                // A tagged field of the newest version, which is not kept.
                body.as_object_mut().unwrap().remove("topicId");
                let value = OffsetValue::decode_record(bytes.clone()).unwrap();
                (value.to_json(version), value.encode_record())
            }
            "GroupMetadataValue" => {
                let value = GroupValue::decode_record(bytes.clone()).unwrap();
                (value.to_json(version), value.encode_record())
            }
            _ => match Key::decode(bytes.clone()).unwrap() {
                Key::Offset(key) => (key.to_json(version), key.encode_record()),
                Key::Group(key) => (key.to_json(version), key.encode_record()),
                Key::Unknown { version } => panic!("{name}: a key of version {version}"),
            },
        };
        assert_eq!(read, body, "{line}");
        // In the version in which it is written it gives the same bytes.
        if ours.is_ok_and(|ours| ours == bytes) {
            *written.entry(format!("{name} {version}")).or_default() += 1;
        }
    }
    let all: Vec<(&str, usize)> = written.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    let always = [("GroupMetadataKey 0", 4), ("GroupMetadataValue 3", 4), ("OffsetCommitKey 0", 4)];
    assert!(always.iter().all(|known| all.contains(known)), "{all:?}");
    assert!(all.iter().any(|(name, count)| *name == "OffsetCommitValue 3" && *count == 4), "{all:?}");
    assert_eq!(Key::decode(Bytes::from_static(&[0, 9])).unwrap(), Key::Unknown { version: 9 });
    assert!(OffsetValue::decode_record(Bytes::from_static(&[0, 9, 0])).is_err());
}
