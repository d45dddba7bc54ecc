//! The supervisor's loop: children, orders, signals and time, one at a time. What to do is decided in `process`; what happened is printed.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::time::Duration;

use highwater_engine::units::Monotonic;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::child::{Report, Running};
use super::launch::Launch;
use super::orders::{self, Answer, BrokerOrder};
use super::process::{Action, Order, Process, Shutdown};
use crate::clock::Clock;
use crate::event::Event;

/// Reports and orders that wait for the loop; whoever has more waits.
const QUEUE: usize = 1024;
/// A broker that does not stop for so long, when all stop, is killed.
const STOP_WAIT: Duration = Duration::from_secs(30);
/// One order may come as two signals: `timeout`, for one, sends it to the process and to its group.
const ONE_ORDER: Duration = Duration::from_secs(1);
/// Nobody waits longer for the first lines, even if a broker still recovers.
const GREETING_WAIT: Duration = Duration::from_millis(1_800);
/// An order is one line, sent at once.
const ORDER_WAIT: Duration = Duration::from_secs(5);

/// What the loop asks of the world around it.
pub trait Surroundings {
    /// Where brokers find the controller, as `HOST:PORT`.
    fn controller(&self) -> &str;
    /// A broker's process ended: its session is over.
    fn process_ended(&mut self, broker: i32);
    /// An event, for people.
    fn show(&mut self, event: &Event);
    /// The brokers that were to be started listen, or have been waited for long enough.
    fn greet(&mut self, brokers: &[Greeted]);
    /// The whole cluster begins to stop.
    fn stopping(&mut self);
    /// All brokers were told to stop: how they end does not concern the controller.
    fn stop_controller(&mut self);
}

/// A broker when people are greeted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeted {
    /// The broker.
    pub broker: i32,
    /// Its process id.
    pub process: u32,
    /// Whether it takes connections.
    pub listens: bool,
}

struct Broker {
    process: Process,
    running: Option<Running>,
    listens: bool,
    /// Who ordered something that is not carried out yet.
    waiting: Vec<(Order, oneshot::Sender<Answer>)>,
}

/// The brokers of one machine.
pub struct Cluster<S> {
    launch: Launch,
    surroundings: S,
    clock: Clock,
    brokers: BTreeMap<i32, Broker>,
    report: mpsc::Sender<(i32, Report)>,
    reports: mpsc::Receiver<(i32, Report)>,
    greeted: bool,
    greet_at: Monotonic,
    stopping_since: Option<Monotonic>,
    /// Who did not stop cleanly when all were told to.
    unclean: Vec<i32>,
}

impl<S> std::fmt::Debug for Cluster<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("launch", &self.launch).finish_non_exhaustive()
    }
}

type OrderSlip = (BrokerOrder, oneshot::Sender<Answer>);

impl<S: Surroundings> Cluster<S> {
    /// A cluster of which nothing runs yet.
    pub fn new(launch: Launch, clock: Clock, surroundings: S) -> Self {
        let now = clock.now().monotonic;
        let broker =
            |_| Broker { process: Process::new(now), running: None, listens: false, waiting: Vec::new() };
        let mut brokers: BTreeMap<i32, Broker> = (1..=launch.brokers).map(|id| (id, broker(id))).collect();
        for (id, broker) in &mut brokers {
            if !launch.only.contains(id) {
                broker.process.ordered(Order::Stop);
            }
        }
        let (report, reports) = mpsc::channel(QUEUE);
        let greet_at = now.after(GREETING_WAIT);
        Self {
            launch,
            surroundings,
            clock,
            brokers,
            report,
            reports,
            greeted: false,
            greet_at,
            stopping_since: None,
            unclean: Vec::new(),
        }
    }

