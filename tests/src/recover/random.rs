//! A trial that a seed or a fuzzer drives: lives of a store, each ended by a crash or a stop, each judged at the next opening.

use highwater_engine::disk::simulated::{Completing, Fault, SimulatedCounters, Tear, Unsynced};

use super::choices::Choices;
use super::play::{Line, Play};
use super::step::{Content, Step};
use super::trial::{Breadths, Setting, Trial, Violation};
use super::wide::Breadth;

/// Runs one trial. Gives what the disk did in it.
pub fn run(choices: &mut Choices, setting: Setting) -> Result<SimulatedCounters, Violation> {
    let mut play = begin(choices, setting);
    draw(&mut play, choices)
}

/// What these choices make, as far as it goes before something does not hold.
pub fn written_down(choices: &mut Choices, setting: Setting) -> Play {
    let mut play = begin(choices, setting);
    // How far it goes is what is asked for.
    drop(super::play::caught(|| draw(&mut play, choices)));
    play
}

fn begin(choices: &mut Choices, setting: Setting) -> Play {
    let mut generator = choices.generator();
    let disk_seed = generator.u64(..);
    let tear = if choices.once_in(2) { Tear::Pages } else { Tear::Sectors };
    let cold_percent = if choices.once_in(2) { 0 } else { 40 };
    let mut setting = vary(setting, choices);
    if generator.u8(..3) == 0 {
        setting.open_files_max = Some(generator.usize(1..4));
    }
    // Drawn by what comes behind all else here, so that the others are what they were.
    let is_broad = setting.breadth == Breadths::Drawn && generator.u8(..3) == 0;
    let breadth = if is_broad { Breadth::Everything { logs: generator.i32(1..=4) } } else { Breadth::OneLog };
    Play { disk_seed, tear, cold_percent, setting, breadth, lines: Vec::new() }
}

/// A trial and its play, which is written down before it is done.
struct Writing<'a> {
    trial: Trial,
    play: &'a mut Play,
}

impl Writing<'_> {
    fn write(&mut self, line: Line) -> Result<(), Violation> {
        let Play { lines, .. } = &mut *self.play;
        lines.push(line);
        lines.last().map_or(Ok(()), |line| line.perform(&mut self.trial))
    }
}

fn draw(play: &mut Play, choices: &mut Choices) -> Result<SimulatedCounters, Violation> {
    let mut writing = Writing { trial: play.begin(), play };
    for _ in 0..=choices.below(6) {
        live(&mut writing, choices)?;
        crash(&mut writing, choices)?;
        if choices.once_in(5) {
            let seed = choices.generator().u64(..);
            writing.write(Line::OpenTwice(seed))?;
        }
        if choices.are_used_up() {
            break;
        }
    }
    writing.write(Line::Open)?;
    writing.write(Line::Do(Step::Append(Content::plain(2, 20, 1_000))))?;
    writing.write(Line::Do(Step::Reopen))?;
    Ok(writing.trial.counters())
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

fn live(writing: &mut Writing<'_>, choices: &mut Choices) -> Result<(), Violation> {
    match choices.below(8) {
        0 | 1 => writing.write(Line::CrashAt(choices.below(50).unsigned_abs()))?,
        2 => fail(writing, choices, 50)?,
        _ => {}
    }
    writing.write(Line::Open)?;
    if !writing.trial.is_open() {
        return Ok(());
    }
    if !choices.once_in(5) {
        writing.write(Line::Confirm)?;
    }
    if choices.once_in(2) {
        writing.write(Line::Completing(Completing::WhenTold))?;
    }
    match choices.below(8) {
        0..=4 => {
            let range = [20, 100, 400][index(choices, 3)];
            writing.write(Line::CrashAt(choices.below(range).unsigned_abs()))?;
        }
        5 => fail(writing, choices, 300)?,
        _ => {}
    }
    for _ in 0..choices.below(90) {
        let step = draw_step(writing, choices);
        // A crash in the middle of a change of many files is rare otherwise.
        let is_long =
            matches!(step, Step::Truncate(_) | Step::RestartAt(_) | Step::Retention { .. } | Step::Seal);
        if is_long && choices.once_in(8) {
            writing.write(Line::CrashAt(choices.below(24).unsigned_abs()))?;
        }
        writing.write(Line::Do(step))?;
        let trial = &writing.trial;
        if trial.is_down() || !trial.is_open() || choices.are_used_up() {
            break;
        }
    }
    writing.write(Line::Completing(Completing::AtOnce))
}

fn draw_step(writing: &Writing<'_>, choices: &mut Choices) -> Step {
    let (model, now_ms) = (writing.trial.model(), writing.trial.time_ms());
    match writing.play.breadth {
        Breadth::Everything { .. } if !writing.trial.is_made => Step::Make,
        Breadth::Everything { logs } if choices.once_in(3) => Step::draw_wide(choices, model, logs, now_ms),
        Breadth::Everything { .. } | Breadth::OneLog => Step::draw(choices, model, now_ms),
    }
}

fn fail(writing: &mut Writing<'_>, choices: &mut Choices, range: i64) -> Result<(), Violation> {
    let fault = [Fault::Io, Fault::NoSpace, Fault::ShortWrite, Fault::NoDescriptors][index(choices, 4)];
    writing.write(Line::Fail(choices.below(range).unsigned_abs(), fault))
}

fn crash(writing: &mut Writing<'_>, choices: &mut Choices) -> Result<(), Violation> {
    let seed = choices.below(1 << 31).unsigned_abs();
    writing.write(match choices.below(8) {
        0..=3 => Line::Kill(seed),
        4 => Line::LosePower(Unsynced::Lost, seed),
        5 => Line::LosePower(Unsynced::Kept, seed),
        _ => Line::LosePower(Unsynced::Chosen, seed),
    })
}
