//! Frames to leaders over TCP: for each lane that is used one thread that writes and one that reads, started with its first request.
//!
//! How long an answer may take is the shard's to say: it closes a lane that is overdue.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use crossbeam_channel::{Receiver, Sender, bounded};

use super::{Inbox, Transport};
use crate::shard::{Event, Lane};

/// Requests that may wait for a lane's thread; a shard has at most two under way.
const QUEUED_MAX: usize = 8;

/// The bounds of a [`Tcp`] transport.
#[derive(Clone, Copy, Debug)]
pub struct TcpConfig {
    /// How long connecting and writing may take each.
    pub timeout: Duration,
    /// The largest answer that is taken.
    pub frame_bytes_max: usize,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), frame_bytes_max: 64 << 20 }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Tcp {
    config: TcpConfig,
    inbox: Inbox,
    lanes: BTreeMap<Lane, LaneThreads>,
}

#[derive(Debug)]
struct LaneThreads {
    requests: Sender<Request>,
    line: Arc<Line>,
}

/// What the threads of a lane share.
#[derive(Debug)]
struct Line {
    lane: Lane,
    config: TcpConfig,
    inbox: Inbox,
    /// Nobody wants to hear of this lane any more.
    closed: AtomicBool,
    stream: Mutex<Option<(String, TcpStream)>>,
}

#[derive(Debug)]
struct Request {
    address: String,
    parts: Vec<Bytes>,
}

impl Tcp {
    /// Answers go to this inbox.
    pub fn new(config: TcpConfig, inbox: Inbox) -> Self {
        Self { config, inbox, lanes: BTreeMap::new() }
    }

    fn start(&self, lane: Lane) -> io::Result<LaneThreads> {
        let (requests, receiver) = bounded(QUEUED_MAX);
        let shared = Arc::new(Line {
            lane,
            config: self.config,
            inbox: self.inbox.clone(),
            closed: AtomicBool::new(false),
            stream: Mutex::default(),
        });
        let writing = Arc::clone(&shared);
        thread::Builder::new()
            .name(format!("highwater-to-{}", lane.leader))
            .spawn(move || writing.write(&receiver))?;
        Ok(LaneThreads { requests, line: shared })
    }
}

impl Transport for Tcp {
    fn send(&mut self, lane: Lane, address: &str, parts: Vec<Bytes>) {
        let request = Request { address: address.to_owned(), parts };
        if !self.lanes.contains_key(&lane)
            && let Ok(threads) = self.start(lane)
        {
            self.lanes.insert(lane, threads);
        }
        let threads = self.lanes.get(&lane);
        if threads.is_none_or(|threads| threads.requests.try_send(request).is_err()) {
            self.close(lane);
            // A shard that is gone misses nothing.
            let _ = self.inbox.send(Event::PeerDown { lane });
        }
    }

    fn close(&mut self, lane: Lane) {
        if let Some(threads) = self.lanes.remove(&lane) {
            threads.line.closed.store(true, Ordering::SeqCst);
            threads.line.hang_up();
        }
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        let lanes: Vec<Lane> = self.lanes.keys().copied().collect();
        for lane in lanes {
            self.close(lane);
        }
    }
}

impl Line {
    /// The thread that connects and writes. Another one reads, so that a request can overtake the answer of the one before it.
    fn write(self: Arc<Self>, requests: &Receiver<Request>) {
        while let Ok(request) = requests.recv() {
            let written = self.connected(&request.address).and_then(|stream| match stream {
                Some(mut stream) => write_parts(&mut stream, &request.parts),
                None => Err(io::ErrorKind::NotConnected.into()),
            });
            if written.is_err() && !self.hang_up() {
                // There is no reader to tell of it.
                self.tell(Event::PeerDown { lane: self.lane });
            }
        }
    }

    fn connected(self: &Arc<Self>, address: &str) -> io::Result<Option<TcpStream>> {
        let elsewhere = self.stream().as_ref().is_some_and(|(to, _)| to != address);
        if elsewhere {
            self.hang_up();
        }
        if self.stream().is_none() {
            let stream = connect(address, self.config.timeout)?;
            let (reading, line) = (stream.try_clone()?, Arc::clone(self));
            *self.stream() = Some((address.to_owned(), stream));
            let reader = thread::Builder::new().name(format!("highwater-from-{}", self.lane.leader));
            if let Err(error) = reader.spawn(move || line.read(reading)) {
                *self.stream() = None;
                return Err(error);
            }
        }
        self.stream().as_ref().map(|(_, stream)| stream.try_clone()).transpose()
    }

    fn read(&self, mut stream: TcpStream) {
        while let Ok(frame) = read_frame(&mut stream, self.config.frame_bytes_max) {
            self.tell(Event::PeerFrame { lane: self.lane, frame });
        }
        *self.stream() = None;
        self.tell(Event::PeerDown { lane: self.lane });
    }

    /// Breaks the connection, if there is one; its reader says so.
    fn hang_up(&self) -> bool {
        // One that the other side has closed already is as good.
        self.stream().take().is_some_and(|(_, stream)| {
            let _ = stream.shutdown(Shutdown::Both);
            true
        })
    }

    fn tell(&self, event: Event) {
        if !self.closed.load(Ordering::SeqCst) {
            // A shard that is gone misses nothing.
            let _ = self.inbox.send(event);
        }
    }

    fn stream(&self) -> MutexGuard<'_, Option<(String, TcpStream)>> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Writes the parts of a frame one behind the other.
pub fn write_parts(stream: &mut impl Write, parts: &[Bytes]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut rest = slices.as_mut_slice();
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match stream.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads one frame, without its length. The buffer grows with what arrives, not with what the length promises.
pub fn read_frame(stream: &mut impl Read, frame_bytes_max: usize) -> io::Result<Bytes> {
    const STEP_BYTES: usize = 64 << 10;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(i32::from_be_bytes(length))
        .ok()
        .filter(|length| *length <= frame_bytes_max)
        .ok_or(io::ErrorKind::InvalidData)?;
    let mut frame = BytesMut::new();
    while frame.len() < length {
        let at = frame.len();
        frame.resize(length.min(at + STEP_BYTES), 0);
        let (_, fresh) = frame.split_at_mut(at);
        stream.read_exact(fresh)?;
    }
    Ok(frame.freeze())
}
