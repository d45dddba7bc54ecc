//! The program as a process, and what it says.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long anything may take on a machine that is busy.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

pub(crate) fn highwater() -> Command {
    Command::new(env!("CARGO_BIN_EXE_highwater"))
}

/// So many ports that follow each other and are free.
pub(crate) fn ports(count: u16) -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let follow = |more: u16| {
            port.checked_add(more).is_some_and(|next| TcpListener::bind(("127.0.0.1", next)).is_ok())
        };
        if (1..count).all(follow) {
            return port;
        }
    }
}

/// A cluster, and what it says line by line.
pub(crate) struct Cluster {
    process: Child,
    lines: Receiver<String>,
}

impl Cluster {
    pub(crate) fn start(brokers: u16, data: &Path, port: u16) -> Self {
        let mut command = highwater();
        let (brokers, port) = (brokers.to_string(), port.to_string());
        command.args(["--brokers", &brokers, "--port", &port, "--data"]).arg(data);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { process, lines }
    }

    /// The lines up to the one that has these words, it included.
    pub(crate) fn until(&self, words: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let line = self.lines.recv_timeout(WAIT);
            seen.push(line.unwrap_or_else(|error| panic!("{words:?} was not said ({error}): {seen:#?}")));
            if seen.last().is_some_and(|line| line.contains(words)) {
                return seen;
            }
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Stops it and gives its exit code and what it said meanwhile.
    pub(crate) fn stop(mut self) -> (Option<i32>, Vec<String>) {
        self.signal("-TERM");
        let code = self.process.wait().unwrap().code();
        (code, self.lines.iter().collect())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // After a clean stop there is nothing left to kill.
        let _ended = self.process.kill();
        let _ended = self.process.wait();
    }
}

/// What a command that cannot be done says, in its one line.
pub(crate) fn refusal(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}