    /// Runs until a signal came and all brokers have ended. Answers which of them did not stop cleanly.
    pub async fn run(mut self, orders: UnixListener, mut signals: mpsc::Receiver<()>) -> Vec<i32> {
        let (slips, mut slips_in) = mpsc::channel(QUEUE);
        let taking = tokio::spawn(take_orders(orders, slips));
        loop {
            self.start_what_is_due();
            if self.stopping_since.is_some() && self.brokers.values().all(|broker| broker.running.is_none()) {
                break;
            }
            let wait = self.next_wait();
            tokio::select! {
                Some((broker, report)) = self.reports.recv() => self.reported(broker, report),
                Some(slip) = slips_in.recv() => self.ordered(slip),
                Some(()) = signals.recv() => {
                    self.signalled();
                    // The brokers first: without a controller they would look for it.
                    tokio::task::yield_now().await;
                    self.surroundings.stop_controller();
                }
                () = tokio::time::sleep(wait) => {
                    self.greet_if_due();
                    self.kill_what_does_not_stop();
                }
            }
        }
        taking.abort();
        self.unclean.sort_unstable();
        self.unclean
    }

    fn now(&self) -> Monotonic {
        self.clock.now().monotonic
    }

    fn next_wait(&self) -> Duration {
        let now = self.now();
        let starts = self.brokers.values().filter_map(|broker| broker.process.start_at());
        let harsh = self.stopping_since.map(|since| since.after(STOP_WAIT));
        let greeting = Some(self.greet_at).filter(|_| !self.greeted);
        starts.chain(harsh).chain(greeting).map(|at| at.since(now)).min().unwrap_or(Duration::from_secs(3600))
    }

