//! The scenes that are interrupted everywhere: for each operation of a log and of its directory, what comes before, and the part in which
//! every crash and every failing call is tried.

use std::time::Duration;

use highwater_engine::Rules;
use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::{CallKind, Completing, Fault, Unsynced};

use super::step::{Content, Step};
use super::trial::{Setting, Trial, Violation};
use super::wide::Wide;

/// One thing in a scene.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Do(Step),
    /// The process ends without a word, and the store is opened again.
    Kill,
    /// The machine goes, and the store is opened again.
    LosePower(Unsynced),
    /// From here on the disk completes when it is told to.
    Slowly,
    /// The next write of the log finds no room.
    FullOnce,
}

/// An operation, with a history.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) name: &'static str,
    before: Vec<Act>,
    during: Vec<Act>,
}

fn append(records: usize, bytes: i64) -> Act {
    Act::Do(Step::Append(Content::plain(records, bytes, 900 + bytes)))
}

fn of_a_producer(id: i64, first: i32) -> Act {
    Act::Do(Step::Append(Content::plain(2, 60, 950).of(id, first)))
}

const TURN: Act = Act::Do(Step::Turn { wait: true, may_block: true });
const WANT: Act = Act::Do(Step::WantDurable);
const CHECKPOINT: Act = Act::Do(Step::Checkpoint);
const SEAL: Act = Act::Do(Step::Seal);
const COMPACT: Act = Act::Do(Step::Wide(Wide::Compact { ceiling: i64::MAX, bytes_max: u64::MAX }));
const SYNC: Act = Act::Do(Step::Sync);
const EPOCH: Act = Act::Do(Step::BeginEpoch);

/// Something durable, then something written, in one segment.
fn short() -> Vec<Act> {
    vec![
        append(2, 300),
        of_a_producer(1, 0),
        TURN,
        WANT,
        TURN,
        TURN,
        append(2, 100),
        of_a_producer(1, 2),
        TURN,
    ]
}

/// Three segments in two epochs, the first ones sealed; the last batches are only written.
fn long() -> Vec<Act> {
    let mut acts =
        vec![of_a_producer(1, 0), append(1, 2_500), append(1, 2_600), append(1, 2_700), TURN, EPOCH];
    acts.extend([of_a_producer(2, 0), append(1, 2_500), append(2, 1_300), append(1, 2_400), TURN, SEAL]);
    acts.extend([WANT, TURN, TURN, CHECKPOINT, append(1, 1_900), of_a_producer(1, 2), append(3, 900), TURN]);
    acts
}

fn then(mut acts: Vec<Act>, more: impl IntoIterator<Item = Act>) -> Vec<Act> {
    acts.extend(more);
    acts
}

fn cut(to: i64) -> Vec<Act> {
    vec![Act::Do(Step::Truncate(to)), append(1, 70), TURN, WANT, TURN, TURN]
}

