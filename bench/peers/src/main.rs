//! The engine beside other embedded logs: the same records, the same calls, by turns in one run; medians and ratios.
//!
//! ```text
//! apt-get install librocksdb-dev libclang-dev
//! cd bench/peers && cargo run --release -- [--only append,small,durable,read] [--peer raft-engine,...] [--rounds 5] [--out DIR]
//! ```
//! Nobody is measured at something it does not offer: who syncs every append has no row for the page cache, and who cannot find a record by
//! its number has none for point reads. What each promises differs, and stands beside the figures.

#![allow(clippy::disallowed_methods, reason = "a bench is its own host, and reads the clock")]

mod peer;
mod peers;
mod rows;
mod work;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Parser, ValueEnum};

use peer::Kind;
use rows::Run;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// 64 records of 1 KiB a call, into the page cache and with a sync at the end
    Append,
    /// One record of 100 B a call
    Small,
    /// 1 KiB, waited for until it survives power loss, by one thread and by 64
    Durable,
    /// A scan and point reads of what is in the page cache; opening again
    Read,
}

/// The engine beside other embedded logs
#[derive(Debug, Parser)]
struct Options {
    /// What to measure
    #[arg(long, value_name = "PART,...", value_delimiter = ',', default_value = "append,small,durable,read")]
    only: Vec<Part>,
    /// Beside whom
    #[arg(long = "peer", value_name = "PEER,...", value_delimiter = ',')]
    peers: Vec<Kind>,
    /// How often each is measured; the medians count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Where the data lies during the run, instead of beside the program
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write the raw run into this directory, as peers.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the raw run instead of the table
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let beside = std::env::current_exe()?.parent().map(ToOwned::to_owned);
    let parent = options.data.clone().or(beside).unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent)?;
    let data = tempfile::Builder::new().prefix("highwater-peers-").tempdir_in(&parent)?;
    let kinds: Vec<Kind> = Kind::value_variants()
        .iter()
        .copied()
        .filter(|kind| *kind == Kind::Highwater || options.peers.is_empty() || options.peers.contains(kind))
        .collect();
    let mut run = Run::new(options.rounds);
    for (part, works) in [
        (Part::Append, work::APPEND),
        (Part::Small, work::SMALL),
        (Part::Durable, work::DURABLE),
        (Part::Read, work::READ),
    ] {
        if options.only.contains(&part) {
            works.iter().try_for_each(|work| run.measure(work, &kinds, data.path()))?;
        }
    }
    if options.json {
        println!("{}", run.json()?)
    } else {
        print!("{}", run.text())
    }
    if let Some(directory) = &options.out {
        std::fs::create_dir_all(directory)?;
        std::fs::write(directory.join("peers.json"), run.json()? + "\n")?;
    }
    Ok(())
}
