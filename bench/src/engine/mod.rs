//! The engine alone, beside what the machine can do at all: each figure and its limit by turns, in one run, on the same file system.
//!
//! ```text
//! cargo run --release -p highwater-bench -- engine [--only append,durable,read,open,fan,compact]
//! ```
//! A limit is the plainest program that does what the figure's bytes need and nothing else: it keeps no index, counts no offsets and
//! checks nothing that the row does not name.

mod append;
mod compact;
mod device;
mod durable;
mod fan;
mod ground;
mod group;
mod open;
mod read;
mod rows;

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use self::ground::Ground;
pub(crate) use self::open::fill_and_die;
use self::rows::Rows;
use crate::error::{BenchError, Result};
use crate::machine::{Machine, data_directory};
use crate::report;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Appends into the page cache, of 64 KiB and of 100 B, and what the device writes for them
    Append,
    /// Appends that survive power loss: one writer, many, many logs
    Durable,
    /// A scan and point reads of what is in the page cache, verified
    Read,
    /// Opening again after a clean stop and after a kill, large and many
    Open,
    /// Appends over many logs in turn
    Fan,
    /// Compaction of a log in the page cache
    Compact,
}

/// The engine alone, beside what the machine can do at all
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// What to measure
    #[arg(
        long,
        value_name = "PART,...",
        value_delimiter = ',',
        default_value = "append,durable,read,open,fan,compact"
    )]
    only: Vec<Part>,
    /// The size of the log that is compacted, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(256..=16384))]
    compacted_mib: u32,
    /// How often each is measured; the medians count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Where the data lies during the run, instead of beside the program
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write the raw run into this directory, as engine.json
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
    rounds: u32,
    rows: Rows,
}

/// Measures what the options leave, prints it beside its limits, and writes the raw run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let parent = data_directory(options.data.as_deref())?;
    let machine = Machine::look(&parent)?;
    let data = tempfile::Builder::new().prefix("highwater-bench-").tempdir_in(&parent);
    let data = data.map_err(BenchError::io(parent.display().to_string()))?;
    let ground = Ground::new(data.path(), options.rounds);
    let mut rows = Rows::default();
    let asked = |part| options.only.contains(&part);
    if asked(Part::Append) {
        append::large(&ground, &mut rows)?;
        append::small(&ground, &mut rows)?;
        device::written(&ground, &mut rows)?;
    }
    if asked(Part::Durable) {
        durable::one_writer(&ground, &mut rows)?;
        durable::many_tasks(&ground, &mut rows)?;
        durable::many_writers(&ground, &mut rows)?;
        durable::many_logs(&ground, &mut rows)?;
        durable::many_files(&ground, &mut rows)?;
    }
    if asked(Part::Read) {
        read::all(&ground, &mut rows)?;
    }
    if asked(Part::Open) {
        open::one_large(&ground, &mut rows)?;
        open::verify_large(&ground, &mut rows)?;
        open::many_small(&ground, &mut rows)?;
    }
    if asked(Part::Fan) {
        fan::in_turn(&ground, &mut rows)?;
    }
    if asked(Part::Compact) {
        let mib = usize::try_from(options.compacted_mib).unwrap_or(usize::MAX);
        compact::quarter(&ground, &mut rows, mib.saturating_mul(ground::MIB))?;
    }
    let run = Run { machine, rounds: options.rounds, rows };
    if options.json {
        println!("{}", report::json(&run)?);
    } else {
        println!("{}\n", run.machine.line());
        print!("{}", run.rows.text());
    }
    match &options.out {
        Some(directory) => report::write(directory, "engine", &run),
        None => Ok(()),
    }
}
