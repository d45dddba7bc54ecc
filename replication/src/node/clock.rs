//! The clocks of a host of this crate's own. Everybody below is given the time.

use std::time::{Duration, Instant, SystemTime};

use highwater_engine::units::{Monotonic, Now, Timestamp};

/// Both clocks of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
}

impl Clock {
    /// A clock whose monotonic side begins now.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }

    /// Reads both clocks.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Now {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Now {
            monotonic: Monotonic::from_duration(self.started.elapsed()),
            wall: Timestamp::from_millis(i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)),
        }
    }

    /// The moment in the system's own type, for timers that take it. What lies beyond the end of its clock is a year away.
    pub fn instant(&self, at: Monotonic) -> Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.started + at.since_start().min(self.started.elapsed().saturating_add(YEAR))
    }

    /// How long it is until then; nothing if it is over.
    pub fn until(&self, at: Monotonic) -> Duration {
        at.since_start().saturating_sub(self.started.elapsed())
    }
}
