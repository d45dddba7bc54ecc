//! Figures for people, as a table, and for programs, as JSON.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::error::{BenchError, Result};
use crate::load::{Latencies, Throughput};

const BYTES_PER_MB: f64 = 1_048_576.0;
const PERCENTILES: [f64; 12] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];

/// Latencies in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Latency {
    pub(crate) records: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p99_9_us: f64,
    pub(crate) max_us: f64,
    /// Percentile and microseconds.
    percentiles: Vec<(f64, f64)>,
}

impl Latency {
    pub(crate) fn of(latencies: &Latencies) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let at = |percentile: f64| latencies.value_at_percentile(percentile) as f64 / 1_000.0;
        Self {
            records: latencies.len(),
            mean_us: latencies.mean() / 1_000.0,
            p50_us: at(50.0),
            p99_us: at(99.0),
            p99_9_us: at(99.9),
            max_us: at(100.0),
            percentiles: PERCENTILES.map(|percentile| (percentile, at(percentile))).to_vec(),
        }
    }
}

/// What was carried, in megabytes of 1,048,576 bytes, as Kafka's tools count.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Carried {
    pub(crate) mb_per_second: f64,
    pub(crate) records_per_second: f64,
    records: u64,
    seconds: f64,
    /// From a request's sending to its acknowledgement, under this load.
    latency_under_load: Option<Latency>,
}

impl Carried {
    pub(crate) fn of(throughput: &Throughput, record_bytes: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let bytes = record_bytes as f64;
        let records_per_second = throughput.records_per_second();
        let measured = !throughput.latencies.is_empty();
        Self {
            mb_per_second: records_per_second * bytes / BYTES_PER_MB,
            records_per_second,
            records: throughput.records,
            seconds: throughput.elapsed.as_secs_f64(),
            latency_under_load: measured.then(|| Latency::of(&throughput.latencies)),
        }
    }
}

/// Columns aligned to the right.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<_> =
                row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{}", cells.join("  ").trim_end());
        }
        text
    }
}

/// A number with as many digits as say something.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        middle if middle < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Microseconds as milliseconds.
pub(crate) fn milliseconds(microseconds: f64) -> String {
    figure(microseconds / 1_000.0)
}

/// The middle one; of two, the mean.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// Writes the raw run as `NAME.json` into a directory.
pub(crate) fn write(directory: &Path, name: &str, run: &impl Serialize) -> Result<()> {
    let path = directory.join(format!("{name}.json"));
    let what = || path.display().to_string();
    std::fs::create_dir_all(directory).map_err(BenchError::io(what()))?;
    std::fs::write(&path, json(run)? + "\n").map_err(BenchError::io(what()))?;
    eprintln!("the raw run is in {}", path.display());
    Ok(())
}

/// The raw run as text.
pub(crate) fn json(run: &impl Serialize) -> Result<String> {
    serde_json::to_string_pretty(run).map_err(|error| BenchError::io("the raw run")(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["acks", "µs"]);
        table.row(vec!["all".to_owned(), "1234".to_owned()]);
        assert_eq!(table.text(), "acks    µs\n all  1234\n");
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }

    #[test]
    fn figures_have_three_digits_or_so() {
        assert_eq!([0.123, 12.34, 1234.5].map(figure), ["0.12", "12.3", "1234"]);
        assert_eq!(milliseconds(1500.0), "1.50");
    }
}
