//! Reads one connection: bytes into frames, frames into the mailbox, within limits of size, number and time.
//!
//! Knows nothing of what is in a frame but whether its first two bytes name an API.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::units::Monotonic;
use highwater_replication::pending::ConnectionId;
use highwater_replication::wire::{ApiKey, FrameError, FrameReader};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::Semaphore;
use tokio::time::Sleep;

use super::SocketNews;
use super::budget::{Budget, Held};
use crate::clock::{Clock, instant};
use crate::serve::mailbox::Mailbox;

/// What somebody may send before the first request that names an API.
const FIRST_FRAME_BYTES_MAX: usize = 1 << 20;
/// A frame that has begun has this long, and longer by its bytes: [`FRAME_RATE_MIN`].
const FRAME_WAIT: Duration = Duration::from_secs(10);
/// Bytes a second that a frame has to come in.
const FRAME_RATE_MIN: u64 = 1024;
/// After so many reads in a row others have their turn.
const READS_IN_A_ROW: u32 = 16;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Gone {
    /// The other side closed it.
    #[error("the other side closed it")]
    Closed,
    /// It broke.
    #[error("it broke: {0}")]
    Broken(#[from] io::Error),
    /// What came is not a frame.
    #[error("{0}")]
    BadFrame(#[from] FrameError),
    /// The first frame names no API: not a client of Kafka's protocol.
    #[error("the first bytes are not a request")]
    NotARequest,
    /// Nothing came for too long.
    #[error("nothing came for too long")]
    Idle,
    /// A frame began and did not come on.
    #[error("a frame came too slowly")]
    Slow,
    /// The other side does not take its answers.
    #[error("the other side does not read")]
    Stalled,
    /// No connection could be made in time.
    #[error("it could not be made in time")]
    ConnectTimeout,
}

/// How a reader is limited.
#[derive(Clone, Debug)]
pub(super) struct ReaderLimits {
    /// Bytes of one frame.
    pub(super) frame_bytes_max: usize,
    /// How long nothing may come; `None` for connections that this side made.
    pub(super) idle_max: Option<Duration>,
    /// A permit for each request that may be under way; `None` for connections that this side made.
    pub(super) requests: Option<Arc<Semaphore>>,
}

/// A reader's task.
pub(super) struct Reader<T> {
    pub(super) id: ConnectionId,
    pub(super) half: OwnedReadHalf,
    pub(super) mailbox: Mailbox<T>,
    pub(super) clock: Clock,
    pub(super) budget: Arc<Budget>,
    pub(super) limits: ReaderLimits,
}

/// When a connection is given up. One timer for its whole life: it is looked at again when it fires, not set at each read.
struct Patience {
    sleep: Pin<Box<Sleep>>,
    armed_at: Monotonic,
    last_read: Monotonic,
    /// When the frame began that is not whole yet, and its bytes so far.
    partial: Option<(Monotonic, usize)>,
}

impl<T: From<SocketNews>> Reader<T> {
    /// Reads until the connection ends, which is the last that is told of it.
    pub(super) async fn run(mut self) {
        let why = match self.read().await {
            Ok(()) => Gone::Closed,
            Err(why) => why,
        };
        self.mailbox.push(SocketNews::Gone { id: self.id, why });
    }

    async fn read(&mut self) -> Result<(), Gone> {
        let is_client = self.limits.requests.is_some();
        let first_max = if is_client { FIRST_FRAME_BYTES_MAX } else { usize::MAX };
        let mut frames = FrameReader::new(first_max.min(self.limits.frame_bytes_max));
        let mut held = Held::nothing(Arc::clone(&self.budget));
        let mut patience = self.patience();
        let mut is_known = !is_client;
        let mut reads = 0;
        loop {
            while let Some(frame) = frames.next_frame()? {
                if !is_known {
                    is_known = names_an_api(&frame);
                    if !is_known {
                        return Err(Gone::NotARequest);
                    }
                    frames.set_frame_bytes_max(self.limits.frame_bytes_max);
                }
                patience.partial = None;
                self.give(frame).await;
                held.set(frames.buffered());
            }
            let partial = frames.buffered();
            if is_client && partial == 0 {
                self.budget.room().await;
            }
            reads += 1;
            if reads % READS_IN_A_ROW == 0 {
                tokio::task::yield_now().await;
            }
            if self.read_once(&mut frames, &mut patience, partial).await? == 0 {
                return Ok(());
            }
            if is_client {
                held.set(frames.buffered());
            }
        }
    }

    /// Hands a frame on, when there is a place for it.
    async fn give(&self, frame: Bytes) {
        let mut charged = 0;
        if let Some(requests) = &self.limits.requests {
            match requests.acquire().await {
                Ok(permit) => permit.forget(),
                // Nobody closes it.
                Err(_closed) => return,
            }
            charged = frame.len();
            self.budget.charge(charged);
        }
        self.mailbox.push(SocketNews::Frame { id: self.id, frame, charged });
    }

    fn patience(&self) -> Patience {
        let now = self.clock.now().monotonic;
        let armed_at = now.after(self.limits.idle_max.unwrap_or(FRAME_WAIT));
        let sleep = Box::pin(tokio::time::sleep_until(instant(self.clock, armed_at)));
        Patience { sleep, armed_at, last_read: now, partial: None }
    }

    async fn read_once(
        &mut self,
        frames: &mut FrameReader,
        patience: &mut Patience,
        partial: usize,
    ) -> Result<usize, Gone> {
        if partial > 0 {
            let since = patience.partial.map_or(patience.last_read, |(since, _)| since);
            patience.partial = Some((since, partial));
            self.arm_earlier(patience);
        }
        loop {
            let mut space = frames.space();
            tokio::select! {
                biased;
                read = self.half.read_buf(&mut space) => {
                    patience.last_read = self.clock.now().monotonic;
                    return Ok(read?);
                }
                () = patience.sleep.as_mut() => self.look_at_the_time(patience)?,
            }
        }
    }

    /// Until when something has to come.
    fn deadline(&self, patience: &Patience) -> Option<Monotonic> {
        match patience.partial {
            Some((since, bytes)) => {
                let more = Duration::from_secs(u64::try_from(bytes).unwrap_or(u64::MAX) / FRAME_RATE_MIN);
                Some(since.after(FRAME_WAIT).after(more))
            }
            None => Some(patience.last_read.after(self.limits.idle_max?)),
        }
    }

    fn arm_earlier(&self, patience: &mut Patience) {
        if let Some(at) = self.deadline(patience).filter(|at| *at < patience.armed_at) {
            patience.armed_at = at;
            patience.sleep.as_mut().reset(instant(self.clock, at));
        }
    }

    fn look_at_the_time(&self, patience: &mut Patience) -> Result<(), Gone> {
        let now = self.clock.now().monotonic;
        let due = self.deadline(patience);
        if due.is_some_and(|at| at <= now) {
            return Err(if patience.partial.is_some() { Gone::Slow } else { Gone::Idle });
        }
        // Without a deadline it is looked at again when there could be one.
        patience.armed_at = due.unwrap_or(now.after(Duration::from_secs(24 * 3600)));
        patience.sleep.as_mut().reset(instant(self.clock, patience.armed_at));
        Ok(())
    }
}

fn names_an_api(frame: &[u8]) -> bool {
    frame.first_chunk().is_some_and(|key| ApiKey::from_code(i16::from_be_bytes(*key)).is_some())
}
