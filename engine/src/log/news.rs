//! What happened to logs since the last turn that somebody asked for.

use super::LogId;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) moved: Moved,
    pub(crate) failed: Vec<LogId>,
    pub(crate) damaged: Vec<LogId>,
}

/// Logs whose watermarks rose. Nobody need ask for them, so that each log is in the list a few times at most.
#[derive(Debug, Default)]
pub(crate) struct Moved(Vec<LogId>);

impl Moved {
    /// The watermarks of a log rose.
    pub(crate) fn push(&mut self, log: LogId) {
        if self.0.last() == Some(&log) {
            return;
        }
        if self.0.len() == self.0.capacity() {
            // Before it grows: it grows only while there are more logs than half of it.
            sort(&mut self.0);
        }
        self.0.push(log);
    }

    /// Puts each log once into `logs`, in order, whose memory is used from now on.
    pub(crate) fn take_into(&mut self, logs: &mut Vec<LogId>) {
        logs.clear();
        std::mem::swap(&mut self.0, logs);
        sort(logs);
    }
}

/// Each once, in order.
pub(crate) fn sort(logs: &mut Vec<LogId>) {
    logs.sort_unstable();
    logs.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asks_for_does_not_grow() {
        let mut moved = Moved::default();
        for number in 0..100_000 {
            moved.push(LogId(number % 7));
        }
        assert!(moved.0.capacity() <= 32, "{}", moved.0.capacity());
        let mut logs = vec![LogId(9)];
        moved.take_into(&mut logs);
        assert_eq!(logs, (0..7).map(LogId).collect::<Vec<_>>());
        moved.take_into(&mut logs);
        assert_eq!(logs, []);
    }
}
