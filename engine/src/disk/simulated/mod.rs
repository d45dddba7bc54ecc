//! A disk in memory that loses, at a crash, anything that the contract of [`super::Disk`] lets a disk lose, and nothing else.
//!
//! ```text
//!              write, rename, ...            sync, sync_directory
//!   the store -------------------> cached ------------------------> certain
//!                                    |  versions of pages,             |
//!                                    |  sizes, changes of names        |
//!                    kill: cached stays                                |
//!                    power loss: certain, and of each thing between a version of its own choosing
//! ```
//!
//! One `SimulatedDisk` is the disk of one process on one machine. Everything follows from the seed and the order of the calls. A
//! crash ends a *life*: handles of the old life fail from then on (see [`is_crash`]), and the crash returns a handle for the next.
//!
//! Every crash point of an operation, each on a copy of its own:
//!
//! ```
//! use std::path::Path;
//! use highwater_engine::disk::{Disk, SimulatedDisk, simulated::Unsynced};
//!
//! let base = SimulatedDisk::new(1);
//! for call in base.next_call().. {
//!     let disk = base.fork(call);
//!     disk.crash_at(call);
//!     let done = disk.create_directory(Path::new("/data")).and_then(|()| disk.sync_directory(Path::new("/")));
//!     let after = disk.crash_power(Unsynced::Chosen, &mut fastrand::Rng::with_seed(call));
//!     if done.is_ok() {
//!         assert!(after.list(Path::new("/data")).is_ok());
//!         break;
//!     }
//! }
//! ```
//!
//! What it refuses to do: lose what was synced, tear below a sector, or change bytes that nobody wrote (that is [`SimulatedDisk::damage`]).

mod body;
mod counters;
#[cfg(test)]
mod crash_test;
mod file;
mod loss;
#[cfg(test)]
mod model_test;
mod names;
mod queue;
mod state;
mod surface;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fastrand::Rng;

pub use body::PAGE_BYTES;
pub use counters::SimulatedCounters;
pub use loss::{Fate, Unit, UnitKind};
use state::State;
pub use state::{Call, CallKind, Crashed, Fault, Interruption, is_crash};

/// What a power loss does with what is not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsynced {
    /// Nothing of it got to the medium.
    Lost,
    /// All of it did.
    Kept,
    /// For each page, size and change of names the generator decides.
    Chosen,
}

/// The largest unit that the medium writes as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tear {
    /// A page is there in one of its versions.
    Pages,
    /// A page may have 512-byte sectors of two of its versions.
    #[default]
    Sectors,
}

/// When operations of a queue complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completing {
    /// At submission, in a seeded order.
    #[default]
    AtOnce,
    /// When [`SimulatedDisk::complete_next`] says so, or when somebody blocks in [`super::Queue::reap`].
    WhenTold,
}

/// A handle on a simulated disk, of one life of the process that uses it. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    shared: Shared,
    life: u64,
}

