//! Proves that recovery is right: one log, or a few, of a real store on a simulated disk that crashes at any call, each against a model of it.
//!
//! ```text
//! Choices (a seed, a fuzzer's bytes) ──> Step ──> Trial ──> Store on SimulatedDisk ──┐
//!                                                   └─────> Model ───── compared ────┤ after every step, at every opening
//! ```
//! What has to hold: a kill loses nothing that was written, a power loss nothing that was durable; what is left is a prefix of what was
//! attempted, byte for byte, in the reads and in the files; epochs are those of the batches; producers are answered by what the log
//! holds; lookups find what a walk finds; nobody sees above `written`; a crash is never taken for damage; opening twice finds the same.
//!
//! Nothing here changes the product: a trial calls what an embedder can call, and looks at the disk from behind.

pub mod batches;
mod beside;
mod choices;
pub mod crashes;
#[cfg(test)]
mod disks_test;
mod doors;
mod facts;
pub mod failures;
mod files;
mod judge;
mod model;
pub mod open;
mod perform;
mod play;
mod random;
#[cfg(test)]
mod random_test;
mod scene;
mod several;
mod shrink;
#[cfg(test)]
mod shrink_test;
mod step;
mod tickets;
mod transactions;
mod trial;
mod watching;
mod wide;

use highwater_engine::disk::simulated::SimulatedCounters;

pub use choices::Choices;
pub use doors::{Answers, Calls, Door, take_calls};
pub use model::{Batch, Ending, Expected, Found, Model, Sent, UnderWay};
pub use play::{Line, Play};
pub use random::{run, written_down};
pub use shrink::shrink;
pub use step::{Content, Step};
pub use tickets::Waiting;
pub use trial::{Breadths, Setting, Trial, Violation};
pub use wide::{Breadth, Wide};

/// Runs the trial of a seed.
pub fn run_seed(seed: u64, setting: Setting) -> Result<SimulatedCounters, Violation> {
    match run(&mut Choices::seeded(seed), setting) {
        Err(violation) if violation.is_an_early_end() => Ok(SimulatedCounters::default()),
        ran => ran,
    }
}

/// As [`run_seed`]; a panic of the product is a violation too.
pub fn run_seed_caught(seed: u64, setting: Setting) -> Result<SimulatedCounters, Violation> {
    play::caught(|| run_seed(seed, setting))
}

/// How the trial of a seed fails, in as few steps as were found to show it.
pub fn explain_seed(seed: u64, setting: Setting) -> String {
    let play = written_down(&mut Choices::seeded(seed), setting);
    match shrink(&play) {
        Some((short, violation)) => {
            format!("in {} of {} lines:\n{short}{}", short.lines.len(), play.lines.len(), violation.what)
        }
        None => "played again it does not fail".to_owned(),
    }
}
