//! Opens the store of a trial and judges what is found: each log against its model, and what recovery says against what happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fastrand::Rng;
use highwater_engine::disk::{Disk, SimulatedDisk};
use highwater_engine::log::Log;
use highwater_engine::recovery::{Plan, SuspectReason};
use highwater_engine::store::{
    LogReport, Machine, OpenReport, Opened, OpeningPlan, OpeningProgress, Stop, Store, StoreOpenError,
};
use highwater_engine::units::TopicPartition;

use super::doors::{Door, asked, told};
use super::model::{Ending, Found, UnderWay};
use super::open::{check_lookups, everything};
use super::several::topic;
use super::transactions::check_unstable;
use super::trial::{Open, Trial, Verdict, Violation};

/// How a trial may end in which the recovery points could not be read once: what a crash has left is then told from damage no more, so that
/// it counts as damage, and the replica is suspect. That is right, and the model has nothing more to say.
const POINTS_UNKNOWN: &str = "the recovery points could not be read";

impl Violation {
    /// Whether a trial has ended early, and nothing is wrong.
    pub(super) fn is_an_early_end(&self) -> bool {
        self.what == POINTS_UNKNOWN
    }
}

impl Trial {
    /// Opens the store, makes the log if it is not there, and compares what is found with the model. Without a crash or an injected error
    /// it must succeed.
    pub fn open(&mut self) -> Result<(), Violation> {
        self.tell("open");
        self.try_open().map_err(|what| self.violation(what))
    }

    fn open_store(&self, disk: Arc<dyn Disk>) -> Result<Opened, String> {
        let (config, now) = (self.store_config(), self.now());
        let opened = if self.others.is_empty() {
            asked(Door::StoreOpen, Store::open(disk, &self.directory, config, now))
        } else {
            let most = AtomicUsize::new(0);
            let watch = |progress: OpeningProgress| {
                most.fetch_max(progress.done, Ordering::Relaxed);
            };
            let opened = Store::open_watched(disk, &self.directory, config, now, &watch);
            let opened = asked(Door::StoreOpenWatched, opened);
            let logs = opened.as_ref().map_or(0, |opened| opened.report.logs.len());
            if most.into_inner() < logs {
                return Err(format!("{logs} logs were opened, and not all were told of"));
            }
            opened
        };
        opened.map_err(|error| error.to_string())
    }

    fn try_open(&mut self) -> Verdict {
        let opened = match self.open_store(self.any_disk()) {
            Ok(opened) if !self.disk.is_down() => Some(opened),
            Ok(_) => None,
            Err(error) => {
                self.excuse(&format!("opening failed: {error}"))?;
                None
            }
        };
        let Some(Opened { store, mut report }) = opened else {
            self.is_mark_uncertain |= self.ending == Ending::Clean;
            self.is_confirmed = None;
            return Ok(());
        };
        // What is looked at from here on is not part of the life.
        let was_trouble = self.trouble;
        if was_trouble {
            // A lock file that cannot be read is one of another machine, and a mark that cannot be is none.
            self.is_confirmed = None;
            self.is_mark_uncertain |= self.ending == Ending::Clean;
        }
        self.settle();
        if let Some((_, why)) = report.refused.first() {
            if !was_trouble {
                return Err(format!("a log was left alone: {why}"));
            }
            self.tell(format!("  a log was left alone: {why}"));
            self.open_again(&store, &mut report)?;
        }
        let context = |what: String| format!("{what}\n{:?}, {:?} machine", report.stop, report.machine);
        let mut log = None;
        let number = self.number;
        self.each_log(Some(&store), |trial| {
            trial.tickets.clear();
            let found = trial.judge_log(&store, &report, was_trouble)?;
            if trial.number == number {
                log = found;
            }
            Ok(())
        })?;
        let Some(log) = log else {
            self.trouble = was_trouble;
            return self.make_log(store);
        };
        self.check_report(&report).map_err(context)?;
        let told = report.stop != Stop::Unclean || report.machine == Machine::Same;
        let told = told && self.other_disk.is_none();
        self.is_confirmed = if told { Some(true) } else { self.is_confirmed };
        self.is_mark_uncertain = false;
        self.check_watermarks(&store).map_err(context)?;
        self.open = Some(Open { store: store.clone(), log });
        self.ending = Ending::Kill;
        self.each_log(Some(&store), Self::look).map_err(context)?;
        self.arm();
        Ok(())
    }

