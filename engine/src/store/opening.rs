//! Recovers the logs of a directory: the thread that opens it, and as many helpers as the embedder asked for, each taking the next log, or,
//! where none is left, reading ahead for one that takes long.
//!
//! The helpers end with the opening. Which of them has a log makes no difference to it; only the numbers of logs are given in the order in
//! which they are done.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::gather::LogSource;
use super::read_ahead::IdleHelpers;
use super::refusal::LoadError;
use super::{LogReport, Store};
use crate::units::Now;

/// How far an opening has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpeningProgress {
    /// Logs that are in the directory.
    pub logs: usize,
    /// How many of them are open, or left alone.
    pub done: usize,
}

/// Is told of each log that is done, by whichever thread did it.
pub type OpeningWatch<'a> = dyn Fn(OpeningProgress) + Sync + 'a;

/// What came of one log.
type Loaded = Result<LogReport, LoadError>;

impl Store {
    /// Loads all logs, and gives what came of each by its number in `sources`. After an error of the directory no further log is begun.
    pub(super) fn load_logs(
        &self,
        sources: &[LogSource<'_>],
        now: Now,
        watch: &OpeningWatch<'_>,
    ) -> Vec<(usize, Loaded)> {
        let (next, done, failed) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let helpers_asked = self.inner.config.opening_threads;
        let helpers_max = helpers_asked.min(sources.len().saturating_sub(1));
        let idle = IdleHelpers::new(helpers_asked - helpers_max);
        let work = || {
            let mut loaded = Vec::new();
            while !failed.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(source) = sources.get(number) else { break };
                let result = self.load_log(source, &idle, now);
                failed.fetch_or(matches!(result, Err(LoadError::Directory(_))), Ordering::Relaxed);
                loaded.push((number, result));
                watch(OpeningProgress {
                    logs: sources.len(),
                    done: done.fetch_add(1, Ordering::Relaxed) + 1,
                });
            }
            idle.add(1);
            loaded
        };
        let mut loaded = thread::scope(|scope| {
            let start = |_| thread::Builder::new().name("opening".to_owned()).spawn_scoped(scope, work);
            // Without a helper it takes longer and gives the same.
            let helpers: Vec<_> = (0..helpers_max).filter_map(|number| start(number).ok()).collect();
            let mut loaded = work();
            for helper in helpers {
                match helper.join() {
                    Ok(more) => loaded.extend(more),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            loaded
        });
        loaded.sort_unstable_by_key(|(number, _)| *number);
        loaded
    }
}
