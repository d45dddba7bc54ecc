//! Bytes that are not what they should be: refused with a place and a reason, without a panic and without memory by announced length.

use bytes::Bytes;

use super::field::{Field, Shape};
use super::golden_test::{Exchange, exchanges};
use super::metadata::MetadataRequestTopic;
use super::read::Reader;
use super::{
    ARRAYS_BYTES_MAX, ApiKey, DecodeFault, RequestError, decode_correlation_id, decode_request,
    decode_response,
};

/// Frames of at most this size are damaged at every byte; a few of each API and version are enough.
const FRAME_BYTES_MAX: usize = 2_000;

fn specimens() -> Vec<Exchange> {
    let all = exchanges("kafka-clients.jsonl.gz");
    all.into_iter().step_by(2).filter(|exchange| exchange.request.len() <= FRAME_BYTES_MAX).collect()
}

/// Reads a frame as request and as response; what comes out does not matter, that it comes out does.
fn read_both(exchange: &Exchange, frame: &Bytes) -> (bool, bool) {
    let request = decode_request(frame.clone()).is_ok();
    let response = decode_response(exchange.api, exchange.version, frame.clone()).is_ok();
    (request, response)
}

#[test]
fn a_frame_that_is_cut_anywhere_is_refused() {
    let mut cuts = 0;
    for exchange in specimens() {
        for end in 0..exchange.request.len() {
            let (request, _) = read_both(&exchange, &exchange.request.slice(..end));
            assert!(!request, "{:?} v{} cut at {end}", exchange.api, exchange.version);
            cuts += 1;
        }
        let response = exchange.response.as_ref().unwrap();
        for end in 0..response.len().min(FRAME_BYTES_MAX) {
            let (_, read) = read_both(&exchange, &response.slice(..end));
            assert!(!read, "{:?} v{} cut at {end}", exchange.api, exchange.version);
            cuts += 1;
        }
    }
    assert!(cuts > 50_000, "{cuts}");
}

#[test]
fn a_damaged_byte_anywhere_does_no_harm() {
    let mut refused = 0;
    for exchange in specimens() {
        let frames = [&exchange.request, exchange.response.as_ref().unwrap()];
        for frame in frames {
            for at in 0..frame.len().min(FRAME_BYTES_MAX) {
                for damage in [0xff, 0x7f, 0x80, 0x00] {
                    let mut bytes = frame.to_vec();
                    bytes[at] = damage;
                    let (request, response) = read_both(&exchange, &bytes.into());
                    refused += usize::from(!request) + usize::from(!response);
                }
            }
        }
    }
    assert!(refused > 100_000, "{refused}");
}

#[test]
fn random_bytes_do_no_harm() {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(4_301);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..20_000 {
        let api = *random.choice(ApiKey::ALL).unwrap();
        let version = random.i16(api.versions());
        let mut bytes = [api.code().to_be_bytes(), version.to_be_bytes()].concat();
        bytes.extend([0, 0, 0, 7, 0xff, 0xff]);
        bytes.extend(
            (0..random.usize(0..200)).map(|_| if random.bool() { random.u8(..) } else { random.u8(..4) }),
        );
        let frame = Bytes::from(bytes);
        assert!(decode_correlation_id(&frame).is_some(), "seed {seed} round {round}");
        let _ = decode_request(frame.clone());
        let _ = decode_response(api, version, frame.slice(4..));
    }
}

fn fault_of(frame: &[u8]) -> DecodeFault {
    let error = decode_request(Bytes::copy_from_slice(frame)).unwrap_err();
    let RequestError::Body { error, .. } = error else { panic!("{error}") };
    error.fault
}

/// The header of a Metadata request in version 9: no client id, no tagged fields.
const METADATA_9: [u8; 11] = [0, 3, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0];
/// The same in version 1, which is not flexible.
const METADATA_1: [u8; 10] = [0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff];

