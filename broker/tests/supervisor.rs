//! The program itself, as a person starts it: what it says first, what it refuses, how it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long anything may take on a machine that is busy.
const WAIT: Duration = Duration::from_secs(60);

fn highwater() -> Command {
    Command::new(env!("CARGO_BIN_EXE_highwater"))
}

/// Two ports that follow each other and are free.
fn two_ports() -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        if port < u16::MAX && TcpListener::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

/// A cluster of two, and what it says line by line.
struct Cluster {
    process: Child,
    lines: Receiver<String>,
}

impl Cluster {
    fn start(data: &Path, port: u16) -> Self {
        let mut command = highwater();
        command.args(["--brokers", "2", "--port", &port.to_string(), "--data"]).arg(data);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(process.stdout.take().unwrap());
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { process, lines }
    }

    /// The lines up to the one that has these words, it included.
    fn until(&self, words: &str) -> Vec<String> {
        let mut seen = Vec::new();
        loop {
            let line = self.lines.recv_timeout(WAIT);
            seen.push(line.unwrap_or_else(|error| panic!("{words:?} was not said ({error}): {seen:#?}")));
            if seen.last().is_some_and(|line| line.contains(words)) {
                return seen;
            }
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Stops it and gives its exit code and what it said meanwhile.
    fn stop(mut self) -> (Option<i32>, Vec<String>) {
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
fn refusal(output: &Output, code: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

#[test]
fn a_person_is_greeted_refused_and_let_go() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let port = two_ports();
    let bootstrap = format!("127.0.0.1:{port}");
    let cluster = Cluster::start(&data, port);
    let greeting = cluster.until(" status");
    assert!(greeting[0].starts_with("highwater runs"), "{greeting:#?}");
    assert!(greeting.iter().all(|line| !line.contains("opened")), "nothing is there yet: {greeting:#?}");

    let made =
        highwater().args(["topics", "create", "t", "--partitions", "4", "--bootstrap", &bootstrap]).output();
    assert!(made.unwrap().status.success());
    let second = highwater().arg("--data").arg(&data).output().unwrap();
    assert!(refusal(&second, 1).contains("already runs on"));
    let port_in_use =
        highwater().args(["--port", &port.to_string(), "--data"]).arg(parent.path().join("other")).output();
    assert!(refusal(&port_in_use.unwrap(), 1).contains("is in use by process"));
    let at_work = highwater().args(["recover", "--dry-run"]).arg(data.join("1")).output();
    assert!(refusal(&at_work.unwrap(), 1).contains("stop it first"));
    let stranger = ["elect", "t", "0", "--to", "9", "--bootstrap", &bootstrap];
    assert!(refusal(&highwater().args(stranger).output().unwrap(), 1).contains("t-0: node 9 is not"));

    let (code, said) = cluster.stop();
    assert_eq!(code, Some(0), "{said:#?}");
    assert_eq!(said.iter().filter(|line| line.ends_with("stopped cleanly")).count(), 2, "{said:#?}");
    assert!(!said.iter().any(|line| line.contains("left the ISR") || line.contains("fenced")), "{said:#?}");

    // The supervisor alone is killed: its brokers stop by themselves, and the next one waits for them.
    let cluster = Cluster::start(&data, port);
    cluster.until("broker 2 opened 4 partitions after a clean stop");
    cluster.signal("-KILL");
    let cluster = Cluster::start(&data, port);
    cluster.until(" status");
    assert_eq!(cluster.stop().0, Some(0));

    let gone = highwater().args(["status", "--bootstrap", &bootstrap]).output().unwrap();
    assert!(refusal(&gone, 1).contains("start the cluster with `highwater`"));
}
