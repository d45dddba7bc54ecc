//! What a broker tells the controller of itself, and the calls to it on behalf of replicas and of the host.

use std::collections::BTreeMap;

use highwater_engine::checkpoint::OffsetCheckpoint;
use highwater_engine::log::Log;
use highwater_engine::store::{LogReport, Machine, OpenReport, Stop};
use highwater_engine::units::{LeaderEpoch, Now, Offset, TopicId, TopicPartition};

use super::event::{AskId, ControllerCallId, News, Out};
use super::link::Heard;
use super::replica::Replica;
use super::{ReplicaKey, Shard};
use crate::controller::{
    Condition, ControllerReply, ControllerRequest, LastStop, Registration, ReplicaFacts, ReplicaReport,
    ReportedReplica, ResignCause,
};
use crate::ids::BrokerEpoch;
use crate::partition::{Input, Integrity, IsrAnswer, IsrProposal, RoleName};

/// The field of the clean-shutdown mark that names the session that ended; Kafka's own.
pub(super) const MARK_SESSION: &str = "brokerEpoch";

fn facts(
    log: &Log,
    report: Option<&LogReport>,
    stop_was_clean: bool,
    known_committed: Option<Offset>,
    role: Option<RoleName>,
) -> ReplicaFacts {
    let integrity =
        log.with_facts(|facts| if facts.damaged.is_empty() { Integrity::Whole } else { Integrity::Damaged });
    let is_writing = log.with_facts(|facts| facts.accepted != facts.written);
    let condition = match report {
        Some(_) | None if role == Some(RoleName::Offline) => Condition::LogFailed,
        Some(_) | None if is_writing => Condition::Writing,
        Some(_) | None if integrity == Integrity::Damaged => Condition::Damaged,
        Some(report) if report.hole => Condition::Damaged,
        Some(report) if stop_was_clean && report.suspect => Condition::DiffersFromMark,
        Some(_) | None => Condition::Fits,
    };
    log.with_facts(|facts| ReplicaFacts {
        partition: log.name().clone(),
        topic_id: log.topic_id(),
        last_epoch: facts.epochs.latest().map(|entry| entry.epoch),
        end: facts.written,
        known_committed,
        recovery_point: report.map_or(Some(facts.recovery_point), |report| report.recovery_point),
        condition,
        integrity,
    })
}

/// Of a log that could not be opened nobody knows what it has: it must be neither the best of all nor less than another.
fn facts_of_unopened(
    partition: TopicPartition,
    topic_id: Option<TopicId>,
    known_committed: Option<Offset>,
) -> ReplicaFacts {
    ReplicaFacts {
        partition,
        topic_id,
        last_epoch: None,
        end: Offset::ZERO,
        known_committed,
        recovery_point: None,
        condition: Condition::LogFailed,
        integrity: Integrity::Whole,
    }
}

/// On whose behalf the controller was called.
#[derive(Debug)]
pub(super) enum OnBehalf {
    /// A replica that wants another ISR.
    Isr { key: ReplicaKey, proposal: IsrProposal },
    /// The host.
    Host(AskId),
    /// A replica that gives up.
    Resignation { key: ReplicaKey, epoch: LeaderEpoch, why: ResignCause },
    /// This broker, which is about to stop.
    Stop,
    /// A replica that is offline because its machine panicked.
    Panicked { name: TopicPartition },
    /// A replica that refuses to be cut.
    Refusal { key: ReplicaKey },
    /// A replica about whose damage the controller is wrong.
    Integrity { key: ReplicaKey },
    /// Nobody waits for the answer.
    Nobody,
}

/// Whether changes can follow on the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViewIs {
    /// Of this session and without a gap.
    Whole,
    /// To be had anew.
    Stale,
}

