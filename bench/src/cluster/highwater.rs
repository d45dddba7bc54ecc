//! Highwater as a person starts it: one command, three brokers.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::guard::Guard;
use super::{BROKERS, Cluster, ports, tail};
use crate::error::{BenchError, Result};
use crate::{clock, proc, topic};

const READY_WITHIN: Duration = Duration::from_secs(60);
const SAID_LINES_MAX: usize = 1_000;
const PAUSE: Duration = Duration::from_millis(20);
/// Asks the supervisor to stop, and kills it if it has not done so half a minute later; its brokers then stop by themselves.
const STOP: &str = r#"kill -INT "$1"
for _ in $(seq 300); do kill -0 "$1" || break; sleep 0.1; done
kill -0 "$1" && kill -KILL "$1""#;

/// The program under test: the one that was given, or the workspace's, built now, so that no old one is measured.
pub(crate) fn program(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    eprintln!("building highwater");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--release", "--quiet"]);
    build.args(["-p", "highwater-broker", "--bin", "highwater", "--message-format=json-render-diagnostics"]);
    let output = build.stderr(Stdio::inherit()).output().map_err(BenchError::io("starting cargo"))?;
    let failed =
        || BenchError::Program { program: "cargo build".to_owned(), said: output.status.to_string() };
    if !output.status.success() {
        return Err(failed());
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    messages.lines().rev().find_map(executable_of).ok_or_else(failed)
}

/// The program that a message of cargo's tells of.
fn executable_of(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    let of_ours = message.pointer("/target/name")?.as_str()? == "highwater";
    of_ours.then(|| message.get("executable")?.as_str().map(PathBuf::from))?
}

/// The supervisor and its brokers. Stops them and removes their data when dropped.
#[derive(Debug)]
pub(crate) struct Highwater {
    supervisor: Child,
    port: u16,
    log: PathBuf,
    guard: Guard,
}

impl Highwater {
    /// Gives the command, with these settings for all brokers; does not wait.
    pub(crate) fn start(program: &Path, directory: &Path, settings: &[String]) -> Result<Self> {
        let port = ports::free_base(20_000..60_000, &[0, 1, 2])?;
        std::fs::create_dir_all(directory).map_err(BenchError::io(directory.display().to_string()))?;
        let log = directory.join("supervisor.out");
        let said = File::create(&log).map_err(BenchError::io(log.display().to_string()))?;
        let also_said = said.try_clone().map_err(BenchError::io(log.display().to_string()))?;
        let mut command = Command::new(program);
        command.arg("--data").arg(directory.join("data")).arg("--port").arg(port.to_string());
        command.arg("--brokers").arg(BROKERS.to_string());
        for setting in settings {
            command.arg("--set").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(said).stderr(also_said).process_group(0);
        let mut supervisor =
            command.spawn().map_err(BenchError::io(format!("starting {}", program.display())))?;
        match Guard::over(directory, STOP, &[&supervisor.id().to_string()]) {
            Ok(guard) => Ok(Self { supervisor, port, log, guard }),
            Err(error) => {
                // Nothing else would end it.
                let _ended = supervisor.kill();
                Err(error)
            }
        }
    }

    /// Waits until all brokers are there.
    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        let bootstrap = self.bootstrap();
        let mut last = None;
        let ready = clock::poll(READY_WITHIN, PAUSE, || {
            if let Err(ended) = self.check() {
                return Some(Err(ended));
            }
            match topic::brokers(bootstrap) {
                Ok(brokers) if brokers >= BROKERS => Some(Ok(())),
                Ok(brokers) => {
                    last = Some(format!("{brokers} brokers"));
                    None
                }
                Err(error) => {
                    last = Some(error.to_string());
                    None
                }
            }
        });
        let what = "three brokers of Highwater".to_owned();
        ready.unwrap_or(Err(BenchError::TooLate { what, seconds: READY_WITHIN.as_secs(), last }))
    }
}

impl Highwater {
    /// What it has told people so far: who leads, who left the ISR and why. It explains figures that are strange.
    pub(crate) fn said(&self) -> Vec<String> {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        said.lines().take(SAID_LINES_MAX).map(ToOwned::to_owned).collect()
    }
}

impl Cluster for Highwater {
    fn name(&self) -> &'static str {
        "Highwater"
    }

    fn bootstrap(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    fn bootstrap_all(&self) -> String {
        let addresses: Vec<_> = (0..3).map(|broker| format!("127.0.0.1:{}", self.port + broker)).collect();
        addresses.join(",")
    }

    fn processes(&self) -> Result<Vec<u32>> {
        let supervisor = self.supervisor.id();
        let mut processes = vec![supervisor];
        processes.extend(proc::children(supervisor)?);
        Ok(processes)
    }

    fn check(&mut self) -> Result<()> {
        match self.supervisor.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(BenchError::Ended {
                program: "highwater".to_owned(),
                status: status.to_string(),
                said: tail(&self.log),
            }),
            Err(error) => Err(BenchError::io("waiting for highwater")(error)),
        }
    }
}