/// The state that all handles share.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<State>>);

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimulatedDisk {
    /// An empty disk. The same seed and the same calls give the same disk.
    pub fn new(seed: u64) -> Self {
        Self { shared: Shared(Arc::new(Mutex::new(State::new(seed)))), life: 0 }
    }

    /// A copy that goes its own way: the same contents, certain and not, call numbers and options; nobody holds a lock or a file
    /// on it, and operations in flight stay with the original. Cheap: contents are shared until one of the two changes them.
    pub fn fork(&self, seed: u64) -> Self {
        let state = self.shared.state().fork(seed);
        let life = state.life;
        Self { shared: Shared(Arc::new(Mutex::new(state))), life }
    }

    /// The machine loses its power. Returns the handle for the next boot.
    pub fn crash_power(&self, unsynced: Unsynced, rng: &mut Rng) -> Self {
        self.next_life(self.shared.state().crash_power(unsynced, rng))
    }

    /// The machine loses its power, and what is left is decided already: one fate for each of [`SimulatedDisk::unsynced`], in that order;
    /// what has none is kept. What cannot be, a rename without the one before it, becomes what can.
    pub fn crash_power_as(&self, fates: &[Fate]) -> Self {
        self.next_life(self.shared.state().crash_power_as(fates))
    }

    /// The things on which a power loss decides.
    pub fn unsynced(&self) -> Vec<Unit> {
        self.shared.state().units()
    }

    /// Equal for disks that no call can tell apart, now and after any crash, apart from the time stamps of files. Not a call.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.shared.state().tree.digest(&mut hasher);
        hasher.finish()
    }

    /// The process is killed. What completed is kept; of operations in flight writes leave a prefix or nothing. Returns the handle
    /// for the next process.
    pub fn crash_kill(&self, rng: &mut Rng) -> Self {
        self.next_life(self.shared.state().crash_kill(rng))
    }

    fn next_life(&self, life: u64) -> Self {
        Self { shared: self.shared.clone(), life }
    }

    /// From the call of this number on everything fails, until a crash is decided by one of the `crash_` methods. The call itself may
    /// still take effect, in part where the contract allows it.
    pub fn crash_at(&self, call: u64) {
        self.crash_in(call, Interruption::Chosen);
    }

    /// As [`SimulatedDisk::crash_at`], and says what becomes of the call itself. Operations in flight share its fate, but for a part.
    pub fn crash_in(&self, call: u64, interruption: Interruption) {
        let mut state = self.shared.state();
        state.crash_at = Some(call);
        state.interruption = interruption;
    }

    /// Whether the call given to [`SimulatedDisk::crash_at`] has come.
    pub fn is_down(&self) -> bool {
        self.shared.state().down
    }

    /// The call of this number fails once.
    pub fn fail_call(&self, call: u64, fault: Fault) {
        self.shared.state().faults.insert(call, fault);
    }

    /// Every call on this path, and on what lies below it, fails from now on in this way; with `None` no more.
    pub fn fail_below(&self, path: &Path, fault: Option<Fault>) {
        let mut state = self.shared.state();
        match fault {
            Some(fault) => drop(state.failing.insert(path.to_owned(), fault)),
            None => drop(state.failing.remove(path)),
        }
    }

    /// The next call of this kind fails once.
    pub fn fail_next(&self, kind: CallKind, fault: Fault) {
        self.shared.state().faults_by_kind.insert(kind, fault);
    }

    /// No call fails any more that was to fail and has not come yet.
    pub fn fail_no_more(&self) {
        let mut state = self.shared.state();
        state.faults.clear();
        state.faults_by_kind.clear();
    }

    /// The number that the next call will have.
    pub fn next_call(&self) -> u64 {
        self.shared.state().next_call
    }

    /// Starts keeping what is called, and gives what was kept so far.
    pub fn take_calls(&self) -> Vec<Call> {
        self.shared.state().trace.replace(Vec::new()).unwrap_or_default()
    }

    /// The size of the medium in bytes; `None` is endless.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.shared.state().capacity = bytes;
    }

    /// How many files the process may have open at once from now on; `None` is any number.
    ///
    /// Where there is a bound, the disk is one of those that lose pages whose file was closed before they were synced: their write-back may fail
    /// without anybody being told, and a sync through a later handle does not bring them.
    pub fn set_open_files_max(&self, files: Option<usize>) {
        self.shared.state().open_files_max = files;
    }

    /// How many files are open.
    pub fn open_files(&self) -> usize {
        self.shared.state().open_files()
    }

    /// Files that were closed with pages that had been written since they were opened and were not synced, and opened again, since the number of
    /// open files is bounded.
    pub fn closed_unsynced(&self) -> BTreeSet<PathBuf> {
        self.shared.state().closed_unsynced.clone()
    }

    /// The time that files are stamped with from now on.
    pub fn set_time_ms(&self, now_ms: i64) {
        self.shared.state().time_ms = now_ms;
    }

    /// How the medium tears pages.
    pub fn set_tear(&self, tear: Tear) {
        self.shared.state().tear = tear;
    }

    /// How many of 100 reads from the cache find that the bytes are not there.
    pub fn set_cold_percent(&self, percent: u8) {
        self.shared.state().cold_percent = percent;
    }

    /// Makes [`super::Disk::incarnation`] unknown, as on a network file system.
    pub fn hide_incarnation(&self) {
        self.shared.state().incarnation_hidden = true;
    }

    /// When operations complete from now on.
    pub fn set_completing(&self, completing: Completing) {
        self.shared.state().completing = completing;
    }

    /// Operations that were submitted and have not completed.
    pub fn uncompleted(&self) -> usize {
        self.shared.state().uncompleted()
    }

    /// Completes one operation in flight, of any queue, chosen by the generator. `false` if there is none.
    pub fn complete_next(&self, rng: &mut Rng) -> bool {
        self.shared.state().complete_next(None, rng)
    }

    /// What has happened.
    pub fn counters(&self) -> SimulatedCounters {
        self.shared.state().counters
    }

    /// Overwrites bytes of a file in memory and on the medium, as a bad sector or a bad cable does. Not a call.
    pub fn damage(&self, path: &Path, position: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.shared.state();
        let node = state.tree.find(path)?;
        state.tree.file_mut(node)?.damage(position, bytes);
        Ok(())
    }

    /// The contents of a file as the page cache shows them. Not a call.
    pub fn contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.shared.state();
        let body = state.tree.file(state.tree.find(path)?)?;
        let mut bytes = vec![0; body::usize_of(body.size())];
        body.read(&mut bytes, 0);
        Ok(bytes)
    }

    /// What of a file's contents is certain. Its name need not be. Not a call.
    pub fn certain_contents(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.shared.state();
        Ok(state.tree.file(state.tree.find(path)?)?.durable_bytes())
    }
}