/// What was found when the data directory was opened, for as long as it has to be told.
#[derive(Debug)]
pub(super) struct Known {
    /// By which the controller knows a registration of this process again.
    run: u64,
    last_stop: LastStop,
    cluster_id: Option<String>,
    /// By name, because logs that no topic owns are told as well.
    high_watermarks: Option<OffsetCheckpoint>,
    reports: BTreeMap<TopicPartition, LogReport>,
    /// Whether the view was had as a whole since the session began.
    view_is_fresh: bool,
}

impl Known {
    pub(super) fn at_opening(
        report: &OpenReport,
        high_watermarks: Option<OffsetCheckpoint>,
        run: u64,
    ) -> Self {
        let reports = report.logs.iter().map(|log| (log.name.clone(), log.clone())).collect();
        Self {
            run,
            last_stop: last_stop(report),
            cluster_id: None,
            high_watermarks,
            reports,
            view_is_fresh: false,
        }
    }

    pub(super) const fn last_stop(&self) -> LastStop {
        self.last_stop
    }

    const fn stop_was_clean(&self) -> bool {
        matches!(self.last_stop, LastStop::Clean { .. })
    }

    pub(super) const fn view_is_fresh(&self) -> bool {
        self.view_is_fresh
    }

    /// The view was had as a whole, or has to be had so.
    pub(super) fn set_view_is_fresh(&mut self, fresh: ViewIs) {
        self.view_is_fresh = fresh == ViewIs::Whole;
    }

    /// The last high watermark that was written down for a log; `None`: unknown. A log that a readable checkpoint does not name had
    /// nothing committed when it was written: a checkpoint is safe when stale.
    pub(super) fn high_watermark(&self, name: &TopicPartition) -> Option<Offset> {
        Some(self.high_watermarks.as_ref()?.get(name).copied().unwrap_or_default())
    }

    /// A log was opened again: what recovery found then is what there is to tell of it.
    pub(super) fn reopened(&mut self, report: LogReport) {
        self.reports.insert(report.name.clone(), report);
    }

    /// A log that is new, or empty again, has nothing to be known of.
    pub(super) fn forget(&mut self, name: &TopicPartition) {
        if let Some(known) = &mut self.high_watermarks {
            known.remove(name);
        }
        self.reports.remove(name);
    }
}

fn last_stop(report: &OpenReport) -> LastStop {
    match (report.stop, report.machine) {
        (Stop::FirstUse, _) => LastStop::Never,
        (Stop::Clean, _) => {
            let session = report.mark_extra.get(MARK_SESSION).and_then(serde_json::Value::as_i64);
            LastStop::Clean { session: session.and_then(BrokerEpoch::new) }
        }
        (Stop::Unclean, Machine::Same) => LastStop::Killed,
        (Stop::Unclean, Machine::OtherOrUnknown) => LastStop::MachineCrash,
    }
}

/// What a replica has.
pub(super) fn report_of(replica: &Replica, leader_epoch: LeaderEpoch) -> ReportedReplica {
    let report = replica.look(|machine, facts| ReplicaReport {
        last_epoch: facts.epochs.latest().map(|entry| entry.epoch),
        end: facts.written,
        known_committed: machine.known_committed(),
    });
    let (partition, topic_id) = (replica.name.clone(), replica.topic_id);
    ReportedReplica { partition, topic_id, leader_epoch, report }
}

