//! The embedded controller as a value that is polled: the machine, its store, and nothing leaves before it is durable.
//!
//! No thread, socket or clock inside. A turn may block on the disk, which is why a host gives it a thread of its own.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use highwater_engine::disk::{Disk, Patience};
use highwater_engine::store::CloseError;
use highwater_engine::units::{Monotonic, Now};

use super::change::Change;
use super::event::ControllerEvent;
use super::input::{CallId, ControllerConfig, Effect, Input};
use super::machine::Controller;
use super::protocol::ControllerReply;
use super::state::ClusterState;
use super::store::{ControllerFailure, ControllerOpenError, StateStore};
use crate::rules::Rules;

/// What leaves a [`ControllerNode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerOut {
    /// The answer to a call.
    Reply {
        /// Which call.
        id: CallId,
        /// The answer.
        reply: ControllerReply,
    },
    /// Something people should know.
    Event(ControllerEvent),
}

/// The controller's machine over its store.
#[derive(Debug)]
pub struct ControllerNode {
    machine: Controller,
    store: StateStore,
    inbox: VecDeque<Input>,
    /// Changes that are not in the log yet.
    unkept: VecDeque<Change>,
    /// What may leave when this version is durable.
    held: VecDeque<(u64, ControllerOut)>,
}

impl ControllerNode {
    /// Opens the directory, or makes it, and goes on where its state was left.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        config: ControllerConfig,
        rules: Rules,
        seed: u64,
        now: Now,
    ) -> Result<Self, ControllerOpenError> {
        let (store, state) = StateStore::open(disk, directory, now)?;
        let machine = Controller::new(state, config, rules, seed, now);
        let mut node =
            Self { machine, store, inbox: VecDeque::new(), unkept: VecDeque::new(), held: VecDeque::new() };
        node.sort_effects();
        Ok(node)
    }

    /// Tells what happened; it is looked at in the next turn.
    pub fn tell(&mut self, input: Input) {
        self.inbox.push_back(input);
    }

    /// Steps the machine through everything it was told, keeps what changed, and gives out what has become durable.
    ///
    /// With [`Patience::MayBlock`] it returns when everything is durable. With [`Patience::MustNotBlock`] a sync may still be under
    /// way ([`ControllerNode::waits_for_disk`]); another turn takes its result. After a failure nothing leaves any more.
    pub fn turn(&mut self, now: Now, patience: Patience) -> Result<Vec<ControllerOut>, ControllerFailure> {
        while let Some(input) = self.inbox.pop_front() {
            self.machine.step(now, input);
            self.sort_effects();
        }
        self.machine.step(now, Input::Tick);
        self.sort_effects();
        self.store.turn(patience)?;
        while !self.unkept.is_empty() && !self.store.is_busy() {
            let (count, ticket) = self.store.append(self.unkept.iter(), now)?;
            self.unkept.drain(..count);
            match patience {
                Patience::MayBlock => self.store.wait(ticket)?,
                Patience::MustNotBlock => self.store.turn(patience)?,
            }
        }
        self.look_after_store(now)?;
        Ok(self.release())
    }

    /// When a turn is due at the latest.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.machine.next_deadline()
    }

    /// Whether something is held back until a sync under way is done.
    pub fn waits_for_disk(&self) -> bool {
        self.store.is_busy() || !self.unkept.is_empty()
    }

    /// A descriptor that becomes readable when a turn would find a sync done.
    pub fn wake_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.store.wake_descriptor()
    }

    /// The state, with changes that may not be durable yet.
    pub fn state(&self) -> &ClusterState {
        self.machine.state()
    }

    /// The machine, to look at.
    pub fn machine(&self) -> &Controller {
        &self.machine
    }

    /// Stops cleanly. What was not given out yet is not.
    pub fn close(self) -> Result<(), CloseError> {
        self.store.close()
    }

    /// Replies and events of a step are true only with its changes, so all of them wait for the version after it.
    fn sort_effects(&mut self) {
        let version = self.machine.state().version;
        for effect in self.machine.take_effects() {
            match effect {
                Effect::Persist(change) => self.unkept.push_back(change),
                Effect::Reply { id, reply } => {
                    self.held.push_back((version, ControllerOut::Reply { id, reply }));
                }
                Effect::Event(event) => self.held.push_back((version, ControllerOut::Event(event))),
            }
        }
    }

    fn look_after_store(&mut self, now: Now) -> Result<(), ControllerFailure> {
        if self.waits_for_disk() {
            return Ok(());
        }
        self.store.name_cluster(&self.machine.state().cluster_id)?;
        if self.store.changes_since_snapshot() >= self.machine.config().snapshot_changes {
            self.store.write_snapshot(self.machine.state(), now)?;
        }
        self.store.run_due_jobs(now)
    }

    fn release(&mut self) -> Vec<ControllerOut> {
        let durable = self.store.durable();
        let count = self.held.iter().take_while(|(version, _)| *version <= durable).count();
        self.held.drain(..count).map(|(_, out)| out).collect()
    }
}
