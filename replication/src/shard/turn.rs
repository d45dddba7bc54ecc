//! The turn: drain the inbox, append, one turn of the driver, step what moved, and again while there is news.

use highwater_engine::disk::{Patience, Wait};
use highwater_engine::log::LogId;
use highwater_engine::units::{Monotonic, Now};

use super::event::{Event, Lane, LaneKind, News, Out};
use super::{ReplicaKey, Shard};
use crate::partition::Input;

impl Shard {
    /// Does everything that can be done now, and says what the host has to do.
    pub fn turn(&mut self, now: Now) -> Vec<Out> {
        self.requests.begin_turn(now.monotonic, self.config.catch_up_bytes_per_turn);
        self.fire_timers(now);
        self.make_again(now);
        self.delete_again(now);
        loop {
            while let Some(event) = self.inbox.pop_front() {
                self.on_event(now, event);
            }
            self.settle(now);
            let moved = self.drive(now);
            self.settle(now);
            self.answer_ready(now);
            if !moved && self.touched.is_empty() && self.inbox.is_empty() {
                break;
            }
        }
        self.send_fetches(now);
        self.go_on_repairing(now);
        self.mend(now);
        self.talk_to_controller(now);
        self.emit_jobs(now);
        std::mem::take(&mut self.out)
    }

    /// When the next turn is due even if nothing happens.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        let timers = self.timers.first().map(|(at, _)| *at);
        [
            timers,
            self.requests.fetches.next_deadline(),
            self.followers.next_deadline(),
            self.repairs.next_deadline(self.config.peer_timeout),
            self.link.next_deadline(),
            self.watermarks.next_deadline(),
            Some(self.due.next_deadline()),
            self.compacting.next_deadline(),
            self.unmade.values().min().copied(),
            self.deleting.values().filter_map(|deleting| deleting.again_at).min(),
            self.mending.next_deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn on_event(&mut self, now: Now, event: Event) {
        match event {
            Event::Frame { slot, frame } => self.on_request(now, slot, None, frame),
            Event::OwnFrame { slot, epoch, frame } => self.on_request(now, slot, Some(epoch), frame),
            Event::Disconnected { connection } => self.on_disconnected(now, connection),
            Event::PeerFrame { lane: Lane { kind: LaneKind::Repair, leader }, frame } => {
                self.on_repair_frame(now, leader, frame);
            }
            Event::PeerDown { lane: Lane { kind: LaneKind::Repair, leader } } => {
                self.on_repair_lane_down(now, leader);
            }
            Event::PeerFrame { lane, frame } => self.on_peer_frame(now, lane, frame),
            Event::PeerDown { lane } => self.on_peer_down(now, lane),
            Event::ControllerAnswered { call, reply } => self.on_controller_answered(now, call, reply),
            Event::Ask { ask, request } => self.on_ask(ask, request),
            Event::JobDone(done) => self.on_job_done(now, done),
            Event::Stop => self.on_stop(now),
        }
    }

    /// One turn of the driver; machines whose logs moved are told. Whether any did.
    fn drive(&mut self, now: Now) -> bool {
        let mut report = std::mem::take(&mut self.report);
        self.store.turn_into(Wait::Not, Patience::MustNotBlock, &mut report);
        for log in &report.moved {
            if let Some(key) = self.by_log.get(log) {
                self.step(now, *key, Input::LogMoved);
            }
        }
        for log in &report.damaged {
            if let Some(key) = self.by_log.get(log) {
                self.step(now, *key, Input::LogDamaged);
            }
        }
        if report.moved.iter().any(|log| self.is_leaderless(*log)) {
            self.report_replicas();
        }
        for log in &report.failed {
            if let Some(key) = self.by_log.get(log).copied() {
                self.fail_log(now, key, "a write failed");
            }
        }
        if report.store_failed && self.due.store_fails_now() {
            self.on_store_failed(now);
        }
        let is_news = !report.moved.is_empty() || !report.failed.is_empty() || !report.damaged.is_empty();
        self.report = report;
        is_news
    }

    fn is_leaderless(&self, log: LogId) -> bool {
        let replica = self.by_log.get(&log).and_then(|key| self.replicas.get(key));
        let assignment = replica.and_then(|replica| replica.machine.assignment());
        assignment.is_some_and(|assignment| assignment.leader.is_none())
    }

    fn on_store_failed(&mut self, now: Now) {
        if let Some(failure) = self.store.failure().cloned() {
            self.out.push(Out::News(News::StoreFailed(failure)));
        }
        let keys: Vec<ReplicaKey> = self.replicas.keys().copied().collect();
        for key in keys {
            self.fail_log(now, key, "the data directory failed");
        }
    }

    pub(super) fn fail_log(&mut self, now: Now, key: ReplicaKey, why: &str) {
        if let Some(replica) = self.replicas.get(&key) {
            let name = replica.name.clone();
            self.out.push(Out::News(News::LogFailed { name, why: why.to_owned() }));
            self.step(now, key, Input::LogFailed);
            self.log_failed(now, key);
        }
    }

    /// Tells a machine; its effects are carried out when the turn settles.
    pub(super) fn step(&mut self, now: Now, key: ReplicaKey, input: Input) {
        let Some(replica) = self.replicas.get_mut(&key) else { return };
        if let Err(panicked) = replica.step(now, input) {
            return self.on_panicked(now, key, panicked.dump);
        }
        self.touched.insert(key);
    }

    /// Carries out effects until no machine has any.
    pub(super) fn settle(&mut self, now: Now) {
        while let Some(key) = self.touched.pop_first() {
            let Some(replica) = self.replicas.get_mut(&key) else { continue };
            for effect in replica.take_effects() {
                self.carry_out(now, key, effect);
            }
            self.set_timer(now, key);
        }
    }

    fn set_timer(&mut self, now: Now, key: ReplicaKey) {
        let Some(replica) = self.replicas.get_mut(&key) else { return };
        let due = replica.look(|machine, facts| machine.next_deadline(now, facts));
        if due == replica.timer {
            return;
        }
        if let Some(old) = std::mem::replace(&mut replica.timer, due) {
            self.timers.remove(&(old, key));
        }
        if let Some(at) = due {
            self.timers.insert((at, key));
        }
    }

    fn fire_timers(&mut self, now: Now) {
        while let Some((at, key)) = self.timers.first().copied().filter(|(at, _)| *at <= now.monotonic) {
            self.timers.remove(&(at, key));
            if let Some(replica) = self.replicas.get_mut(&key) {
                replica.timer = None;
            }
            self.step(now, key, Input::Tick);
        }
        self.settle(now);
    }
}
