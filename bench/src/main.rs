//! Throughput and latency against the size of the ISR, and side by side with a real Kafka.
//!
//! ```text
//! cargo run --release -p highwater-bench -- isr
//! cargo run --release -p highwater-bench -- against-kafka
//! cargo run --release -p highwater-bench -- engine
//! ```
//!
//! Every figure is measured beside a floor: the same load against brokers that answer at once. A failure ends a run; nothing is retried
//! and nothing is measured around it.

mod against_kafka;
mod client;
mod clock;
mod cluster;
mod engine;
mod error;
mod goal;
mod isr;
mod load;
mod machine;
mod null_broker;
mod proc;
mod records;
mod report;
mod topic;
mod verify;

#[cfg(test)]
mod load_test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Throughput and latency against the size of the ISR
#[derive(Debug, Parser)]
#[command(name = "highwater-bench", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Throughput and latency for ISR sizes 1 to 3, acks 0, 1, all, durability written and fsync
    Isr(isr::Options),
    /// Side by side with a real Kafka of the same shape: throughput, memory, start, latency, idle cost
    AgainstKafka(against_kafka::Options),
    /// The engine alone, beside what the machine can do at all
    Engine(engine::Options),
    /// For `engine`: fills a log and dies
    #[command(hide = true)]
    FillAndDie {
        /// The data directory
        directory: std::path::PathBuf,
    },
    /// Three brokers that answer at once and keep nothing, for other generators; until standard input ends
    Null {
        /// Partitions of every topic
        #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..=1_000))]
        partitions: u16,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Isr(options) => isr::run(&options),
        Command::AgainstKafka(options) => against_kafka::run(&options),
        Command::Engine(options) => engine::run(&options),
        Command::FillAndDie { directory } => engine::fill_and_die(&directory),
        Command::Null { partitions } => serve_nulls(partitions),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("highwater-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve_nulls(partitions: u16) -> error::Result<()> {
    let brokers = null_broker::NullBrokers::start(usize::from(partitions))?;
    println!("{}", brokers.bootstrap());
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())
        .map_err(error::BenchError::io("standard input"))?;
    Ok(())
}
