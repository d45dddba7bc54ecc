//! What a panic leaves behind. Whoever is interrupted in the middle of a change takes the log, or the whole directory, offline on his way
//! out, and wakes all who wait for it: so nobody waits for a step that will not come, and nobody goes on with what is half changed.
//!
//! That is why a poisoned lock is not looked at a second time where it is taken: what it guards belongs to a log, or a directory, that is
//! offline by then.

use std::io;
use std::thread;

use super::Closed;
use super::inner::Inner;
use super::shared::{Shared, lock};

/// Held while something is changed. A panic that began before is none of this thread's changes.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    whose: Whose<'a>,
    was_panicking: bool,
}

#[derive(Clone, Copy, Debug)]
enum Whose<'a> {
    Log(&'a Inner),
    Directory(&'a Shared),
}

impl Inner {
    /// A panic before the end of this closes the log.
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch { whose: Whose::Log(self), was_panicking: thread::panicking() }
    }
}

impl Shared {
    /// A panic before the end of this gives the directory up.
    pub(crate) fn watch(&self) -> Watch<'_> {
        Watch { whose: Whose::Directory(self), was_panicking: thread::panicking() }
    }

    /// What a lock guards that a panic has left half changed.
    pub(crate) fn fail_for_panic(&self) {
        self.fail(&self.directory, "go on", &io::Error::other("a thread panicked in the middle of a change"));
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if self.was_panicking || !thread::panicking() {
            return;
        }
        match self.whose {
            Whose::Log(log) => {
                log.close(Closed::Panicked);
                lock(&log.shared.news).failed.push(log.id);
            }
            Whose::Directory(shared) => shared.fail_for_panic(),
        }
    }
}
