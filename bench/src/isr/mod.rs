//! Throughput and latency against the size of the ISR: what each step of safety costs.
//!
//! One cluster of three processes; for each cell of the matrix a topic with as many replicas as the ISR should have, all of them required
//! (`min.insync.replicas`), so that a replica that falls out fails the run and is not measured around. Beside each measurement,
//! at once, the same against brokers that answer without doing anything. At the end of a cell its log is read and compared with the
//! acknowledgements.

mod cell;
mod options;
mod progress;
mod table;

use std::path::Path;

use serde::Serialize;

use self::cell::{Bench, Cell};
use self::progress::Progress;
use crate::cluster::{self, Cluster as _, Highwater};
use crate::error::{BenchError, Result};
use crate::load::Shape;
use crate::machine::{Machine, data_directory};
use crate::null_broker::NullBrokers;
use crate::report;

pub(crate) use options::Options;

/// Everything that is known about a run.
#[derive(Debug, Serialize)]
struct Run {
    machine: Machine,
    shape: Shape,
    partitions: u16,
    rate: u64,
    seconds: f64,
    settings: Vec<String>,
    cells: Vec<Cell>,
    /// What the supervisor said during the run.
    said: Vec<String>,
}

/// Measures the matrix that the options leave, prints it, and writes the raw run.
pub(crate) fn run(options: &Options) -> Result<()> {
    let parent = data_directory(options.data.as_deref())?;
    let program = match options.bootstrap {
        Some(_) => None,
        None => Some(cluster::program(options.highwater.as_deref())?),
    };
    let machine = Machine::look(&parent)?;
    let data = tempfile::Builder::new().prefix("highwater-bench-").tempdir_in(&parent);
    let data = data.map_err(BenchError::io(parent.display().to_string()))?;
    let started = program.map(|program| start(&program, data.path(), options)).transpose()?;
    let bootstrap = match (&started, options.bootstrap) {
        (Some(highwater), _) => highwater.bootstrap(),
        (None, Some(bootstrap)) => bootstrap,
        (None, None) => {
            return Err(BenchError::Program { program: "bench".into(), said: "no cluster".into() });
        }
    };
    let nulls = NullBrokers::start(usize::from(options.partitions))?;
    let bench = Bench { options, bootstrap, nulls: &nulls };
    let plan = options.cells();
    let mut progress = Progress::of(plan.iter().copied().map(|cell| options.expected(cell)).collect());
    let mut cells = Vec::with_capacity(plan.len());
    for planned in plan {
        let cell = bench.measure(planned, &mut progress)?;
        progress.cell_done(&table::line(&cell));
        cells.push(cell);
    }
    let said = started.as_ref().map(Highwater::said).unwrap_or_default();
    drop(started);
    let run = Run {
        machine,
        shape: options.shape(),
        partitions: options.partitions,
        rate: options.rate,
        seconds: options.seconds,
        settings: options.settings.clone(),
        cells,
        said,
    };
    finish(options, &run)
}

fn start(program: &Path, data: &Path, options: &Options) -> Result<Highwater> {
    let mut highwater = Highwater::start(program, &data.join("highwater"), &options.settings)?;
    highwater.wait_until_ready()?;
    Ok(highwater)
}

fn finish(options: &Options, run: &Run) -> Result<()> {
    if options.json {
        println!("{}", report::json(run)?);
    } else {
        println!("{}\n", run.machine.line());
        print!("{}", table::of(&run.cells, options));
    }
    match &options.out {
        Some(directory) => report::write(directory, "isr", run),
        None => Ok(()),
    }
}
