//! One replica as the shard holds it: the pure machine and the log whose facts it borrows. A panic in the machine takes this replica
//! offline, with its last inputs for whoever has to explain it, and not the broker.

use std::collections::VecDeque;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

use highwater_engine::batch::BatchLimits;
use highwater_engine::log::{Log, LogFacts};
use highwater_engine::units::{Monotonic, Now, Offset, TopicId, TopicPartition};

use super::event::Lane;
use crate::partition::{Effect, Input, Partition};

/// How many inputs are kept for a dump.
const RECENT_INPUTS: usize = 16;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) name: TopicPartition,
    pub(super) topic_id: TopicId,
    pub(super) log: Log,
    pub(super) machine: Partition,
    /// What its topic asks of the batches that producers send.
    pub(super) limits: BatchLimits,
    /// Which connection fetches it, while it follows.
    pub(super) lane: Option<Lane>,
    /// When the timer that was set last goes off.
    pub(super) timer: Option<Monotonic>,
    recent: VecDeque<Input>,
}

/// The machine met a broken invariant.
#[derive(Debug)]
pub(super) struct Panicked {
    /// What it was and what came before.
    pub(super) dump: String,
}

impl Replica {
    pub(super) fn new(topic_id: TopicId, log: Log, machine: Partition, limits: BatchLimits) -> Self {
        Self {
            name: machine.name().clone(),
            topic_id,
            log,
            machine,
            limits,
            lane: None,
            timer: None,
            recent: VecDeque::with_capacity(RECENT_INPUTS),
        }
    }

    /// Tells the machine.
    pub(super) fn step(&mut self, now: Now, input: Input) -> Result<(), Panicked> {
        if self.recent.len() == RECENT_INPUTS {
            self.recent.pop_front();
        }
        self.recent.push_back(input.clone());
        let machine = &mut self.machine;
        let stepped =
            self.log.with_facts(|facts| catch_unwind(AssertUnwindSafe(|| machine.step(now, input, facts))));
        stepped.map_err(|panic| Panicked { dump: self.dump(panic.as_ref()) })
    }

    /// Asks the machine with the facts of its log.
    pub(super) fn look<R>(&self, ask: impl FnOnce(&Partition, &LogFacts<'_>) -> R) -> R {
        self.log.with_facts(|facts| ask(&self.machine, facts))
    }

    /// Below it everything is decided, of what lies below the ceiling: readers of committed records are given no more.
    pub(super) fn last_stable(&self, ceiling: Offset) -> Offset {
        self.log.first_unstable(ceiling).map_or(ceiling, |first| first.min(ceiling))
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        self.machine.take_effects()
    }

    fn dump(&self, panic: &(dyn std::any::Any + Send)) -> String {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without a text");
        let mut dump = format!("{text}; its last inputs, oldest first:");
        for input in &self.recent {
            // Writing to a String does not fail.
            let _ = write!(dump, "\n  {input:?}");
        }
        dump
    }
}
