//! What is being done and how long it still takes, on standard error.

use std::time::{Duration, Instant};

use crate::clock;

#[derive(Debug)]
pub(super) struct Progress {
    expected: Vec<Duration>,
    done: usize,
    started: Instant,
}

impl Progress {
    /// For cells that take about so long.
    pub(super) fn of(expected: Vec<Duration>) -> Self {
        Self { expected, done: 0, started: clock::now() }
    }

    /// A step of the cell that is next.
    pub(super) fn say(&self, cell: &str, step: &str) {
        let left = left(&self.expected, self.done, clock::now() - self.started);
        let (number, cells) = (self.done + 1, self.expected.len());
        eprintln!("[{number}/{cells}, {} left] {cell}: {step}", for_people(left));
    }

    /// A cell is done, and this is what came out.
    pub(super) fn cell_done(&mut self, line: &str) {
        self.done += 1;
        eprintln!("    {line}");
    }
}

/// The time that the rest was expected to take, corrected by what the cells that are done took.
fn left(expected: &[Duration], done: usize, taken: Duration) -> Duration {
    let past: Duration = expected.iter().take(done).sum();
    let rest: Duration = expected.iter().skip(done).sum();
    if past.is_zero() {
        return rest;
    }
    let factor = taken.as_secs_f64() / past.as_secs_f64();
    // Within a cell, what it has taken itself makes the estimate too large at first; it is never below what was expected by half.
    rest.mul_f64(factor.clamp(0.5, 10.0))
}

fn for_people(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 { format!("{seconds} s") } else { format!("{} min {:02} s", seconds / 60, seconds % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_corrected_by_what_was_seen() {
        let expected = [10, 10, 20].map(Duration::from_secs);
        assert_eq!(left(&expected, 0, Duration::from_secs(3)), Duration::from_secs(40));
        assert_eq!(left(&expected, 2, Duration::from_secs(30)), Duration::from_secs(30));
        assert_eq!(for_people(Duration::from_secs(59)), "59 s");
        assert_eq!(for_people(Duration::from_secs(61)), "1 min 01 s");
    }
}
