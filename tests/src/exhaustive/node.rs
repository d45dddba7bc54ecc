//! One broker with its one replica: a log of bare records, and the machine over it while its process runs.

use highwater_engine::log::LogFacts;
use highwater_engine::state::EpochHistory;
use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Now, Offset, Timestamp};
use highwater_replication::ids::BrokerEpoch;
use highwater_replication::partition::{IsrProposal, Partition};

/// A record: the epoch that it was appended in, and which of all it is.
pub(super) type Record = (LeaderEpoch, u8);

/// A log without bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Log {
    pub(super) records: Vec<Record>,
    pub(super) written: Offset,
    pub(super) durable: Offset,
    pub(super) epochs: EpochHistory,
}

impl Log {
    pub(super) fn accepted(&self) -> Offset {
        offset(self.records.len())
    }

    pub(super) fn facts(&self) -> LogFacts<'_> {
        LogFacts {
            start: Offset::ZERO,
            accepted: self.accepted(),
            written: self.written,
            durable: self.durable,
            recovery_point: self.durable,
            cleaned_to: Offset::ZERO,
            damaged: &[],
            replaced_by_repair: &[],
            epochs: &self.epochs,
        }
    }

    pub(super) fn append(&mut self, record: Record) {
        self.epochs.assign(record.0, self.accepted());
        self.records.push(record);
    }

    /// A truncation, which is synced before the log goes on.
    pub(super) fn cut(&mut self, to: Offset) {
        self.records.truncate(index(to));
        self.written = self.accepted();
        self.durable = self.written;
        self.epochs.truncate_from_end(to);
    }

    /// What a process finds that opens it after a crash which left so much. The history of epochs follows from the records.
    pub(super) fn recover(&mut self, kept: Offset, end: End) {
        self.records.truncate(index(kept));
        self.written = kept;
        if end == End::PowerCut {
            self.durable = kept;
        }
        self.epochs = EpochHistory::default();
        for (at, record) in self.records.iter().enumerate() {
            self.epochs.assign(record.0, offset(at));
        }
    }
}

/// One broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) log: Log,
    /// The high watermark of its checkpoint.
    pub(super) checkpoint: Option<Offset>,
    /// How its last process ended, while it has none.
    pub(super) end: Option<End>,
    pub(super) process: Option<Process>,
    /// Its monotonic clock.
    pub(super) clock: Monotonic,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum End {
    /// Its page cache survived.
    Killed,
    /// Its page cache did not.
    PowerCut,
}

/// A broker's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Process {
    pub(super) machine: Partition,
    pub(super) session: BrokerEpoch,
    /// What it has asked of the controller and has no answer to.
    pub(super) proposal: Option<IsrProposal>,
    /// Records whose producers wait, each with its offset.
    pub(super) waiting: Vec<(Offset, Record)>,
    /// The highest high watermark it has shown.
    pub(super) high_max: Offset,
}

impl Node {
    /// A broker with an empty log and no process.
    pub(super) fn new(id: NodeId) -> Self {
        let (log, clock) = (Log::default(), Monotonic::default());
        Self { id, log, checkpoint: Some(Offset::ZERO), end: None, process: None, clock }
    }

    pub(super) fn now(&self) -> Now {
        Now { monotonic: self.clock, wall: Timestamp::default() }
    }
}

pub(super) fn offset(index: usize) -> Offset {
    i64::try_from(index).ok().and_then(Offset::new).unwrap_or(Offset::MAX)
}

pub(super) fn index(offset: Offset) -> usize {
    usize::try_from(offset.value()).unwrap_or(usize::MAX)
}
