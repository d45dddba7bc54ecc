//! Orders for processes (`highwater broker stop|kill|start ID`): a Unix socket in the data directory, one line of JSON each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::process::Order;

const SOCKET: &str = "supervisor.sock";
/// What the kernel takes as the path of a socket, less its end.
const SOCKET_PATH_BYTES_MAX: usize = 100;
/// An order is far shorter.
const LINE_BYTES_MAX: u64 = 4096;
/// A stop may have to hand over, sync and close; a start, to recover.
const ANSWER_WAIT: Duration = Duration::from_secs(90);

/// An order for one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerOrder {
    /// What to do.
    pub order: Order,
    /// The broker.
    pub broker: i32,
}

/// What became of it, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It was done.
    Done(String),
    /// It was not done.
    Refused(String),
}

/// Why an order could not be given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// Nobody listens in that directory.
    #[error(
        "no cluster runs on {path} ({source}); start it with `highwater`, or say where it is with --data DIR"
    )]
    NobodyThere {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The supervisor did not answer.
    #[error("the supervisor did not answer: {0}")]
    NoAnswer(io::Error),
    /// The supervisor refused.
    #[error("{0}")]
    Refused(String),
}

/// A path to the socket that is short enough, and what has to stay open for it.
fn short_path(directory: &Path) -> io::Result<(PathBuf, Option<std::fs::File>)> {
    let path = directory.join(SOCKET);
    if path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX {
        return Ok((path, None));
    }
    let open = std::fs::File::open(directory)?;
    Ok((PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", open.as_raw_fd())), Some(open)))
}

/// Listens in the directory. Whoever calls has locked it, so a socket that lies there is a dead one.
pub fn listen(directory: &Path) -> io::Result<UnixListener> {
    let (path, _open) = short_path(directory)?;
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    UnixListener::bind(path)
}

/// Takes the socket away.
pub fn close(directory: &Path) {
    let _best_effort = std::fs::remove_file(directory.join(SOCKET));
}

/// Reads the one order of a connection.
pub(super) async fn read(stream: &mut UnixStream) -> io::Result<BrokerOrder> {
    let mut line = String::new();
    tokio::io::BufReader::new(stream).take(LINE_BYTES_MAX).read_line(&mut line).await?;
    Ok(serde_json::from_str(&line)?)
}

/// Answers it.
pub(super) async fn answer(stream: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Gives an order to the supervisor of the directory and waits until it is carried out. Blocks.
pub fn give(directory: &Path, order: BrokerOrder) -> Result<String, OrderError> {
    let nobody = |source| OrderError::NobodyThere { path: directory.to_owned(), source };
    let (path, _open) = short_path(directory).map_err(nobody)?;
    let stream = BlockingStream::connect(path).map_err(nobody)?;
    match exchange(stream, order).map_err(OrderError::NoAnswer)? {
        Answer::Done(text) => Ok(text),
        Answer::Refused(text) => Err(OrderError::Refused(text)),
    }
}

fn exchange(mut stream: BlockingStream, order: BrokerOrder) -> io::Result<Answer> {
    stream.set_read_timeout(Some(ANSWER_WAIT))?;
    let mut line = serde_json::to_vec(&order)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    io::Read::take(BufReader::new(stream), LINE_BYTES_MAX).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_reaches_the_supervisor_however_deep_its_directory_lies() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["d".to_owned(), "deep".repeat(40)] {
            let directory = parent.path().join(name);
            std::fs::create_dir(&directory).unwrap();
            let order = BrokerOrder { order: Order::Kill, broker: 2 };
            let refused = give(&directory, order).unwrap_err();
            assert!(matches!(refused, OrderError::NobodyThere { .. }), "{refused}");

            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let listener = {
                let _inside = runtime.enter();
                listen(&directory).unwrap()
            };
            let there = directory.clone();
            let client = std::thread::spawn(move || give(&there, order));
            runtime.block_on(async {
                let (mut stream, _) = listener.accept().await.unwrap();
                assert_eq!(read(&mut stream).await.unwrap(), order);
                answer(&mut stream, &Answer::Done("killed".to_owned())).await.unwrap();
            });
            assert_eq!(client.join().unwrap().unwrap(), "killed");
        }
    }
}
