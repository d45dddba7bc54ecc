//! What it costs to be there: processor time of brokers that have nothing to do but to hold an idle consumer's fetches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::Connection;
use crate::error::{BenchError, Result};
use crate::topic::Layout;
use crate::verify::{fetch_all, fetch_request};
use crate::{clock, proc};

/// Waits for records of all partitions that never come: one fetch after another to each leader, each held for half a second. It uses no
/// fetch sessions, so that each one names all partitions, which is more work than most consumers make.
#[derive(Debug)]
pub(super) struct Consumer {
    stop: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Consumer {
    pub(super) fn start(layout: &Layout) -> Result<Self> {
        let mut consumer = Self { stop: Arc::new(AtomicBool::new(false)), threads: Vec::new() };
        for (leader, partitions) in &layout.leaders {
            let mut connection = Connection::open(*leader)?;
            let partitions: Vec<_> = partitions.iter().map(|partition| (*partition, 0)).collect();
            let request = fetch_request(&layout.topic, &partitions);
            let stop = Arc::clone(&consumer.stop);
            let consume = move || {
                while !stop.load(Ordering::Relaxed) {
                    if let Err(error) = fetch_all(&mut connection, request.clone()) {
                        eprintln!("the idle consumer: {error}");
                        return;
                    }
                }
            };
            let thread = thread::Builder::new().name("idle consumer".to_owned()).spawn(consume);
            consumer.threads.push(thread.map_err(BenchError::io("starting a thread"))?);
        }
        Ok(consumer)
    }

    /// An error if a fetch failed, because then it was no consumer's idleness that was measured.
    pub(super) fn check(&self) -> Result<()> {
        if self.threads.iter().any(thread::JoinHandle::is_finished) {
            let said = "a fetch failed".to_owned();
            return Err(BenchError::Program { program: "the idle consumer".to_owned(), said });
        }
        Ok(())
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic there was printed there.
            let _ended = thread.join();
        }
    }
}

/// The share of a core that each group of processes uses over this time, in percent.
pub(super) fn core_percents<const N: usize>(groups: &[Vec<u32>; N], watched: Duration) -> Result<[f64; N]> {
    let used = || -> Result<Vec<Duration>> {
        groups.iter().map(|group| group.iter().map(|process| proc::processor_time(*process)).sum()).collect()
    };
    let start = clock::now();
    let before = used()?;
    clock::sleep_until(start + watched);
    let after = used()?;
    let elapsed = (clock::now() - start).as_secs_f64();
    let mut percents = [0.0; N];
    for ((percent, after), before) in percents.iter_mut().zip(after).zip(before) {
        *percent = 100.0 * after.saturating_sub(before).as_secs_f64() / elapsed;
    }
    Ok(percents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_process_uses_a_core_and_no_process_none() {
        let busy = thread::spawn(|| {
            let end = clock::now() + Duration::from_millis(600);
            while clock::now() < end {}
        });
        let percents =
            core_percents(&[vec![std::process::id()], vec![]], Duration::from_millis(500)).unwrap();
        busy.join().unwrap();
        // Other tests may run beside it, and others on the machine.
        assert!(percents[0] > 2.0, "{percents:?}");
        assert!(percents[1].abs() < f64::EPSILON);
    }
}
