//! At a fixed rate. Two threads a connection: one sends what is due, the other receives.
//!
//! A record's latency counts from the time at which it should have been sent. Records that became due while the sender slept, or while
//! there was no room in flight, go together in the next request, as a real client's would.

use std::sync::mpsc;
use std::time::Duration;

use super::gate::Gate;
use super::lane::{Incoming, Outgoing, Sent};
use super::schedule::Schedule;
use super::{Lane, Latencies, Window, merge, no_latencies, record};
use crate::clock;
use crate::error::{BenchError, Result};

/// A request with the numbers of its records in the schedule; the last one has none.
struct Ticket {
    sent: Sent,
    first: u64,
    scheduled: u64,
}

/// Sends `rate` records a second over all lanes together. Answers their latencies; all were acknowledged.
pub(crate) fn at_rate(lanes: &mut [Lane], window: Window, rate: u64, in_flight: usize) -> Result<Latencies> {
    let of = lanes.iter().map(Lane::partitions).sum();
    let outcomes: Vec<Result<Latencies>> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, lane) in lanes.iter_mut().enumerate() {
            let schedule = Schedule::new(window.start, number, rate, lane.partitions(), of);
            threads.push(scope.spawn(move || run_lane(lane, window, schedule, in_flight)));
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut all = no_latencies();
    for latencies in outcomes {
        merge(&mut all, &latencies?);
    }
    Ok(all)
}

fn run_lane(lane: &mut Lane, window: Window, schedule: Schedule, in_flight: usize) -> Result<Latencies> {
    let gate = Gate::new(in_flight);
    let Lane { outgoing, incoming } = lane;
    let (tickets, sent) = mpsc::channel();
    std::thread::scope(|scope| {
        let gate = &gate;
        let sending = scope.spawn(move || {
            let outcome = send(outgoing, window, schedule, gate, &tickets);
            if outcome.is_err() {
                outgoing.hang_up();
            }
            outcome
        });
        let received = receive(incoming, window, schedule, gate, &sent);
        gate.close();
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // If sending failed, that is why receiving did.
        sent.and(received)
    })
}

fn send(
    outgoing: &mut Outgoing,
    window: Window,
    schedule: Schedule,
    gate: &Gate,
    tickets: &mpsc::Sender<Ticket>,
) -> Result<()> {
    let partitions = outgoing.partitions() as u64;
    let room = u64::from(outgoing.records_per_batch) * partitions;
    let total = schedule.due(window.end);
    let mut counts = vec![0_u32; outgoing.partitions()];
    let mut next = 0;
    // The request behind the schedule's end tells the receiver that it has everything.
    while next <= total {
        let scheduled = if next < total {
            clock::sleep_until(schedule.time_of(next));
            if !gate.enter() {
                return Ok(());
            }
            schedule.due(clock::now()).clamp(next + 1, total.min(next + room)) - next
        } else {
            if !gate.enter() {
                return Ok(());
            }
            0
        };
        for (feed, count) in (0..partitions).zip(&mut counts) {
            *count = share(next, scheduled.max(1), feed, partitions);
        }
        let sent = outgoing.send(&counts)?;
        if tickets.send(Ticket { sent, first: next, scheduled }).is_err() {
            return Ok(());
        }
        next += scheduled.max(1);
    }
    Ok(())
}

/// How many of the records `first .. first + count` go to a partition, when they go to all in turn.
fn share(first: u64, count: u64, feed: u64, partitions: u64) -> u32 {
    let below = |end: u64| (end + partitions - 1 - feed) / partitions;
    u32::try_from(below(first + count) - below(first)).unwrap_or(u32::MAX)
}

fn receive(
    incoming: &mut Incoming,
    window: Window,
    schedule: Schedule,
    gate: &Gate,
    tickets: &mpsc::Receiver<Ticket>,
) -> Result<Latencies> {
    let mut latencies = no_latencies();
    loop {
        // First the answer, then what it is for: so that this thread sleeps once for each, in the socket.
        let response = incoming.answer()?;
        let at = clock::now();
        let Ok(ticket) = tickets.recv() else {
            return Err(BenchError::io("receiving")(std::io::ErrorKind::BrokenPipe.into()));
        };
        incoming.note(&ticket.sent, &response)?;
        gate.leave();
        if ticket.scheduled == 0 {
            return Ok(latencies);
        }
        for record_number in ticket.first..ticket.first + ticket.scheduled {
            let due = schedule.time_of(record_number);
            if window.counts(due) {
                record(&mut latencies, at.checked_duration_since(due).unwrap_or(Duration::ZERO), 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_go_to_all_partitions_in_turn() {
        for partitions in 1..7 {
            for (first, count) in [(0, 1), (3, 1), (5, 17), (12, 6), (1, 0)] {
                let mut expected = vec![0; usize::try_from(partitions).unwrap()];
                (first..first + count).for_each(|n| expected[usize::try_from(n % partitions).unwrap()] += 1);
                let shares: Vec<u32> =
                    (0..partitions).map(|feed| share(first, count, feed, partitions)).collect();
                assert_eq!(shares, expected, "{first} + {count} over {partitions}");
            }
        }
    }
}
