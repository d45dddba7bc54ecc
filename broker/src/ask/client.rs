//! One blocking connection to a broker: a request, then its response.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use highwater_engine::units::TopicPartition;
use highwater_replication::controller::Election;
use highwater_replication::wire::api_versions::ApiVersionsRequest;
use highwater_replication::wire::highwater::HighwaterRequest;
use highwater_replication::wire::{
    self, ApiKey, DecodeError, EncodeError, FrameError, FrameReader, Request, RequestHeader, Response,
};

use super::{ToolReply, ToolRequest};
use crate::settings::HostPort;

/// How long a broker may take to accept a connection.
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// How long it may take to answer; a topic waits for its replicas.
const ANSWER_WAIT: Duration = Duration::from_secs(60);
/// How long it may take to answer what needs nobody else; one that hangs, though the system still accepts connections for it, is passed over.
const PROBE_WAIT: Duration = Duration::from_secs(3);
/// No answer to a tool is larger.
const FRAME_BYTES_MAX: usize = 256 << 20;

/// Why a cluster gave no answer, or a bad one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// None of the brokers that were named can be reached.
    #[error(
        "no broker answers at {tried}: {source}; start the cluster with `highwater`, or name a broker with --bootstrap HOST:PORT"
    )]
    NobodyAnswers {
        /// The addresses.
        tried: String,
        /// What the last one said.
        source: io::Error,
    },
    /// The connection broke.
    #[error("the broker at {address} did not answer: {source}")]
    Broken {
        /// Where.
        address: HostPort,
        /// What the system said.
        source: io::Error,
    },
    /// The answer is larger than any answer.
    #[error("the answer of {address} cannot be read: {source}; is it a broker?")]
    Frame {
        /// Where.
        address: HostPort,
        /// What is wrong with it.
        source: FrameError,
    },
    /// The answer is not one to the question.
    #[error("the answer of {address} cannot be read: {source}; is it a broker of this version?")]
    Decode {
        /// Where.
        address: HostPort,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The answer's JSON is not as this version has it.
    #[error("the answer of {address} cannot be read: {source}; is it a broker of this version?")]
    Json {
        /// Where.
        address: HostPort,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The answer is to another question.
    #[error("the broker at {address} answered something else")]
    SomethingElse {
        /// Where.
        address: HostPort,
    },
    /// The question is too large to be sent.
    #[error("the request cannot be sent: {0}")]
    Encode(#[from] EncodeError),
    /// The cluster refused.
    #[error("{0}")]
    Refused(String),
}

/// A connection to one broker.
#[derive(Debug)]
pub struct Connection {
    address: HostPort,
    stream: TcpStream,
    frames: FrameReader,
    correlation_id: i32,
}

impl Connection {
    /// Connects.
    pub fn open(address: &HostPort) -> io::Result<Self> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for socket in (address.host.as_str(), address.port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&socket, CONNECT_WAIT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_read_timeout(Some(ANSWER_WAIT))?;
                    stream.set_write_timeout(Some(ANSWER_WAIT))?;
                    let frames = FrameReader::new(FRAME_BYTES_MAX);
                    return Ok(Self { address: address.clone(), stream, frames, correlation_id: 0 });
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Connects to a broker that has to answer soon, or is not waited for.
    pub(super) fn open_impatient(address: &HostPort) -> io::Result<Self> {
        let connection = Self::open(address)?;
        connection.stream.set_read_timeout(Some(PROBE_WAIT))?;
        Ok(connection)
    }

    /// Connects to a broker and makes sure that it answers.
    fn open_probed(address: &HostPort) -> io::Result<Self> {
        let mut connection = Self::open_impatient(address)?;
        // What answers something else is there; the question itself will tell what it is.
        if let Err(AskError::Broken { source, .. }) =
            connection.call(0, &ApiVersionsRequest::default().into())
        {
            return Err(source);
        }
        connection.stream.set_read_timeout(Some(ANSWER_WAIT))?;
        Ok(connection)
    }

    /// Where it leads to.
    pub fn address(&self) -> &HostPort {
        &self.address
    }

    /// Asks, and waits for the answer.
    pub fn call(&mut self, version: i16, request: &Request) -> Result<Response, AskError> {
        let api = request.api();
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let client_id = Some("highwater".to_owned());
        let header = RequestHeader { api, version, correlation_id: self.correlation_id, client_id };
        let parts = wire::encode_request(&header, request)?;
        let address = self.address.clone();
        let broken = |source| AskError::Broken { address: address.clone(), source };
        self.stream.write_all(&parts.concat()).map_err(broken)?;
        let frame = self.read_frame()?;
        let address = self.address.clone();
        let (correlation_id, response) = wire::decode_response(api, version, frame)
            .map_err(|source| AskError::Decode { address, source })?;
        if correlation_id != self.correlation_id {
            return Err(self.something_else());
        }
        Ok(response)
    }

    /// Asks by the private message.
    pub fn ask(&mut self, request: &ToolRequest) -> Result<ToolReply, AskError> {
        let json = serde_json::to_vec(request).map_err(|source| self.json(source))?;
        let version = *ApiKey::Highwater.versions().end();
        let Response::Highwater(answer) =
            self.call(version, &HighwaterRequest { json: json.into() }.into())?
        else {
            return Err(self.something_else());
        };
        match serde_json::from_slice(&answer.json) {
            Ok(ToolReply::Refused(why)) => Err(AskError::Refused(why)),
            Ok(reply) => Ok(reply),
            Err(source) => Err(self.json(source)),
        }
    }

    pub(super) fn something_else(&self) -> AskError {
        AskError::SomethingElse { address: self.address.clone() }
    }

    fn json(&self, source: serde_json::Error) -> AskError {
        AskError::Json { address: self.address.clone(), source }
    }

    fn read_frame(&mut self) -> Result<bytes::Bytes, AskError> {
        let mut piece = [0; 16 << 10];
        loop {
            let address = self.address.clone();
            match self.frames.next_frame() {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(source) => return Err(AskError::Frame { address, source }),
            }
            match self.stream.read(&mut piece) {
                Ok(0) => {
                    let source = io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection");
                    return Err(AskError::Broken { address, source });
                }
                Ok(count) => self.frames.feed(piece.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    let source =
                        io::Error::new(io::ErrorKind::TimedOut, "it accepts connections and does not answer");
                    return Err(AskError::Broken { address, source });
                }
                Err(source) => return Err(AskError::Broken { address, source }),
            }
        }
    }
}

/// A connection to the first of the brokers that answers.
pub fn any(bootstrap: &[HostPort]) -> Result<Connection, AskError> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no broker was named");
    for address in bootstrap {
        match Connection::open_probed(address) {
            Ok(connection) => return Ok(connection),
            Err(error) => last = error,
        }
    }
    let tried = bootstrap.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Err(AskError::NobodyAnswers { tried, source: last })
}

/// Makes a member of the ISR the leader of a partition. Answers who leads then.
pub fn elect(
    broker: &mut Connection,
    partition: TopicPartition,
    election: Election,
) -> Result<i32, AskError> {
    match broker.ask(&ToolRequest::Elect { partition, election })? {
        ToolReply::Elected { leader } => Ok(leader),
        ToolReply::Refused(why) => Err(AskError::Refused(why)),
        ToolReply::Status(_) | ToolReply::Marks(_) => Err(broker.something_else()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn one_that_accepts_and_does_not_answer_is_passed_over() {
        let hangs = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = HostPort { host: "127.0.0.1".to_owned(), port: hangs.local_addr().unwrap().port() };
        let error = any(std::slice::from_ref(&address)).unwrap_err().to_string();
        assert!(error.contains("accepts connections and does not answer; start the cluster"), "{error}");

        let answers = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = HostPort { port: answers.local_addr().unwrap().port(), ..address.clone() };
        let broker = std::thread::spawn(move || {
            let (mut stream, _) = answers.accept().unwrap();
            let mut request = [0; 23];
            stream.read_exact(&mut request).unwrap();
            // Length, correlation id, no error, no APIs.
            let [_, _, _, _, _, _, _, _, a, b, c, d, ..] = request;
            stream.write_all(&[0, 0, 0, 10, a, b, c, d, 0, 0, 0, 0, 0, 0]).unwrap();
        });
        assert_eq!(any(&[address, other.clone()]).unwrap().address(), &other);
        broker.join().unwrap();
    }
}
