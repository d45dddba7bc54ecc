//! The loop's one timer. It is set only when something is due earlier than it would ring: ringing too early costs a turn with nothing to
//! do, setting it at each turn would cost at each turn.

use std::pin::Pin;
use std::time::Duration;

use highwater_engine::units::Monotonic;
use tokio::time::Sleep;

use crate::clock::{Clock, instant};

/// As good as never.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// See the module's documentation.
pub(super) struct Alarm {
    clock: Clock,
    sleep: Pin<Box<Sleep>>,
    rings_at: Monotonic,
    has_rung: bool,
}

impl Alarm {
    pub(super) fn new(clock: Clock) -> Self {
        let rings_at = clock.now().monotonic.after(FAR);
        Self {
            clock,
            sleep: Box::pin(tokio::time::sleep_until(instant(clock, rings_at))),
            rings_at,
            has_rung: false,
        }
    }

    /// It rings then at the latest.
    pub(super) fn set(&mut self, due: Option<Monotonic>) {
        if self.has_rung {
            self.reset(due.unwrap_or_else(|| self.clock.now().monotonic.after(FAR)));
        } else if let Some(due) = due.filter(|due| *due < self.rings_at) {
            self.reset(due);
        }
    }

    fn reset(&mut self, at: Monotonic) {
        self.has_rung = false;
        self.rings_at = at;
        self.sleep.as_mut().reset(instant(self.clock, at));
    }

    /// Waits for it.
    pub(super) async fn rings(&mut self) {
        self.sleep.as_mut().await;
        self.has_rung = true;
    }
}
