//! Streams cut into frames, whatever the reads bring; parts that are not copied.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::fetch::{FetchResponse, FetchableTopicResponse, PartitionData};
use super::golden_test::frame;
use super::{ApiKey, Response};
use super::{EncodeError, FrameError, FrameReader, Records, decode_response, encode_response};

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

/// Reads the stream in pieces of at most `piece` bytes, as a socket would fill the room that is offered.
fn read_in_pieces(
    reader: &mut FrameReader,
    mut stream: &[u8],
    mut piece: impl FnMut() -> usize,
) -> Vec<Bytes> {
    let mut frames = Vec::new();
    while !stream.is_empty() {
        let mut space = reader.space();
        let room = space.remaining_mut();
        assert!((1..=64 << 10).contains(&room), "{room}");
        let (now, later) = stream.split_at(piece().clamp(1, room).min(stream.len()));
        space.put_slice(now);
        stream = later;
        while let Some(frame) = reader.next_frame().unwrap() {
            frames.push(frame);
        }
    }
    frames
}

#[test]
fn frames_come_out_whole_whatever_the_reads_bring() {
    let seed = std::env::var("HIGHWATER_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..100 {
        let frames: Vec<Vec<u8>> = (0..random.usize(1..20))
            .map(|_| {
                let bytes = *random.choice(&[0, 1, 14, 100, 5_000, 70_000, 200_000]).unwrap();
                let bytes = random.usize(bytes / 2..=bytes);
                (0..bytes).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect()
            })
            .collect();
        let stream: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        let largest = *random.choice(&[1, 7, 1_000, 100_000]).unwrap();
        let mut reader = FrameReader::new(1 << 20);
        let read =
            read_in_pieces(&mut reader, &stream, || random.usize(1..=largest.max(stream.len() / 5_000)));
        assert_eq!(read, frames, "seed {seed} round {round}");
        assert_eq!(reader.buffered(), 0);
    }
}

#[test]
fn a_large_frame_owns_its_memory_alone() {
    let stream = [framed(&[1; 100]), framed(&vec![2; 300_000]), framed(&[3; 50])].concat();
    let mut reader = FrameReader::new(1 << 20);
    for frame in read_in_pieces(&mut reader, &stream, || usize::MAX) {
        let bytes = frame.len();
        let owned = frame.try_into_mut().expect("nobody else holds the frame's memory");
        assert!(owned.capacity() <= 2 * (bytes + 4), "{} for {bytes}", owned.capacity());
    }
}

#[test]
fn a_frame_pins_little_memory_whatever_came_with_it() {
    // All of it comes in one read of 64 KiB, and every frame is kept.
    let stream =
        [framed(&[1; 100]).repeat(300), framed(&vec![2; 20_000]), framed(&[3; 700]), framed(&[4; 9])]
            .concat();
    let mut reader = FrameReader::new(1 << 20);
    let mut frames = read_in_pieces(&mut reader, &framed(&vec![0; 200_000]), || usize::MAX);
    frames.clear();
    frames.extend(read_in_pieces(&mut reader, &stream, || usize::MAX));
    assert_eq!(frames.len(), 303);
    for frame in frames {
        let bytes = frame.len();
        let owned = frame.try_into_mut().expect("nobody else holds the frame's memory");
        assert!(owned.capacity() <= 2 * (bytes + 4), "{} for {bytes}", owned.capacity());
    }
}

#[test]
fn memory_grows_with_what_came_and_not_with_what_was_announced() {
    let mut reader = FrameReader::new(1 << 30);
    reader.feed(&(1i32 << 30).to_be_bytes());
    assert_eq!(reader.next_frame(), Ok(None));
    let room = reader.space().remaining_mut();
    assert_eq!(room, 4 << 10);
    assert!(reader.space().get_ref().capacity() < 16 << 10);
}

#[test]
fn lengths_that_cannot_be_are_refused_at_once() {
    let mut reader = FrameReader::new(100);
    reader.feed(&101u32.to_be_bytes());
    assert_eq!(reader.next_frame(), Err(FrameError::TooLarge { bytes: 101, bytes_max: 100 }));
    reader.set_frame_bytes_max(101);
    assert_eq!(reader.next_frame(), Ok(None));
    let mut reader = FrameReader::new(100);
    reader.feed(&(-1i32).to_be_bytes());
    assert_eq!(reader.next_frame(), Err(FrameError::Negative { length: -1 }));
}

fn fetched(records: Records) -> Response {
    let partition = PartitionData { records: Some(records), ..Default::default() };
    let topic =
        FetchableTopicResponse { partitions: vec![partition.clone(), partition], ..Default::default() };
    FetchResponse { responses: vec![topic], ..Default::default() }.into()
}

#[test]
fn records_go_out_and_come_in_without_a_copy() {
    let pieces = vec![Bytes::from(vec![1; 5_000]), Bytes::from(vec![2; 3_000])];
    let response = fetched(Records::from(pieces.clone()));
    let parts = encode_response(17, 3, &response).unwrap();
    for piece in &pieces {
        let same = parts.iter().filter(|part| part.as_ptr() == piece.as_ptr() && part.len() == piece.len());
        assert_eq!(same.count(), 2, "each piece goes out twice, from where it was");
    }
    assert_eq!(parts.len(), 7, "three pieces of header between and around");

    let bytes = frame(&parts);
    let (_, read) = decode_response(ApiKey::Fetch, 17, bytes.clone()).unwrap();
    assert_eq!(read, response);
    let Response::Fetch(read) = read else { panic!("{read:?}") };
    let records = read.responses[0].partitions[0].records.clone().unwrap().into_bytes();
    assert!(bytes.as_ptr_range().contains(&records.as_ptr()), "a slice of the frame");
}

#[test]
fn few_record_bytes_travel_with_the_header() {
    let parts = encode_response(17, 3, &fetched(Bytes::from_static(&[1; 100]).into())).unwrap();
    assert_eq!(parts.len(), 1);
}

#[test]
fn what_the_protocol_cannot_carry_is_an_error() {
    let topic = FetchableTopicResponse { topic: "x".repeat(40_000), ..Default::default() };
    let response = FetchResponse { responses: vec![topic], ..Default::default() }.into();
    assert_eq!(encode_response(11, 3, &response), Err(EncodeError::StringTooLong { bytes: 40_000 }));
    assert!(encode_response(12, 3, &response).is_ok());
}

#[test]
fn records_are_equal_however_they_are_cut() {
    let whole = Records::from(Bytes::from_static(b"abcdef"));
    let cut = Records::from(vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"cdef")]);
    assert_eq!(whole, cut);
    assert_eq!(cut.len(), 6);
    assert_eq!(cut.into_bytes(), BytesMut::from("abcdef").freeze());
    assert!(Records::from(Vec::new()).is_empty());
}
