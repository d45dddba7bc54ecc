//! The arguments, as clap reads them. Decides nothing.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::settings::HostPort;

/// A replicated log that Kafka's clients can talk to.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, about, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make, delete and list topics
    Topics {
        /// Which of these.
        #[command(subcommand)]
        command: TopicsCommand,
    },
    /// Show brokers and partitions: who leads, who is in sync, and why somebody is not
    Status {
        /// The cluster.
        #[command(flatten)]
        cluster: Bootstrap,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Hand the leadership of a partition to a replica in sync
    Elect {
        /// The cluster.
        #[command(flatten)]
        cluster: Bootstrap,
        /// The topic
        topic: String,
        /// The partition's number
        partition: i32,
        /// The broker that is to lead
        #[arg(long, value_name = "ID")]
        to: i32,
    },
    /// Stop, kill or start a broker of the cluster on this machine
    Broker {
        /// Which of these.
        #[command(subcommand)]
        command: BrokerCommand,
    },
    /// Show what is in a segment, an index, a snapshot, a checkpoint, or a directory of them
    Dump {
        /// The file, a partition's or a data directory
        path: PathBuf,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Show every setting: meaning, unit, value and default
    Config {
        /// Set a setting, to see whether it is allowed
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
}

/// Where a cluster is reached.
#[derive(Args, Debug)]
pub struct Bootstrap {
    /// Brokers of the cluster; the first that answers is asked
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', default_value = "127.0.0.1:9092", value_parser = host_port)]
    pub bootstrap: Vec<HostPort>,
}

fn host_port(text: &str) -> Result<HostPort, String> {
    HostPort::parse(text).ok_or_else(|| "not HOST:PORT".to_owned())
}

/// What can be done with topics.
#[derive(Debug, Subcommand)]
pub enum TopicsCommand {
    /// Make a topic
    Create {
        /// The cluster.
        #[command(flatten)]
        cluster: Bootstrap,
        /// Its name
        name: String,
        /// How many partitions
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
        partitions: Option<i32>,
        /// How many replicas of each
        #[arg(long, value_name = "R", value_parser = clap::value_parser!(i16).range(1..))]
        replication_factor: Option<i16>,
        /// The brokers of each partition, as 2:3,3:1; the first of each is its preferred leader
        #[arg(long, value_name = "IDS", conflicts_with_all = ["partitions", "replication_factor"])]
        replica_assignment: Option<String>,
        /// A setting of the topic
        #[arg(long = "config", value_name = "KEY=VALUE")]
        configs: Vec<String>,
    },
    /// Delete a topic and everything that is in it
    Delete {
        /// The cluster.
        #[command(flatten)]
        cluster: Bootstrap,
        /// Its name
        name: String,
    },
    /// List all topics
    List {
        /// The cluster.
        #[command(flatten)]
        cluster: Bootstrap,
    },
}

/// What can be done with a broker's process.
#[derive(Debug, Subcommand)]
pub enum BrokerCommand {
    /// Stop it cleanly, its leaderships handed over; it stays down until it is started
    Stop(BrokerOfThisMachine),
    /// kill -9; it stays down until it is started
    Kill(BrokerOfThisMachine),
    /// Start it
    Start(BrokerOfThisMachine),
}

/// A broker of the cluster that a supervisor runs on this machine.
#[derive(Args, Debug)]
pub struct BrokerOfThisMachine {
    /// The broker
    pub id: i32,
    /// The data directory of the cluster
    #[arg(long, value_name = "DIR", default_value = "./highwater-data")]
    pub data: PathBuf,
}
