//! One broker's process: started in a process group of its own, with a pipe that ends when the supervisor does, and its output read.
//!
//! Decides nothing: `process` says when to start, stop and kill.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;

use super::lifeline::HAND_OVER;
use crate::event::Event;

/// The longest line of a broker's output that is read as one.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What a child did.
#[derive(Debug)]
pub(super) enum Report {
    /// It said something.
    Said(Event),
    /// It ended; `Err` if it could not be waited for.
    Ended(io::Result<ExitStatus>),
}

/// What a child is told.
#[derive(Clone, Copy, Debug)]
enum Tell {
    HandOverAndStop,
    Stop,
    Kill,
}

/// A running process. Dropping it ends its pipe, upon which the broker stops.
#[derive(Debug)]
pub(super) struct Running {
    process: u32,
    tell: mpsc::UnboundedSender<Tell>,
}

impl Running {
    /// Starts a broker. Its reports come through the channel, with its id; the last one is its end.
    pub(super) fn spawn(
        mut command: Command,
        broker: i32,
        reports: mpsc::Sender<(i32, Report)>,
    ) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let child = command.spawn()?;
        let process = child.id().ok_or_else(|| io::Error::other("it ended before it began"))?;
        let (tell, told) = mpsc::unbounded_channel();
        tokio::spawn(attend(child, broker, told, reports));
        Ok(Self { process, tell })
    }

    /// The process id.
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// Asks it to hand its leaderships over and to stop.
    pub(super) fn hand_over_and_stop(&self) {
        self.say(Tell::HandOverAndStop);
    }

    /// Asks it to stop.
    pub(super) fn stop(&self) {
        self.say(Tell::Stop);
    }

    /// Kills it.
    pub(super) fn kill(&self) {
        self.say(Tell::Kill);
    }

    fn say(&self, tell: Tell) {
        // Nobody listens any more: it has ended, and its report says so.
        let _ended = self.tell.send(tell);
    }
}

/// Waits for a child and passes on what it is told; reports its end after everything that it said.
async fn attend(
    mut child: Child,
    broker: i32,
    mut told: mpsc::UnboundedReceiver<Tell>,
    reports: mpsc::Sender<(i32, Report)>,
) {
    let mut pipe = child.stdin.take();
    let outputs = (child.stdout.take(), child.stderr.take());
    let said = reports.clone();
    let listening = tokio::spawn(async move {
        tokio::join!(listen(outputs.0, broker, said.clone()), listen(outputs.1, broker, said.clone()));
    });
    let status = loop {
        tokio::select! {
            status = child.wait() => break status,
            tell = told.recv() => match tell {
                Some(Tell::HandOverAndStop) => hand_over(pipe.take()).await,
                // The supervisor has dropped it: the same as a stop.
                Some(Tell::Stop) | None => {
                    pipe = None;
                    if tell.is_none() {
                        break child.wait().await;
                    }
                }
                Some(Tell::Kill) => {
                    if let Err(error) = child.start_kill() {
                        break Err(error);
                    }
                }
            },
        }
    };
    drop(pipe);
    // A grandchild that kept the output open must not hide the end.
    let _late = tokio::time::timeout(std::time::Duration::from_secs(1), listening).await;
    let _supervisor_gone = reports.send((broker, Report::Ended(status))).await;
}

async fn hand_over(pipe: Option<ChildStdin>) {
    if let Some(mut pipe) = pipe {
        // A broken pipe is a broker that is ending already.
        let _ending = pipe.write_all(format!("{HAND_OVER}\n").as_bytes()).await;
    }
}

/// Reads lines until the end of the output.
async fn listen(output: Option<impl AsyncRead + Unpin>, broker: i32, reports: mpsc::Sender<(i32, Report)>) {
    let Some(output) = output else { return };
    let mut output = BufReader::new(output);
    loop {
        let mut line = Vec::new();
        let mut bounded = tokio::io::AsyncReadExt::take(&mut output, LINE_BYTES_MAX as u64);
        match bounded.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = String::from_utf8_lossy(&line);
        let report = Report::Said(Event::from_line(broker, line.trim_end()));
        if reports.send((broker, report)).await.is_err() {
            return;
        }
    }
}