    /// What was left alone because it could not be read can be read by now.
    fn open_again(&self, store: &Store, report: &mut OpenReport) -> Verdict {
        for (path, _) in std::mem::take(&mut report.refused) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let number = name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(0);
            let name = TopicPartition::new("t", number).map_err(|error| error.to_string())?;
            let left_alone = told(Door::StoreLeftAlone, store.left_alone());
            if !left_alone.iter().any(|(known, _)| *known == name) {
                return Err(format!("{name} was left alone, and is not among {left_alone:?}"));
            }
            match asked(Door::StoreReopenLog, store.reopen_log(&name, self.now())) {
                Ok(Some(log)) => report.logs.push(log),
                other => return Err(format!("{name} was left alone, and then {other:?}")),
            }
        }
        Ok(())
    }

    /// One log against its model; `None` if it is not there and need not be.
    fn judge_log(
        &mut self,
        store: &Store,
        report: &OpenReport,
        was_trouble: bool,
    ) -> Result<Option<Log>, String> {
        let Some(log) = told(Door::StoreLog, store.log(&self.name())) else {
            if self.is_made {
                return Err(format!("the log is gone: {report:?}"));
            }
            self.model = super::Model { epoch: self.model.epoch, ..super::Model::default() };
            return Ok(None);
        };
        let found = report.logs.iter().find(|found| found.name == self.name());
        let found = found.ok_or("a log is open that was not reported")?;
        let context =
            |what: String| format!("{what}\n{:?}, {:?} machine, {}", report.stop, report.machine, found.plan);
        self.is_made = true;
        if self.model.under_way == Some(UnderWay::Delete) {
            // It goes as a whole or not at all.
            self.model.under_way = None;
        }
        // Of a checkpoint that cannot be read nothing is known.
        let is_unknown = was_trouble && found.recovery_point.is_none();
        let may_suspect = is_unknown || self.model.may_begin_anew();
        if is_unknown && found.suspect && !found.plan.damaged.is_empty() {
            return Err(POINTS_UNKNOWN.to_owned());
        }
        self.judge_found(store, &log, report, found, may_suspect).map_err(context)?;
        Ok(Some(log))
    }

    fn judge_found(
        &mut self,
        store: &Store,
        log: &Log,
        report: &OpenReport,
        found: &LogReport,
        may_suspect: bool,
    ) -> Verdict {
        let is = everything(store, log)?;
        let may_be_damaged = self.model.damaged.is_some();
        self.model.survive(self.ending, &is)?;
        check_log_report(report, found, may_suspect, may_be_damaged)?;
        self.model.durable = told(Door::LogDurable, log.durable()).value();
        self.model.check_epochs(&is.epochs, false)?;
        if self.model.damaged.is_some() {
            return Ok(());
        }
        self.model.check_producers(&producers(log))?;
        check_unstable(log, &self.model, self.model.end)?;
        check_lookups(store, log, &self.model)?;
        self.check_files(&self.model, true)
    }

    pub(super) fn make_log(&mut self, store: Store) -> Verdict {
        self.watermarks.forget();
        let made = store.create_log(&self.name(), topic(), self.setting.log.clone(), self.now());
        match asked(Door::StoreCreateLog, made) {
            Ok(log) => {
                self.is_made = true;
                self.model.under_way = None;
                self.is_confirmed = if self.open.is_some() { self.is_confirmed } else { None };
                self.is_mark_uncertain = false;
                self.open = Some(Open { store, log });
                self.ending = Ending::Kill;
                Ok(())
            }
            Err(error) => self.excuse(&format!("the log could not be made: {error}")),
        }
    }

    /// What recovery says of how the last life ended must fit to what happened.
    fn check_report(&self, report: &OpenReport) -> Verdict {
        let is_clean = report.stop == Stop::Clean;
        if is_clean != (self.ending == Ending::Clean) && !self.is_mark_uncertain {
            return Err(format!("after {:?} the stop is called {:?}", self.ending, report.stop));
        }
        let is_same = report.machine == Machine::Same;
        if self.is_confirmed.is_some_and(|confirmed| confirmed != is_same) {
            return Err(format!("the machine is called {:?}", report.machine));
        }
        Ok(())
    }

    /// Opens twice on a copy of the disk: what the first opening leaves is what the second finds.
    pub fn open_twice(&mut self, rng: &mut Rng) -> Result<(), Violation> {
        let twin = self.disk.fork(rng.u64(..));
        // A crash that is meant for the trial does not come in what is compared.
        twin.crash_at(u64::MAX);
        self.compare_openings(&twin, rng).map_err(|what| self.violation(what))
    }

    fn compare_openings(&self, twin: &SimulatedDisk, rng: &mut Rng) -> Verdict {
        let planned =
            Store::plan_opening(Arc::new(twin.clone()), &self.directory, self.store_config(), self.now());
        let planned = asked(Door::StorePlanOpening, planned);
        let Opened { store, report } = self.open_store(Arc::new(twin.clone()))?;
        let is_damaged = self.models().any(|model| model.damaged.is_some());
        check_plan(planned, &report, is_damaged)?;
        let first = everything_in(&store)?;
        drop(store);
        let second = self.what_is_on(twin.crash_kill(rng))?;
        if first == second { Ok(()) } else { Err(format!("opened twice: {first:?}, then {second:?}")) }
    }

    /// What an opening finds of each log on a disk, which it changes.
    pub(super) fn what_is_on(&self, disk: SimulatedDisk) -> Result<Vec<Found>, String> {
        let Opened { store, .. } = self.open_store(Arc::new(disk))?;
        everything_in(&store)
    }
}

