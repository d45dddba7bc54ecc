//! What goes wrong, as verbs: kill, power loss, pause, cut, hold, slow and failing disks, jumping clocks, exchanged and damaged disks.

use std::path::Path;
use std::time::Duration;

use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::{Completing, Fault, Unsynced};
use highwater_engine::units::NodeId;

use super::agenda::Happening;
use super::network::{End, Link};
use super::{World, host};
use crate::invariants::Leaving;

/// What the crash at a planned call of the disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doom {
    Kill,
    Power(Unsynced),
}

impl World {
    /// `kill -9`: the page cache is kept.
    pub fn kill(&mut self, node: NodeId) {
        if self.node(node).process().is_none() {
            return;
        }
        self.note(format!("{node} is killed"));
        self.count("kills");
        self.process_dies(node, Leaving::Process);
    }

    /// The machine loses its power, and with it any of what was not synced.
    pub fn power_loss(&mut self, node: NodeId) {
        self.power_loss_that(node, Unsynced::Chosen);
    }

    /// The machine loses its power; what of the unsynced is kept is given.
    pub fn power_loss_that(&mut self, node: NodeId, unsynced: Unsynced) {
        self.note(format!("{node} loses its power ({unsynced:?})"));
        self.count("power losses");
        self.power_goes(node, unsynced);
    }

    fn power_goes(&mut self, node: NodeId, unsynced: Unsynced) {
        let mut chance = self.chance.fork();
        self.end_process(node, Leaving::Machine);
        let disk = self.node(node).disk.crash_power(unsynced, &mut chance);
        self.node_mut(node).disk = disk;
        self.start_again_later(node);
    }

    /// The process ends without a word; the machine goes on.
    pub(crate) fn process_dies(&mut self, node: NodeId, leaving: Leaving) {
        let mut chance = self.chance.fork();
        self.end_process(node, leaving);
        let disk = self.node(node).disk.crash_kill(&mut chance);
        self.node_mut(node).disk = disk;
        self.start_again_later(node);
    }

    fn end_process(&mut self, node: NodeId, leaving: Leaving) {
        let number = self.node(node).process_number();
        let process: Option<Box<host::Process>> = self.node_mut(node).take_process();
        self.node_mut(node).life += 1;
        self.node_mut(node).doom = None;
        self.ghost.process_ended(node, leaving);
        for connection in self.network.of_process(node) {
            self.break_connection(connection);
        }
        if process.is_some() && self.options.ends_are_seen {
            let wait = self.some(Duration::from_millis(20));
            self.plan_in(wait, Happening::EndSeen { node, process: number });
        }
    }

    /// The planned call of the disk has come.
    pub(crate) fn meet_doom(&mut self, node: NodeId) {
        match self.node(node).doom.unwrap_or(Doom::Kill) {
            Doom::Kill => {
                self.note(format!("{node} is killed in a call of its disk"));
                self.count("kills in a call of the disk");
                self.process_dies(node, Leaving::Process);
            }
            Doom::Power(unsynced) => {
                self.note(format!("{node} loses its power in a call of its disk"));
                self.count("power losses in a call of the disk");
                self.power_goes(node, unsynced);
            }
        }
    }

    /// A crash at the call of its disk that comes after so many others.
    pub(crate) fn doom(&mut self, node: NodeId, doom: Doom, calls: u64) {
        let host = self.node_mut(node);
        host.doom = Some(doom);
        host.disk.crash_at(host.disk.next_call() + calls);
    }

    /// Starts a process, if none runs.
    pub fn start_node(&mut self, node: NodeId) {
        self.node_mut(node).is_kept_down = false;
        self.start(node);
    }

    /// SIGSTOP.
    pub fn pause(&mut self, node: NodeId) {
        self.note(format!("{node} is stopped with SIGSTOP"));
        self.count("pauses");
        if let Some(process) = self.node_mut(node).process_mut() {
            process.paused = true;
        }
    }

