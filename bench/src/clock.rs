//! The only place of the bench that reads clocks and sleeps.

use std::time::{Duration, Instant, SystemTime};

use highwater_engine::units::Timestamp;

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the bench's clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Time since 1970.
#[expect(clippy::disallowed_methods, reason = "this is the bench's clock")]
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// The date as records carry it.
pub(crate) fn timestamp() -> Timestamp {
    Timestamp::from_millis(i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX))
}

/// Sleeps until then; not at all if that is past. The kernel wakes a thread some 50 µs late, which a run against the null broker shows.
#[expect(clippy::disallowed_methods, reason = "a schedule of sends is what a generator is")]
pub(crate) fn sleep_until(deadline: Instant) {
    let wait = deadline.saturating_duration_since(now());
    if !wait.is_zero() {
        std::thread::sleep(wait);
    }
}

/// Asks again and again, with a pause between, until there is an answer or the time is up. `None`: it was.
pub(crate) fn poll<T>(within: Duration, every: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let end = now() + within;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        let next = now() + every;
        if next > end {
            return None;
        }
        sleep_until(next);
    }
}
