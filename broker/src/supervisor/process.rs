//! What is to be done about one broker's process: pure. It is told what happened and answers what to do; it starts and kills nothing itself.

use std::time::Duration;

use highwater_engine::units::Monotonic;

/// The first wait before a process is started again; it doubles with each end that follows soon.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
/// The longest wait.
const AGAIN_LONGEST: Duration = Duration::from_secs(10);
/// A process that ran for so long is healthy: its end is the first again.
const HEALTHY_AFTER: Duration = Duration::from_secs(20);

/// What somebody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Stop cleanly, its leaderships handed over before, and stay down.
    Stop,
    /// `kill -9`, and stay down.
    Kill,
    /// Run.
    Start,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Nothing: it is as it was asked for, or will be.
    Nothing,
    /// Start the process.
    Spawn,
    /// Ask it to hand over and stop.
    HandOverAndStop,
    /// Ask it to stop, without handing over.
    Stop,
    /// Kill it.
    Kill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down,
    Running { since: Monotonic },
    Waiting { until: Monotonic },
}

/// One broker's process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Process {
    state: State,
    /// Whether it should run. Down by order is remembered here, and nowhere else.
    wanted: bool,
    ends_in_a_row: u32,
}

impl Process {
    /// A process that has not been started yet and should run.
    pub(super) fn new(now: Monotonic) -> Self {
        Self { state: State::Waiting { until: now }, wanted: true, ends_in_a_row: 0 }
    }

    /// It was started.
    pub(super) fn started(&mut self, now: Monotonic) {
        self.state = State::Running { since: now };
    }

    /// It ended, or could not be started. Answers how long to wait before the next start; `None`: it stays down.
    pub(super) fn ended(&mut self, now: Monotonic) -> Option<Duration> {
        if let State::Running { since } = self.state
            && now.since(since) >= HEALTHY_AFTER
        {
            self.ends_in_a_row = 0;
        }
        if !self.wanted {
            self.state = State::Down;
            return None;
        }
        let wait = AGAIN_FIRST.saturating_mul(1 << self.ends_in_a_row.min(10)).min(AGAIN_LONGEST);
        self.ends_in_a_row = self.ends_in_a_row.saturating_add(1);
        self.state = State::Waiting { until: now.after(wait) };
        Some(wait)
    }

    /// Somebody ordered something.
    pub(super) fn ordered(&mut self, order: Order) -> Action {
        self.wanted = order == Order::Start;
        match (order, self.state) {
            (Order::Start, State::Running { .. }) => Action::Nothing,
            (Order::Start, State::Down | State::Waiting { .. }) => {
                self.ends_in_a_row = 0;
                Action::Spawn
            }
            (Order::Stop, State::Running { .. }) => Action::HandOverAndStop,
            (Order::Kill, State::Running { .. }) => Action::Kill,
            (Order::Stop | Order::Kill, State::Down | State::Waiting { .. }) => {
                self.state = State::Down;
                Action::Nothing
            }
        }
    }

    /// The whole cluster stops; `harsh` at the second signal.
    pub(super) fn shutdown(&mut self, how: Shutdown) -> Action {
        self.wanted = false;
        match (self.state, how) {
            (State::Running { .. }, Shutdown::Clean) => Action::Stop,
            (State::Running { .. }, Shutdown::Harsh) => Action::Kill,
            (State::Down | State::Waiting { .. }, _) => {
                self.state = State::Down;
                Action::Nothing
            }
        }
    }

    /// When it has to be started, if it waits for that.
    pub(super) fn start_at(&self) -> Option<Monotonic> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Down | State::Running { .. } => None,
        }
    }

    /// Whether there is a process.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }
}

/// How the whole cluster stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// Each broker stops cleanly.
    Clean,
    /// Whoever still runs is killed.
    Harsh,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Monotonic {
        Monotonic::from_duration(Duration::from_millis(ms))
    }

    #[test]
    fn what_died_is_started_again_later_each_time() {
        let mut process = Process::new(at(0));
        assert_eq!(process.start_at(), Some(at(0)));
        let mut waits = Vec::new();
        for _ in 0..9 {
            process.started(at(0));
            waits.push(process.ended(at(10)).unwrap().as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        process.started(at(0));
        assert_eq!(process.ended(at(20_000)), Some(AGAIN_FIRST), "it had run for long");
    }

    #[test]
    fn what_was_ordered_down_stays_down_until_started() {
        for (order, action) in [(Order::Stop, Action::HandOverAndStop), (Order::Kill, Action::Kill)] {
            let mut process = Process::new(at(0));
            process.started(at(0));
            assert_eq!(process.ordered(order), action);
            assert_eq!(process.ended(at(5)), None);
            assert_eq!((process.start_at(), process.is_running()), (None, false));
            assert_eq!(process.ordered(Order::Start), Action::Spawn);
            process.started(at(6));
            assert_eq!(process.ordered(Order::Start), Action::Nothing);
            assert!(process.ended(at(7)).is_some(), "a start by order undoes a stop by order");
        }
    }

    #[test]
    fn a_start_while_it_stops_is_a_restart() {
        let mut process = Process::new(at(0));
        process.started(at(0));
        assert_eq!(process.ordered(Order::Stop), Action::HandOverAndStop);
        assert_eq!(process.ordered(Order::Start), Action::Nothing);
        assert_eq!(process.ended(at(9)), Some(AGAIN_FIRST));
    }

    #[test]
    fn an_order_down_while_it_waits_ends_the_wait() {
        let mut process = Process::new(at(0));
        process.started(at(0));
        process.ended(at(1));
        assert_eq!(process.ordered(Order::Kill), Action::Nothing);
        assert_eq!(process.start_at(), None);
    }

    #[test]
    fn a_shutdown_starts_nothing_again() {
        let mut process = Process::new(at(0));
        process.started(at(0));
        assert_eq!(process.shutdown(Shutdown::Clean), Action::Stop);
        assert_eq!(process.shutdown(Shutdown::Harsh), Action::Kill);
        assert_eq!(process.ended(at(1)), None);
        let mut waiting = Process::new(at(0));
        assert_eq!(waiting.shutdown(Shutdown::Clean), Action::Nothing);
        assert_eq!(waiting.start_at(), None);
    }
}
