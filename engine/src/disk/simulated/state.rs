//! All that a simulated disk is, behind one lock: the tree of files, the queues, who holds what, and which calls are to fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;

use super::counters::SimulatedCounters;
use super::loss::{Decision, Fate, Unit};
use super::names::{NodeId, Tree};
use super::queue::QueueState;
use super::{Completing, Tear, Unsynced};
use crate::disk::trouble::of_sync;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallKind {
    /// Opening a file that is there.
    Open,
    /// Opening a file that is made by it.
    CreateFile,
    /// Making directories.
    CreateDirectory,
    /// Reading a directory.
    List,
    /// Renaming.
    Rename,
    /// Removing a file.
    RemoveFile,
    /// Removing a directory and what is in it.
    RemoveDirectory,
    /// Syncing a directory.
    SyncDirectory,
    /// Taking a directory.
    Lock,
    /// Writing what a lock file says.
    WriteLock,
    /// Asking for free space, size, identity or the text of a lock.
    Look,
    /// Reading or mapping a file.
    Read,
    /// Writing.
    Write,
    /// Syncing a file.
    Sync,
    /// Setting a size.
    SetSize,
    /// Reserving room.
    Reserve,
}

impl CallKind {
    /// Whether a crash before the call and one after it can be told apart.
    pub fn is_change(self) -> bool {
        match self {
            Self::Open | Self::List | Self::Lock | Self::Look | Self::Read => false,
            Self::CreateFile
            | Self::CreateDirectory
            | Self::Rename
            | Self::RemoveFile
            | Self::RemoveDirectory
            | Self::SyncDirectory
            | Self::WriteLock
            | Self::Write
            | Self::Sync
            | Self::SetSize
            | Self::Reserve => true,
        }
    }
}

/// One call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: u64,
    /// What it does.
    pub kind: CallKind,
    /// To what; of a file that has been opened the path that it was opened by.
    pub path: PathBuf,
}

/// How a call is made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EIO. A write may have written a part; a sync leaves what it should have covered uncertain for good.
    Io,
    /// ENOSPC. A write may have written a part.
    NoSpace,
    /// EMFILE. A directory that is to be synced cannot even be opened, so that nothing of it is tried.
    NoDescriptors,
    /// EROFS for a call that would change something; any other call goes through.
    ReadOnly,
    /// A write that wrote a part and then could not go on; EIO for any other call.
    ShortWrite,
    /// The thread that calls panics, before anything is done.
    Panic,
    /// A sync of which nothing got to the medium, and what it should have covered is on its way there no more; EIO for any other call.
    PagesGone,
}

/// What becomes of the call at which a crash comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interruption {
    /// The generator decides.
    #[default]
    Chosen,
    /// Nothing of it happens.
    Undone,
    /// Of a write so many bytes; anything else happens.
    Part(usize),
    /// It happens, and nobody hears of it.
    Done,
}

/// Whether a thing has reached the medium before a sync of it failed.
pub(super) enum Reached<'a> {
    Nothing,
    Chance(&'a mut Rng),
}

impl<'a> Reached<'a> {
    fn of(fault: Fault, rng: &'a mut Rng) -> Self {
        match fault {
            Fault::PagesGone => Self::Nothing,
            Fault::Io
            | Fault::NoSpace
            | Fault::NoDescriptors
            | Fault::ReadOnly
            | Fault::ShortWrite
            | Fault::Panic => Self::Chance(rng),
        }
    }

    /// Whether one thing has.
    pub(super) fn has_one(&mut self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Chance(rng) => rng.bool(),
        }
    }

    /// How many of the first ones have.
    pub(super) fn how_many_of(&mut self, count: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Chance(rng) => rng.usize(..=count),
        }
    }
}

/// The error of every call on a life that is over. Inside of an [`io::Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated process or machine has crashed")]
pub struct Crashed;

/// Whether an error says that the simulated process or machine is no more.
pub fn is_crash(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Crashed>)
}