impl Shard {
    pub(super) fn talk_to_controller(&mut self, now: Now) {
        let since = self.view.since().filter(|_| self.known.view_is_fresh);
        let (config, store, known, replicas, by_name) =
            (&self.config, &self.store, &self.known, &self.replicas, &self.by_name);
        self.link.turn(now.monotonic, since, |last_stop| Registration {
            node: config.node,
            cluster_id: known.cluster_id.clone().or_else(|| config.cluster_id.clone()),
            directory: config.directory_id.clone(),
            last_session: config.last_session,
            host: config.host.clone(),
            port: config.port,
            process: config.process,
            run: Some(known.run),
            last_stop,
            replicas: store
                .logs()
                .iter()
                .map(|log| {
                    let replica = by_name.get(log.name()).and_then(|key| replicas.get(key));
                    let committed = replica.map_or_else(
                        || known.high_watermark(log.name()),
                        |replica| replica.machine.known_committed(),
                    );
                    let role = replica.map(|replica| replica.machine.role_name());
                    facts(log, known.reports.get(log.name()), known.stop_was_clean(), committed, role)
                })
                .chain(store.left_alone().into_iter().map(|(name, id)| {
                    let committed = known.high_watermark(&name);
                    facts_of_unopened(name, id, committed)
                }))
                .collect(),
        });
        let calls = self.link.take_calls();
        self.out.extend(calls.into_iter().map(|(call, request)| Out::Controller { call, request }));
    }

    pub(super) fn on_ask(&mut self, ask: AskId, request: ControllerRequest) {
        if self.link.ask(request, OnBehalf::Host(ask)).is_err() {
            self.out.push(Out::Answer { ask, reply: None });
        }
    }

    pub(super) fn on_controller_answered(
        &mut self,
        now: Now,
        call: ControllerCallId,
        reply: Option<ControllerReply>,
    ) {
        match self.link.answered(now.monotonic, call, reply) {
            Heard::Began(begun) => {
                self.known.cluster_id = Some(begun.cluster_id.clone());
                // A text that was not written reads as a machine crash at the next opening: safe, only slower.
                let _ = self.store.confirm_incarnation();
                self.known.view_is_fresh = false;
                self.watermarks.session_began(now.monotonic);
                self.out.push(Out::News(News::SessionBegan { cluster_id: begun.cluster_id }));
            }
            Heard::Ended => self.out.push(Out::News(News::SessionEnded)),
            Heard::Refused(refusal) => self.out.push(Out::News(News::RegistrationRefused(refusal))),
            Heard::View(reply) => self.on_view(now, reply),
            Heard::Answer(on_behalf, reply) => self.on_answer(now, on_behalf, reply),
            Heard::Nothing => {}
        }
    }

    fn on_answer(&mut self, now: Now, on_behalf: OnBehalf, reply: Option<ControllerReply>) {
        match on_behalf {
            OnBehalf::Isr { key, proposal } => {
                let answer = match reply {
                    Some(ControllerReply::Isr(answer)) => answer.to_machine(),
                    _ => IsrAnswer::Unanswered,
                };
                self.step(now, key, Input::IsrAnswered { proposal, answer });
            }
            OnBehalf::Host(ask) => self.out.push(Out::Answer { ask, reply }),
            OnBehalf::Stop => self.on_stop_answered(now, reply.as_ref()),
            OnBehalf::Resignation { key, epoch, why } => {
                self.on_resignation_answered(now, key, epoch, why);
            }
            OnBehalf::Panicked { name } => self.on_panic_answered(now, &name),
            OnBehalf::Refusal { key } => self.on_refusal_answered(now, key, reply.as_ref()),
            OnBehalf::Integrity { key } => self.on_integrity_answered(now, key),
            OnBehalf::Nobody => {}
        }
    }

    /// Says what replicas hold whose partitions nobody leads, so that the best of them can be found.
    pub(super) fn report_replicas(&mut self) {
        for (partition, leader_epoch) in self.view.reports_wanted() {
            let Some(replica) = self.replica(&partition) else { continue };
            // What is being written counts as well: it is said when it is there.
            let under_way = replica.look(|_, facts| facts.accepted != facts.written);
            // What a failed log has is known when it is open again, and until then it must not be elected by it.
            let is_offline = replica.machine.role_name() == RoleName::Offline;
            if under_way || is_offline || replica.machine.leader_epoch() != Some(leader_epoch) {
                continue;
            }
            let report = ControllerRequest::Report(report_of(replica, leader_epoch));
            // Without a session the next registration says the same.
            let _ = self.link.ask(report, OnBehalf::Nobody);
        }
    }
}
