//! What is measured, and with what load.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

use super::cell::Planned;
use crate::load::{Acks, Shape};

/// When a record counts for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// When the operating system has it
    Written,
    /// When it is synced
    Fsync,
}

impl Durability {
    /// As the setting has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Fsync => "fsync",
        }
    }
}

/// Throughput and latency against the size of the ISR
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Sizes of the ISR
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,3", value_parser = clap::value_parser!(i16).range(1..=3))]
    isr: Vec<i16>,
    /// What the producer waits for
    #[arg(long, value_name = "ACKS,...", value_delimiter = ',', default_value = "0,1,all")]
    acks: Vec<Acks>,
    /// When a record counts for a replica
    #[arg(long, value_name = "STEP,...", value_delimiter = ',', default_value = "written,fsync")]
    durability: Vec<Durability>,
    /// Key and value of a record together
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(i64::from(RECORD_BYTES_MIN)..=1 << 20))]
    record_bytes: u32,
    /// The largest batch, when as much is sent as is acknowledged
    #[arg(long, value_name = "BYTES", default_value_t = 128 << 10)]
    batch_bytes: u32,
    /// Requests of one connection that are not yet acknowledged
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    in_flight: u16,
    /// Partitions of a topic; one record at a time goes to the first
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub(super) partitions: u16,
    /// Records a second, all partitions together, when latency is measured
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(super) rate: u64,
    /// How long throughput, and how long latency, is measured in each cell
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = positive)]
    pub(super) seconds: f64,
    /// A setting of all brokers
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(super) settings: Vec<String>,
    /// The program to measure, instead of the workspace's
    #[arg(long, value_name = "PATH")]
    pub(super) highwater: Option<PathBuf>,
    /// Measure a cluster that runs already; also a Kafka (with --durability written)
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with_all = ["highwater", "settings"])]
    pub(super) bootstrap: Option<SocketAddr>,
    /// Where the cluster's data lies during the run, instead of beside the program
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Write the raw run into this directory, as isr.json
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Print the raw run instead of the table
    #[arg(long)]
    pub(super) json: bool,
}

/// A key that says which record it is, and one byte; `records` asserts that it is so.
const RECORD_BYTES_MIN: u32 = 21;

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=3_600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.1 to 3600".to_owned()),
    }
}

impl Options {
    /// The load.
    pub(super) fn shape(&self) -> Shape {
        let size = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
        Shape {
            record_bytes: size(self.record_bytes),
            batch_bytes: size(self.batch_bytes),
            in_flight: usize::from(self.in_flight),
        }
    }

    /// The cells, the cheapest first.
    pub(super) fn cells(&self) -> Vec<Planned> {
        let mut cells = Vec::new();
        for &durability in &self.durability {
            for &acks in &self.acks {
                for &isr in &self.isr {
                    cells.push(Planned { isr, acks, durability });
                }
            }
        }
        cells
    }

    /// How long a throughput, or a latency, is measured.
    pub(super) fn measured(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// How long one record at a time is measured.
    pub(super) fn measured_one_by_one(&self) -> Duration {
        self.measured() / 2
    }

    /// How long the same is measured against the null brokers, given how long it is measured against the cluster.
    pub(super) fn measured_null(measured: Duration) -> Duration {
        measured / 3
    }

    /// How long a cell takes, about: warm-ups, and reading everything back, included.
    pub(super) fn expected(&self, cell: Planned) -> Duration {
        let factor = if cell.acks == Acks::None { 2.5 } else { 5.0 };
        self.measured().mul_f64(factor) + Duration::from_secs(1)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        Line::try_parse_from(line.split(' ')).unwrap().options
    }

    #[test]
    fn the_whole_matrix_takes_less_than_five_minutes() {
        let options = options("isr");
        assert_eq!(options.cells().len(), 18);
        let expected: Duration = options.cells().into_iter().map(|cell| options.expected(cell)).sum();
        assert!(expected < Duration::from_secs(300), "{expected:?}");
    }

    #[test]
    fn the_matrix_can_be_narrowed() {
        let options =
            options("isr --isr 3 --acks all --durability written,fsync --record-bytes 100 --seconds 0.5");
        let cell = |durability| Planned { isr: 3, acks: Acks::All, durability };
        assert_eq!(options.cells(), [cell(Durability::Written), cell(Durability::Fsync)]);
        assert_eq!(options.shape().record_bytes, 100);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in
            ["isr --isr 4", "isr --acks 2", "isr --record-bytes 20", "isr --seconds 0", "isr --in-flight 0"]
        {
            assert!(Line::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
        assert_eq!(usize::try_from(RECORD_BYTES_MIN), Ok(crate::records::RECORD_BYTES_MIN));
    }
}
