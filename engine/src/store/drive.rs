//! Turning the driver: for an event loop, for threads that wait, for tasks that await.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{Store, TurnReport};
use crate::disk::{Patience, QueueCounters, Wait, is_full};
use crate::log::{
    Driving, FileError, Inner, Log, Shared, Step, Ticket, TicketError, Waiter, Wish, lock, sort,
};

impl Store {
    /// One turn of the driver: submits what was accepted and wanted, reaps what is done, raises watermarks; again while there is news.
    ///
    /// Any thread may call it; they take turns. With [`Wait::ForOne`] it blocks until something is done, unless nothing is in flight.
    pub fn turn(&self, wait: Wait, patience: Patience) -> TurnReport {
        let mut report = TurnReport::default();
        self.turn_into(wait, patience, &mut report);
        report
    }

    /// As [`Store::turn`], into the report of an earlier turn, whose memory is used again: a loop that turns all the time allocates nothing.
    pub fn turn_into(&self, wait: Wait, patience: Patience, report: &mut TurnReport) {
        let shared = self.shared();
        let in_flight = loop {
            let mut driver = shared.drive();
            let unsealed = driver.turn(shared, wait, patience);
            let in_flight = driver.in_flight();
            drop(driver);
            if unsealed.is_empty() {
                break in_flight;
            }
            seal(&unsealed);
        };
        let mut news = lock(&shared.news);
        let news = &mut *news;
        news.moved.take_into(&mut report.moved);
        for (from, to) in [(&mut news.failed, &mut report.failed), (&mut news.damaged, &mut report.damaged)] {
            to.clear();
            to.append(from);
            sort(to);
        }
        report.in_flight = in_flight;
        report.store_failed = shared.has_failed();
    }

    /// Asks for a sync of everything that the log has accepted; it is submitted when that is written.
    pub fn want_durable(&self, log: &Log) {
        log.0.want_durable(log.accepted());
    }

    /// Blocks until the ticket's step has come. Drives the store itself if nobody else does: a lone durable writer writes and syncs in
    /// its own thread, and of many one does it for all who have come meanwhile.
    pub fn wait(&self, ticket: Ticket, step: Step) -> Result<(), TicketError> {
        self.wait_with(ticket, step, Patience::MayBlock)
    }

    pub(super) fn wait_with(
        &self,
        ticket: Ticket,
        step: Step,
        patience: Patience,
    ) -> Result<(), TicketError> {
        let shared = self.shared();
        let log = shared.log(ticket.log()).ok_or(TicketError::UnknownLog)?;
        if step == Step::Durable {
            log.want_durable(ticket.end());
        }
        let wish = Wish { log: ticket.log(), ticket: Some((ticket, step)), drives: true };
        loop {
            let next = shared.progress.wait_unless(wish, || match log.reached(ticket, step) {
                Ok(false) if patience == Patience::MayBlock && log.needs_seal_before_sync() => {
                    Some(Next::Seal)
                }
                // Without work for the driver, what is waited for is in another thread's hands.
                Ok(false) => shared.has_work().then(|| shared.try_drive()).flatten().map(Next::Drive),
                reached => Some(Next::Go(reached)),
            });
            match next {
                None => {}
                Some(Next::Go(reached)) => {
                    // It may have been woken to drive.
                    shared.hand_driver_on();
                    return reached.map(drop);
                }
                Some(Next::Seal) => {
                    // A turn of somebody who must not block has taken the log off the list, and has left the seal to a job that nobody
                    // need run.
                    let sealed = log.seal_rolled();
                    if step == Step::Durable {
                        refuse_if_it_passes(sealed)?;
                    }
                }
                Some(Next::Drive(driver)) => {
                    let unsealed = drive(shared, driver, patience, || log.reached(ticket, step) == Ok(false));
                    seal(&unsealed);
                }
            }
        }
    }

    /// A future of the ticket's step. Somebody has to turn the driver meanwhile.
    pub fn wait_async(&self, ticket: Ticket, step: Step) -> TicketFuture {
        let shared = Arc::clone(self.shared());
        let log = shared.log(ticket.log());
        if let Some(log) = log.as_ref().filter(|_| step == Step::Durable) {
            log.want_durable(ticket.end());
        }
        TicketFuture { shared, log, ticket, step, key: None }
    }

    /// A descriptor that becomes readable when a turn would find something done; the caller's own, see [`crate::disk::Queue::wake_descriptor`].
    pub fn wake_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.shared().drive().wake_descriptor()
    }

    /// How many operations went which way.
    pub fn counters(&self) -> QueueCounters {
        self.shared().drive().counters()
    }
}

/// What a thread that waits does next.
enum Next<'a> {
    /// It has come, or will not.
    Go(Result<bool, TicketError>),
    Seal,
    Drive(Driving<'a>),
}

/// Drives until there is nothing left to wait for, or to do, or there are logs to seal first; gives those.
fn drive(
    shared: &Shared,
    mut driver: Driving<'_>,
    patience: Patience,
    is_waiting: impl Fn() -> bool,
) -> Vec<Arc<Inner>> {
    loop {
        let unsealed = driver.turn(shared, Wait::ForOne, patience);
        if !unsealed.is_empty() || driver.in_flight() == 0 || !is_waiting() {
            return unsealed;
        }
    }
}

/// See [`Store::wait_async`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct TicketFuture {
    shared: Arc<Shared>,
    log: Option<Arc<Inner>>,
    ticket: Ticket,
    step: Step,
    key: Option<u64>,
}

impl Future for TicketFuture {
    type Output = Result<(), TicketError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(log) = self.log.clone() else { return Poll::Ready(Err(TicketError::UnknownLog)) };
        let known = self.key;
        let key = known.unwrap_or_else(|| self.shared.next_waiter());
        self.key = Some(key);
        let waiter = Waiter { key, ticket: self.ticket, step: self.step, waker: context.waker().clone() };
        {
            let mut waiters = lock(&log.waiters);
            // One that is polled for the first time is not looked for among all who wait.
            match known.and_then(|key| waiters.iter_mut().find(|waiter| waiter.key == key)) {
                Some(known) => *known = waiter,
                None => waiters.push(waiter),
            }
        }
        // Asked after the waker is in its place, so that no step can come between unnoticed.
        match log.reached(self.ticket, self.step) {
            Ok(false) => Poll::Pending,
            Ok(true) => Poll::Ready(Ok(())),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for TicketFuture {
    fn drop(&mut self) {
        if let (Some(log), Some(key)) = (&self.log, self.key) {
            lock(&log.waiters).retain(|waiter| waiter.key != key);
        }
    }
}

/// Seals what has to be sealed before its log can be synced. What came of it is seen in the log, which is ready again, or closed.
fn seal(unsealed: &[Arc<Inner>]) {
    for log in unsealed {
        let _failed = log.seal_rolled();
    }
}

/// What waits for room would be waited for without end; whoever waits is told instead.
fn refuse_if_it_passes(sealed: Result<(), FileError>) -> Result<(), TicketError> {
    match sealed {
        Err(error) if is_full(&error.source) => Err(TicketError::OutOfSpace),
        Err(error) if error.passes() => Err(TicketError::OutOfDescriptors),
        // Of a directory that has failed the log tells.
        Ok(()) | Err(_) => Ok(()),
    }
}