pub(super) fn crashed() -> io::Error {
    io::Error::other(Crashed)
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Go,
    Fail(Fault),
    /// The crash comes while it is done.
    Crash,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct State {
    seed: u64,
    pub(super) rng: Rng,
    /// Handles of other lives are dead.
    pub(super) life: u64,
    boots: u64,
    /// Numbers the changes of files, to tell what a sync covers.
    step: u64,
    pub(super) next_call: u64,
    pub(super) crash_at: Option<u64>,
    /// What becomes of the call at which the crash comes.
    pub(super) interruption: Interruption,
    pub(super) down: bool,
    /// The next call of a kind fails so.
    pub(super) faults_by_kind: BTreeMap<CallKind, Fault>,
    pub(super) faults: BTreeMap<u64, Fault>,
    /// Every call below one of these paths fails.
    pub(super) failing: BTreeMap<PathBuf, Fault>,
    pub(super) trace: Option<Vec<Call>>,
    pub(super) capacity: Option<u64>,
    pub(super) open_files_max: Option<usize>,
    pub(super) closed_unsynced: BTreeSet<PathBuf>,
    pub(super) time_ms: i64,
    pub(super) tear: Tear,
    pub(super) cold_percent: u8,
    pub(super) incarnation_hidden: bool,
    pub(super) completing: Completing,
    pub(super) tree: Tree,
    /// A token for each node that was opened; handles hold clones of it.
    open: BTreeMap<NodeId, Arc<()>>,
    /// When somebody began to have a node open, where that is of interest.
    opened_at: BTreeMap<NodeId, u64>,
    pub(super) locked: BTreeSet<NodeId>,
    pub(super) queues: BTreeMap<u64, QueueState>,
    pub(super) counters: SimulatedCounters,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            rng: Rng::with_seed(seed),
            life: 0,
            boots: 1,
            step: 0,
            next_call: 0,
            crash_at: None,
            interruption: Interruption::Chosen,
            down: false,
            faults: BTreeMap::new(),
            failing: BTreeMap::new(),
            faults_by_kind: BTreeMap::new(),
            trace: None,
            capacity: None,
            open_files_max: None,
            closed_unsynced: BTreeSet::new(),
            time_ms: 0,
            tear: Tear::default(),
            cold_percent: 0,
            incarnation_hidden: false,
            completing: Completing::default(),
            tree: Tree::new(),
            open: BTreeMap::new(),
            opened_at: BTreeMap::new(),
            locked: BTreeSet::new(),
            queues: BTreeMap::new(),
            counters: SimulatedCounters::default(),
        }
    }

    pub(super) fn fork(&self, seed: u64) -> Self {
        let mut tree = self.tree.clone();
        tree.forget_syncs_in_flight();
        Self {
            rng: Rng::with_seed(seed),
            faults: self.faults.clone(),
            failing: self.failing.clone(),
            faults_by_kind: self.faults_by_kind.clone(),
            trace: self.trace.as_ref().map(|_| Vec::new()),
            tree,
            open: BTreeMap::new(),
            opened_at: BTreeMap::new(),
            locked: BTreeSet::new(),
            queues: BTreeMap::new(),
            closed_unsynced: self.closed_unsynced.clone(),
            ..*self
        }
    }

    /// The kernel's boot id of this boot.
    pub(super) fn boot(&self) -> String {
        format!("simulated-{:016x}-{}", self.seed, self.boots)
    }

    pub(super) fn check_alive(&self, life: u64) -> io::Result<()> {
        if self.down || life != self.life { Err(crashed()) } else { Ok(()) }
    }

    /// Numbers a call and says what becomes of it.
    pub(super) fn begin(&mut self, life: u64, kind: CallKind, path: &Path) -> io::Result<Verdict> {
        self.check_alive(life)?;
        let number = self.next_call;
        self.next_call += 1;
        if let Some(trace) = &mut self.trace {
            trace.push(Call { number, kind, path: path.to_owned() });
        }
        if self.crash_at.is_some_and(|at| number >= at) {
            return Ok(Verdict::Crash);
        }
        let failing = || self.failing.iter().find(|(below, _)| path.starts_with(below));
        let fault = self.faults.remove(&number).or_else(|| self.faults_by_kind.remove(&kind));
        let fault = fault.or_else(|| failing().map(|(_, fault)| *fault));
        let fault = fault.filter(|fault| *fault != Fault::ReadOnly || kind.is_change());
        assert!(fault != Some(Fault::Panic), "the call {number} of the simulated disk panics");
        Ok(fault.map_or(Verdict::Go, Verdict::Fail))
    }

    /// A call that happens as a whole or not at all.
    pub(super) fn call<T>(
        &mut self,
        life: u64,
        kind: CallKind,
        path: &Path,
        apply: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.begin(life, kind, path)? {
            Verdict::Go => apply(self),
            Verdict::Fail(fault) => Err(self.fail(fault)),
            Verdict::Crash => {
                if self.is_done() {
                    drop(apply(self));
                }
                Err(self.go_down())
            }
        }
    }

    /// Whether what happens as a whole or not at all happens in the call at which the crash comes.
    pub(super) fn is_done(&mut self) -> bool {
        match self.interruption {
            Interruption::Chosen => self.rng.bool(),
            Interruption::Undone => false,
            Interruption::Part(_) | Interruption::Done => true,
        }
    }

    /// How many of so many bytes are written by the call at which the crash comes.
    pub(super) fn part_of(&mut self, length: usize) -> usize {
        match self.interruption {
            Interruption::Chosen => self.rng.usize(..=length),
            Interruption::Undone => 0,
            Interruption::Part(bytes) => bytes.min(length),
            Interruption::Done => length,
        }
    }

    /// Counts a fault and gives its error.
    pub(super) fn fail(&mut self, fault: Fault) -> io::Error {
        match fault {
            Fault::Io | Fault::ShortWrite | Fault::PagesGone | Fault::Panic => {
                self.counters.io_errors += 1;
                io::Error::from_raw_os_error(libc::EIO)
            }
            Fault::NoSpace => self.out_of_space(),
            Fault::NoDescriptors => io::Error::from_raw_os_error(libc::EMFILE),
            Fault::ReadOnly => io::Error::from_raw_os_error(libc::EROFS),
        }
    }

    fn out_of_space(&mut self) -> io::Error {
        self.counters.out_of_space += 1;
        io::Error::from_raw_os_error(libc::ENOSPC)
    }

    /// The process or machine stops here; what is in flight is decided at once.
    pub(super) fn go_down(&mut self) -> io::Error {
        if !self.down {
            self.down = true;
            let mut rng = self.rng.fork();
            self.abort_in_flight(&mut rng);
        }
        crashed()
    }

    pub(super) fn next_step(&mut self) -> u64 {
        self.step += 1;
        self.step
    }

    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Remembers that a node is held open while the token lives.
    pub(super) fn open_token(&mut self, node: NodeId) -> Arc<()> {
        Arc::clone(self.open.entry(node).or_default())
    }

    /// How many handles there are.
    pub(super) fn open_files(&self) -> usize {
        self.open.values().map(|token| Arc::strong_count(token) - 1).sum()
    }

    /// Where the number of open files is bounded: nobody has had this file open for a while, and the write-back of what was not synced when it
    /// was closed may have failed meanwhile. Whoever opens it now is not told.
    pub(super) fn forget_what_was_closed_unsynced(&mut self, node: NodeId, path: &Path) {
        if self.open_files_max.is_none() || self.is_open(node) {
            return;
        }
        let Some(opened_at) = self.opened_at.insert(node, self.step) else { return };
        let fails = self.rng.bool();
        if let Ok(body) = self.tree.file_mut(node)
            && let Some(written_at) = body.newest_unsynced_page()
        {
            // What an earlier process has left is for its successor to write again.
            if written_at > opened_at {
                self.closed_unsynced.insert(path.to_owned());
            }
            if fails {
                body.abandon_pages(&mut Reached::Chance(&mut self.rng));
            }
        }
    }

    /// Writes what there is room for.
    pub(super) fn write(&mut self, node: NodeId, position: u64, bytes: &[u8]) -> io::Result<()> {
        let room = self.room_for_file(node)?;
        let fits = room.map_or(bytes.len(), |end| {
            usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX).min(bytes.len())
        });
        let (step, time_ms) = (self.next_step(), self.time_ms);
        let body = self.tree.file_mut(node)?;
        body.write(step, position, &bytes[..fits]);
        body.modified_ms = time_ms;
        if fits < bytes.len() {
            return Err(self.out_of_space());
        }
        Ok(())
    }

    /// Up to which position a file can have room; `None` without a capacity.
    fn room_for_file(&self, node: NodeId) -> io::Result<Option<u64>> {
        let own = self.tree.file(node)?.allocated();
        Ok(self.free().map(|free| own.saturating_add(free)))
    }

    /// Bytes of the medium that are free; `None` without a capacity.
    pub(super) fn free(&self) -> Option<u64> {
        const PAGE: u64 = super::PAGE_BYTES as u64;
        let capacity = self.capacity?;
        let used = self.tree.allocated(|node| self.is_open(node));
        Some(capacity.saturating_sub(used) / PAGE * PAGE)
    }

    fn is_open(&self, node: NodeId) -> bool {
        self.open.get(&node).is_some_and(|token| Arc::strong_count(token) > 1)
    }

    pub(super) fn reserve(&mut self, node: NodeId, end: u64) -> io::Result<()> {
        if self.room_for_file(node)?.is_some_and(|room| end > room) {
            return Err(self.out_of_space());
        }
        let body = self.tree.file_mut(node)?;
        body.reserved_end = body.reserved_end.max(end);
        Ok(())
    }

    pub(super) fn set_size(&mut self, node: NodeId, size: u64) -> io::Result<()> {
        let (step, time_ms) = (self.next_step(), self.time_ms);
        let body = self.tree.file_mut(node)?;
        body.set_size(step, size);
        body.modified_ms = time_ms;
        Ok(())
    }

    /// A sync of a directory whose verdict is known.
    pub(super) fn sync_directory_with(&mut self, verdict: Verdict, directory: &Path) -> io::Result<()> {
        match verdict {
            Verdict::Go => {
                let node = self.tree.find(directory)?;
                self.sync_directory(node)
            }
            Verdict::Fail(fault @ Fault::NoDescriptors) => Err(self.fail(fault)),
            Verdict::Fail(fault) => {
                self.counters.failed_syncs += 1;
                if let Ok(node) = self.tree.find(directory) {
                    let mut reached = Reached::of(fault, &mut self.rng);
                    self.tree.abandon(node, &mut reached);
                }
                Err(of_sync(self.fail(fault)))
            }
            Verdict::Crash => {
                if self.is_done() {
                    drop(self.tree.find(directory).and_then(|node| self.sync_directory(node)));
                }
                Err(self.go_down())
            }
        }
    }

    fn sync_directory(&mut self, node: NodeId) -> io::Result<()> {
        self.tree.sync_directory(node)?;
        self.open.retain(|_, token| Arc::strong_count(token) > 1);
        let open = &self.open;
        self.tree.forget_unreachable(|node| open.contains_key(&node));
        Ok(())
    }

    pub(super) fn fail_sync(&mut self, node: NodeId, fault: Fault) -> io::Error {
        self.counters.failed_syncs += 1;
        if let Ok(body) = self.tree.file_mut(node) {
            body.abandon(&mut Reached::of(fault, &mut self.rng));
        }
        of_sync(self.fail(fault))
    }

    pub(super) fn crash_kill(&mut self, rng: &mut Rng) -> u64 {
        self.counters.kills += 1;
        self.end_life(rng)
    }

    pub(super) fn crash_power(&mut self, unsynced: Unsynced, rng: &mut Rng) -> u64 {
        let life = self.end_life(rng);
        self.lose_power(&mut Decision::Chance { unsynced, tear: self.tear, rng });
        life
    }

    /// As the fates say, one for each unit of [`State::units`].
    pub(super) fn crash_power_as(&mut self, fates: &[Fate]) -> u64 {
        let life = self.end_life(&mut Rng::with_seed(0));
        self.lose_power(&mut Decision::Given { fates: &mut fates.iter() });
        life
    }

    fn lose_power(&mut self, decision: &mut Decision<'_>) {
        self.counters.power_losses += 1;
        self.boots += 1;
        for body in self.tree.files_mut() {
            body.lose_power(decision, &mut self.counters);
        }
        self.tree.lose_power(decision, &mut self.counters);
        self.tree.forget_unreachable(|_| false);
    }

    /// What a power loss would decide on, in the order in which it does.
    pub(super) fn units(&self) -> Vec<Unit> {
        let mut units = Vec::new();
        for (path, body) in self.tree.files() {
            body.units(&path, &mut units);
        }
        self.tree.units(&mut units);
        units
    }

    fn end_life(&mut self, rng: &mut Rng) -> u64 {
        if !self.down {
            self.abort_in_flight(rng);
        }
        self.down = false;
        self.crash_at = None;
        self.interruption = Interruption::Chosen;
        self.faults.clear();
        self.failing.clear();
        self.faults_by_kind.clear();
        self.locked.clear();
        self.open.clear();
        self.opened_at.clear();
        self.life += 1;
        self.life
    }
}
