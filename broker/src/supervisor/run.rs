//! One cluster from the command to its end: claim, wait for whoever still holds something, controller, brokers, signals.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::claims::{self, ClaimError, DataDirectory, Free, ORPHANS_WAIT};
use super::cluster::{Cluster, Surroundings};
use super::launch::{Launch, for_people};
use super::orders;
use crate::clock::Clock;
use crate::event::Event;

/// How often it is looked whether an earlier broker is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The controller, as far as a supervisor needs it.
pub trait ControllerSide {
    /// Where brokers reach it, as `HOST:PORT`.
    fn address(&self) -> &str;
    /// A broker's process ended.
    fn process_ended(&mut self, broker: i32);
}

/// Why a cluster could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError<E = Infallible> {
    /// Its directory or its ports cannot be had.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The controller does not start.
    #[error("the controller does not start: {0}")]
    Controller(E),
    /// The system refuses something that every process may have.
    #[error("the supervisor cannot start: {0}")]
    System(#[from] io::Error),
}

/// Runs a cluster until a signal stops it. All brokers have ended when it returns.
pub fn run<C: ControllerSide, E>(
    mut launch: Launch,
    clock: Clock,
    start_controller: impl FnOnce(&Launch) -> Result<C, E>,
) -> Result<(), RunError<E>> {
    let claim = DataDirectory::claim(&launch.data)?;
    claim.path().clone_into(&mut launch.data);
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // From here on a signal is an order, not an end: whatever it meets is stopped in order.
    let mut signals = runtime.block_on(async { watch_signals() })?;
    if wait_for_orphans(&runtime, &launch, clock, &mut signals)? == Waited::SignalCame {
        return Ok(());
    }
    let controller = start_controller(&launch).map_err(RunError::Controller)?;
    let orders = runtime.block_on(async { orders::listen(&launch.data) })?;
    let host = Host { controller, launch: launch.clone() };
    runtime.block_on(Cluster::new(launch, clock, host).run(orders, signals));
    orders::close(claim.path());
    Ok(())
}

fn watch_signals() -> io::Result<mpsc::Receiver<()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let (seen, signals) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if seen.send(()).await.is_err() {
                return;
            }
        }
    });
    Ok(signals)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    AllFree,
    SignalCame,
}

fn wait_for_orphans(
    runtime: &Runtime,
    launch: &Launch,
    clock: Clock,
    signals: &mut mpsc::Receiver<()>,
) -> Result<Waited, ClaimError> {
    let needs = launch.needs();
    let begun = clock.now().monotonic;
    let mut told = None;
    while let Free::NotYet { directory, holder } = claims::check(&needs)? {
        if clock.now().monotonic.since(begun) >= ORPHANS_WAIT {
            return Err(ClaimError::DirectoryHeld { path: directory, holder });
        }
        if told.as_ref() != Some(&holder) {
            say(&format!("waiting for {holder}, which still holds {}", for_people(&directory)));
            told = Some(holder);
        }
        let wait = async { tokio::time::timeout(LOOK_AGAIN, signals.recv()).await };
        if runtime.block_on(wait).is_ok() {
            return Ok(Waited::SignalCame);
        }
    }
    Ok(Waited::AllFree)
}

/// A line for people. A terminal that is gone must not end a cluster.
fn say(line: &str) {
    use std::io::Write;
    let mut out = io::stdout().lock();
    let _nobody_reads = writeln!(out, "{line}").and_then(|()| out.flush());
}

struct Host<C> {
    controller: C,
    launch: Launch,
}

impl<C: ControllerSide> Surroundings for Host<C> {
    fn controller(&self) -> &str {
        self.controller.address()
    }

    fn process_ended(&mut self, broker: i32) {
        self.controller.process_ended(broker);
    }

    fn show(&mut self, event: &Event) {
        say(&event.to_string());
    }

    fn all_listen(&mut self, processes: &[(i32, u32)]) {
        say(&greeting(&self.launch, self.controller.address(), processes));
    }
}

/// What people see first: what listens where, and three commands to try.
fn greeting(launch: &Launch, controller: &str, processes: &[(i32, u32)]) -> String {
    use std::fmt::Write;
    let mut text = format!("highwater runs, its data in {} (Ctrl-C stops it)\n", for_people(&launch.data));
    for (broker, process) in processes {
        let address = launch.address_of(*broker);
        let _infallible = writeln!(text, "  broker {broker}    {address}  process {process}");
    }
    let _infallible = writeln!(text, "  controller  {controller}  in this process, {}", std::process::id());
    let first = processes.first().map_or(1, |(broker, _)| *broker);
    let server = launch.address_of(first);
    let program = for_people(&launch.program);
    let bootstrap =
        if launch.port_of(first) == 9092 { String::new() } else { format!(" --bootstrap {server}") };
    let _infallible = write!(
        text,
        "try:\n  seq 1000 | kcat -P -b {server} -t numbers\n  kcat -C -b {server} -t numbers -o beginning -e\n  {program} status{bootstrap}",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn the_greeting_says_what_listens_where_and_what_to_try() {
        let launch = Launch {
            program: "/usr/bin/highwater".into(),
            brokers: 2,
            only: vec![1, 2],
            port: 9192,
            data: "/var/data".into(),
            settings: Settings::default(),
        };
        let text = greeting(&launch, "127.0.0.1:7000", &[(1, 71), (2, 72)]);
        assert_eq!(
            text,
            format!(
                "highwater runs, its data in /var/data (Ctrl-C stops it)\n\
                 \x20 broker 1    127.0.0.1:9192  process 71\n\
                 \x20 broker 2    127.0.0.1:9193  process 72\n\
                 \x20 controller  127.0.0.1:7000  in this process, {}\n\
                 try:\n\
                 \x20 seq 1000 | kcat -P -b 127.0.0.1:9192 -t numbers\n\
                 \x20 kcat -C -b 127.0.0.1:9192 -t numbers -o beginning -e\n\
                 \x20 /usr/bin/highwater status --bootstrap 127.0.0.1:9192",
                std::process::id()
            )
        );
    }
}
