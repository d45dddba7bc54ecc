//! Recovery that is crashed at each of its own calls, and the recovery of that, and once more: what is found in the end is what one
//! undisturbed recovery finds.

use std::collections::HashSet;

use fastrand::Rng;
use highwater_engine::disk::simulated::{Call, Fate, Interruption};

use super::super::model::Found;
use super::super::trial::{Planned, Trial, Violation};
use super::{Bad, Bounds, Crash, Kind, Point, StateName, Table, judge, losses, told};

const DEPTH: usize = 3;
const DEPTHS: [Kind; DEPTH] =
    [Kind::RecoveryCrashedOnce, Kind::RecoveryCrashedTwice, Kind::RecoveryCrashedThrice];

/// Crashes the recovery of a state in all ways, up to the bound.
pub(super) fn enumerate(
    root: &Trial,
    name: &StateName,
    bounds: &Bounds,
    table: &mut Table,
) -> Result<(), Bad> {
    let mut search = Search {
        wanted: Wanted::of(root, name).map_err(|violation| (name.clone(), violation))?,
        left: bounds.deep_states_max,
        seen: HashSet::new(),
        rng: Rng::with_seed(name.seed),
        table,
    };
    // Each depth has its share, so that the first calls of the first recovery do not use up everything.
    let mut states = vec![(root.fork(0), name.clone(), false)];
    for depth in DEPTHS {
        search.left = bounds.deep_states_max / DEPTH;
        states = search.one_deeper(&states, depth)?;
    }
    Ok(())
}

/// What is to be found however often recovery is crashed.
pub(super) struct Wanted {
    undisturbed: Vec<Found>,
    survives_power: bool,
}

impl Wanted {
    /// What one undisturbed recovery finds of a state, which has the beginning of this name.
    pub(super) fn of(root: &Trial, name: &StateName) -> Result<Self, Violation> {
        let undisturbed = root.what_is_on(root.disk().fork(0));
        let undisturbed = undisturbed.map_err(|what| root.violation(what))?;
        // What a kill has left may be lost with the power when recovery is crashed; what a power loss has left is on the medium.
        let survives_power = matches!(name.points.first().map(|point| &point.crash), Some(Crash::Power(_)));
        Ok(Self { undisturbed, survives_power })
    }

    /// Judges a state that crashed recoveries have left, and compares.
    pub(super) fn check(&self, state: &Trial, lost_power: bool) -> Result<(), Violation> {
        judge(state, false)?;
        if lost_power && !self.survives_power {
            return Ok(());
        }
        let found = state.what_is_on(state.disk().fork(0));
        let is_same = found.and_then(|found| {
            if found == self.undisturbed {
                return Ok(());
            }
            Err(format!("undisturbed recovery finds {:?}, and this one {found:?}", self.undisturbed))
        });
        told(is_same, state)
    }
}

struct Search<'a> {
    wanted: Wanted,
    left: usize,
    seen: HashSet<(u64, String)>,
    rng: Rng,
    table: &'a mut Table,
}

/// A crashed recovery, its name, and whether the power was lost on the way.
type Crashed = (Trial, StateName, bool);

impl Search<'_> {
    /// The states that are one crash of recovery further, each judged.
    fn one_deeper(&mut self, states: &[Crashed], depth: Kind) -> Result<Vec<Crashed>, Bad> {
        let mut points = Vec::new();
        for (trial, name, lost_power) in states {
            for call in calls(trial).map_err(|violation| (name.clone(), violation))? {
                for interruption in [Interruption::Undone, Interruption::Done] {
                    points.push((trial, name, *lost_power, (call.number, interruption)));
                }
            }
        }
        // In any order: where the bound comes first, the last calls of a recovery are tried as often as its first ones.
        self.rng.shuffle(&mut points);
        let mut next = Vec::new();
        for (trial, name, lost_power, point) in points {
            if self.left == 0 {
                break;
            }
            self.crash(trial, name, lost_power, point, depth, &mut next)?;
        }
        Ok(next)
    }

    fn crash(
        &mut self,
        trial: &Trial,
        name: &StateName,
        lost_power: bool,
        (call, interruption): (u64, Interruption),
        depth: Kind,
        next: &mut Vec<Crashed>,
    ) -> Result<(), Bad> {
        let named = |crash| {
            let mut name = name.clone();
            name.points.push(Point { call, interruption, crash });
            name
        };
        let mut down = trial.fork(0);
        let at = Point { call, interruption, crash: Crash::Kill };
        crash_recovery(&mut down, &at).map_err(|violation| (named(Crash::Kill), violation))?;
        let units = down.disk().unsynced();
        let count = units.len();
        let mut crashes = vec![
            Crash::Kill,
            Crash::Power(vec![Fate::Older(0); count]),
            Crash::Power(vec![Fate::Kept; count]),
        ];
        crashes.extend((0..2.min(count)).map(|_| Crash::Power(losses::by_chance(&units, &mut self.rng))));
        for crash in crashes {
            let mut state = down.fork(0);
            let before = state.counters();
            state.end_as(&crash);
            if self.left == 0 || !self.seen.insert(state.digest()) {
                continue;
            }
            self.left -= 1;
            let mut kinds = Kind::of_loss(&before, &state.counters());
            kinds.push(depth);
            self.table.count_of_a_recovery(&kinds);
            let lost_power = lost_power || matches!(crash, Crash::Power(_));
            let name = named(crash);
            self.wanted.check(&state, lost_power).map_err(|violation| (name.clone(), violation))?;
            next.push((state, name, lost_power));
        }
        Ok(())
    }
}

/// The calls of a recovery that change something.
fn calls(trial: &Trial) -> Result<Vec<Call>, Violation> {
    let disk = trial.disk().fork(0);
    disk.take_calls();
    let opened = trial.what_is_on(disk.clone()).map(drop);
    told(opened, trial)?;
    let mut calls = disk.take_calls();
    calls.retain(|call| call.kind.is_change());
    Ok(calls)
}

/// Recovery comes to a crash, which is not decided yet.
pub(super) fn crash_recovery(trial: &mut Trial, point: &Point) -> Result<(), Violation> {
    trial.plan(Planned::Crash { call: point.call, interruption: point.interruption });
    trial.open()?;
    trial.drop_store();
    Ok(())
}
