//! The command line: what can be asked, and one line when it cannot be done. The work is elsewhere.

mod arguments;
mod commands;
mod run;

use std::process::ExitCode;

use clap::Parser;

pub use arguments::{
    Arguments, Bootstrap, BrokerCommand, BrokerOfThisMachine, CarryArguments, CatArguments,
    ClusterOfThisMachine, Command, ControllerCommand, ServeArguments, TopicsCommand,
};

/// What `main` does: reads the arguments, does what they say, prints one line about what went wrong.
///
/// Exit code 0: done. 1: it could not be done, and the line says why and what to do. 2: the arguments make no sense. `verify` has its own:
/// 1 if something was found, 2 if it could not be done.
pub fn main() -> ExitCode {
    match commands::run(Arguments::parse()) {
        Ok(code) => code,
        // Whoever read the output has seen enough.
        Err(commands::Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            use std::io::Write;
            let _nobody_reads = writeln!(std::io::stderr(), "highwater: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
