//! A file system, served through FUSE, whose medium can lose its power.
//!
//! ```text
//!   the writer's process ── system calls, rings ──> kernel ── FUSE ──> System ──> SimulatedDisk: cached | certain
//!                                                                     lose_power: what is not certain is lost, torn or reordered
//! ```
//! What may be lost is decided where the crash contract of the `Disk` trait is implemented for tests: pages and their 512-byte sectors,
//! sizes, names, each in a version of its own. Here it stands behind real system calls: whatever the engine's real disks fail to ask
//! the kernel for is not there after a power loss.
//!
//! The mount is taken down when this is dropped, and by a guard, a process of its own, if this one is killed.

mod guard;
mod system;
mod tree;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use fuser::{BackgroundSession, Config, MountOption, spawn_mount};
use highwater_engine::disk::SimulatedDisk;
use highwater_engine::disk::simulated::{Tear, Unsynced};
use tempfile::TempDir;

use crate::place::Counted;
pub(crate) use guard::stand_by;
use guard::{Guard, detach, is_mounted};
use system::System;
use tree::{Requests, Tree, lock};

/// What `fsync` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sync {
    /// What was written is certain.
    Honest,
    /// Nothing, and says that it has: whoever judges has to see this.
    Lying,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Medium {
    disk: SimulatedDisk,
    tree: Arc<Mutex<Tree>>,
    sync: Sync,
    /// Before the last power loss.
    requests: Requests,
    session: Option<BackgroundSession>,
    guard: Guard,
    // Removed last.
    root: TempDir,
}

impl Medium {
    /// An empty medium, mounted.
    pub(crate) fn new(rng: &mut Rng, sync: Sync) -> io::Result<Self> {
        let disk = SimulatedDisk::new(rng.u64(..));
        disk.set_tear(if rng.bool() { Tear::Pages } else { Tear::Sectors });
        let tree = Arc::new(Mutex::new(Tree::new(disk.clone(), Requests::default())));
        let root = tempfile::tempdir()?;
        let guard = Guard::of(root.path())?;
        let mut medium = Self { disk, tree, sync, requests: Requests::default(), session: None, guard, root };
        medium.mount()?;
        Ok(medium)
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    /// Lets the power go at the call of this number, counted from now. What is asked for from then on fails.
    pub(crate) fn cut_at(&self, calls: u64) {
        self.disk.crash_at(self.disk.next_call() + calls);
    }

    /// Whether the power is gone.
    pub(crate) fn is_down(&self) -> bool {
        self.disk.is_down()
    }

    /// The power goes, if it is not gone, and comes back: mounted again, without anything in the kernel's memory.
    pub(crate) fn lose_power(&mut self, rng: &mut Rng) -> io::Result<()> {
        self.unmount()?;
        let unsynced = match rng.u8(..4) {
            0 => Unsynced::Lost,
            1 => Unsynced::Kept,
            _ => Unsynced::Chosen,
        };
        self.requests = lock(&self.tree).requests;
        self.disk = self.disk.crash_power(unsynced, rng);
        self.disk.crash_at(u64::MAX);
        self.tree = Arc::new(Mutex::new(Tree::new(self.disk.clone(), self.requests)));
        self.mount()
    }

    /// What was asked of it, and what it has lost.
    pub(crate) fn counted(&self) -> Counted {
        let Requests { writes, syncs, directory_syncs, cuts, renames, removals, reservations } =
            self.requests;
        let lost = self.disk.counters();
        Counted(vec![
            ("writes", writes),
            ("syncs", syncs),
            ("syncs of directories", directory_syncs),
            ("sizes set", cuts),
            ("renamings", renames),
            ("removals", removals),
            ("reservations", reservations),
            ("holes", lost.holes),
            ("torn pages", lost.torn_pages),
            ("lost sizes", lost.lost_sizes),
            ("lost names", lost.lost_names),
            ("names that came back", lost.resurrected_names),
        ])
    }

    fn mount(&mut self) -> io::Result<()> {
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("highwater-soak".to_owned())];
        config.n_threads = Some(2);
        let system = System::new(Arc::clone(&self.tree), self.sync);
        let session = spawn_mount(system, self.root.path(), &config);
        self.session =
            Some(session.map_err(|error| io::Error::new(error.kind(), format!("mounting: {error}")))?);
        Ok(())
    }

    fn unmount(&mut self) -> io::Result<()> {
        let Some(session) = self.session.take() else { return Ok(()) };
        match session.umount_and_join() {
            // What a killed process had under way in its rings holds files a little longer than it lived.
            Err(_) if is_mounted(self.root.path()) => detach(self.root.path()),
            // Who served it was interrupted, which is what an end of the power is. What it may still be asked is of a life that is over.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

impl Drop for Medium {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("{} is still mounted: {error}", self.root.path().display());
        }
        self.guard.dismiss();
    }
}
