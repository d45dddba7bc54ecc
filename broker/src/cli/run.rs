//! The commands that run for as long as nobody stops them: a cluster, one broker, a controller.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use highwater_engine::units::NodeId;
use tokio::signal::unix::{SignalKind, signal};

use super::arguments::{ClusterOfThisMachine, ServeArguments};
use super::commands::Failure;
use crate::clock::Clock;
use crate::event::Event;
use crate::serve::{
    self, ControllerAt, ControllerHost, ControllerHostError, ControllerNews, ControllerOptions, Form,
    ServeOptions,
};
use crate::settings::{self, HostPort, Settings};
use crate::supervisor::{self, ControllerSide, Launch, Voice};

/// `highwater` without a command.
pub(super) fn cluster(arguments: ClusterOfThisMachine) -> Result<(), Failure> {
    let launch = Launch {
        program: std::env::current_exe().map_err(Failure::NoProgram)?,
        brokers: arguments.brokers,
        only: arguments.only,
        port: arguments.port,
        data: arguments.data,
        settings: Settings::from_pairs(&arguments.set)?,
    };
    let clock = Clock::start();
    Ok(supervisor::run(launch.check()?, clock, |launch, voice| Embedded::start(launch, clock, voice))?)
}

/// The controller in the supervisor's process; it stops when the supervisor lets go of it.
struct Embedded {
    host: Option<ControllerHost>,
    address: String,
}

impl Embedded {
    fn start(launch: &Launch, clock: Clock, voice: Arc<Voice>) -> Result<Self, ControllerHostError> {
        let options = ControllerOptions {
            directory: launch.controller_directory(),
            listen: HostPort { host: supervisor::HOST.to_owned(), port: 0 },
            brokers: usize::try_from(launch.brokers).ok(),
            data_directories: (1..=launch.brokers).map(|broker| launch.directory_of(broker)).collect(),
            settings: launch.settings.clone(),
        };
        let host = ControllerHost::start(options, clock, move |news| tell(news, |event| voice.tell(event)))?;
        let address = host.address().to_string();
        Ok(Self { host: Some(host), address })
    }
}

impl ControllerSide for Embedded {
    fn address(&self) -> &str {
        &self.address
    }

    fn process_ended(&mut self, broker: i32) {
        if let (Some(host), Some(node)) = (&self.host, NodeId::new(broker)) {
            host.process_ended(node, None);
        }
    }

    fn stop(&mut self) {
        if let Some(host) = self.host.take() {
            host.stop();
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tells people; a controller that cannot go on ends the process, and with it its brokers, whose pipes end.
fn tell(news: ControllerNews, show: impl FnOnce(Event)) {
    match news {
        ControllerNews::Event(event) => show(event),
        ControllerNews::Failed(why) => {
            let _nobody_reads = writeln!(io::stderr(), "highwater: {why}");
            std::process::exit(1);
        }
    }
}

/// A line for people, who may be gone.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _nobody_reads = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// `highwater serve`.
pub(super) fn broker(arguments: ServeArguments) -> Result<(), Failure> {
    let settings = Settings::from_pairs(&arguments.set)?;
    let configured = settings.value(&settings::LISTENERS);
    let listen = arguments.listen.or(configured);
    let listen = listen.unwrap_or_else(|| HostPort { host: supervisor::HOST.to_owned(), port: 9092 });
    let (data, controller) = match arguments.controller {
        Some(address) => (arguments.data, ControllerAt::At(address)),
        None => (
            arguments.data.join(arguments.id.to_string()),
            ControllerAt::Own { directory: arguments.data.join("controller") },
        ),
    };
    let options = ServeOptions {
        node: NodeId::new(arguments.id).ok_or(Failure::NoSuchBroker(arguments.id))?,
        listen,
        data,
        brokers: arguments.brokers.map(usize::from),
        controller,
        settings,
        form: if arguments.supervised { Form::Json } else { Form::Words },
    };
    Ok(serve::serve(options, arguments.supervised)?)
}

/// `highwater controller`.
pub(super) fn controller(
    listen: HostPort,
    directory: PathBuf,
    brokers: Option<u16>,
    set: &[String],
) -> Result<(), Failure> {
    let settings = Settings::from_pairs(set)?;
    let options = ControllerOptions {
        directory,
        listen,
        brokers: brokers.map(usize::from),
        data_directories: Vec::new(),
        settings,
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Signals)?;
    // A signal is an order from here on, so that what was started is also stopped.
    let signals =
        runtime.block_on(async { Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)) });
    let (mut terminate, mut interrupt) = signals.map_err(Failure::Signals)?;
    let host =
        ControllerHost::start(options, Clock::start(), |news| tell(news, |event| say(&event.to_string())))?;
    let address = host.address();
    say(&format!("the controller listens on {address}, process {}", std::process::id()));
    runtime.block_on(async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    });
    host.stop();
    Ok(())
}
