//! The one thread for cold work. Jobs exclude each other where they have to, so their order is no matter.

use std::io;
use std::thread::JoinHandle;

use crossbeam_channel::Sender;
use highwater_engine::store::{Job, Store};

use super::broker::Letter;
use super::mailbox::Mailbox;

/// See the module's documentation. The queue has no bound of its own: the shard has at most a few jobs of a log under way.
pub(super) struct Jobs {
    queue: Sender<Job>,
    thread: JoinHandle<()>,
}

impl Jobs {
    /// Starts the thread.
    pub(super) fn start(store: Store, mailbox: Mailbox<Letter>) -> io::Result<Self> {
        let (queue, jobs) = crossbeam_channel::unbounded::<Job>();
        let thread = std::thread::Builder::new().name("jobs".to_owned()).spawn(move || {
            for job in jobs {
                mailbox.push(Letter::JobDone(job.run(&store)));
            }
        })?;
        Ok(Self { queue, thread })
    }

    /// Runs a job; [`Letter::JobDone`] follows.
    pub(super) fn run(&self, job: Job) {
        // The thread ends with the queue, or by a panic, which was printed.
        let _ended = self.queue.send(job);
    }

    /// Runs what is queued and ends the thread.
    pub(super) fn finish(self) {
        drop(self.queue);
        let _panicked = self.thread.join();
    }
}
