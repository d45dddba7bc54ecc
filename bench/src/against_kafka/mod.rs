//! Side by side with a real Kafka of the same shape, in one run, by turns: three broker processes on this machine, three replicas,
//! acks=all.
//!
//! Throughput is measured with Kafka's own tool for both, so that the generator is nobody's friend; beside it the tool's floor, brokers
//! that answer at once. What is asked of Highwater is written beside each figure.

mod first;
mod goals;
mod idle;
mod perf;
mod turns;

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use self::goals::Goals;
use self::turns::Turns;
use crate::cluster;
use crate::error::{BenchError, Result};
use crate::machine::{Machine, data_directory};
use crate::report;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The first acknowledged record after the command on an empty directory
    First,
    /// Kafka's producer-perf, acks=all
    Throughput,
    /// One record at a time, acks=all
    One,
    /// Resident anonymous memory after the load
    Memory,
    /// Processor time of idle brokers with 100 partitions and an idle consumer
    Idle,
}

/// Side by side with a real Kafka of the same shape
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// What to measure
    #[arg(
        long,
        value_name = "PART,...",
        value_delimiter = ',',
        default_value = "first,throughput,one,memory,idle"
    )]
    only: Vec<Part>,
    /// How often each is measured; the medians count
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Records of one run of producer-perf
    #[arg(long, value_name = "N", default_value_t = 500_000, value_parser = clap::value_parser!(u64).range(1_000..))]
    records: u64,
    /// Bytes of a record
    #[arg(long, value_name = "BYTES", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(21..=1 << 20))]
    record_bytes: u32,
    /// Partitions of the topic for throughput
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    partitions: u16,
    /// How long one record at a time is measured in each round
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    seconds: u64,
    /// How long idle brokers are watched
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    idle_seconds: u64,
    /// The heap of each broker of Kafka
    #[arg(long, value_name = "SIZE", default_value = "1g")]
    kafka_heap: String,
    /// A setting of all brokers of Highwater
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// The program to measure, instead of the workspace's
    #[arg(long, value_name = "PATH")]
    highwater: Option<PathBuf>,
    /// Where the clusters' data lies during the run, instead of beside the program
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write the raw run into this directory, as against-kafka.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the raw run instead of the table
    #[arg(long)]
    json: bool,
}

/// Everything that is known about a run.
#[derive(Debug, Serialize)]
struct Run {
    machine: Machine,
    kafka_version: Option<String>,
    kafka_heap: String,
    records: u64,
    record_bytes: u32,
    partitions: u16,
    settings: Vec<String>,
    rounds: Rounds,
    goals: Goals,
}

/// A figure of both, one a round.
#[derive(Clone, Debug, Serialize)]
struct Both<T> {
    highwater: Vec<T>,
    kafka: Vec<T>,
}

impl<T> Default for Both<T> {
    fn default() -> Self {
        Self { highwater: Vec::new(), kafka: Vec::new() }
    }
}

/// The raw figures.
#[derive(Clone, Debug, Default, Serialize)]
struct Rounds {
    first_acknowledged_seconds: Both<f64>,
    producer_perf: Both<perf::Perf>,
    producer_perf_null: Vec<perf::Perf>,
    one_by_one: Both<report::Latency>,
    anonymous_bytes: Both<u64>,
    idle_core_percent: Both<f64>,
    /// What the supervisor said to the end of the run.
    highwater_said: Vec<String>,
}

/// Measures what the options leave, prints it beside what is asked, and writes the raw run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let parent = data_directory(options.data.as_deref())?;
    let program = cluster::program(options.highwater.as_deref())?;
    perf::fetch_kafka()?;
    let machine = Machine::look(&parent)?;
    let data = tempfile::Builder::new().prefix("highwater-bench-").tempdir_in(&parent);
    let data = data.map_err(BenchError::io(parent.display().to_string()))?;

    let rounds = measure(options, Turns { options, program: &program, data: data.path() })?;
    let run = Run {
        machine,
        kafka_version: perf::kafka_version(),
        kafka_heap: options.kafka_heap.clone(),
        records: options.records,
        record_bytes: options.record_bytes,
        partitions: options.partitions,
        settings: options.settings.clone(),
        goals: Goals::of(&rounds),
        rounds,
    };
    if options.json {
        println!("{}", report::json(&run)?);
    } else {
        println!("{}\n", run.machine.line());
        print!("{}", run.goals.text());
    }
    match &options.out {
        Some(directory) => report::write(directory, "against-kafka", &run),
        None => Ok(()),
    }
}

fn measure(options: &Options, turns: Turns<'_>) -> Result<Rounds> {
    let asked = |part| options.only.contains(&part);
    let mut rounds = Rounds::default();
    let mut pair = if asked(Part::First) {
        turns.first_acknowledged(&mut rounds.first_acknowledged_seconds)?
    } else {
        turns.start()?
    };
    if asked(Part::Throughput) {
        turns.throughput(&mut pair, &mut rounds)?;
    }
    if asked(Part::One) {
        turns.one_by_one(&pair, &mut rounds.one_by_one)?;
    }
    if asked(Part::Memory) {
        Turns::memory(&pair, &mut rounds.anonymous_bytes)?;
    }
    if asked(Part::Idle) {
        Turns::idle(&pair, Duration::from_secs(options.idle_seconds), &mut rounds.idle_core_percent)?;
    }
    rounds.highwater_said = pair.said();
    Ok(rounds)
}
