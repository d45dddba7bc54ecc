//! What threads share in the engine (tickets and who waits for them, the driver's turn, the marks, views and their generation), with
//! the order in which the threads run chosen by a seed instead of by a scheduler.
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo run --target-dir target/shuttle -p highwater-schedules [-- --schedules N] [--first SEED] [SCENARIO]
//! ```
//! Each scenario runs under random orders and under PCT, which looks for bugs that few changes of thread at the right moments make.
//! The disk is the simulated one, whose operations complete when somebody reaps them: threads never meet in the kernel, where nobody
//! could choose. Time on a real disk is the business of `highwater-soak`. A thread that waits for ever, a panic, or a wrong
//! record fails, and the schedule is printed for a replay. `loom` would go through all orders of a few atomics; a store has
//! hundreds of steps in each of these, so that orders are drawn.

#[cfg(shuttle)]
mod scenarios;
#[cfg(shuttle)]
mod world;

#[cfg(not(shuttle))]
fn main() -> std::process::ExitCode {
    eprintln!("this is to be built with RUSTFLAGS=\"--cfg shuttle\"");
    std::process::ExitCode::from(2)
}

#[cfg(shuttle)]
fn main() -> std::process::ExitCode {
    scenarios::run(std::env::args().skip(1))
}
