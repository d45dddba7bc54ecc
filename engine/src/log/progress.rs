//! Threads that sleep until something comes, and the hand that the driver goes into.
//!
//! Whoever waits either drives, or sleeps. A sleeper is woken for itself: when what it waits for has come, or because it is to drive. At any
//! time when the driver is free and has something to do, one of those who could drive is awake; three places see to that: whoever lets go
//! of the driver ([`Driving`]), whoever puts a log on its list ([`Inner::tell_ready`]), and whoever was woken and has no more need to drive.
//!
//! Locks are taken in this order: the list of sleepers, a log's writer. The driver's is only tried.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use super::driver::Driver;
use super::inner::Inner;
use super::shared::{Shared, lock, try_lock};
use super::{LogId, Step, Ticket};
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Mutex, MutexGuard, Thread, current_thread, park, thread_local};

/// What a thread sleeps for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// It has to do with this log.
    pub(crate) log: LogId,
    /// Only this step counts, if it is given; otherwise everything that happens to the log.
    pub(crate) ticket: Option<(Ticket, Step)>,
    /// Whether it drives if nobody else does.
    pub(crate) drives: bool,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    sleepers: Mutex<Sleepers>,
    /// How many are asleep or about to fall asleep.
    count: AtomicU64,
    /// Whether the driver, when it was let go of, had something in flight.
    is_in_flight: AtomicBool,
}

#[derive(Debug, Default)]
struct Sleepers {
    asleep: Vec<(Wish, Arc<Bed>)>,
    /// Memory for those who are about to be woken.
    spare: Vec<Arc<Bed>>,
}

thread_local! {
    /// This thread's.
    static BED: Arc<Bed> = Arc::new(Bed { is_woken: AtomicBool::new(false), sleeper: current_thread() });
}

#[derive(Debug)]
struct Bed {
    is_woken: AtomicBool,
    sleeper: Thread,
}

impl Bed {
    fn sleep(&self) {
        while !self.is_woken.swap(false, Ordering::Acquire) {
            park();
        }
    }

    fn wake(&self) {
        self.is_woken.store(true, Ordering::Release);
        self.sleeper.unpark();
    }
}

impl Progress {
    /// Sleeps until it is woken, unless `proceed`, asked when no call to wake it can be missed any more, says that there is no need.
    pub(crate) fn wait_unless<T>(&self, wish: Wish, proceed: impl FnOnce() -> Option<T>) -> Option<T> {
        let bed = {
            let mut sleepers = lock(&self.sleepers);
            self.count.fetch_add(1, Ordering::SeqCst);
            // Either this thread finds that it need not sleep, or whoever changes that finds that it is about to.
            fence(Ordering::SeqCst);
            let now = proceed();
            if now.is_some() {
                self.count.fetch_sub(1, Ordering::SeqCst);
                return now;
            }
            let bed = BED.with(Arc::clone);
            sleepers.asleep.push((wish, Arc::clone(&bed)));
            bed
        };
        bed.sleep();
        None
    }

    /// Wakes everybody.
    fn wake_all(&self) {
        self.wake(|_| true);
    }

    fn wake(&self, is_meant: impl Fn(&Wish) -> bool) {
        let mut meant = {
            let sleepers = &mut *lock(&self.sleepers);
            let mut meant = std::mem::take(&mut sleepers.spare);
            meant.extend(sleepers.asleep.extract_if(.., |(wish, _)| is_meant(wish)).map(|(_, bed)| bed));
            self.count.fetch_sub(meant.len() as u64, Ordering::SeqCst);
            if meant.is_empty() {
                sleepers.spare = meant;
                return;
            }
            meant
        };
        // The list is free meanwhile: whoever is awake wants it at once.
        meant.drain(..).for_each(|bed| bed.wake());
        lock(&self.sleepers).spare = meant;
    }

    /// Wakes one that drives.
    fn wake_driver(&self) {
        let mut sleepers = lock(&self.sleepers);
        if let Some(at) = sleepers.asleep.iter().rposition(|(wish, _)| wish.drives) {
            let (_, bed) = sleepers.asleep.swap_remove(at);
            self.count.fetch_sub(1, Ordering::SeqCst);
            bed.wake();
        }
    }
}

/// The driver, in one hand. When it is let go of while it has something to do, one who could drive is woken.
#[derive(Debug)]
pub(crate) struct Driving<'a> {
    shared: &'a Shared,
    /// `None` for the moment in which it is let go of.
    driver: Option<MutexGuard<'a, Driver>>,
}

impl Deref for Driving<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.driver.as_ref().expect("it is there until it is let go of")
    }
}

impl DerefMut for Driving<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        self.driver.as_mut().expect("it is there until it is let go of")
    }
}

impl Drop for Driving<'_> {
    fn drop(&mut self) {
        self.shared.progress.is_in_flight.store(self.in_flight() > 0, Ordering::SeqCst);
        self.driver = None;
        fence(Ordering::SeqCst);
        self.shared.hand_driver_on();
    }
}

impl Shared {
    /// Takes the driver; waits until it is free.
    pub(crate) fn drive(&self) -> Driving<'_> {
        Driving { shared: self, driver: Some(lock(&self.driver)) }
    }

    /// Takes the driver, if it is free.
    pub(crate) fn try_drive(&self) -> Option<Driving<'_>> {
        let driver = try_lock(&self.driver)?;
        Some(Driving { shared: self, driver: Some(driver) })
    }

    /// Whether the driver has something to do, or somebody is doing it.
    pub(crate) fn has_work(&self) -> bool {
        self.progress.is_in_flight.load(Ordering::SeqCst) || !lock(&self.ready).is_empty()
    }

    /// Wakes one who drives, if there is something to do. If somebody has the driver at this moment, he asks again when he lets go of it.
    pub(crate) fn hand_driver_on(&self) {
        if self.progress.count.load(Ordering::SeqCst) > 0
            && self.has_work()
            && try_lock(&self.driver).is_some()
        {
            self.progress.wake_driver();
        }
    }

    /// Wakes everybody: the directory has failed.
    pub(crate) fn wake_sleepers(&self) {
        self.progress.wake_all();
    }
}

impl Inner {
    /// Puts the log on the driver's list, and has somebody drive. The caller does not hold the writer's lock.
    pub(crate) fn tell_ready(self: &Arc<Self>) {
        self.make_ready();
        self.shared.hand_driver_on();
    }

    /// Something has happened to the log: wakes those, threads and tasks, whose step has come or will not come, and who waits for anything.
    /// The caller does not hold the writer's lock.
    pub(crate) fn wake_reached(&self) {
        self.wake_tasks();
        self.shared.progress.wake(|wish| {
            let is_due = |(ticket, step)| self.reached(ticket, step) != Ok(false);
            wish.log == self.id && wish.ticket.is_none_or(is_due)
        });
    }

    /// As [`Inner::wake_reached`], and also who waits for a step that has not come: there is something to be done for it that is no turn of
    /// the driver's.
    pub(crate) fn wake_sleepers(&self) {
        self.shared.progress.wake(|wish| wish.log == self.id);
    }
}
