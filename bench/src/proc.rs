//! What `/proc` says about processes: memory, processor time, children.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::error::{BenchError, Result};

/// Linux gives processor times to user space in hundredths of a second, on every architecture.
const TICK: Duration = Duration::from_millis(10);

fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    fs::read_to_string(path).map_err(BenchError::io(path.display().to_string()))
}

/// Resident memory that no file backs: heap and stacks, without programs and page cache.
pub(crate) fn anonymous_bytes(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/smaps_rollup");
    let text = read(&path)?;
    anonymous_of(&text).ok_or_else(|| strange(&path))
}

fn anonymous_of(smaps: &str) -> Option<u64> {
    let line = smaps.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What the process has used of the processors so far, in user and kernel.
pub(crate) fn processor_time(process: u32) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let (_, time) = stat_of(&read(&path)?).ok_or_else(|| strange(&path))?;
    Ok(time)
}

/// The processes that this one has started and that run.
pub(crate) fn children(parent: u32) -> Result<Vec<u32>> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").map_err(BenchError::io("/proc"))? {
        let entry = entry.map_err(BenchError::io("/proc"))?;
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may have ended since it was listed.
        let Ok(text) = fs::read_to_string(entry.path().join("stat")) else { continue };
        if stat_of(&text).is_some_and(|(of, _)| of == parent) {
            children.push(process);
        }
    }
    children.sort_unstable();
    Ok(children)
}

/// Parent and processor time. The second field is the program's name and may hold anything, also brackets and spaces.
fn stat_of(stat: &str) -> Option<(u32, Duration)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<u32>().ok());
    Some((ticks(1)?, TICK * ticks(11)?.checked_add(ticks(12)?)?))
}

fn strange(path: &str) -> BenchError {
    BenchError::Program { program: path.to_owned(), said: "it is not as Linux writes it".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_is_read_behind_the_name() {
        let stat = "4242 (a) (b) c) S 17 4242 4242 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 99 100 200\n";
        assert_eq!(stat_of(stat), Some((17, Duration::from_secs(3))));
        assert_eq!(stat_of("4242 (a) S 17"), None);
    }

    #[test]
    fn anonymous_memory_is_read_in_bytes() {
        let smaps = "Rss:      100 kB\nAnonymous:       12 kB\nAnonHugePages:   0 kB\n";
        assert_eq!(anonymous_of(smaps), Some(12 << 10));
        assert_eq!(anonymous_of("Rss: 100 kB"), None);
    }

    #[test]
    fn this_process_can_be_measured() {
        let process = std::process::id();
        assert!(anonymous_bytes(process).unwrap() > 0);
        let text = read(format!("/proc/{process}/stat")).unwrap();
        let (parent, _) = stat_of(&text).unwrap();
        assert!(children(parent).unwrap().contains(&process));
    }
}
