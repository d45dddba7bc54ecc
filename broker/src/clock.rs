//! The only place that reads the machine's clocks. Everybody else is given the time.

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

    /// A moment, as the runtime's timers take it. What lies beyond the end of the system's clock is a year away.
    pub fn instant(&self, at: Monotonic) -> tokio::time::Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        let since_start = at.since_start().min(self.started.elapsed().saturating_add(YEAR));
        tokio::time::Instant::from_std(self.started + since_start)
    }
}
