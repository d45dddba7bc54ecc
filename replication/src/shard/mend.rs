//! Logs that failed are opened again, and what replicas have to tell the controller of themselves is said until it is heard.
//!
//! ```text
//! a write fails -> the machine is offline -> while the cluster counts on the replica: resign, again and again
//!               -> nobody counts on it -> pause -> Job::Reopen -> a new machine follows, suspect until it is in the ISR
//! ```
//!
//! A log is opened again only when another epoch or another leader is known, because what recovery makes of the epoch in which offsets
//! were given out and not written must not be that epoch's a second time.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::log::LogId;
use highwater_engine::store::{Job, LogReport};
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, TopicId, TopicPartition};

use super::event::{News, Out};
use super::registration::{OnBehalf, report_of};
use super::{ReplicaKey, Shard};
use crate::controller::{ControllerReply, ControllerRequest, ResignCause};
use crate::partition::{Input, Partition, ResignReason, RoleName};

/// Before a failed log is opened again; doubled with each failure that follows soon.
const REOPEN_PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest of these pauses.
const REOPEN_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Between two tries to be heard.
const SAY_AGAIN: Duration = Duration::from_millis(500);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Mending {
    failed: BTreeMap<ReplicaKey, Reopening>,
    resignations: BTreeMap<ReplicaKey, Resignation>,
    /// Leaderships that could not be written down for want of room, and when it is tried again.
    beginnings: BTreeMap<ReplicaKey, (LeaderEpoch, Monotonic)>,
    /// Replicas that refuse to be cut, and when the controller is told next; `None` while a call is under way.
    refusals: BTreeMap<ReplicaKey, Option<Monotonic>>,
    /// Replicas about whose damage the controller is wrong, and when it is told next; `None` while a call is under way.
    misjudged: BTreeMap<ReplicaKey, Option<Monotonic>>,
    /// Replicas that are offline because their machines panicked, and when the controller is told next; `None` while a call is under way.
    panicked: BTreeMap<TopicPartition, (TopicId, Option<Monotonic>)>,
    /// When each log failed last, and how long the pause was then.
    pauses: BTreeMap<TopicPartition, (Monotonic, Duration)>,
}

/// How far a failed log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reopening {
    /// Not before this moment, and not while the cluster counts on the replica.
    From(Monotonic),
    /// The job runs.
    Underway,
    /// No opening helps: what failed was not a write.
    Never,
}

/// A replica gives up, and the controller may not know it yet.
#[derive(Clone, Copy, Debug)]
struct Resignation {
    epoch: LeaderEpoch,
    why: ResignCause,
    /// When it is said next; `None` while a call is under way.
    say_at: Option<Monotonic>,
}

impl Mending {
    pub(super) fn next_deadline(&self) -> Option<Monotonic> {
        let says = self.resignations.values().filter_map(|resignation| resignation.say_at);
        let opens = self.failed.values().filter_map(|reopening| match reopening {
            Reopening::From(at) => Some(*at),
            Reopening::Underway | Reopening::Never => None,
        });
        let proofs = self.refusals.values().copied().flatten();
        let integrity = self.misjudged.values().copied().flatten();
        let begins = self.beginnings.values().map(|(_, at)| *at);
        let panics = self.panicked.values().filter_map(|(_, say_at)| *say_at);
        says.chain(panics).chain(opens).chain(proofs).chain(integrity).chain(begins).min()
    }

    /// A replica is gone, and what was to be done about it.
    pub(super) fn forget(&mut self, key: ReplicaKey) {
        self.failed.remove(&key);
        self.resignations.remove(&key);
        self.refusals.remove(&key);
        self.beginnings.remove(&key);
        self.misjudged.remove(&key);
    }

    fn pause(&mut self, now: Monotonic, name: &TopicPartition) -> Duration {
        let soon = REOPEN_PAUSE_MAX.saturating_mul(2);
        let pause = match self.pauses.get(name) {
            Some((at, pause)) if now.since(*at) < soon => pause.saturating_mul(2).min(REOPEN_PAUSE_MAX),
            Some(_) | None => REOPEN_PAUSE_MIN,
        };
        self.pauses.insert(name.clone(), (now, pause));
        pause
    }
}

