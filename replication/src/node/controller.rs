//! How a node reaches its controller, and a controller in a thread of the same process.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use highwater_engine::disk::{Patience, PosixDisk, SyncThread};
use highwater_engine::store::CloseError;

use super::Clock;
use crate::Rules;
use crate::controller::{
    CallId, ControllerCall, ControllerConfig, ControllerFailure, ControllerNode, ControllerOpenError,
    ControllerOut, Input,
};
use crate::shard::{ControllerCallId, Event};
use crate::transport::Inbox;

/// How long the controller's thread waits where it has no deadline.
const IDLE: Duration = Duration::from_secs(1);

/// How calls reach the controller.
pub trait ControllerLink {
    /// Passes a call on. What comes of it is told to the inbox as [`Event::ControllerAnswered`], with `None` where no answer can come any
    /// more: it may have been carried out all the same. Calls do not wait for each other. Does not block.
    fn call(&mut self, call: ControllerCallId, request: ControllerCall, inbox: &Inbox);
}

/// Why a controller did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerStartError {
    /// Its directory cannot be used.
    #[error(transparent)]
    Open(#[from] ControllerOpenError),
    /// The system gives no thread.
    #[error("the controller's thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// How a controller ended other than well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerEnd {
    /// Its state could not be kept.
    #[error(transparent)]
    Failed(#[from] ControllerFailure),
    /// Its directory could not be closed cleanly; the next start recovers.
    #[error(transparent)]
    Close(#[from] CloseError),
}

/// A controller in a thread of its own, with its state in a directory. It ends when it is dropped and the last of its links is.
#[derive(Debug)]
pub struct LocalController {
    calls: Sender<Call>,
    thread: JoinHandle<Result<(), ControllerEnd>>,
}

/// A way to a [`LocalController`].
#[derive(Clone, Debug)]
pub struct LocalLink {
    calls: Sender<Call>,
}

#[derive(Debug)]
struct Call {
    id: ControllerCallId,
    request: ControllerCall,
    inbox: Inbox,
}

impl LocalController {
    /// Opens the directory, or makes it, and goes on where its state was left.
    pub fn start(directory: &Path, config: ControllerConfig) -> Result<Self, ControllerStartError> {
        let clock = Clock::start();
        let disk = Arc::new(PosixDisk::new(SyncThread::Never));
        let node =
            ControllerNode::open(disk, directory, config, Rules::default(), fastrand::u64(..), clock.now())?;
        let (calls, taken) = unbounded();
        let named = std::thread::Builder::new().name("highwater-controller".to_owned());
        let thread = named.spawn(move || run(node, clock, &taken))?;
        Ok(Self { calls, thread })
    }

    /// A way to it, for a node.
    pub fn link(&self) -> LocalLink {
        LocalLink { calls: self.calls.clone() }
    }

    /// Waits until the nodes have dropped their links, and for the end of the thread. An error is one of its disk.
    pub fn stop(self) -> Result<(), ControllerEnd> {
        drop(self.calls);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl ControllerLink for LocalLink {
    fn call(&mut self, id: ControllerCallId, request: ControllerCall, inbox: &Inbox) {
        if self.calls.send(Call { id, request, inbox: inbox.clone() }).is_err() {
            // A node that is gone misses nothing.
            let _ = inbox.send(Event::ControllerAnswered { call: id, reply: None });
        }
    }
}

fn run(mut node: ControllerNode, clock: Clock, calls: &Receiver<Call>) -> Result<(), ControllerEnd> {
    let (mut open, mut next_id) = (BTreeMap::new(), 0);
    loop {
        for out in node.turn(clock.now(), Patience::MayBlock)? {
            if let ControllerOut::Reply { id, reply } = out
                && let Some((call, inbox)) = open.remove(&id)
            {
                let inbox: Inbox = inbox;
                // A node that is gone misses nothing.
                let _ = inbox.send(Event::ControllerAnswered { call, reply: Some(reply) });
            }
        }
        let wait = node.next_deadline().map_or(IDLE, |at| clock.until(at));
        match calls.recv_timeout(wait) {
            Ok(call) => {
                let id = CallId(next_id);
                next_id += 1;
                open.insert(id, (call.id, call.inbox));
                node.tell(Input::Call { id, call: call.request });
            }
            Err(RecvTimeoutError::Timeout) => {}
            // Nobody is left who could call.
            Err(RecvTimeoutError::Disconnected) => return Ok(node.close()?),
        }
    }
}
