//! A trial that a seed or a fuzzer drives: lives of a store, each ended by a crash or a stop, each judged at the next opening.

use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::{Completing, Fault, SimulatedCounters, Tear, Unsynced};

use super::choices::Choices;
use super::step::{Content, Step};
use super::trial::{Setting, Trial, Violation};

/// What a job, an opening and a reader have open beside the files of segments that may be.
const OTHER_FILES: usize = 8;

/// Runs one trial. Gives what the disk did in it.
pub fn run(choices: &mut Choices, setting: Setting) -> Result<SimulatedCounters, Violation> {
    let mut generator = choices.generator();
    let disk = SimulatedDisk::new(generator.u64(..));
    disk.set_tear(if choices.once_in(2) { Tear::Pages } else { Tear::Sectors });
    disk.set_cold_percent(if choices.once_in(2) { 0 } else { 40 });
    let mut setting = vary(setting, choices);
    if generator.u8(..3) == 0 {
        setting.open_files_max = Some(generator.usize(1..4));
        disk.set_open_files_max(setting.open_files_max.map(|files| files + OTHER_FILES));
    }
    let mut trial = Trial::new(disk, setting);
    for _ in 0..=choices.below(6) {
        live(&mut trial, choices)?;
        crash(&mut trial, choices);
        if choices.once_in(5) {
            let mut rng = choices.generator();
            trial.open_twice(&mut rng)?;
        }
        if choices.are_used_up() {
            break;
        }
    }
    trial.open()?;
    trial.apply(&Step::Append(Content::plain(2, 20, 1_000)))?;
    trial.apply(&Step::Reopen)?;
    Ok(trial.counters())
}

fn vary(mut setting: Setting, choices: &mut Choices) -> Setting {
    let log = &mut setting.log;
    log.segment_bytes_max = [1_500, 8_192, 20_000][index(choices, 3)];
    log.index_interval_bytes = [1, 300, 4_096][index(choices, 3)];
    log.retention_bytes = choices.once_in(2).then_some(u64::from(log.segment_bytes_max) * 3);
    log.retention_age = choices.once_in(3).then_some(std::time::Duration::from_secs(40));
    setting
}

fn index(choices: &mut Choices, count: i64) -> usize {
    usize::try_from(choices.below(count)).unwrap_or(0)
}

fn live(trial: &mut Trial, choices: &mut Choices) -> Result<(), Violation> {
    match choices.below(8) {
        0 | 1 => trial.crash_at(choices.below(50).unsigned_abs()),
        2 => fail(trial, choices, 50),
        _ => {}
    }
    trial.open()?;
    if !trial.is_open() {
        return Ok(());
    }
    if !choices.once_in(5) {
        trial.confirm();
    }
    if choices.once_in(2) {
        trial.disk().set_completing(Completing::WhenTold);
    }
    match choices.below(8) {
        0..=4 => {
            let range = [20, 100, 400][index(choices, 3)];
            trial.crash_at(choices.below(range).unsigned_abs());
        }
        5 => fail(trial, choices, 300),
        _ => {}
    }
    for _ in 0..choices.below(90) {
        let step = Step::draw(choices, trial.model(), trial.time_ms());
        // A crash in the middle of a change of many files is rare otherwise.
        let is_long =
            matches!(step, Step::Truncate(_) | Step::RestartAt(_) | Step::Retention { .. } | Step::Seal);
        if is_long && choices.once_in(8) {
            trial.crash_at(choices.below(24).unsigned_abs());
        }
        trial.apply(&step)?;
        if trial.is_down() || !trial.is_open() || choices.are_used_up() {
            break;
        }
    }
    trial.disk().set_completing(Completing::AtOnce);
    Ok(())
}

fn fail(trial: &mut Trial, choices: &mut Choices, range: i64) {
    let fault = [Fault::Io, Fault::NoSpace, Fault::ShortWrite, Fault::NoDescriptors][index(choices, 4)];
    trial.fail(choices.below(range).unsigned_abs(), fault);
}

fn crash(trial: &mut Trial, choices: &mut Choices) {
    let mut rng = choices.generator();
    match choices.below(8) {
        0..=3 => trial.kill(&mut rng),
        4 => trial.lose_power(Unsynced::Lost, &mut rng),
        5 => trial.lose_power(Unsynced::Kept, &mut rng),
        _ => trial.lose_power(Unsynced::Chosen, &mut rng),
    }
    trial.disk().set_completing(Completing::AtOnce);
}