impl Drop for Highwater {
    fn drop(&mut self) {
        if let Ok(Some(_)) = self.supervisor.try_wait() {
            self.guard.note_end();
        }
        self.guard.release();
        // The guard sees that it has ended only when it has been waited for.
        let _ended = self.supervisor.wait();
        self.guard.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn cargo_says_where_the_program_is() {
        let built = r#"{"reason":"compiler-artifact","target":{"name":"highwater"},"executable":"/t/release/highwater"}"#;
        assert_eq!(executable_of(built), Some(PathBuf::from("/t/release/highwater")));
        let library =
            r#"{"reason":"compiler-artifact","target":{"name":"highwater_engine"},"executable":null}"#;
        assert_eq!(executable_of(library), None);
        assert_eq!(executable_of(r#"{"reason":"build-finished","success":true}"#), None);
    }

    /// A program that is no broker: it starts a child, writes its arguments down, and ends when it is interrupted.
    fn program(directory: &Path, body: &str) -> PathBuf {
        let program = directory.join("program");
        std::fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        program
    }

    #[test]
    fn what_was_started_is_stopped_and_its_data_removed() {
        let parent = tempfile::tempdir().unwrap();
        let body = format!(
            "echo \"$@\" > {0}/arguments; sleep 60 & trap \"kill $!; echo stopped > {0}/end; exit\" INT; wait",
            parent.path().display()
        );
        let data = parent.path().join("data");
        let settings = ["log.segment.bytes=1048576".to_owned()];
        let mut highwater = Highwater::start(&program(parent.path(), &body), &data, &settings).unwrap();
        let whole = |processes: Vec<u32>| (processes.len() == 2).then_some(processes);
        let within = Duration::from_secs(10);
        let processes = clock::poll(within, PAUSE, || whole(highwater.processes().unwrap()));
        assert!(processes.is_some(), "the program and its child");
        highwater.check().unwrap();
        let port = highwater.bootstrap().port();
        assert_eq!(highwater.bootstrap_all().split(',').count(), BROKERS);
        drop(highwater);
        let read = |name: &str| std::fs::read_to_string(parent.path().join(name)).unwrap();
        let expected = format!("--port {port} --brokers 3 --set log.segment.bytes=1048576");
        assert!(read("arguments").contains(&expected), "{}", read("arguments"));
        assert_eq!(read("end").trim(), "stopped");
        assert!(!data.exists());
    }

    #[test]
    fn a_program_that_ends_early_says_why() {
        let parent = tempfile::tempdir().unwrap();
        let program = program(parent.path(), "echo the port is in use; exit 3");
        let mut highwater = Highwater::start(&program, &parent.path().join("data"), &[]).unwrap();
        let error = highwater.wait_until_ready().unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("the port is in use"), "{error}");
    }
}
