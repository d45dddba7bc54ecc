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
    build.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "build",
        "--release",
        "--quiet",
        "-p",
        "highwater-broker",
    ]);
    let status = build.status().map_err(BenchError::io("starting cargo"))?;
    if !status.success() {
        return Err(BenchError::Program { program: "cargo build".to_owned(), said: status.to_string() });
    }
    let bench = std::env::current_exe().map_err(BenchError::io("looking for highwater"))?;
    Ok(bench.with_file_name("highwater"))
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
        self.guard.release();
        // The guard sees that it has ended only when it has been waited for.
        let _ended = self.supervisor.wait();
        self.guard.wait();
    }
}
