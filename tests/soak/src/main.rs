//! Real processes that are killed, and real power losses, under the engine on its own disks.
//!
//! ```text
//! highwater-soak kill  [--seconds N]      writers on the machine's file system, killed with -9: what was written is there
//! highwater-soak power [--seconds N]      on a FUSE file system that also loses its power: what was durable is there
//! highwater-soak power --first 17 [--runs N]   this seed and those behind it
//! highwater-soak canary                   on one whose fsync does nothing; it has to be seen
//! highwater-soak medium SEED              the file system alone, for other processes; it loses its power when it is told to
//! ```
//! A failure prints its seed and what was done to whom, and ends with exit code 1. With a seed all choices are the same again, of the
//! file system and of each thread; in which order threads are run is not.

mod hand;
mod judge;
#[cfg(target_os = "linux")]
mod lend;
#[cfg(target_os = "linux")]
mod medium;
mod place;
mod search;
mod story;
mod told;
mod trial;
mod writer;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("write") => writer::run(),
        #[cfg(target_os = "linux")]
        Some("guard") => medium::stand_by(std::path::Path::new(&arguments.next().unwrap_or_default())),
        #[cfg(target_os = "linux")]
        Some("medium") => lend::run(arguments.next()),
        Some(name) => search::run(name, arguments),
        None => search::usage("which search?"),
    }
}
