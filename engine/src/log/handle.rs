//! The handle that everybody holds.

use std::path::Path;
use std::sync::Arc;

use super::config::LogConfig;
use super::facts::LogFacts;
use super::fetch::Source;
use super::inner::Inner;
use super::ladder::{Appended, LogId, Permit, Ticket};
use super::read::{ColdRead, Isolation, Read, TimestampedOffset};
use super::shared::lock;
use super::{AppendError, BeginEpochError, Closed, ReadError, ReplicaAppendError};
use crate::batch::{ProducedBatch, ReplicatedBatches};
use crate::segment::DamagedRange;
use crate::state::Producers;
use crate::units::{LeaderEpoch, Now, Offset, Timestamp, TopicId, TopicPartition};

/// One partition's log. Cheap to clone; all clones are the same log.
///
/// Appends take a short lock and touch no file, unless room has to be made. Reads never wait for the writer.
#[derive(Clone, Debug)]
pub struct Log(pub(crate) Arc<Inner>);

impl Log {
    /// Its topic and partition.
    pub fn name(&self) -> &TopicPartition {
        &self.0.name
    }

    /// Its number within the store.
    pub fn id(&self) -> LogId {
        self.0.id
    }

    /// The id of its topic, if one was written down.
    pub fn topic_id(&self) -> Option<TopicId> {
        *lock(&self.0.topic_id)
    }

    /// Its settings.
    pub fn config(&self) -> Arc<LogConfig> {
        self.0.config()
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// Calls with what the log knows of its producers. Appends wait meanwhile.
    pub fn with_producers<R>(&self, call: impl FnOnce(&Producers) -> R) -> R {
        call(&self.0.writer().producers)
    }

    /// Calls with the facts of this moment. Appends to this log wait meanwhile, and the call must not append to it.
    pub fn with_facts<R>(&self, call: impl FnOnce(&LogFacts<'_>) -> R) -> R {
        self.0.with_facts(call)
    }

    /// The first offset that readers are given.
    pub fn start(&self) -> Offset {
        self.0.marks.start.get()
    }

    /// The next offset that an append gets.
    pub fn accepted(&self) -> Offset {
        self.0.marks.accepted.get()
    }

    /// Everything below it survives `kill -9` and may be seen.
    pub fn written(&self) -> Offset {
        self.0.marks.written.get()
    }

    /// Everything below it survives power loss.
    pub fn durable(&self) -> Offset {
        self.0.marks.durable.get()
    }

    /// A ticket for everything that is accepted now.
    pub fn ticket(&self) -> Ticket {
        self.0.ticket(self.accepted())
    }

    /// Offsets that are in the log and cannot be read, as far as anybody has looked; by segment and place.
    pub fn damaged(&self) -> Vec<DamagedRange> {
        self.0.writer().damaged.clone()
    }

    /// Why the log takes no more appends, if so.
    pub fn closed(&self) -> Option<Closed> {
        self.0.closed()
    }

    /// A leadership begins at the accepted end. Its file is written at once and synced later: an epoch without records may be forgotten
    /// by power loss, one with records is found in them.
    pub fn begin_epoch(&self, epoch: LeaderEpoch) -> Result<(), BeginEpochError> {
        let _watch = self.0.watch();
        self.0.begin_epoch(epoch)
    }

    /// A leader's append: judges the producer, gives offsets, stamps, queues. A turn of the driver writes it.
    ///
    /// A kill leaves a prefix of what was not yet written, a power loss any pages of what was not yet durable.
    pub fn append(&self, permit: Permit, batch: ProducedBatch, now: Now) -> Result<Appended, AppendError> {
        let _watch = self.0.watch();
        self.0.append(permit, batch, now)
    }

    /// A follower's append: offsets and epochs stay as they are. If room ends on the way, what there was room for is appended, and the
    /// answer says so.
    pub fn append_replicated(
        &self,
        batches: &ReplicatedBatches,
        now: Now,
    ) -> Result<Appended, ReplicaAppendError> {
        let _watch = self.0.watch();
        self.0.append_replicated(batches, now)
    }

    /// Whole batches from the one that holds `from`, or the next one, below `ceiling` and never above `written`. With
    /// `at_least_one` the first batch comes even if it is larger than `bytes_max`.
    pub fn read(
        &self,
        from: Offset,
        ceiling: Offset,
        bytes_max: usize,
        at_least_one: bool,
    ) -> Result<Read, ReadError> {
        let isolation = Isolation::Uncommitted;
        let asked = ColdRead { log: self.id(), from, ceiling, bytes_max, at_least_one, isolation };
        self.0.read(&asked, Source::PageCache)
    }

    /// As [`Log::read`], for one who wants committed records alone: the batches as they are, and with them which transactions among them were
    /// aborted ([`super::Records::aborted`]). The ceiling is the last stable offset: [`Log::first_unstable`], or what everybody else may read
    /// up to, whichever is lower.
    pub fn read_committed(
        &self,
        from: Offset,
        ceiling: Offset,
        bytes_max: usize,
        at_least_one: bool,
    ) -> Result<Read, ReadError> {
        let isolation = Isolation::Committed;
        let asked = ColdRead { log: self.id(), from, ceiling, bytes_max, at_least_one, isolation };
        self.0.read(&asked, Source::PageCache)
    }

    /// The first record, in order of offsets, that is not older than `timestamp` and lies below `ceiling`. May block on the disk.
    pub fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
        ceiling: Offset,
    ) -> Result<Option<TimestampedOffset>, ReadError> {
        self.0.offset_for_timestamp(timestamp, ceiling).inspect_err(|error| self.0.note_suspect(error))
    }

    /// The first record with the greatest timestamp below `ceiling`. May block on the disk.
    pub fn max_timestamp(&self, ceiling: Offset) -> Result<Option<TimestampedOffset>, ReadError> {
        self.0.max_timestamp(ceiling).inspect_err(|error| self.0.note_suspect(error))
    }

    /// The epoch in which the record at this offset was appended, where known.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.0.writer().epochs.epoch_at(offset)
    }

    /// The first offset of the earliest transaction that is not decided below `ceiling`, which does not lie below one that was given to
    /// [`Log::settle_below`]. What was decided before the log was opened counts as decided below every ceiling.
    pub fn first_unstable(&self, ceiling: Offset) -> Option<Offset> {
        self.0.writer().producers.first_unstable(ceiling)
    }

    /// Forgets which transactions were decided below `high_watermark`, which lies not above [`Log::written`] and never goes back: whoever
    /// moves the high watermark says so, or the memory of the log grows with each transaction that ends.
    pub fn settle_below(&self, high_watermark: Offset) {
        self.0.writer().producers.settle_below(high_watermark);
    }

    /// Bytes of all its segments that are written.
    pub fn size_bytes(&self) -> u64 {
        self.0.view().segments.iter().map(|segment| segment.size()).sum()
    }

    /// How many segments it has.
    pub fn segment_count(&self) -> usize {
        self.0.view().segments.len()
    }
}
