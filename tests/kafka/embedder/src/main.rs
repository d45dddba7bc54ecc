//! A program over the engine that does what it is told: opens a data directory, carries out one order for each line of its standard
//! input, and says in a line what came of it. At the end of its input it closes the directory; whoever wants to see a kill kills it.
//!
//! ```text
//! highwater-embedder DIRECTORY SETTINGS
//! > {"do": "append", "log": "t-0", "codec": "zstd", "batches": 2, "records": 3, "time": 1700000000000, "label": "first"}
//! < {"did": "append", "batches": [{"base": 0, "last": 2, "codec": "zstd", "records": [{"offset": 0, ...
//! ```
//! `SETTINGS` are those of all logs, as JSON. It decides nothing and checks nothing: that is for whoever gives the orders.

mod order;
mod shown;
mod work;

use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};

use work::{Failure, Work};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, settings] = arguments.as_slice() else {
        say(&json!({"failed": "usage: highwater-embedder DIRECTORY SETTINGS"}));
        return ExitCode::from(2);
    };
    match run(Path::new(directory), settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(&json!({"failed": why.to_string()}));
            ExitCode::FAILURE
        }
    }
}

fn run(directory: &Path, settings: &str) -> Result<(), Failure> {
    let (mut work, opened) = Work::open(directory, serde_json::from_str(settings)?)?;
    say(&opened);
    for line in io::stdin().lock().lines() {
        let done =
            serde_json::from_str(&line?).map_err(Failure::from).and_then(|order| work.carry_out(order));
        say(&done.unwrap_or_else(|why| json!({"failed": why.to_string()})));
    }
    work.close()?;
    say(&json!({"did": "close"}));
    Ok(())
}

/// Whoever gave the orders may be gone.
fn say(what: &Value) {
    let mut out = io::stdout().lock();
    let _nobody_reads = writeln!(out, "{what}").and_then(|()| out.flush());
}
