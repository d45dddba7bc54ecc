//! The bytes are a stream of frames from a client, and then one frame, read as a request and as each response.

#![no_main]

use bytes::Bytes;
use highwater_replication::wire::{
    ApiKey, FrameReader, decode_correlation_id, decode_request, decode_response, encode_request,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut stream = FrameReader::new(1 << 20);
    stream.feed(data);
    while let Ok(Some(frame)) = stream.next_frame() {
        std::hint::black_box(decode_request(frame).is_ok());
    }
    let frame = Bytes::copy_from_slice(data);
    std::hint::black_box(decode_correlation_id(&frame));
    if let Ok((header, request)) = decode_request(frame.clone()) {
        // What was understood can be said again, and is understood the same.
        if let Ok(parts) = encode_request(&header, &request) {
            let bytes: Vec<u8> = parts.iter().flatten().copied().skip(4).collect();
            let (same, _) = decode_request(bytes.into()).expect("our own frame");
            assert_eq!(same, header);
        }
        for api in [ApiKey::Fetch, ApiKey::Produce, ApiKey::Metadata, header.api] {
            std::hint::black_box(decode_response(api, header.version, frame.clone()).is_ok());
        }
    }
});
