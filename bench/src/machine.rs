//! The machine and the command that a result comes from, and what its disk can do at that moment.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::clock;
use crate::error::{BenchError, Result};
use crate::load::no_latencies;
use crate::report::Latency;

const LIMIT_MEASURED: Duration = Duration::from_millis(500);

/// What is written into every result.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Machine {
    command: Vec<String>,
    commit: Option<String>,
    /// Whether the sources differ from the commit.
    modified: Option<bool>,
    unix_seconds: u64,
    processor: Option<String>,
    cores: usize,
    memory: Option<String>,
    kernel: Option<String>,
    rustc: Option<String>,
    file_system: Option<String>,
    /// The processes that wanted a core, on average of the last minute, before the run.
    load: Option<f64>,
    /// 1 KiB appended to a file and synced, one after another, on the file system of the data.
    append_and_sync: Latency,
}

impl Machine {
    /// Looks around; `data` is where the clusters will have their data.
    pub(crate) fn look(data: &Path) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let git = |arguments: &[&str]| said(Command::new("git").arg("-C").arg(root).args(arguments));
        let machine = Self {
            command: std::env::args().collect(),
            commit: git(&["rev-parse", "HEAD"]),
            modified: git(&["status", "--porcelain"]).map(|changes| !changes.is_empty()),
            unix_seconds: clock::since_1970().as_secs(),
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: field("/proc/meminfo", "MemTotal"),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
            rustc: said(Command::new("rustc").arg("--version")),
            file_system: file_system_of(data),
            load: load(),
            append_and_sync: append_and_sync(data)?,
        };
        machine.warn();
        Ok(machine)
    }

    fn warn(&self) {
        #[expect(clippy::cast_precision_loss, reason = "a number of cores")]
        let busy = self.load.filter(|load| *load > 0.5 * self.cores as f64);
        if let Some(load) = busy {
            eprintln!(
                "the machine is busy (load {load} on {} cores): these figures do not count",
                self.cores
            );
        }
        if self.file_system.as_deref() == Some("tmpfs") {
            eprintln!("the data lies in memory (tmpfs): durability costs nothing here; say --data DIR");
        }
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let text = |part: &Option<String>| part.clone().unwrap_or_else(|| "unknown".to_owned());
        format!(
            "{} cores ({}), Linux {}, {}; 1 KiB appended and synced: p50 {:.0} µs",
            self.cores,
            text(&self.processor),
            text(&self.kernel),
            text(&self.file_system),
            self.append_and_sync.p50_us
        )
    }
}

/// A directory of its own for a run; beside the program that is measured, unless another is named.
pub(crate) fn data_directory(given: Option<&Path>) -> Result<PathBuf> {
    let beside = || std::env::current_exe().ok().and_then(|exe| exe.parent().map(Path::to_owned));
    let parent = given.map(Path::to_owned).or_else(beside).unwrap_or_else(std::env::temp_dir);
    fs::create_dir_all(&parent).map_err(BenchError::io(parent.display().to_string()))?;
    Ok(parent)
}

fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let (_, value) = text.lines().find(|line| line.starts_with(name))?.split_once(':')?;
    Some(value.trim().to_owned())
}

fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// The type of the file system, from the longest mount point that the path lies under.
fn file_system_of(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(point), Some(kind)) = (fields.next(), fields.next()) else { continue };
        let longer = best.is_none_or(|(length, _)| point.len() >= length);
        if path.starts_with(point) && longer {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

fn append_and_sync(directory: &Path) -> Result<Latency> {
    let what = || format!("measuring the disk under {}", directory.display());
    let scratch = tempfile::tempdir_in(directory).map_err(BenchError::io(what()))?;
    let open = OpenOptions::new().create_new(true).append(true).open(scratch.path().join("log"));
    let mut file = open.map_err(BenchError::io(what()))?;
    let mut latencies = no_latencies();
    let end = clock::now() + LIMIT_MEASURED;
    loop {
        let start = clock::now();
        if start > end {
            return Ok(Latency::of(&latencies));
        }
        file.write_all(&[7; 1024]).and_then(|()| file.sync_data()).map_err(BenchError::io(what()))?;
        let nanos = (clock::now() - start).as_nanos();
        latencies.saturating_record(u64::try_from(nanos).unwrap_or(u64::MAX));
    }
}
