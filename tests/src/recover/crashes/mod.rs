//! Every crash of every scene: at each boundary between two calls of the disk, and inside of writes, each legal loss of what is not synced,
//! up to a bound; then recovery is judged, is crashed itself at each of its own calls, up to three times, and judged again.
//!
//! ```text
//! scene ──> one run to find its calls ──> one run for each call, which ends there ──> units of loss
//!                                                          kill, and each list of fates ──> state ──> recovery ──> model
//!                                                                                             └──> crashed recovery, three deep
//! ```
//! States that no call can tell apart, under the same promises, are one state, and are counted once. A state has a name that makes it again.

#[cfg(test)]
mod crashes_test;
mod deep;
mod losses;
mod name;
mod table;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use highwater_engine::Rules;
use highwater_engine::disk::Disk as _;
use highwater_engine::disk::simulated::{Call, CallKind, Interruption, Unsynced};

use super::scene::{Scene, scenes};
use super::step::{Content, Step};
use super::trial::{Planned, Trial, Verdict, Violation};
use losses::losses;
pub use name::{Crash, Point, StateName, StateNameError};
pub use table::{Kind, Table};

/// How far the enumeration goes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// About how many states there are of one scene. They are spread over its boundaries; each has a kill, a loss of everything and
    /// one of nothing in any case.
    pub scene_states: usize,
    /// Of so many states one has its recovery crashed.
    pub deep_one_in: u64,
    /// Crashed recoveries of one such state.
    pub deep_states_max: usize,
    /// All, except in tests of this test.
    pub rules: Rules,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { scene_states: 4_000, deep_one_in: 400, deep_states_max: 300, rules: Rules::default() }
    }
}

/// What went wrong in a state, and how to make the state again.
#[derive(Clone, Debug)]
pub struct BadState {
    /// Its name.
    pub name: StateName,
    /// What does not hold.
    pub violation: Violation,
}

impl std::fmt::Display for BadState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "state '{}'", self.name)?;
        write!(f, "{}", self.violation)
    }
}

/// The names of all scenes.
pub fn scene_names() -> Vec<&'static str> {
    scenes().iter().map(|scene| scene.name).collect()
}

/// Enumerates the crashes of one scene.
pub fn enumerate(scene: &str, seed: u64, bounds: &Bounds) -> Result<Table, Box<BadState>> {
    let scene = Scene::of(scene).expect("the name is one of scene_names");
    let mut enumeration = Enumeration {
        name: StateName { scene: scene.name.to_owned(), seed, points: Vec::new() },
        scene,
        bounds: *bounds,
        seen: HashSet::new(),
        table: Table::default(),
        rng: Rng::with_seed(seed),
    };
    match enumeration.run() {
        Ok(()) => Ok(enumeration.table),
        Err((name, violation)) => Err(Box::new(BadState { name, violation })),
    }
}

/// Makes one state again and judges it.
pub fn replay(name: &StateName, rules: Rules) -> Result<(), Box<BadState>> {
    let bad = |violation| Box::new(BadState { name: name.clone(), violation });
    let nothing = |what: &str| Violation { what: what.to_owned(), story: Vec::new() };
    let Some(scene) = Scene::of(&name.scene) else { return Err(bad(nothing("there is no such scene"))) };
    let Some((first, later)) = name.points.split_first() else {
        let mut trial = scene.begin(name.seed, rules).map_err(bad)?;
        return scene.go_on(&mut trial).map_err(bad);
    };
    let mut trial = interrupted(&scene, name.seed, rules, first).map_err(bad)?;
    trial.end_as(&first.crash);
    let wanted = deep::Wanted::of(&trial, name).map_err(bad)?;
    for point in later {
        deep::crash_recovery(&mut trial, point).map_err(bad)?;
        trial.end_as(&point.crash);
    }
    if later.is_empty() {
        return judge(&trial, true).map_err(bad);
    }
    let lost_power = later.iter().any(|point| matches!(point.crash, Crash::Power(_)));
    wanted.check(&trial, lost_power).map_err(bad)
}

/// A scene that has come to a crash, which is not decided yet.
fn interrupted(scene: &Scene, seed: u64, rules: Rules, point: &Point) -> Result<Trial, Violation> {
    let mut trial = scene.begin(seed, rules)?;
    trial.plan(Planned::Crash { call: point.call, interruption: point.interruption });
    scene.go_on(&mut trial)?;
    trial.drop_store();
    Ok(trial)
}

/// Recovery gives what was promised, twice the same; and, if wanted, the log goes on.
fn judge(trial: &Trial, goes_on: bool) -> Result<(), Violation> {
    let judged = catch_unwind(AssertUnwindSafe(|| {
        let mut trial = trial.fork(1);
        if goes_on {
            trial.open_twice(&mut Rng::with_seed(1))?;
        }
        trial.open()?;
        if goes_on { use_it(&mut trial) } else { Ok(()) }
    }));
    judged.unwrap_or_else(|_| Err(trial.violation("it panicked".to_owned())))
}

