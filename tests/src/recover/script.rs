//! A fixed script that does everything once, so that each of its calls can be made to crash or to fail, in turn.

use fastrand::Rng;
use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::{Fault, Unsynced};

use super::step::{Content, Step};
use super::trial::{Setting, Trial, Violation};

/// A kind of crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process.
    Kill,
    /// The machine.
    Power(Unsynced),
}

impl Crash {
    /// All of them.
    pub(super) const ALL: [Self; 4] =
        [Self::Kill, Self::Power(Unsynced::Lost), Self::Power(Unsynced::Kept), Self::Power(Unsynced::Chosen)];
}

/// Opening, appends, syncs, rolls, an epoch, a truncation, checkpoints, retention, a clean stop and what comes after.
fn script() -> Vec<Step> {
    let turn = Step::Turn { wait: false, may_block: false };
    let append = |records, bytes, ms| Step::Append(Content::plain(records, bytes, ms));
    vec![
        append(2, 300, 900),
        Step::Append(Content::plain(2, 40, 901).of(1, 0)),
        turn.clone(),
        Step::WantDurable,
        turn.clone(),
        append(1, 5_000, 950),
        append(3, 900, 960),
        turn.clone(),
        Step::BeginEpoch,
        Step::Append(Content::plain(1, 2_000, 970).of(1, 2)),
        Step::Replicate(vec![
            (Content::plain(2, 500, 980), 0, 0),
            (Content::plain(2, 1_500, 990), 0, 1),
            (Content::plain(1, 3_000, 991), 0, 0),
        ]),
        turn.clone(),
        Step::Seal,
        Step::Sync,
        Step::Checkpoint,
        append(2, 2_500, 995),
        append(2, 1_500, 996),
        turn.clone(),
        Step::Truncate(13),
        append(1, 700, 1_000),
        Step::Append(Content::plain(1, 2_000, 1_001).of(1, 3)),
        turn.clone(),
        Step::WantDurable,
        Step::Turn { wait: true, may_block: true },
        Step::RaiseStart(3),
        Step::Checkpoint,
        Step::Retention { ceiling: i64::MAX, after_ms: 1 },
        append(1, 100, 1_003),
        turn.clone(),
        Step::Reopen,
        append(2, 3_000, 1_010),
        append(2, 3_000, 1_011),
        turn.clone(),
        Step::Truncate(6),
        append(1, 50, 1_012),
        turn.clone(),
        Step::Retention { ceiling: i64::MAX, after_ms: 100_000 },
        Step::RestartAt(100),
        append(1, 60, 1_020),
        turn,
        Step::Checkpoint,
        Step::Reopen,
    ]
}

/// The setting of the script: small segments, little kept.
fn setting() -> Setting {
    let mut setting = Setting::default();
    setting.log.retention_bytes = Some(9_000);
    setting
}

/// Runs the script on a disk of this seed, prepared so, until it ends or the disk is down.
pub(super) fn play(seed: u64, prepare: impl FnOnce(&mut Trial)) -> Result<Trial, Violation> {
    let mut trial = Trial::new(SimulatedDisk::new(seed), setting());
    prepare(&mut trial);
    trial.open()?;
    if trial.is_open() {
        trial.confirm();
    }
    for step in script() {
        if trial.is_down() || !trial.is_open() {
            break;
        }
        trial.apply(&step)?;
    }
    Ok(trial)
}

/// How many calls the script makes.
pub(super) fn calls() -> Result<u64, Violation> {
    play(1, |_| {}).map(|trial| trial.disk().next_call())
}

/// The crash comes at this call; then the log is opened, used and opened again.
pub(super) fn crash_at(call: u64, crash: Crash) -> Result<(), Violation> {
    let mut trial = play(call, |trial| trial.crash_at(call))?;
    let mut rng = Rng::with_seed(call);
    match crash {
        Crash::Kill => trial.kill(&mut rng),
        Crash::Power(unsynced) => trial.lose_power(unsynced, &mut rng),
    }
    go_on(trial, &mut rng)
}

/// This call fails once; the script goes on as far as it can; then the process is killed, or the machine.
pub(super) fn fail_at(call: u64, fault: Fault, crash: Crash) -> Result<(), Violation> {
    let mut trial = play(1, |trial| trial.fail(call, fault))?;
    let mut rng = Rng::with_seed(call);
    match crash {
        Crash::Kill => trial.kill(&mut rng),
        Crash::Power(unsynced) => trial.lose_power(unsynced, &mut rng),
    }
    go_on(trial, &mut rng)
}

fn go_on(mut trial: Trial, rng: &mut Rng) -> Result<(), Violation> {
    trial.open_twice(rng)?;
    trial.open()?;
    trial.apply(&Step::Append(Content::plain(2, 50, 2_000)))?;
    trial.apply(&Step::WantDurable)?;
    trial.apply(&Step::Turn { wait: true, may_block: true })?;
    trial.lose_power(Unsynced::Lost, rng);
    trial.open()?;
    trial.apply(&Step::Reopen)
}
