//! Damages every byte of a small directory, on two threads, and prints what came of it.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use highwater_tests::damage::{Outcomes, Stop, Subject};

pub(crate) const USAGE: &str = "highwater-fuzz damage [ONE_IN]
  every byte of a directory of all kinds of files changed, and each file cut at every length; or of so many bytes one";

const THREADS: usize = 2;

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let one_in = arguments.first().map_or(Some(1), |text| text.parse().ok()).filter(|one_in| *one_in > 0);
    let Some(one_in) = one_in else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let subjects = [Stop::Clean, Stop::Kill, Stop::KillWithDamage].map(Subject::new);
    let files: Vec<(&Subject, usize)> = subjects
        .iter()
        .flat_map(|subject| (0..subject.files()).map(move |number| (subject, number)))
        .collect();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Outcomes::default());
    let work = || {
        while let Some((subject, number)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = subject.damage_file(*number, one_in);
            outcomes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(found);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    println!("{outcomes}");
    for what in outcomes.wrong() {
        println!("{what}\n");
    }
    if outcomes.wrong().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
