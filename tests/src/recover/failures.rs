//! Each call of every scene fails once: with EIO, for want of room, in part, and as a sync whose pages are gone. What is said of it is an
//! error where something was made to fail, never a panic; what was promised holds in the process that goes on, after a kill, and after a
//! power loss; and a disk that is full costs the data directory nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fastrand::Rng;
use highwater_engine::Rules;
use highwater_engine::disk::simulated::{Call, CallKind, Fault, Unsynced};

use super::crashes::use_it;
use super::scene::{Scene, scenes};
use super::trial::{Planned, Trial, Violation};

/// The ways in which a call fails.
pub const FAULTS: [Fault; 5] =
    [Fault::Io, Fault::NoSpace, Fault::ShortWrite, Fault::NoDescriptors, Fault::PagesGone];

/// How a process ends in which a call has failed.
#[derive(Clone, Copy, Debug)]
enum End {
    Kill,
    Power(Unsynced),
}

/// What was tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Calls, each in each way that concerns it.
    pub failures: u64,
    /// Of these, those that ended the whole directory.
    pub directories_given_up: u64,
    /// Those that closed the log and left the directory.
    pub logs_closed: u64,
    /// Those after which everything went on.
    pub passed: u64,
    /// Those that ended the whole directory for want of room, by what was done to which kind of file. There have to be none.
    pub lost_to_a_full_disk: BTreeMap<String, u64>,
}

/// A failure that was not met as it should be.
#[derive(Clone, Debug)]
pub struct BadFailure {
    scene: &'static str,
    call: Call,
    fault: Fault,
    violation: Violation,
}

impl fmt::Display for BadFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Call { number, kind, path } = &self.call;
        writeln!(
            f,
            "{}: call {number}, {kind:?} of {}, fails: {:?}",
            self.scene,
            path.display(),
            self.fault
        )?;
        write!(f, "{}", self.violation)
    }
}

/// The names of the scenes.
pub fn scene_names() -> Vec<&'static str> {
    scenes().iter().map(|scene| scene.name).collect()
}

/// Fails each call of a scene once, in each way.
pub fn fail_everywhere(name: &str) -> Result<Tried, Box<BadFailure>> {
    let scene = Scene::of(name).expect("the name is one of scene_names");
    let mut tried = Tried::default();
    for call in calls(&scene).expect("a scene without a failure is right") {
        for fault in FAULTS {
            if fault == Fault::PagesGone && !is_sync(call.kind) {
                continue;
            }
            let one = catch_unwind(AssertUnwindSafe(|| fail_once(&scene, &call, fault, &mut tried)));
            let panicked = || Violation { what: "it panicked".to_owned(), story: Vec::new() };
            let one = one.unwrap_or_else(|_| Err(panicked()));
            if one.as_ref().is_err_and(Violation::is_an_early_end) {
                continue;
            }
            one.map_err(|violation| {
                Box::new(BadFailure { scene: scene.name, call: call.clone(), fault, violation })
            })?;
        }
    }
    Ok(tried)
}

fn calls(scene: &Scene) -> Result<Vec<Call>, Violation> {
    let mut trial = scene.begin(0, Rules::default())?;
    trial.disk().take_calls();
    scene.go_on(&mut trial)?;
    Ok(trial.disk().take_calls())
}

fn is_sync(kind: CallKind) -> bool {
    matches!(kind, CallKind::Sync | CallKind::SyncDirectory)
}

/// Whether a full disk can fail such a call. A sync that fails for want of room is a failed sync.
fn takes_room(kind: CallKind) -> bool {
    matches!(
        kind,
        CallKind::CreateFile
            | CallKind::CreateDirectory
            | CallKind::Write
            | CallKind::Rename
            | CallKind::Reserve
    )
}

fn fail_once(scene: &Scene, call: &Call, fault: Fault, tried: &mut Tried) -> Result<(), Violation> {
    let mut trial = scene.begin(0, Rules::default())?;
    trial.plan(Planned::Failure { call: call.number, fault });
    scene.go_on(&mut trial)?;
    tried.failures += 1;
    match trial.state_of_life() {
        Life::GivenUp if fault == Fault::NoSpace && takes_room(call.kind) => {
            let name = call.path.extension().or(call.path.file_name()).unwrap_or_default();
            let site = format!("{:?} of {}", call.kind, name.to_string_lossy());
            *tried.lost_to_a_full_disk.entry(site).or_default() += 1;
        }
        Life::GivenUp | Life::NotOpened => tried.directories_given_up += 1,
        Life::LogClosed => tried.logs_closed += 1,
        Life::Open => tried.passed += 1,
    }
    trial.drop_store();
    for end in
        [End::Kill, End::Power(Unsynced::Lost), End::Power(Unsynced::Kept), End::Power(Unsynced::Chosen)]
    {
        let mut trial = trial.fork(call.number);
        let mut rng = Rng::with_seed(call.number);
        match end {
            End::Kill => trial.kill(&mut rng),
            End::Power(unsynced) => trial.lose_power(unsynced, &mut rng),
        }
        trial.open_twice(&mut rng)?;
        trial.open()?;
        use_it(&mut trial)?;
    }
    Ok(())
}

/// What is left of a process in which a call has failed.
enum Life {
    /// The directory could not be opened.
    NotOpened,
    /// The directory is given up.
    GivenUp,
    /// The log is closed.
    LogClosed,
    /// Nothing has ended.
    Open,
}

impl Trial {
    fn state_of_life(&self) -> Life {
        let Some(open) = &self.open else { return Life::NotOpened };
        if open.store.failure().is_some() {
            Life::GivenUp
        } else if open.log.closed().is_some() {
            Life::LogClosed
        } else {
            Life::Open
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{fail_everywhere, scene_names};

    #[test]
    fn every_call_of_every_scene_fails_once() {
        assert!(scene_names().len() >= 20);
        let (names, next, wrong) = (scene_names(), AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                match fail_everywhere(name) {
                    Ok(tried) if tried.lost_to_a_full_disk.is_empty() => println!("{name}: {tried:?}"),
                    Ok(tried) => wrong.lock().unwrap().push(format!("{name}: {tried:?}")),
                    Err(bad) => wrong.lock().unwrap().push(bad.to_string()),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..std::thread::available_parallelism().map_or(1, std::num::NonZero::get) {
                scope.spawn(work);
            }
        });
        let wrong = wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    }
}
