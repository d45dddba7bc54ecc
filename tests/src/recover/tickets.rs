//! Tickets: each step that is waited for comes, and what a cut has taken comes never.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use highwater_engine::log::{Step as Rung, Ticket, TicketError};
use highwater_engine::store::Store;

use super::doors::{Door, asked, told};
use super::trial::{Open, Trial, Verdict};

/// So many are kept.
const TICKETS_MAX: usize = 8;

/// A ticket that an append gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) ticket: Ticket,
    /// Whether the log was cut since, or is another one.
    pub(super) is_void: bool,
}

/// How somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// A thread, until the step has come.
    Thread,
    /// A task, which asks once.
    Task,
}

impl Trial {
    pub(super) fn hold(&mut self, ticket: Ticket) {
        if self.tickets.len() == TICKETS_MAX {
            self.tickets.remove(0);
        }
        self.tickets.push(Held { ticket, is_void: false });
    }

    /// What the log's tickets were given out for is gone.
    pub(super) fn void_tickets(&mut self) {
        for held in &mut self.tickets {
            held.is_void = true;
        }
    }

    /// Waits for the ticket that is the last but `back`; without any, for everything that is accepted.
    pub(super) fn wait_for(&mut self, store: &Store, back: usize, rung: Rung, waiting: Waiting) -> Verdict {
        let Some(Open { log, .. }) = &self.open else { return Ok(()) };
        let log = log.clone();
        let newest = || Held { ticket: told(Door::LogTicket, log.ticket()), is_void: false };
        let held = self.tickets.iter().rev().nth(back).copied().unwrap_or_else(newest);
        let end = held.ticket.end();
        let reached = || match rung {
            Rung::Written => told(Door::LogWritten, log.written()) >= end,
            Rung::Durable => told(Door::LogDurable, log.durable()) >= end,
        };
        let answer = match waiting {
            Waiting::Thread => asked(Door::StoreWait, store.wait(held.ticket, rung)),
            Waiting::Task => {
                let future = pin!(store.wait_async(held.ticket, rung));
                match future.poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(answer) => asked(Door::StoreWaitAsync, answer),
                    Poll::Pending if held.is_void || reached() => {
                        return Err(format!("{held:?} is waited for, and nothing is to come"));
                    }
                    Poll::Pending => return told(Door::StoreWaitAsync, Ok(())),
                }
            }
        };
        match answer {
            Ok(()) if held.is_void => Err(format!("{rung:?} has come for {held:?}, which is gone")),
            Ok(()) if reached() => Ok(()),
            Ok(()) => Err(format!("{rung:?} is said to have come for {held:?}")),
            Err(TicketError::Truncated | TicketError::UnknownLog) if held.is_void => Ok(()),
            Err(error) => self.excuse(&format!("waiting for {held:?}: {error}")),
        }
    }
}
