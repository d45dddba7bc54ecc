//! One cluster from the command to its end: claim, wait for whoever still holds something, controller, brokers, signals.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::claims::{self, ClaimError, DataDirectory, ENDING_WAIT, Free, LOCK_WAIT, ORPHANS_WAIT};
use super::cluster::{Cluster, Greeted, Surroundings};
use super::launch::{Launch, for_people};
use super::orders;
use super::voice::{self, Voice};
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
    /// All brokers stop: it stops as well, before it misses them, so that the state it keeps is that of the running cluster.
    fn stop(&mut self);
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
    /// It ran, and ended otherwise than it should.
    #[error("broker {} did not stop cleanly; the next start recovers what it left", brokers(.0))]
    Unclean(Vec<i32>),
}

fn brokers(ids: &[i32]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Runs a cluster until a signal stops it. All brokers have ended when it returns.
pub fn run<C: ControllerSide, E>(
    mut launch: Launch,
    clock: Clock,
    start_controller: impl FnOnce(&Launch, Arc<Voice>) -> Result<C, E>,
) -> Result<(), RunError<E>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let claim = runtime.block_on(claim(&launch.data, clock))?;
    claim.path().clone_into(&mut launch.data);
    // From here on a signal is an order, not an end: whatever it meets is stopped in order.
    let mut signals = runtime.block_on(async { watch_signals() })?;
    let voice = Arc::new(Voice::new());
    if wait_for_orphans(&runtime, &launch, clock, &mut signals)? == Waited::SignalCame {
        return Ok(());
    }
    let controller = start_controller(&launch, Arc::clone(&voice)).map_err(RunError::Controller)?;
    let orders = runtime.block_on(async { orders::listen(&launch.data) })?;
    let host = Host { controller, launch: launch.clone(), voice };
    let unclean = runtime.block_on(Cluster::new(launch, clock, host).run(orders, signals));
    orders::close(claim.path());
    if unclean.is_empty() { Ok(()) } else { Err(RunError::Unclean(unclean)) }
}

/// Claims the data directory; of a supervisor that was killed just now nothing is to be seen but that it still holds it.
async fn claim(path: &Path, clock: Clock) -> Result<DataDirectory, ClaimError> {
    let begun = clock.now().monotonic;
    loop {
        match DataDirectory::claim(path) {
            Err(ClaimError::AlreadyRunning { .. }) if clock.now().monotonic.since(begun) < LOCK_WAIT => {
                tokio::time::sleep(LOCK_WAIT / 50).await;
            }
            claimed => return claimed,
        }
    }
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
    claims::check_writable(&needs)?;
    let begun = clock.now().monotonic;
    let mut told = None;
    loop {
        let waited = clock.now().monotonic.since(begun);
        match claims::check(&needs)? {
            Free::Yes => return Ok(Waited::AllFree),
            Free::PortTaken { broker, port } if waited >= ENDING_WAIT => {
                return Err(ClaimError::PortInUse { broker, port, holder: None });
            }
            Free::NotYet { directory, holder } if waited >= ORPHANS_WAIT => {
                return Err(ClaimError::DirectoryHeld { path: directory, holder });
            }
            Free::NotYet { directory, holder } if told.as_ref() != Some(&holder) => {
                voice::say_now(&format!(
                    "waiting for {holder}, which still holds {}",
                    for_people(&directory)
                ));
                told = Some(holder);
            }
            Free::PortTaken { .. } | Free::NotYet { .. } => {}
        }
        let wait = async { tokio::time::timeout(LOOK_AGAIN, signals.recv()).await };
        if runtime.block_on(wait).is_ok() {
            return Ok(Waited::SignalCame);
        }
    }
}

struct Host<C> {
    controller: C,
    launch: Launch,
    voice: Arc<Voice>,
}

impl<C: ControllerSide> Surroundings for Host<C> {
    fn controller(&self) -> &str {
        self.controller.address()
    }

    fn process_ended(&mut self, broker: i32) {
        self.controller.process_ended(broker);
    }

    fn show(&mut self, event: &Event) {
        self.voice.tell(event.clone());
    }

    fn greet(&mut self, brokers: &[Greeted]) {
        self.voice.greet(&greeting(&self.launch, self.controller.address(), brokers));
    }

    fn stopping(&mut self) {
        self.voice.release();
        let text = "stopping; a second Ctrl-C kills what has not stopped by then".to_owned();
        self.voice.tell(Event::Note { broker: None, text });
    }

    fn stop_controller(&mut self) {
        self.controller.stop();
    }
}

/// What people see first: what listens where, and three commands to try.
fn greeting(launch: &Launch, controller: &str, brokers: &[Greeted]) -> String {
    use std::fmt::Write;
    let mut text = format!("highwater runs, its data in {} (Ctrl-C stops it)\n", for_people(&launch.data));
    for Greeted { broker, process, listens } in brokers {
        let address = launch.address_of(*broker);
        let state = if *listens { "" } else { ", still starts" };
        let _infallible = writeln!(text, "  broker {broker}    {address}  process {process}{state}");
    }
    let _infallible = writeln!(text, "  controller  {controller}  in this process, {}", std::process::id());
    let first = brokers.first().map_or(1, |greeted| greeted.broker);
    let server = launch.address_of(first);
    let program = for_people(&launch.program);
    // A shell does not look for a bare name here.
    let program = if program.contains('/') { program } else { format!("./{program}") };
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
        let greeted = |broker, process, listens| Greeted { broker, process, listens };
        let brokers = [greeted(1, 71, true), greeted(2, 72, false)];
        let text = greeting(&launch, "127.0.0.1:7000", &brokers);
        assert_eq!(
            text,
            format!(
                "highwater runs, its data in /var/data (Ctrl-C stops it)\n\
                 \x20 broker 1    127.0.0.1:9192  process 71\n\
                 \x20 broker 2    127.0.0.1:9193  process 72, still starts\n\
                 \x20 controller  127.0.0.1:7000  in this process, {}\n\
                 try:\n\
                 \x20 seq 1000 | kcat -P -b 127.0.0.1:9192 -t numbers\n\
                 \x20 kcat -C -b 127.0.0.1:9192 -t numbers -o beginning -e\n\
                 \x20 /usr/bin/highwater status --bootstrap 127.0.0.1:9192",
                std::process::id()
            )
        );
    }

    #[test]
    fn a_supervisor_that_is_just_ending_is_waited_for() {
        let parent = tempfile::tempdir().unwrap();
        let first = DataDirectory::claim(parent.path()).unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let ending = async {
                tokio::time::sleep(LOCK_WAIT / 5).await;
                drop(first);
            };
            let (claimed, ()) = tokio::join!(claim(parent.path(), Clock::start()), ending);
            claimed.unwrap();
        });
    }
}
