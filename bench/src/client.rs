//! A connection to a broker, on a plain blocking socket: requests out, responses in, in order.
//!
//! It can be split, so that one thread sends while another receives. It retries nothing and hides nothing.

use std::collections::VecDeque;
use std::io::{BufReader, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use highwater_replication::wire::{self, ApiKey, FrameError, Request, RequestHeader, Response};

use crate::error::{BenchError, Result};

/// A broker that is silent for so long fails the run.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
const CONNECT_WAIT: Duration = Duration::from_secs(3);
const FRAME_BYTES_MAX: usize = 128 << 20;
const READ_BYTES: usize = 64 << 10;

/// Both halves of a connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
}

/// The half that sends.
#[derive(Debug)]
pub(crate) struct Sender {
    stream: TcpStream,
    correlation_id: i32,
}

/// The half that receives.
#[derive(Debug)]
pub(crate) struct Receiver {
    stream: BufReader<TcpStream>,
    correlation_id: i32,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let what = || format!("connecting to {address}");
        let stream = TcpStream::connect_timeout(&address, CONNECT_WAIT).map_err(BenchError::io(what()))?;
        stream.set_nodelay(true).map_err(BenchError::io(what()))?;
        stream.set_read_timeout(Some(ANSWER_WAIT)).map_err(BenchError::io(what()))?;
        stream.set_write_timeout(Some(ANSWER_WAIT)).map_err(BenchError::io(what()))?;
        let reading = stream.try_clone().map_err(BenchError::io(what()))?;
        Ok(Self {
            sender: Sender { stream, correlation_id: 0 },
            receiver: Receiver { stream: BufReader::with_capacity(READ_BYTES, reading), correlation_id: 0 },
        })
    }

    /// Asks and waits for the answer.
    pub(crate) fn call(&mut self, version: i16, request: impl Into<Request>) -> Result<Response> {
        let request = request.into();
        self.sender.send(version, &request)?;
        self.receiver.receive(request.api(), version)
    }
}

impl Sender {
    /// Sends a request; does not wait.
    pub(crate) fn send(&mut self, version: i16, request: &Request) -> Result<()> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let header = RequestHeader {
            api: request.api(),
            version,
            correlation_id: self.correlation_id,
            client_id: Some("highwater-bench".to_owned()),
        };
        let parts = wire::encode_request(&header, request)?;
        write_parts(&mut self.stream, &parts).map_err(BenchError::io("sending"))
    }

    /// Ends the connection, so that the other half does not wait for ever.
    pub(crate) fn hang_up(&self) {
        // It may be closed already, which is as good.
        let _closed = self.stream.shutdown(Shutdown::Both);
    }
}

impl Receiver {
    /// The next response, which must be to the oldest request that is open.
    pub(crate) fn receive(&mut self, api: ApiKey, version: i16) -> Result<Response> {
        let frame = read_frame(&mut self.stream, FRAME_BYTES_MAX)?.ok_or_else(|| BenchError::Io {
            what: "receiving".to_owned(),
            source: std::io::ErrorKind::UnexpectedEof.into(),
        })?;
        let (correlation_id, response) = wire::decode_response(api, version, frame)?;
        self.correlation_id = self.correlation_id.wrapping_add(1);
        if correlation_id != self.correlation_id {
            return Err(BenchError::SomethingElse { asked: api });
        }
        Ok(response)
    }
}

impl Receiver {
    /// So many requests get no response: Produce with acks 0.
    pub(crate) fn expects_none_to(&mut self, requests: i32) {
        self.correlation_id = self.correlation_id.wrapping_add(requests);
    }
}

/// Writes all parts with as few calls as the kernel allows.
pub(crate) fn write_parts(stream: &mut TcpStream, parts: &[Bytes]) -> std::io::Result<()> {
    let mut slices: VecDeque<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = slices.make_contiguous();
    while !left.is_empty() {
        match stream.write_vectored(left) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads one frame, without its length. `None`: the stream ended before it.
pub(crate) fn read_frame(stream: &mut BufReader<TcpStream>, bytes_max: usize) -> Result<Option<Bytes>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(BenchError::io("receiving")(error)),
    }
    let length = i32::from_be_bytes(length);
    let bytes = usize::try_from(length).map_err(|_| FrameError::Negative { length })?;
    if bytes > bytes_max {
        return Err(FrameError::TooLarge { bytes, bytes_max }.into());
    }
    let mut frame = Vec::with_capacity(bytes);
    let came = stream.take(bytes as u64).read_to_end(&mut frame).map_err(BenchError::io("receiving"))?;
    if came < bytes {
        return Err(BenchError::io("receiving")(std::io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(Some(frame.into()))
}
