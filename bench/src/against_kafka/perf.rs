//! Kafka's own load generator, and what it says at the end.

use std::process::Command;

use serde::Serialize;

use crate::cluster::script;
use crate::error::{BenchError, Result};

const PROPERTIES: [&str; 3] = ["acks=all", "linger.ms=5", "batch.size=131072"];

/// What producer-perf measured. Its MB are 1,048,576 bytes, its latencies count from when a record was handed to it, over the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Perf {
    pub(super) records: u64,
    pub(super) records_per_second: f64,
    pub(super) mb_per_second: f64,
    mean_ms: f64,
    max_ms: f64,
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    p99_9_ms: f64,
}

/// Gets Kafka, once.
pub(super) fn fetch_kafka() -> Result<()> {
    call(&["fetch"]).map(drop)
}

/// Which Kafka it is: the version in the script.
pub(super) fn kafka_version() -> Option<String> {
    if let Ok(version) = std::env::var("KAFKA_VERSION") {
        return Some(version);
    }
    let text = std::fs::read_to_string(script()).ok()?;
    let (_, rest) = text.split_once("${KAFKA_VERSION:-")?;
    Some(rest.split_once('}')?.0.to_owned())
}

/// Sends so many records as fast as they are acknowledged.
pub(super) fn run(bootstrap: &str, topic: &str, records: u64, record_bytes: u32) -> Result<Perf> {
    let (records_text, record_bytes) = (records.to_string(), record_bytes.to_string());
    let mut arguments = vec!["producer-perf", "--bootstrap-server", bootstrap, "--topic", topic];
    arguments.extend(["--num-records", &records_text, "--record-size", &record_bytes, "--throughput", "-1"]);
    arguments.push("--command-property");
    arguments.extend(PROPERTIES);
    let output = call(&arguments)?;
    let strange = || BenchError::Program { program: "producer-perf".to_owned(), said: output.clone() };
    let perf = output.lines().rev().find_map(parse).ok_or_else(strange)?;
    if perf.records == records { Ok(perf) } else { Err(strange()) }
}

fn call(arguments: &[&str]) -> Result<String> {
    let script = script();
    let output = Command::new(&script).args(arguments).output();
    let output = output.map_err(BenchError::io(script.display().to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = said.lines().take(5).collect();
    let program = format!("kafka {}", arguments.first().unwrap_or(&""));
    Err(BenchError::Program { program, said: format!("{}: {}", output.status, lines.join(" | ")) })
}

/// Reads the line at the end; lines in between lack the percentiles.
fn parse(line: &str) -> Option<Perf> {
    let mut parts = line.trim().trim_end_matches('.').split(", ");
    let records = parts.next()?.strip_suffix(" records sent")?.parse().ok()?;
    let (records_per_second, mb) = parts.next()?.split_once(" records/sec (")?;
    let mut next = |suffix: &str| parts.next()?.strip_suffix(suffix)?.trim().parse::<f64>().ok();
    Some(Perf {
        records,
        records_per_second: records_per_second.parse().ok()?,
        mb_per_second: mb.strip_suffix(" MB/sec)")?.parse().ok()?,
        mean_ms: next("ms avg latency")?,
        max_ms: next("ms max latency")?,
        p50_ms: next("ms 50th")?,
        p95_ms: next("ms 95th")?,
        p99_ms: next("ms 99th")?,
        p99_9_ms: next("ms 99.9th")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_read() {
        let line = "200000 records sent, 74123.7 records/sec (72.39 MB/sec), 389.12 ms avg latency, 612.00 ms max latency, \
                    401 ms 50th, 540 ms 95th, 575 ms 99th, 600 ms 99.9th.";
        let expected = Perf {
            records: 200_000,
            records_per_second: 74_123.7,
            mb_per_second: 72.39,
            mean_ms: 389.12,
            max_ms: 612.0,
            p50_ms: 401.0,
            p95_ms: 540.0,
            p99_ms: 575.0,
            p99_9_ms: 600.0,
        };
        assert_eq!(parse(line), Some(expected));
    }

    #[test]
    fn other_lines_are_not_taken_for_it() {
        let between = "371234 records sent, 74246.8 records/sec (72.51 MB/sec), 389.1 ms avg latency, 612.0 ms max latency.";
        assert_eq!(parse(between), None);
        assert_eq!(parse("[2026-01-01] WARN something"), None);
    }
}
