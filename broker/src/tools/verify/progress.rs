//! How far a verification is: how much of how much, how fast, how long it still takes. One line that replaces itself.

use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::time::Duration;

use highwater_engine::units::Monotonic;

use crate::clock::Clock;

/// How often the line is replaced.
const INTERVAL: Duration = Duration::from_millis(200);
/// Takes the line away.
const CLEAR: &str = "\r\x1b[K";

pub(super) struct Progress<'a> {
    clock: Clock,
    state: RefCell<State<'a>>,
}

struct State<'a> {
    aside: Option<&'a mut dyn Write>,
    begun: Monotonic,
    shown: Monotonic,
    bytes: u64,
    bytes_all: u64,
}

impl<'a> Progress<'a> {
    pub(super) fn new(bytes_all: u64, clock: Clock, aside: Option<&'a mut dyn Write>) -> Self {
        let begun = clock.now().monotonic;
        Self { clock, state: RefCell::new(State { aside, begun, shown: begun, bytes: 0, bytes_all }) }
    }

    /// So many more bytes were read.
    pub(super) fn read(&self, bytes: u64) {
        let mut state = self.state.borrow_mut();
        state.bytes += bytes;
        if state.aside.is_none() {
            return;
        }
        let now = self.clock.now().monotonic;
        if now.since(state.shown) >= INTERVAL {
            state.shown = now;
            let line = Line { bytes: state.bytes, bytes_all: state.bytes_all, took: now.since(state.begun) };
            state.put(&format!("{CLEAR}{line}"));
        }
    }

    /// Takes the line away, so that something else can be written.
    pub(super) fn clear(&self) {
        self.state.borrow_mut().put(CLEAR);
    }
}

impl State<'_> {
    fn put(&mut self, text: &str) {
        if let Some(aside) = &mut self.aside {
            let _nobody_sees_it = write!(aside, "{text}").and_then(|()| aside.flush());
        }
    }
}

struct Line {
    bytes: u64,
    bytes_all: u64,
    took: Duration,
}

impl fmt::Display for Line {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, bytes_all, took } = self;
        let rate = *bytes as f64 / took.as_secs_f64().max(0.001);
        let left = bytes_all.saturating_sub(*bytes) as f64 / rate.max(1.0);
        let percent = bytes.saturating_mul(100).checked_div(*bytes_all).unwrap_or(100).min(100);
        let rate = rate / f64::from(1 << 20);
        write!(f, "{percent}% of {} MiB, {rate:.0} MiB/s, {left:.0} s left", bytes_all >> 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_share_rate_and_time_left() {
        let line = Line { bytes: 256 << 20, bytes_all: 1 << 30, took: Duration::from_secs(2) };
        assert_eq!(line.to_string(), "25% of 1024 MiB, 128 MiB/s, 6 s left");
        let begun = Line { bytes: 0, bytes_all: 0, took: Duration::ZERO };
        assert_eq!(begun.to_string(), "100% of 0 MiB, 0 MiB/s, 0 s left");
    }
}