impl Shard {
    /// A log failed: it is to be opened again, unless its directory has failed, which is final.
    pub(super) fn log_failed(&mut self, now: Now, key: ReplicaKey) {
        let Some(replica) = self.replicas.get(&key) else { return };
        if self.store.failure().is_some() {
            self.mending.failed.insert(key, Reopening::Never);
        } else if !self.mending.failed.contains_key(&key) {
            let pause = self.mending.pause(now.monotonic, &replica.name);
            self.mending.failed.insert(key, Reopening::From(now.monotonic.after(pause)));
        }
    }

    pub(super) fn resign(&mut self, now: Now, key: ReplicaKey, epoch: LeaderEpoch, why: ResignReason) {
        let why = match why {
            ResignReason::LogFailed => ResignCause::LogFailed,
            ResignReason::SecondIncarnation => ResignCause::SecondIncarnation,
        };
        let say_at = Some(now.monotonic);
        self.mending.resignations.insert(key, Resignation { epoch, why, say_at });
    }

    /// Does what is due: says what was not heard, and has logs opened again.
    pub(super) fn mend(&mut self, now: Now) {
        self.say_refusals(now);
        self.say_integrity(now);
        self.resign_where_counted_on(now);
        self.say_resignations(now);
        self.say_panics(now);
        self.open_again(now);
        self.begin_epochs_again(now);
    }

    /// There was no room to write a leadership down. Until there is, nothing is appended in it.
    pub(super) fn begin_again(&mut self, now: Now, key: ReplicaKey, epoch: LeaderEpoch) {
        self.mending.beginnings.insert(key, (epoch, now.monotonic.after(SAY_AGAIN)));
    }

    fn begin_epochs_again(&mut self, now: Now) {
        let due: Vec<(ReplicaKey, LeaderEpoch)> = (self.mending.beginnings.iter())
            .filter(|(_, (_, at))| *at <= now.monotonic)
            .map(|(key, (epoch, _))| (*key, *epoch))
            .collect();
        for (key, epoch) in due {
            self.mending.beginnings.remove(&key);
            let machine = self.replicas.get(&key).map(|replica| &replica.machine);
            let leads = |machine: &Partition| {
                machine.role_name() == RoleName::Leader && machine.leader_epoch() == Some(epoch)
            };
            if machine.is_some_and(leads) {
                self.begin_epoch(now, key, epoch);
                self.step(now, key, Input::LogMoved);
            }
        }
    }

    /// A replica knows more to be committed than its leader has: that proves a loss that was only possible until now.
    pub(super) fn refused_to_cut(&mut self, now: Now, key: ReplicaKey) {
        self.mending.refusals.insert(key, Some(now.monotonic));
    }

