//! Time is an argument: the host reads its clocks and passes the result down.

use std::time::Duration;

/// Milliseconds since 1970, as records carry them. Any `i64`: what a client sent is kept, also before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time that many milliseconds after 1970 (before it, if negative).
    pub const fn from_millis(value: i64) -> Self {
        Self(value)
    }

    /// Milliseconds since 1970.
    pub const fn millis(self) -> i64 {
        self.0
    }
}

/// Time since some moment before this process began to count; never goes back, says nothing about the date.
/// Deadlines and lags are measured with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Monotonic(Duration);

impl Monotonic {
    /// The moment that long after the clock's beginning.
    pub const fn from_duration(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// How long after the clock's beginning.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// This moment and `wait` more; the end of time when that is beyond it.
    #[must_use]
    pub const fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long ago `earlier` was; zero if it is still to come.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Both clocks, read by the host at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    /// For deadlines, lags and sessions.
    pub monotonic: Monotonic,
    /// For timestamps and retention; it may jump.
    pub wall: Timestamp,
}
