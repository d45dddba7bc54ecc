//! The machine's clocks are read in one place, which is the host's; everybody else is given the time.

use highwater_engine::units::Monotonic;
pub use highwater_replication::node::Clock;

/// A moment, as the runtime's timers take it.
pub(crate) fn instant(clock: Clock, at: Monotonic) -> tokio::time::Instant {
    tokio::time::Instant::from_std(clock.instant(at))
}
