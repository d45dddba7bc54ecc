//! A controller of one's own: the decisions are the crate's, where its state is kept and how it is reached are not. Here it is one JSON
//! file, replaced and synced before any answer leaves, and a channel.
//!
//! ```text
//! cargo run -p highwater-replication --example own_controller
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use highwater_engine::units::NodeId;
use highwater_replication::Rules;
use highwater_replication::controller::{
    CallId, ClusterState, Controller, ControllerCall, ControllerConfig, Effect, Input, NewTopic,
};
use highwater_replication::node::{Clock, ControllerLink, Node};
use highwater_replication::shard::{ControllerCallId, Event, ShardConfig};
use highwater_replication::transport::{Inbox, Switch};

type Outcome<T> = Result<T, Box<dyn Error>>;
type Call = (ControllerCallId, ControllerCall, Inbox);

/// How nodes reach it. `None` as an answer says that there is none, and that it may have been carried out all the same.
#[derive(Clone)]
struct Link(Sender<Call>);

impl ControllerLink for Link {
    fn call(&mut self, call: ControllerCallId, request: ControllerCall, inbox: &Inbox) {
        if self.0.send((call, request, inbox.clone())).is_err() {
            let _ = inbox.send(Event::ControllerAnswered { call, reply: None });
        }
    }
}

struct FileController {
    machine: Controller,
    file: PathBuf,
    clock: Clock,
    callers: BTreeMap<CallId, (ControllerCallId, Inbox)>,
}

impl FileController {
    fn start(file: PathBuf) -> Outcome<(Link, JoinHandle<io::Result<()>>)> {
        let state = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ClusterState::empty(),
            Err(error) => return Err(error.into()),
        };
        let config = ControllerConfig { brokers_configured: Some(3), ..ControllerConfig::default() };
        let clock = Clock::start();
        let machine = Controller::new(state, config, Rules::default(), fastrand::u64(..), clock.now());
        let controller = Self { machine, file, clock, callers: BTreeMap::new() };
        let (calls, taken) = unbounded();
        Ok((Link(calls), thread::spawn(move || controller.run(&taken))))
    }

    fn run(mut self, calls: &Receiver<Call>) -> io::Result<()> {
        for number in 0.. {
            self.give_out()?;
            let due = self.machine.next_deadline().map_or(Duration::from_secs(1), |at| self.clock.until(at));
            let input = match calls.recv_timeout(due) {
                Ok((call, request, inbox)) => {
                    self.callers.insert(CallId(number), (call, inbox));
                    Input::Call { id: CallId(number), call: request }
                }
                Err(RecvTimeoutError::Timeout) => Input::Tick,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            self.machine.step(self.clock.now(), input);
        }
        Ok(())
    }

    /// What leaves is true only when the change before it is durable.
    fn give_out(&mut self) -> io::Result<()> {
        let effects = self.machine.take_effects();
        if effects.iter().any(|effect| matches!(effect, Effect::Persist(_))) {
            replace(&self.file, &serde_json::to_vec_pretty(self.machine.state())?)?;
        }
        for effect in effects {
            match effect {
                Effect::Reply { id, reply } => {
                    if let Some((call, inbox)) = self.callers.remove(&id) {
                        let _ = inbox.send(Event::ControllerAnswered { call, reply: Some(reply) });
                    }
                }
                Effect::Event(event) => println!("controller: {event}"),
                Effect::Persist(_) => {}
            }
        }
        Ok(())
    }
}

/// A crash leaves the old contents or the new.
fn replace(file: &Path, contents: &[u8]) -> io::Result<()> {
    let fresh = file.with_extension("new");
    let mut out = File::create(&fresh)?;
    out.write_all(contents)?;
    out.sync_all()?;
    fs::rename(&fresh, file)?;
    File::open(file.parent().unwrap_or(Path::new(".")))?.sync_all()
}

fn main() -> Outcome<()> {
    let home = tempfile::tempdir()?;
    let file = home.path().join("cluster.json");
    for life in 1..=2 {
        let (link, controller) = FileController::start(file.clone())?;
        let (switch, mut nodes) = (Switch::new(), Vec::new());
        for id in [1, 2, 3].into_iter().filter_map(NodeId::new) {
            let (directory, link) = (home.path().join(id.to_string()), link.clone());
            nodes.push(Node::start(&directory, ShardConfig::new(id), link, |inbox| {
                Ok(switch.join(id, inbox))
            })?);
        }
        let outcome = nodes[0].create_topic(NewTopic::new("orders")).ok_or("no controller")?;
        println!("life {life}: {}", outcome.map_or_else(|why| why.to_string(), |made| format!("{made:?}")));
        nodes.into_iter().try_for_each(Node::stop)?;
        drop(link);
        controller.join().map_err(|_| "the controller panicked")??;
    }
    Ok(())
}
