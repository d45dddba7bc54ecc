//! The arguments, as clap reads them. Decides nothing.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::settings::HostPort;
use crate::tools::repair::Range;

/// A replicated log that Kafka's clients can talk to.
#[derive(Debug, Parser)]
#[command(
    name = "highwater",
    version,
    about,
    disable_help_subcommand = true,
    args_conflicts_with_subcommands = true
)]
pub struct Arguments {
    /// What to do; without it, run a cluster on this machine.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The cluster to run.
    #[command(flatten)]
    pub cluster: ClusterOfThisMachine,
}

/// A cluster of brokers on this machine, as `highwater` without a command runs it.
#[derive(Args, Debug)]
pub struct ClusterOfThisMachine {
    /// How many brokers there are
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub brokers: i32,
    /// Where broker 1 listens; the others take the next ports
    #[arg(long, value_name = "P", default_value_t = 9092)]
    pub port: u16,
    /// The data directory: a folder for each broker, and one for the controller
    #[arg(long, value_name = "DIR", default_value = "./highwater-data")]
    pub data: PathBuf,
    /// A setting, for all brokers
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Start just these brokers
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub only: Vec<i32>,
}

/// What can be asked.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one broker: with a controller of its own, or joined to one
    Serve(ServeArguments),
    /// Run a controller by itself, or make a new state for one whose state is lost
    #[command(args_conflicts_with_subcommands = true)]
    Controller {
        /// What else to do.
        #[command(subcommand)]
        command: Option<ControllerCommand>,
        /// Where brokers reach it
        #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9090", value_parser = host_port)]
        listen: HostPort,
        /// Where its state lies
        #[arg(long, value_name = "DIR", default_value = "./highwater-data/controller")]
        data: PathBuf,
        /// How many brokers the cluster is to have; without it, as many as join
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        brokers: Option<u16>,
        /// A setting
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
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
    /// Hand the leadership of a partition to a replica in sync; or, while nobody leads, to another one, at the price of records
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
        /// Show what would be lost if it led whatever it lacks, while nobody can lead who lacks nothing
        #[arg(long)]
        unclean: bool,
        /// Let it lead: what was shown is given up, and recorded as lost
        #[arg(long, requires = "unclean")]
        accept_loss: bool,
    },
    /// Put a partition on other brokers, while it is written and read; without a topic, show what is on its way
    Reassign {
        /// The cluster.
        #[command(flatten)]
        cluster: Bootstrap,
        /// The topic
        #[arg(requires = "partition")]
        topic: Option<String>,
        /// The partition's number
        #[arg(requires = "order")]
        partition: Option<i32>,
        /// The brokers that are to hold it, the preferred leader first
        #[arg(long, value_name = "IDS", value_delimiter = ',', group = "order", requires = "partition")]
        to: Option<Vec<i32>>,
        /// Let it lie where it lay before
        #[arg(long, group = "order", requires = "partition")]
        cancel: bool,
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
    /// Show the records of a partition or of one .log file, also beside a running broker
    Cat(CatArguments),
    /// Compare everything in a data directory, a partition's directory or one file with everything else, also beside a running broker;
    /// exit code 0: nothing found, 1: something, 2: not everything could be read
    Verify {
        /// The directory, or the file
        path: PathBuf,
        /// The topics are compacted: offsets may be missing between their segments
        #[arg(long)]
        compacted: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Carry partitions of a Kafka over into brokers of Highwater; both are stopped. Without --execute, show what would be done
    Import(CarryArguments),
    /// Carry partitions of Highwater over into a Kafka; both are stopped. Without --execute, show what would be done
    Export(CarryArguments),
    /// Show what recovery finds and does in a data directory that no broker has open, and do it, as a broker does when it starts
    Recover {
        /// Only show it
        #[arg(long)]
        dry_run: bool,
        /// Do it also where a controller would have to be told that records may be missing: there is none
        #[arg(long, conflicts_with = "dry_run")]
        alone: bool,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        /// A broker's data directory
        directory: PathBuf,
    },
    /// Show the damaged ranges of a data directory, and give up those that no replica has any more; exit code 1 if some are left
    Repair {
        /// Give up this damaged range, as it is shown; no broker may have the directory open
        #[arg(long, value_name = "TOPIC-P:FROM..UNTIL")]
        give_up: Vec<Range>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
        /// A broker's data directory
        directory: PathBuf,
    },
    /// Show every setting: meaning, unit, value and default
    Config {
        /// Set a setting, to see whether it is allowed
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
}

/// What can be done with a controller that does not run.
#[derive(Debug, Subcommand)]
pub enum ControllerCommand {
    /// Make a new state out of the data directories of all brokers, where the old one is lost or damaged; everything is stopped. Without
    /// --execute, show what was found and what cannot be known
    Rebuild {
        /// Where the new state is to lie; what is left of the old one is to be moved away before
        #[arg(long, value_name = "DIR", default_value = "./highwater-data/controller")]
        data: PathBuf,
        /// A setting of a topic; of one that has none here nothing is deleted by retention
        #[arg(long = "topic", value_name = "TOPIC:KEY=VALUE")]
        topics: Vec<String>,
        /// A setting
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
        /// Do it
        #[arg(long)]
        execute: bool,
        /// The data directories of all brokers, as highwater-data/1
        #[arg(required = true)]
        brokers: Vec<PathBuf>,
    },
}

/// Which records are shown.
#[derive(Args, Debug)]
pub struct CatArguments {
    /// The directory of a partition, as data/topic-0, or a .log file
    pub path: PathBuf,
    /// From this offset on
    #[arg(long, value_name = "OFFSET", value_parser = clap::value_parser!(i64).range(0..))]
    pub from: Option<i64>,
    /// From the first record on that is not older, in milliseconds since 1970
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub since: Option<i64>,
    /// No more than this
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Only records with this key
    #[arg(long, value_name = "TEXT")]
    pub key: Option<String>,
    /// Only records in whose value this occurs
    #[arg(long, value_name = "TEXT")]
    pub contains: Option<String>,
    /// The topic is compacted: offsets may be missing between its segments
    #[arg(long)]
    pub compacted: bool,
    /// Wait for more at the end
    #[arg(long)]
    pub follow: bool,
    /// One JSON object a line
    #[arg(long)]
    pub json: bool,
}

/// Which partitions are carried, and where to.
#[derive(Args, Debug)]
pub struct CarryArguments {
    /// The directories of partitions, as data/orders-0; they stay as they are
    #[arg(required = true)]
    pub from: Vec<PathBuf>,
    /// The data directory of a broker that has a replica of each partition, made before as an empty topic; once for each replica
    #[arg(long, value_name = "DIR", required = true)]
    pub into: Vec<PathBuf>,
    /// Do it
    #[arg(long)]
    pub execute: bool,
    /// Records that are there may go
    #[arg(long)]
    pub replace: bool,
    /// The topic is compacted: offsets may be missing between its segments
    #[arg(long)]
    pub compacted: bool,
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

/// How one broker runs.
#[derive(Args, Debug)]
pub struct ServeArguments {
    /// Its id
    #[arg(long, value_name = "ID", default_value_t = 1)]
    pub id: i32,
    /// Where it listens; without it, the setting `listeners`, or 127.0.0.1:9092
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub listen: Option<HostPort>,
    /// Its data directory, laid out as Kafka's; with a controller of its own, the broker's and the controller's folders are in it
    #[arg(long, value_name = "DIR", default_value = "./highwater-data")]
    pub data: PathBuf,
    /// The controller to join; without it, the broker has its own
    #[arg(long, value_name = "HOST:PORT", value_parser = host_port)]
    pub controller: Option<HostPort>,
    /// How many brokers the cluster is to have
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub brokers: Option<u16>,
    /// A setting
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Tell events as JSON, and stop when the standard input ends
    #[arg(long, hide = true)]
    pub supervised: bool,
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
