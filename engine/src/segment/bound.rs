//! Bounds how many things of one kind are open at once: files of segments, maps of their indexes. When another is opened, the one that
//! nobody has used for longest is closed; whoever needs it opens it again.
//!
//! "For longest" is told by a second chance: those in the list go round, and one that was used since it was last looked at is passed over.
//! So a use costs no more than a flag. What is *held* must not be closed; it leaves the list and comes back when it is let go.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use crate::sync::Mutex;

/// Something that is open or closed.
pub(super) trait Closable {
    /// What it has open.
    type Thing;

    /// Its place in the list.
    fn mark(&self) -> &Mark;

    /// Whether it must stay open for now.
    fn is_held(&self) -> bool;

    /// Closes it and gives what it had. Waits for nobody: what is being used is not closed.
    fn close(&self) -> Close<Self::Thing>;
}

/// What came of closing.
#[derive(Debug)]
pub(super) enum Close<T> {
    Closed(T),
    InUse,
    /// It was closed already, or is held.
    Not,
}

/// What a list knows of each member.
#[derive(Debug, Default)]
pub(super) struct Mark {
    was_used: AtomicBool,
    is_listed: AtomicBool,
}

impl Mark {
    /// Somebody uses it.
    pub(super) fn use_it(&self) {
        // Looked at first, because many threads may use one thing.
        if !self.was_used.load(Ordering::Relaxed) {
            self.was_used.store(true, Ordering::Relaxed);
        }
    }
}

/// Counts as one thing that is open, or held, until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Bound<T> {
    max: usize,
    open: Arc<AtomicUsize>,
    held: Arc<AtomicUsize>,
    list: Mutex<VecDeque<Weak<T>>>,
}

impl<T: Closable> Bound<T> {
    pub(super) fn new(max: usize) -> Self {
        Self { max, open: Arc::default(), held: Arc::default(), list: Mutex::default() }
    }

    /// How many are open.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// One more is open.
    pub(super) fn count(&self) -> Counted {
        self.open.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&self.open))
    }

    /// One more is held.
    pub(super) fn count_held(&self) -> Counted {
        self.held.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&self.held))
    }

    /// Whether there is little left that may be closed.
    pub(super) fn is_mostly_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= (self.max / 4 * 3).max(1)
    }

    /// It is open, or is held no longer: from now on it may be closed. Closes others, if there are too many.
    pub(super) fn list(&self, thing: &Arc<T>) {
        if !thing.mark().is_listed.swap(true, Ordering::SeqCst) {
            let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
            if list.len() > self.max.max(32).saturating_mul(2) {
                // Those that are no more.
                list.retain(|thing| thing.strong_count() > 0);
            }
            list.push_back(Arc::downgrade(thing));
        }
        while self.open() > self.max && self.take_one(Some(thing)).is_some() {}
    }

    /// Whether another one may be opened; closes one if that helps.
    pub(super) fn has_place(&self) -> bool {
        while self.open() >= self.max {
            if !self.close_one() {
                return false;
            }
        }
        true
    }

    /// Closes the one that nobody has used for longest; `false` if all are held or in use.
    pub(super) fn close_one(&self) -> bool {
        self.take_one(None).is_some()
    }

    /// What is dropped by the caller is dropped without the list's lock.
    fn take_one(&self, spared: Option<&Arc<T>>) -> Option<T::Thing> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        // Twice round: the first time may do no more than take the flags away.
        for _ in 0..2 * list.len() {
            let Some(thing) = list.pop_front()?.upgrade() else { continue };
            let mark = thing.mark();
            // Before it is asked whether it is held: whoever lets it go afterwards finds that it has to be listed.
            mark.is_listed.store(false, Ordering::SeqCst);
            if thing.is_held() {
                continue;
            }
            let is_spared = spared.is_some_and(|spared| Arc::ptr_eq(spared, &thing));
            if !is_spared && !mark.was_used.swap(false, Ordering::Relaxed) {
                match thing.close() {
                    Close::Closed(open) => return Some(open),
                    Close::Not => continue,
                    Close::InUse => {}
                }
            }
            mark.is_listed.store(true, Ordering::SeqCst);
            list.push_back(Arc::downgrade(&thing));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Door {
        mark: Mark,
        is_held: AtomicBool,
        open: Mutex<Option<Counted>>,
    }

    impl Closable for Door {
        type Thing = Counted;

        fn mark(&self) -> &Mark {
            &self.mark
        }

        fn is_held(&self) -> bool {
            self.is_held.load(Ordering::SeqCst)
        }

        fn close(&self) -> Close<Counted> {
            self.open.lock().unwrap().take().map_or(Close::Not, Close::Closed)
        }
    }

    fn opened(bound: &Bound<Door>) -> Arc<Door> {
        let door = Arc::new(Door::default());
        *door.open.lock().unwrap() = Some(bound.count());
        bound.list(&door);
        door
    }

    fn is_open(door: &Door) -> bool {
        door.open.lock().unwrap().is_some()
    }

    #[test]
    fn the_one_that_was_not_used_for_longest_is_closed() {
        let bound = Bound::new(3);
        let doors: Vec<_> = (0..3).map(|_| opened(&bound)).collect();
        doors[0].mark.use_it();
        let _fourth = opened(&bound);
        assert_eq!(doors.iter().map(|door| is_open(door)).collect::<Vec<_>>(), [true, false, true]);
        let _fifth = opened(&bound);
        assert_eq!(doors.iter().map(|door| is_open(door)).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(bound.open(), 3);
    }

    #[test]
    fn what_is_held_stays_open_until_it_is_let_go() {
        let bound = Bound::new(2);
        let doors: Vec<_> = (0..2).map(|_| opened(&bound)).collect();
        for door in &doors {
            door.is_held.store(true, Ordering::SeqCst);
        }
        assert!(!bound.has_place());
        let third = opened(&bound);
        assert!(doors.iter().all(|door| is_open(door)));
        assert!(is_open(&third), "more than may be open, and whoever opened it has to use it");
        assert!(!bound.has_place());
        assert!(!is_open(&third), "the only one that may be closed");
        doors[1].is_held.store(false, Ordering::SeqCst);
        bound.list(&doors[1]);
        assert!(bound.has_place());
        assert!(is_open(&doors[0]) && !is_open(&doors[1]));
    }

    #[test]
    fn things_that_are_no_more_do_not_count_and_do_not_pile_up() {
        let bound = Bound::new(4);
        for _ in 0..1_000 {
            drop(opened(&bound));
        }
        assert_eq!(bound.open(), 0);
        assert!(bound.list.lock().unwrap().len() < 100);
    }
}