#[test]
fn announced_lengths_are_held_against_the_bytes_that_are_there() {
    let frame = |head: &[u8], body: &[u8]| [head, body].concat();
    let most = frame(&METADATA_1, &[0x7f, 0xff, 0xff, 0xff, 0, 1, b'a']);
    assert_eq!(fault_of(&most), DecodeFault::Count { count: 0x7fff_ffff, bytes_min: 2, left: 3 });
    let negative = frame(&METADATA_1, &[0xff, 0xff, 0xff, 0xfe]);
    assert_eq!(fault_of(&negative), DecodeFault::NegativeLength { length: -2 });
    let long_name = frame(&METADATA_1, &[0, 0, 0, 1, 0x7f, 0xff, b'a']);
    assert_eq!(fault_of(&long_name), DecodeFault::Short { needed: 0x7fff, left: 1 });
    let null_name = frame(&METADATA_1, &[0, 0, 0, 1, 0xff, 0xff]);
    assert_eq!(fault_of(&null_name), DecodeFault::Null);
    let not_utf8 = frame(&METADATA_1, &[0, 0, 0, 1, 0, 1, 0xff]);
    assert_eq!(fault_of(&not_utf8), DecodeFault::Utf8);
    let endless_varint = frame(&METADATA_9, &[0xff; 10]);
    assert_eq!(fault_of(&endless_varint), DecodeFault::Varint);
    let varint_beyond_32_bits = frame(&METADATA_9, &[0xff, 0xff, 0xff, 0xff, 0x1f]);
    assert_eq!(fault_of(&varint_beyond_32_bits), DecodeFault::Varint);
    let most_compact = frame(&METADATA_9, &[0xff, 0xff, 0xff, 0xff, 0x0f]);
    assert_eq!(fault_of(&most_compact), DecodeFault::Count { count: 0xffff_fffe, bytes_min: 2, left: 0 });
    let tag_beyond_the_frame = frame(&METADATA_9, &[1, 0, 0, 0, 1, 5, 0x7f, 1]);
    assert_eq!(fault_of(&tag_beyond_the_frame), DecodeFault::Short { needed: 0x7f, left: 1 });
}

#[test]
fn an_error_names_the_field_and_the_position() {
    let frame = [&METADATA_1[..], &[0, 0, 0, 1, 0x7f, 0xff, b'a']].concat();
    let error = decode_request(frame.into()).unwrap_err().to_string();
    assert!(error.contains("MetadataRequestTopic.name, at byte 16 of the frame"), "{error}");
}

#[test]
fn many_small_elements_do_not_become_much_memory() {
    // An array of the least elements: each is 2 bytes on the wire and some 50 in memory.
    let count = u32::try_from(ARRAYS_BYTES_MAX / size_of::<MetadataRequestTopic>() + 1).unwrap();
    let mut writer = super::write::Writer::frame();
    writer.unsigned_varint(count + 1);
    let topics = vec![MetadataRequestTopic { name: Some(String::new()), topic_id: None }; count as usize];
    for topic in &topics {
        topic.encode(&mut writer, Shape::new(9, true));
    }
    let parts = writer.finish_frame().unwrap();
    let mut reader = Reader::new(Bytes::from(parts.concat()).slice(4..));
    let error = Vec::<MetadataRequestTopic>::decode(&mut reader, Shape::new(9, true)).unwrap_err();
    assert_eq!(error.fault, DecodeFault::ArraysTooLarge);
}

#[test]
fn unknown_tagged_fields_are_skipped_and_a_known_ones_rest_too() {
    // One topic with an unknown tagged field, then the request's own flags and an unknown tagged field.
    let body = [2, 2, b'a', 1, 9, 3, 1, 2, 3, 1, 0, 0, 1, 77, 0];
    let (_, request) = decode_request([&METADATA_9[..], &body].concat().into()).unwrap();
    let super::Request::Metadata(request) = request else { panic!("{request:?}") };
    assert_eq!(request.topics.unwrap()[0].name.as_deref(), Some("a"));
    assert!(request.allow_auto_topic_creation);
}

#[test]
fn apis_and_versions_that_are_not_understood_are_named() {
    let unknown = decode_request(Bytes::from_static(&[0, 99, 0, 1, 0, 0, 0, 1, 0xff, 0xff])).unwrap_err();
    assert_eq!(unknown, RequestError::UnknownApi { api_key: 99, version: 1 });
    let future = decode_request(Bytes::from_static(&[0, 0, 0, 99, 0, 0, 0, 1, 0xff, 0xff, 0])).unwrap_err();
    assert!(matches!(future, RequestError::UnsupportedVersion { header } if header.version == 99));
    let cut = decode_request(Bytes::from_static(&[0, 0, 0])).unwrap_err();
    assert!(matches!(cut, RequestError::Header(_)));
}
