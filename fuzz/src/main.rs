//! Searches and enumerations from the command line.
//!
//! ```text
//! highwater-fuzz cluster            fresh seeds for a minute
//! highwater-fuzz cluster 17         just this seed
//! highwater-fuzz cluster --minutes 30
//! highwater-fuzz cluster --first 1 --runs 100
//!                                   this seed and those behind it, as many as that, however long it takes
//! highwater-fuzz recover            one log or a few, crashed at any call; prints how often each public call was made
//! highwater-fuzz crashes            every crash of every operation, 100,000 states at least
//! highwater-fuzz crashes --states 5000000 | --minutes 60
//! highwater-fuzz crashes --state 'NAME'
//!                                   just this state, by the name that a failure prints
//! highwater-fuzz damage             every byte of a small directory changed, each file cut at every length
//! highwater-fuzz exhaustive         every state of two and three replicas, within small bounds
//! highwater-fuzz exhaustive --replicas 3 --records 2 --kills 1
//! ```
//! What is found wrong is printed with what makes it again, and ends the run with exit code 1. What is searched lives in
//! `highwater-tests`; this is only its door.

mod crashes;
mod damage;
mod exhaustive;
mod search;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((name, rest)) if name == "crashes" => crashes::run(rest),
        Some((name, rest)) if name == "damage" => damage::run(rest),
        Some((name, rest)) if name == "exhaustive" => exhaustive::run(rest),
        Some((name, rest)) if search::names().any(|(known, _)| known == name) => search::run(name, rest),
        _ => {
            eprintln!("highwater-fuzz SEARCH [SEED] [--first SEED] [--minutes N | --runs N]");
            for (name, about) in search::names() {
                eprintln!("  {name:<10} {about}");
            }
            eprintln!("{}\n{}\n{}", crashes::USAGE, damage::USAGE, exhaustive::USAGE);
            ExitCode::from(2)
        }
    }
}