    fn start_what_is_due(&mut self) {
        let now = self.now();
        let due =
            self.brokers.iter().filter(|(_, broker)| broker.process.start_at().is_some_and(|at| at <= now));
        for id in due.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.spawn(id);
        }
    }

    fn spawn(&mut self, id: i32) {
        let now = self.now();
        let command = self.launch.command(id, self.surroundings.controller());
        let running = Running::spawn(command, id, self.report.clone());
        let Some(broker) = self.brokers.get_mut(&id) else { return };
        broker.listens = false;
        match running {
            Ok(running) => {
                broker.process.started(now);
                if self.greeted {
                    self.surroundings.show(&Event::Started { broker: id, process: running.process() });
                }
                broker.running = Some(running);
            }
            Err(error) => {
                let again = broker.process.ended(now);
                let wait = again
                    .map_or_else(String::new, |wait| format!("; tried again in {} ms", wait.as_millis()));
                let text = format!("{} cannot be started: {error}{wait}", self.launch.program.display());
                self.surroundings.show(&Event::Note { broker: Some(id), text });
            }
        }
    }

    fn reported(&mut self, id: i32, report: Report) {
        match report {
            Report::Said(event) => self.said(id, &event),
            Report::Ended(status) => self.ended(id, status),
        }
    }

    fn said(&mut self, id: i32, event: &Event) {
        let listens = matches!(event, Event::Listening { broker, .. } if *broker == id);
        if !listens || self.greeted {
            self.surroundings.show(event);
        }
        let Some(broker) = self.brokers.get_mut(&id).filter(|_| listens) else { return };
        broker.listens = true;
        for (order, asker) in std::mem::take(&mut broker.waiting) {
            match order {
                Order::Start => tell(asker, Answer::Done(format!("broker {id} runs"))),
                Order::Stop | Order::Kill => broker.waiting.push((order, asker)),
            }
        }
        self.greet_if_due();
    }

    /// The first lines for people wait until every broker that should run listens, but not for ever.
    fn greet_if_due(&mut self) {
        let settled = |broker: &Broker| {
            broker.process.start_at().is_none() && (broker.listens || !broker.process.is_running())
        };
        let due = self.now() >= self.greet_at || self.brokers.values().all(settled);
        if self.greeted || self.stopping_since.is_some() || !due {
            return;
        }
        self.greeted = true;
        let greeted = |(id, broker): (&i32, &Broker)| {
            let process = broker.running.as_ref()?.process();
            Some(Greeted { broker: *id, process, listens: broker.listens })
        };
        let brokers: Vec<_> = self.brokers.iter().filter_map(greeted).collect();
        self.surroundings.greet(&brokers);
    }

    fn ended(&mut self, id: i32, status: std::io::Result<ExitStatus>) {
        let now = self.now();
        let Some(broker) = self.brokers.get_mut(&id) else { return };
        let process = broker.running.take().map_or(0, |running| running.process());
        broker.listens = false;
        let again = broker.process.ended(now);
        let is_clean = status.as_ref().is_ok_and(ExitStatus::success);
        let how = status.map_or_else(|error| error.to_string(), describe);
        for (order, asker) in std::mem::take(&mut broker.waiting) {
            let answer = match order {
                Order::Stop | Order::Kill => {
                    Answer::Done(format!("broker {id} is down until it is started ({how})"))
                }
                Order::Start => Answer::Refused(format!(
                    "broker {id} did not start: {how}; the cluster's output says more"
                )),
            };
            tell(asker, answer);
        }
        if self.stopping_since.is_some() {
            if !is_clean {
                self.unclean.push(id);
            }
            return self.surroundings.show(&Event::Stopped { broker: id, process, how });
        }
        self.surroundings.process_ended(id);
        let again_in_ms = again.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self.surroundings.show(&Event::Ended { broker: id, process, how, again_in_ms });
    }

    fn ordered(&mut self, (BrokerOrder { order, broker: id }, asker): OrderSlip) {
        let count = self.launch.brokers;
        let refusal = match self.brokers.get(&id) {
            None => Some(format!("there is no broker {id}; this cluster has brokers 1 to {count}")),
            Some(_) if self.stopping_since.is_some() => Some("the whole cluster is stopping".to_owned()),
            Some(_) => None,
        };
        let Some(broker) = self.brokers.get_mut(&id).filter(|_| refusal.is_none()) else {
            return tell(asker, Answer::Refused(refusal.unwrap_or_default()));
        };
        let action = broker.process.ordered(order);
        if action == Action::Nothing {
            let state = if order == Order::Start { "runs already" } else { "is down until it is started" };
            return tell(asker, Answer::Done(format!("broker {id} {state}")));
        }
        broker.waiting.push((order, asker));
        self.act(id, action);
    }

    fn signalled(&mut self) {
        match self.stopping_since {
            None => self.shut_down(Shutdown::Clean),
            Some(since) if self.now().since(since) < ONE_ORDER => {}
            Some(_) => self.shut_down(Shutdown::Harsh),
        }
    }

    fn shut_down(&mut self, how: Shutdown) {
        if self.stopping_since.is_none() {
            self.stopping_since = Some(self.now());
            self.surroundings.stopping();
        }
        let actions: Vec<_> = self.brokers.iter_mut().map(|(id, b)| (*id, b.process.shutdown(how))).collect();
        for (id, action) in actions {
            self.act(id, action);
        }
    }

    fn kill_what_does_not_stop(&mut self) {
        let now = self.now();
        if self.stopping_since.is_some_and(|since| now.since(since) >= STOP_WAIT) {
            let text =
                format!("not all brokers stopped within {} s; the rest are killed", STOP_WAIT.as_secs());
            self.surroundings.show(&Event::Note { broker: None, text });
            self.stopping_since = Some(now);
            self.shut_down(Shutdown::Harsh);
        }
    }

    fn act(&mut self, id: i32, action: Action) {
        let running = self.brokers.get(&id).and_then(|broker| broker.running.as_ref());
        match (action, running) {
            (Action::Spawn, _) => self.spawn(id),
            (Action::HandOverAndStop, Some(running)) => running.hand_over_and_stop(),
            (Action::Stop, Some(running)) => running.stop(),
            (Action::Kill, Some(running)) => running.kill(),
            (Action::Nothing, _) | (Action::HandOverAndStop | Action::Stop | Action::Kill, None) => {}
        }
    }
}

fn tell(asker: oneshot::Sender<Answer>, answer: Answer) {
    // Whoever asked may have gone; the order is carried out all the same.
    let _gone = asker.send(answer);
}

/// How a process ended, in words.
fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(0), _) => "stopped cleanly".to_owned(),
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(9)) => "killed with -9".to_owned(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// Accepts orders for as long as the cluster runs.
async fn take_orders(listener: UnixListener, slips: mpsc::Sender<OrderSlip>) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let slips = slips.clone();
        tokio::spawn(async move {
            let Ok(Ok(order)) = timeout(ORDER_WAIT, orders::read(&mut stream)).await else { return };
            let (asker, answered) = oneshot::channel();
            if slips.send((order, asker)).await.is_ok()
                && let Ok(answer) = answered.await
            {
                let _gone = orders::answer(&mut stream, &answer).await;
            }
        });
    }
}

#[cfg(test)]
mod cluster_test;