/// What was recovered takes records, keeps them, and closes.
pub(super) fn use_it(trial: &mut Trial) -> Result<(), Violation> {
    trial.apply(&Step::Append(Content::plain(2, 50, 2_000)))?;
    trial.apply(&Step::WantDurable)?;
    for _ in 0..2 {
        trial.apply(&Step::Turn { wait: true, may_block: true })?;
    }
    trial.lose_power(Unsynced::Lost, &mut Rng::with_seed(2));
    trial.open()?;
    trial.apply(&Step::Reopen)
}

impl Trial {
    /// The crash is a kill, or a power loss with these fates.
    fn end_as(&mut self, crash: &Crash) {
        match crash {
            Crash::Kill => self.kill(&mut Rng::with_seed(3)),
            Crash::Power(fates) => self.lose_power_as(fates),
        }
    }

    /// Equal for states that are one state.
    fn digest(&self) -> (u64, String) {
        let mut promises = String::new();
        for model in self.models() {
            write!(
                promises,
                "{} {} {} {} {:?} {:?};",
                model.start, model.start_sure, model.written, model.durable, model.under_way, model.damaged
            )
            .expect("a string takes all");
        }
        write!(promises, "{:?} {:?} {}", self.ending, self.is_confirmed, self.is_mark_uncertain)
            .expect("a string takes all");
        (self.disk.digest(), promises)
    }
}

struct Enumeration {
    scene: Scene,
    name: StateName,
    bounds: Bounds,
    seen: HashSet<(u64, String)>,
    table: Table,
    rng: Rng,
}

type Bad = (StateName, Violation);

impl Enumeration {
    fn run(&mut self) -> Result<(), Bad> {
        let calls = self.calls().map_err(|violation| (self.name.clone(), violation))?;
        let at: Vec<_> =
            calls.iter().flat_map(|call| interruptions(call).into_iter().map(move |is| (call, is))).collect();
        // The state between two calls has the most ways to be lost; what an interrupted call adds to it is one thing.
        let weight = |interruption| if interruption == Interruption::Undone { 8 } else { 1 };
        let whole: usize = at.iter().map(|(_, interruption)| weight(*interruption)).sum();
        for (call, interruption) in at {
            let share = self.bounds.scene_states * weight(interruption) / whole.max(1);
            self.boundary(call.number, interruption, share)?;
        }
        Ok(())
    }

    /// The calls of the scene that change something, and the one behind the last.
    fn calls(&self) -> Result<Vec<Call>, Violation> {
        let mut trial = self.scene.begin(self.name.seed, self.bounds.rules)?;
        trial.disk().take_calls();
        self.scene.go_on(&mut trial)?;
        let mut calls = trial.disk().take_calls();
        calls.retain(|call| call.kind.is_change());
        let behind = trial.disk().next_call();
        drop(trial.disk().list(std::path::Path::new("/")));
        calls.push(Call { number: behind, kind: CallKind::List, path: "/".into() });
        Ok(calls)
    }

    fn boundary(&mut self, call: u64, interruption: Interruption, share: usize) -> Result<(), Bad> {
        let point = |crash| Point { call, interruption, crash };
        let at = point(Crash::Kill);
        let trial = interrupted(&self.scene, self.name.seed, self.bounds.rules, &at)
            .map_err(|violation| (self.named(at.clone()), violation))?;
        self.state(&trial, at, Kind::of_interruption(interruption))?;
        let units = trial.disk().unsynced();
        for fates in losses(&units, share, &mut self.rng) {
            let kinds = losses::kinds(&units, &fates);
            self.state(&trial, point(Crash::Power(fates)), kinds)?;
        }
        Ok(())
    }

    fn state(&mut self, trial: &Trial, point: Point, mut kinds: Vec<Kind>) -> Result<(), Bad> {
        let mut trial = trial.fork(0);
        let before = trial.counters();
        trial.end_as(&point.crash);
        if !self.seen.insert(trial.digest()) {
            return Ok(());
        }
        kinds.extend(Kind::of_loss(&before, &trial.counters()));
        self.table.count(self.scene.name, &kinds);
        let name = self.named(point);
        let is_chosen = self.table.states().is_multiple_of(self.bounds.deep_one_in);
        judge(&trial, is_chosen).map_err(|violation| (name.clone(), violation))?;
        if is_chosen {
            deep::enumerate(&trial, &name, &self.bounds, &mut self.table)?;
        }
        Ok(())
    }

    fn named(&self, point: Point) -> StateName {
        StateName { points: vec![point], ..self.name.clone() }
    }
}

/// What may become of a call when the crash comes in it.
fn interruptions(call: &Call) -> Vec<Interruption> {
    let mut all = vec![Interruption::Undone];
    if call.kind == CallKind::Write {
        all.extend([1, 61, 512, 4_096, 4_700].map(Interruption::Part));
    }
    if call.kind == CallKind::RemoveDirectory {
        all.extend([1, 2, 3].map(Interruption::Part));
    }
    if call.kind.is_change() {
        all.push(Interruption::Done);
    }
    all
}

/// For whoever wants to look at a verdict without a story.
pub(super) fn told(verdict: Verdict, trial: &Trial) -> Result<(), Violation> {
    verdict.map_err(|what| trial.violation(what))
}