    /// SIGCONT: everything that happened to it meanwhile happens now.
    pub fn resume(&mut self, node: NodeId) {
        let Some(process) = self.node_mut(node).process_mut() else { return };
        if !std::mem::take(&mut process.paused) {
            return;
        }
        let waiting = std::mem::take(&mut process.waiting);
        self.note(format!("{node} goes on"));
        let now = self.now;
        for happening in waiting {
            self.agenda.plan(now, happening);
        }
    }

    /// Leaderships are handed over, then the process ends cleanly.
    pub fn stop_cleanly(&mut self, node: NodeId) {
        self.note(format!("{node} is told to stop"));
        if let Some(process) = self.node_mut(node).process_mut() {
            process.shard.tell(highwater_replication::shard::Event::Stop);
        }
        self.wake(node);
    }

    pub(super) fn stops(&mut self, node: NodeId, life: u64) {
        if self.process_of(node, life).is_none() {
            return;
        }
        let Some(process) = self.node_mut(node).take_process() else { return };
        let store = process.shard.store().clone();
        let session = process.shard.session().map(highwater_replication::ids::BrokerEpoch::value);
        let entries = process.shard.high_watermarks();
        let name = highwater_replication::shard::HIGH_WATERMARKS.to_owned();
        let written = highwater_engine::store::Job::OffsetCheckpoint { name, entries }.run(&store);
        drop(process);
        // Without a session nobody was told what the last crash may have taken, and a mark would wash that suspicion off.
        let words = match session {
            None => "without a mark, because it never had a session".to_owned(),
            Some(_) => store
                .close(serde_json::Map::new(), session)
                .map_or_else(|error| format!("not cleanly: {error}"), |()| "cleanly".to_owned()),
        };
        self.note(format!("{node} stops {words} ({written:?})"));
        self.count("clean stops");
        self.process_dies(node, Leaving::Process);
        if self.options.ends_are_seen {
            let number = u32::try_from(life).unwrap_or(u32::MAX);
            self.plan_soon(Happening::EndSeen { node, process: number });
        }
    }

    /// Nothing gets from one to the other, in either direction.
    pub fn cut(&mut self, one: impl Into<End>, other: impl Into<End>) {
        let (one, other) = (one.into(), other.into());
        self.cut_one_way(one, other);
        self.cut_one_way(other, one);
    }

    /// Nothing gets from one to the other.
    pub fn cut_one_way(&mut self, from: impl Into<End>, to: impl Into<End>) {
        let (from, to) = (from.into(), to.into());
        self.note(format!("the link {from:?} -> {to:?} is cut"));
        self.count("links cut");
        self.network.set_link(from, to, Link::Cut);
    }

    /// What goes from one to the other waits.
    pub fn hold(&mut self, from: impl Into<End>, to: impl Into<End>) {
        let (from, to) = (from.into(), to.into());
        self.note(format!("the link {from:?} -> {to:?} is held"));
        self.network.set_link(from, to, Link::Held);
    }

    /// The links between the two are as they should be; what was held goes on in its order.
    pub fn heal(&mut self, one: impl Into<End>, other: impl Into<End>) {
        let (one, other) = (one.into(), other.into());
        self.note(format!("the link {one:?} <-> {other:?} is whole"));
        for (from, to) in [(one, other), (other, one)] {
            self.network.set_link(from, to, Link::Open);
            for happening in self.network.take_held(from, to) {
                self.agenda.plan(self.now, happening);
            }
        }
    }

    /// All links are whole, all processes run, all disks are quick, all clocks are right.
    pub fn heal_everything(&mut self) {
        self.note("everything is healed".to_owned());
        for happening in self.network.open_all() {
            self.agenda.plan(self.now, happening);
        }
        for node in self.options.nodes.clone() {
            self.resume(node);
            self.free_disk(node);
            self.node_mut(node).disk_slowness = 1;
            self.node_mut(node).skew_ms = 0;
            self.start_node(node);
        }
        self.start_controller();
    }