/// All scenes.
#[expect(clippy::too_many_lines, reason = "a list")]
pub(super) fn scenes() -> Vec<Scene> {
    let scene = |name, before, during| Scene { name, before, during };
    let retain = |after_ms| Act::Do(Step::Retention { ceiling: i64::MAX, after_ms });
    vec![
        scene("append", short(), vec![append(1, 10), TURN, append(2, 200), append(1, 30), TURN]),
        scene("append of large batches", short(), vec![append(2, 3_000), TURN, append(1, 9_000), TURN]),
        scene(
            "append that is under way",
            then(short(), [Act::Slowly]),
            vec![append(1, 5_000), TURN, append(1, 500), append(1, 5_000), TURN, TURN, WANT, TURN, TURN],
        ),
        scene(
            "append to two logs",
            then(short(), [Act::Do(Step::TurnTo(1)), append(1, 100), TURN]),
            vec![append(2, 400), Act::Do(Step::TurnTo(0)), append(1, 40), TURN, SYNC, CHECKPOINT],
        ),
        scene(
            "epoch start",
            short(),
            vec![EPOCH, append(1, 50), TURN, EPOCH, EPOCH, append(1, 60), TURN, WANT, TURN, TURN],
        ),
        scene(
            "roll",
            long(),
            vec![append(1, 5_000), append(1, 2_600), TURN, append(1, 6_000), append(1, 100), TURN],
        ),
        scene(
            "seal",
            then(long(), [append(1, 7_000), append(1, 2_000), TURN]),
            vec![SEAL, append(1, 20), TURN, WANT, TURN, TURN],
        ),
        scene(
            "compaction",
            then(long(), [append(1, 7_000), append(1, 2_000), TURN, SEAL, CHECKPOINT]),
            vec![COMPACT, append(1, 20), TURN, WANT, TURN, TURN],
        ),
        scene("flush", long(), vec![WANT, TURN, TURN, append(1, 90), TURN, WANT, TURN, TURN]),
        scene(
            "background sync",
            then(long(), [append(1, 6_500), append(1, 500), TURN]),
            vec![SYNC, Act::Do(Step::DueJobs { after_ms: 90_000 }), append(1, 40), TURN, SYNC],
        ),
        scene(
            "checkpoint",
            then(long(), [WANT, TURN, TURN, Act::Do(Step::RaiseStart(3))]),
            vec![CHECKPOINT, append(1, 30), TURN, CHECKPOINT, SYNC, CHECKPOINT],
        ),
        scene("truncation in the last segment", long(), cut(14)),
        scene("truncation in a sealed segment", long(), cut(4)),
        scene(
            "truncation over several segments",
            then(long(), [append(1, 8_000), append(1, 8_000), TURN]),
            cut(6),
        ),
        scene("truncation to nothing", long(), cut(0)),
        scene("restart", long(), vec![Act::Do(Step::RestartAt(40)), append(1, 70), TURN, WANT, TURN, TURN]),
        scene(
            "retention by size",
            then(long(), [append(1, 8_000), append(1, 8_000), append(1, 50), TURN, SEAL]),
            vec![retain(1), append(1, 60), TURN],
        ),
        scene(
            "retention by time",
            then(long(), [WANT, TURN, TURN]),
            vec![retain(500_000), append(1, 60), TURN, SYNC],
        ),
        scene(
            "delete-records",
            long(),
            vec![
                Act::Do(Step::RaiseStart(9)),
                CHECKPOINT,
                Act::Do(Step::RaiseStart(13)),
                retain(1),
                CHECKPOINT,
            ],
        ),
        scene(
            "repair",
            then(long(), [WANT, TURN, TURN, SEAL, Act::Do(Step::Reopen), Act::Do(Step::Rot { batch: 1 })]),
            vec![
                Act::Do(Step::Examine { segment: 0 }),
                append(1, 80),
                TURN,
                Act::Do(Step::Repair),
                append(1, 20),
                TURN,
            ],
        ),
        scene("shutdown", long(), vec![Act::Do(Step::Reopen), append(1, 40), TURN, Act::Do(Step::Reopen)]),
        scene("start-up after a kill", long(), vec![Act::Kill, append(1, 40), TURN, WANT, TURN, TURN]),
        scene(
            "start-up after a power loss",
            then(long(), [append(1, 8_000), append(1, 3_000), TURN]),
            vec![Act::LosePower(Unsynced::Chosen), append(1, 40), TURN, WANT, TURN, TURN],
        ),
        scene("creation", short(), vec![Act::Do(Step::TurnTo(1)), append(1, 100), TURN, WANT, TURN, TURN]),
        scene(
            "deletion",
            then(
                long(),
                [
                    Act::Do(Step::RaiseStart(9)),
                    CHECKPOINT,
                    Act::Do(Step::TurnTo(1)),
                    append(1, 30),
                    TURN,
                    Act::Do(Step::TurnTo(0)),
                ],
            ),
            vec![
                Act::Do(Step::Delete),
                Act::Do(Step::Make),
                append(1, 45),
                TURN,
                WANT,
                TURN,
                TURN,
                append(1, 46),
                TURN,
            ],
        ),
        scene(
            "a log that is opened again",
            then(long(), [Act::FullOnce, append(1, 700), TURN]),
            vec![Act::Do(Step::ReopenLog), EPOCH, append(1, 40), TURN, WANT, TURN, TURN],
        ),
        scene(
            "producers",
            then(short(), [of_a_producer(3, 0), of_a_producer(1, 4)]),
            vec![
                append(1, 8_000),
                of_a_producer(3, 2),
                TURN,
                SEAL,
                Act::Kill,
                of_a_producer(1, 6),
                TURN,
                Act::Do(Step::Reopen),
            ],
        ),
        scene(
            "reads of what is not in memory",
            then(long(), [Act::Do(Step::Reopen)]),
            vec![
                read(0),
                read(6),
                Act::Do(Step::Find { time: 3_300, ceiling: 99 }),
                Act::Do(Step::FindNewest { ceiling: 99 }),
                read(15),
            ],
        ),
    ]
}

fn setting(seed: u64, rules: Rules) -> Setting {
    let mut setting = Setting { rules, ..Setting::default() };
    let pick = |of: [u32; 3]| of[usize::try_from(seed % 3).unwrap_or(0)];
    setting.log.segment_bytes_max = pick([8_192, 4_000, 12_000]);
    setting.log.index_interval_bytes = pick([300, 1, 2_000]);
    setting.log.retention_bytes = Some(9_000);
    setting.log.retention_age = Some(Duration::from_secs(300));
    setting
}

fn read(from: i64) -> Act {
    Act::Do(Step::Read { from, ceiling: i64::MAX, bytes_max: 4_000, at_least_one: true })
}

impl Scene {
    /// The scene of a name.
    pub(super) fn of(name: &str) -> Option<Self> {
        scenes().into_iter().find(|scene| scene.name == name)
    }

    /// Plays the part before, on a new disk of this seed, which also decides how large segments and how dense indexes are.
    pub(super) fn begin(&self, seed: u64, rules: Rules) -> Result<Trial, Violation> {
        let mut trial = Trial::new(SimulatedDisk::new(seed), setting(seed, rules));
        trial.open()?;
        trial.confirm();
        for act in &self.before {
            trial.act(act)?;
        }
        // Nothing is to fail any more that belongs to the scene.
        trial.trouble = false;
        Ok(trial)
    }

    /// Plays on until the end, or until nothing more can be done.
    pub(super) fn go_on(&self, trial: &mut Trial) -> Result<(), Violation> {
        for act in &self.during {
            if trial.is_down() || !trial.is_open() {
                break;
            }
            trial.act(act)?;
        }
        Ok(())
    }
}

impl Trial {
    fn act(&mut self, act: &Act) -> Result<(), Violation> {
        let mut rng = fastrand::Rng::with_seed(7);
        match act {
            Act::Do(step) => return self.apply(step),
            Act::Slowly => self.disk().set_completing(Completing::WhenTold),
            Act::FullOnce => {
                self.trouble = true;
                self.disk.fail_next(CallKind::Write, Fault::NoSpace);
            }
            Act::Kill => {
                self.kill(&mut rng);
                self.arm();
                return self.open();
            }
            Act::LosePower(unsynced) => {
                self.lose_power(*unsynced, &mut rng);
                self.arm();
                return self.open();
            }
        }
        Ok(())
    }
}