    fn say_refusals(&mut self, now: Now) {
        let due: Vec<ReplicaKey> = (self.mending.refusals.iter())
            .filter(|(_, say_at)| say_at.is_some_and(|at| at <= now.monotonic))
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            let replica = self.replicas.get(&key).filter(|replica| replica.machine.refuses_to_cut());
            let Some((replica, epoch)) = replica.and_then(|it| Some((it, it.machine.leader_epoch()?))) else {
                self.mending.refusals.remove(&key);
                continue;
            };
            let report = ControllerRequest::Report(report_of(replica, epoch));
            let asked = self.link.ask(report, OnBehalf::Refusal { key });
            let say_at = asked.is_err().then(|| now.monotonic.after(SAY_AGAIN));
            self.mending.refusals.insert(key, say_at);
        }
    }

    pub(super) fn on_refusal_answered(&mut self, now: Now, key: ReplicaKey, reply: Option<&ControllerReply>) {
        if reply == Some(&ControllerReply::Heard) {
            // What follows from it comes with the view.
            self.mending.refusals.remove(&key);
        } else if let Some(say_at) = self.mending.refusals.get_mut(&key) {
            *say_at = Some(now.monotonic.after(SAY_AGAIN));
        }
    }

    /// The controller is wrong about the damage of a log: it is told until it says so itself.
    pub(super) fn report_integrity(&mut self, now: Now, key: ReplicaKey) {
        self.mending.misjudged.insert(key, Some(now.monotonic));
    }

    fn say_integrity(&mut self, now: Now) {
        let due: Vec<ReplicaKey> = (self.mending.misjudged.iter())
            .filter(|(_, say_at)| say_at.is_some_and(|at| at <= now.monotonic))
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            let integrity = self.replicas.get(&key).and_then(|it| it.look(Partition::integrity_to_report));
            let (Some(replica), Some(integrity)) = (self.replicas.get(&key), integrity) else {
                self.mending.misjudged.remove(&key);
                continue;
            };
            let (partition, topic_id) = (replica.name.clone(), replica.topic_id);
            let request = ControllerRequest::ReportIntegrity { partition, topic_id, integrity };
            let asked = self.link.ask(request, OnBehalf::Integrity { key });
            let say_at = asked.is_err().then(|| now.monotonic.after(SAY_AGAIN));
            self.mending.misjudged.insert(key, say_at);
        }
    }

    /// Whether it was heard is seen in what the controller says next.
    pub(super) fn on_integrity_answered(&mut self, now: Now, key: ReplicaKey) {
        if let Some(say_at) = self.mending.misjudged.get_mut(&key) {
            *say_at = Some(now.monotonic.after(SAY_AGAIN));
        }
    }

    /// A replica whose log failed must not count, whether it leads, is in sync, or could lead.
    fn resign_where_counted_on(&mut self, now: Now) {
        let failed: Vec<ReplicaKey> = self.mending.failed.keys().copied().collect();
        for key in failed {
            let Some(epoch) = self.counted_on(key) else { continue };
            let said = self.mending.resignations.get(&key);
            if said.is_none_or(|said| said.epoch != epoch || said.why != ResignCause::LogFailed) {
                self.resign(now, key, epoch, ResignReason::LogFailed);
            }
        }
    }

    fn say_resignations(&mut self, now: Now) {
        let due: Vec<(ReplicaKey, Resignation)> = (self.mending.resignations.iter())
            .filter(|(_, resignation)| resignation.say_at.is_some_and(|at| at <= now.monotonic))
            .map(|(key, resignation)| (*key, *resignation))
            .collect();
        for (key, resignation) in due {
            if !self.is_still_wanted(key, resignation) {
                self.mending.resignations.remove(&key);
                continue;
            }
            let Some(replica) = self.replicas.get(&key) else { continue };
            let Resignation { epoch, why, .. } = resignation;
            let (partition, topic_id) = (replica.name.clone(), replica.topic_id);
            let request = ControllerRequest::Resign { partition, topic_id, leader_epoch: epoch, why };
            let asked = self.link.ask(request, OnBehalf::Resignation { key, epoch, why });
            let say_at = asked.is_err().then(|| now.monotonic.after(SAY_AGAIN));
            self.mending.resignations.insert(key, Resignation { epoch, why, say_at });
        }
    }

    pub(super) fn on_resignation_answered(
        &mut self,
        now: Now,
        key: ReplicaKey,
        epoch: LeaderEpoch,
        why: ResignCause,
    ) {
        let Some(said) = self.mending.resignations.get_mut(&key) else { return };
        if said.epoch == epoch && said.why == why {
            said.say_at = Some(now.monotonic.after(SAY_AGAIN));
        }
    }

    /// The machine of a replica met a broken invariant: the replica is offline, and must not count. The next that the controller says of it
    /// makes another machine.
    pub(super) fn on_panicked(&mut self, now: Now, key: ReplicaKey, dump: String) {
        let Some(replica) = self.replicas.get(&key) else { return };
        let (name, id) = (replica.name.clone(), replica.topic_id);
        self.out.push(Out::News(News::Panicked { name: name.clone(), dump }));
        self.take_offline(key);
        // Not at once, so that a machine that panics whenever it is made does not keep anybody busy.
        self.mending.panicked.insert(name, (id, Some(now.monotonic.after(SAY_AGAIN))));
    }

    fn say_panics(&mut self, now: Now) {
        let due: Vec<(TopicPartition, TopicId)> = (self.mending.panicked.iter())
            .filter(|(_, (_, say_at))| say_at.is_some_and(|at| at <= now.monotonic))
            .map(|(name, (id, _))| (name.clone(), *id))
            .collect();
        for (partition, topic_id) in due {
            // Another machine speaks for itself.
            let is_gone = !self.by_name.contains_key(&partition);
            let epoch = self.is_counted_on(&partition, topic_id).filter(|_| is_gone);
            let Some(leader_epoch) = epoch else {
                self.mending.panicked.remove(&partition);
                continue;
            };
            let (name, why) = (partition.clone(), ResignCause::LogFailed);
            let request = ControllerRequest::Resign { partition, topic_id, leader_epoch, why };
            let asked = self.link.ask(request, OnBehalf::Panicked { name: name.clone() });
            let say_at = asked.is_err().then(|| now.monotonic.after(SAY_AGAIN));
            self.mending.panicked.insert(name, (topic_id, say_at));
        }
    }

    pub(super) fn on_panic_answered(&mut self, now: Now, name: &TopicPartition) {
        if let Some((_, say_at)) = self.mending.panicked.get_mut(name) {
            *say_at = Some(now.monotonic.after(SAY_AGAIN));
        }
    }

    /// Whether the controller, as far as this node knows, has not gone by it yet.
    fn is_still_wanted(&self, key: ReplicaKey, resignation: Resignation) -> bool {
        let Some(replica) = self.replicas.get(&key) else { return false };
        match resignation.why {
            ResignCause::LogFailed => self.counted_on(key) == Some(resignation.epoch),
            ResignCause::SecondIncarnation => {
                let partition = self.view.state().partition(&replica.name);
                partition.is_some_and(|partition| {
                    partition.leader == Some(self.config.node) && partition.leader_epoch == resignation.epoch
                })
            }
        }
    }

    /// The epoch in which the cluster counts on a replica of this node: it leads, is in sync, could lead, or what it reported could make
    /// it lead.
    fn counted_on(&self, key: ReplicaKey) -> Option<LeaderEpoch> {
        let replica = self.replicas.get(&key)?;
        self.is_counted_on(&replica.name, replica.topic_id)
    }

    fn is_counted_on(&self, name: &TopicPartition, topic: TopicId) -> Option<LeaderEpoch> {
        let partition = self.view.state().partition_of(topic, name)?;
        let node = self.config.node;
        let counts = partition.leader == Some(node)
            || partition.in_sync(node)
            || partition.reports.contains_key(&node)
            || (partition.eligible.contains(&node) && !partition.suspects.contains_key(&node));
        counts.then_some(partition.leader_epoch)
    }

    fn open_again(&mut self, now: Now) {
        let knows = self.link.session().is_some() && self.known.view_is_fresh();
        let due: Vec<ReplicaKey> = (self.mending.failed.iter())
            .filter(|(_, state)| matches!(state, Reopening::From(at) if *at <= now.monotonic))
            .map(|(key, _)| *key)
            .collect();
        for key in due {
            let Some(replica) = self.replicas.get(&key) else { continue };
            if !knows || self.counted_on(key).is_some() {
                self.mending.failed.insert(key, Reopening::From(now.monotonic.after(SAY_AGAIN)));
                continue;
            }
            self.out.push(Out::Job(Job::Reopen { log: replica.log.id(), now }));
            self.mending.failed.insert(key, Reopening::Underway);
        }
    }

    /// A failed log is open again: another machine takes over what the old one knew, and the controller's present word.
    pub(super) fn on_reopened(&mut self, now: Now, log: LogId, report: Option<LogReport>) {
        let Some(key) = self.by_log.get(&log).copied() else { return };
        let Some(replica) = self.replicas.get(&key) else { return };
        let (name, id) = (replica.name.clone(), replica.topic_id);
        let known = replica.machine.known_committed();
        let (Some(report), Some(log)) = (report, self.store.log(&name)) else {
            self.mending.failed.insert(key, Reopening::Never);
            return;
        };
        self.take_offline(key);
        self.out.push(Out::News(News::LogReopened { name: name.clone(), end: report.end }));
        self.known.reopened(report);
        let key = self.add_replica(now, &name, id, log, known);
        if let Some(assignment) = self.view.assignment(&name) {
            self.step(now, key, Input::Assigned(assignment));
        }
        self.settle(now);
        self.report_replicas();
    }

    /// A failed log could not be opened: again, later. A directory that has failed is not tried any more.
    pub(super) fn on_not_reopened(&mut self, now: Now, key: ReplicaKey, why: &str) {
        let Some(replica) = self.replicas.get(&key) else { return };
        let name = replica.name.clone();
        self.mending.failed.remove(&key);
        self.out.push(Out::News(News::LogFailed { name, why: why.to_owned() }));
        self.log_failed(now, key);
    }
}