    /// Operations of its disk that are in flight stay there.
    pub fn stick_disk(&mut self, node: NodeId) {
        self.note(format!("the disk of {node} does not answer"));
        self.count("stuck disks");
        self.node_mut(node).disk_is_stuck = true;
    }

    /// They complete again.
    pub fn free_disk(&mut self, node: NodeId) {
        let host = self.node_mut(node);
        host.disk_is_stuck = false;
        host.completing = false;
        self.keep_disk_going(node);
    }

    /// So many times slower than other disks.
    pub fn slow_disk(&mut self, node: NodeId, times: u32) {
        self.note(format!("the disk of {node} is {times} times slower"));
        self.count("slow disks");
        self.node_mut(node).disk_slowness = times;
    }

    /// The call of its disk that comes after so many others fails once.
    pub fn fail_disk_call(&mut self, node: NodeId, after: u64, fault: Fault) {
        self.note(format!("a call of the disk of {node} will fail: {fault:?}"));
        self.count("planned errors of a disk");
        let disk = &self.node(node).disk;
        disk.fail_call(disk.next_call() + after, fault);
    }

    /// The wall clock jumps.
    pub fn jump_clock(&mut self, node: NodeId, by: Duration, backwards: bool) {
        self.note(format!(
            "the clock of {node} jumps by {by:?}{}",
            if backwards { " backwards" } else { "" }
        ));
        self.count("jumps of a clock");
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.node_mut(node).skew_ms += if backwards { -millis } else { millis };
    }

    /// The process is killed and its disk exchanged for an empty one.
    pub fn replace_disk(&mut self, node: NodeId) {
        self.note(format!("{node} gets an empty disk"));
        self.count("exchanged disks");
        self.ghost.disk_exchanged(node);
        self.process_dies(node, Leaving::Disk);
        let disk = SimulatedDisk::new(self.chance.u64(..));
        disk.set_completing(Completing::WhenTold);
        disk.set_cold_percent(5);
        self.node_mut(node).disk = disk;
    }

    /// An image of a node's disk as it is now.
    pub fn image_of(&mut self, node: NodeId) -> SimulatedDisk {
        let seed = self.chance.u64(..);
        self.node(node).disk.fork(seed)
    }

    /// The machine is set back to an image of its disk; another boot.
    pub fn set_back(&mut self, node: NodeId, image: &SimulatedDisk) {
        self.note(format!("{node} is set back to an image"));
        self.ghost.disk_exchanged(node);
        self.process_dies(node, Leaving::Disk);
        let mut chance = self.chance.fork();
        self.node_mut(node).disk = image.crash_power(Unsynced::Kept, &mut chance);
    }

    /// So many bytes are on the medium of a node; `None` is endless.
    pub fn set_room(&mut self, node: NodeId, bytes: Option<u64>) {
        self.note(format!("the disk of {node} has room for {bytes:?} bytes"));
        self.node(node).disk.set_capacity(bytes);
    }

    /// The controller's process ends and is started again.
    pub fn crash_controller(&mut self) {
        self.controller_crashes(Some(Unsynced::Lost));
    }

    /// Overwrites bytes of a file of a node that is down.
    pub fn damage(&mut self, node: NodeId, file: &str, position: u64, bytes: &[u8]) {
        self.note(format!("{file} of {node} is damaged at {position}"));
        let path = Path::new("/data").join(file);
        let damaged = self.node(node).disk.damage(&path, position, bytes);
        assert!(damaged.is_ok(), "{} of {node} is not there: {damaged:?}", path.display());
    }

    /// The contents of a file of a node.
    pub fn file(&self, node: NodeId, file: &str) -> Option<Vec<u8>> {
        self.node(node).disk.contents(&Path::new("/data").join(file)).ok()
    }
}