fn everything_in(store: &Store) -> Result<Vec<Found>, String> {
    let logs = told(Door::StoreLogs, store.logs());
    logs.iter().map(|log| everything(store, log)).collect()
}

/// What was planned for an opening is what the opening did.
fn check_plan(
    planned: Result<OpeningPlan, StoreOpenError>,
    report: &OpenReport,
    is_damaged: bool,
) -> Verdict {
    let Ok(planned) = planned else {
        // There may be nothing yet of which a plan could be made.
        return if report.stop == Stop::FirstUse { Ok(()) } else { Err(format!("{planned:?}")) };
    };
    let plans: Vec<_> = planned.logs.iter().map(|(name, plan)| (name, plan.as_ref().ok().cloned())).collect();
    let plan = |log: &LogReport| if is_damaged { as_planned(log, &planned) } else { log.plan.clone() };
    let done: Vec<_> = report.logs.iter().map(|log| (&log.name, Some(plan(log)))).collect();
    if plans == done && (planned.stop, planned.machine) == (report.stop, report.machine) {
        return Ok(());
    }
    Err(format!("{planned:?} was planned, and {report:?} came of it"))
}

/// A log's plan without what the opening has met behind it, in segments that the note names or that producers' state is made from.
fn as_planned(log: &LogReport, planned: &OpeningPlan) -> Plan {
    let mut plan = log.plan.clone();
    let known = planned.logs.iter().filter(|(name, _)| *name == log.name);
    let known: Vec<_> = known.filter_map(|(_, plan)| plan.as_ref().ok()).flat_map(|p| &p.damaged).collect();
    let met: Vec<_> = plan
        .damaged
        .extract_if(.., |range| !known.contains(&&*range))
        .map(|range| SuspectReason::Damaged { offsets: range.offsets })
        .collect();
    plan.suspect.retain(|reason| !met.contains(reason));
    plan
}

/// What recovery says of a log must fit to what happened.
fn check_log_report(
    report: &OpenReport,
    log: &LogReport,
    may_suspect: bool,
    may_be_damaged: bool,
) -> Verdict {
    if may_be_damaged {
        // It need not have been looked at yet.
        let is_told = log.suspect || report.stop == Stop::Clean || report.machine == Machine::Same;
        return if is_told { Ok(()) } else { Err("nobody is suspect after a power loss".to_owned()) };
    }
    if !log.plan.damaged.is_empty() {
        return Err("a crash was taken for damage".to_owned());
    }
    let must_suspect = report.stop == Stop::Unclean && report.machine == Machine::OtherOrUnknown;
    // A restart that was interrupted has thrown records away that were wanted no more; it says so.
    if log.suspect != must_suspect && !(log.suspect && may_suspect) {
        return Err(format!("suspect is {} instead of {must_suspect}", log.suspect));
    }
    Ok(())
}

/// What a log knows of its producers: the last sequence and the last offset of each.
fn producers(log: &Log) -> Vec<(i64, i32, i64)> {
    let known = log.with_producers(|producers| {
        let known = producers.summaries().filter_map(|known| {
            let (_, sequence, _, last) = known.last_batch?;
            Some((known.id.value(), sequence.value(), last.value()))
        });
        known.collect()
    });
    told(Door::LogWithProducers, known)
}
