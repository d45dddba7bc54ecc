//! A real Kafka of the same shape, by the project's own script.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::guard::Guard;
use super::{BROKERS, Cluster, ports, tail};
use crate::error::{BenchError, Result};

const STOP: &str = r#""$1" stop "$directory" || "$1" kill "$directory""#;
/// The script's ports: 10,000 times the broker's number and the base, and the controller's behind the first.
const DISTANCES: [u16; 4] = [10_000, 10_001, 20_000, 30_000];

/// The script, which needs Java 17 and, once, mvn.
pub(crate) fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/kafka/kafka")
}

/// Three brokers of Kafka, the first the controller too. Stops them and removes their data when dropped.
#[derive(Debug)]
pub(crate) struct Kafka {
    starting: Child,
    directory: PathBuf,
    base: u16,
    log: PathBuf,
    guard: Guard,
}

impl Kafka {
    /// Gives the command, with these settings for all brokers; does not wait.
    pub(crate) fn start(directory: &Path, heap: &str, settings: &[&str]) -> Result<Self> {
        let base = ports::free_base(5_000..9_900, &DISTANCES)?;
        std::fs::create_dir_all(directory).map_err(BenchError::io(directory.display().to_string()))?;
        let log = directory.join("start.out");
        let said = File::create(&log).map_err(BenchError::io(log.display().to_string()))?;
        let also_said = said.try_clone().map_err(BenchError::io(log.display().to_string()))?;
        let script = script();
        let guard = Guard::over(directory, STOP, &[&script.display().to_string()])?;
        let mut command = Command::new(&script);
        command.env("KAFKA_PORT", base.to_string()).env("KAFKA_HEAP", heap);
        command.arg("start").arg(directory).arg(BROKERS.to_string()).args(settings);
        command.stdin(Stdio::null()).stdout(said).stderr(also_said).process_group(0);
        let starting = command.spawn().map_err(BenchError::io(format!("starting {}", script.display())))?;
        Ok(Self { starting, directory: directory.to_owned(), base, log, guard })
    }

    /// Waits until all brokers answer.
    pub(crate) fn wait_until_ready(&mut self) -> Result<()> {
        let status = self.starting.wait().map_err(BenchError::io("waiting for Kafka"))?;
        if status.success() { Ok(()) } else { Err(self.ended(&status.to_string())) }
    }

    fn ended(&self, status: &str) -> BenchError {
        BenchError::Ended {
            program: "kafka start".to_owned(),
            status: status.to_owned(),
            said: tail(&self.log),
        }
    }

    fn port(&self, broker: u16) -> u16 {
        self.base + 10_000 * broker
    }
}

impl Cluster for Kafka {
    fn name(&self) -> &'static str {
        "Kafka"
    }

    fn bootstrap(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port(1)).into()
    }

    fn bootstrap_all(&self) -> String {
        let addresses: Vec<_> = (1..=3).map(|broker| format!("127.0.0.1:{}", self.port(broker))).collect();
        addresses.join(",")
    }

    fn processes(&self) -> Result<Vec<u32>> {
        let process = |broker: usize| {
            let path = self.directory.join(broker.to_string()).join("pid");
            let text = std::fs::read_to_string(&path).map_err(BenchError::io(path.display().to_string()))?;
            let said = format!("{} holds {text:?}", path.display());
            text.trim().parse().map_err(|_| BenchError::Program { program: "kafka".to_owned(), said })
        };
        (1..=BROKERS).map(process).collect()
    }

    fn check(&mut self) -> Result<()> {
        match self.starting.try_wait() {
            Ok(Some(status)) if !status.success() => Err(self.ended(&status.to_string())),
            Ok(_) => Ok(()),
            Err(error) => Err(BenchError::io("waiting for Kafka")(error)),
        }
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // What it has started so far has its pid file only when it is done.
        let _ended = self.starting.wait();
        self.guard.wait();
    }
}
