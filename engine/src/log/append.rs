//! Appends, a leader's and a follower's: checks at the point of order, then a place, then into the queue.
//!
//! Nothing here touches a file. What needs one (room, the next segment) is done without the writer's lock, and then the append begins anew.

use std::sync::Arc;

use super::inner::Inner;
use super::ladder::{Appended, Permit, Ticket};
use super::noting::transaction_marker;
use super::room::NoRoom;
use super::shared::lock;
use super::writer::{Demand, Phase, Writer};
use super::{AppendError, BeginEpochError, ReplicaAppendError, TimestampSource};
use crate::batch::{BatchHeader, ProducedBatch, ReplicatedBatches};
use crate::segment::{FirstBatch, Frame};
use crate::state::{MarkerKind, ProducerBatch, Verdict};
use crate::units::{LeaderEpoch, Now, Offset, OffsetRange, Timestamp};

impl From<NoRoom> for Refusal {
    fn from(no_room: NoRoom) -> Self {
        match no_room {
            NoRoom::OutOfSpace => Self::OutOfSpace,
            NoRoom::OutOfDescriptors => Self::OutOfDescriptors,
            NoRoom::Truncating => Self::Truncating,
            NoRoom::Closed(why) => Self::Closed(why),
        }
    }
}

/// What a leader's and a follower's append are refused for alike.
enum Refusal {
    OutOfSpace,
    OutOfDescriptors,
    Truncating,
    Closed(super::Closed),
    Busy { pending_bytes: usize },
    TooLarge { bytes_max: u32 },
}

impl Inner {
    pub(crate) fn append(
        self: &Arc<Self>,
        permit: Permit,
        batch: ProducedBatch,
        now: Now,
    ) -> Result<Appended, AppendError> {
        let bytes = batch.size_bytes();
        let refuse = |refusal| self.leader_error(&refusal, bytes);
        loop {
            let mut writer = self.writer();
            let bytes_max = self.batch_bytes_max().min(writer.config.segment_bytes_max);
            if bytes > usize::try_from(bytes_max).unwrap_or(usize::MAX) {
                return Err(AppendError::TooLarge { bytes, bytes_max });
            }
            let demand = match self.admit(&writer, bytes).map_err(refuse)? {
                Admitted::Rolling => self.demand_for_roll(bytes, now),
                Admitted::Yes if is_new_epoch(&writer, Some(permit.epoch()), self.marks.accepted.get()) => {
                    drop(writer);
                    self.begin_epoch(permit.epoch()).map_err(|error| self.epoch_error(&error, bytes))?;
                    continue;
                }
                Admitted::Yes => {
                    let append_time = match writer.config.timestamps {
                        TimestampSource::Append => Some(now.wall),
                        TimestampSource::Create => None,
                    };
                    if let Some(duplicate) = self.judge(&writer, permit, &batch, append_time.is_some())? {
                        return Ok(duplicate);
                    }
                    let first = self.marks.accepted.get();
                    let header = batch.header();
                    let last = first.checked_add(i64::from(header.last_offset_delta));
                    let last = last.ok_or(AppendError::OffsetsExhausted { end: first })?;
                    let max_timestamp = append_time.or(header.max_timestamp);
                    let demand = Demand { bytes, first, last, max_timestamp, now: now.wall };
                    if writer.active.need(&demand, &writer.config).is_none()
                        && writer.active.segment.hold_file()
                    {
                        let header = writer
                            .queue
                            .stamp(batch, &self.shared.buffers, first, permit.epoch(), append_time)
                            .map_err(|_| AppendError::OffsetsExhausted { end: first })?;
                        // A producer's batch is never a marker.
                        note_batch(&mut writer, &header, &[], now);
                        let offsets = header.offsets();
                        let ticket = self.accepted_to(offsets.end(), &mut writer, now);
                        drop(writer);
                        self.shared.hand_driver_on();
                        return Ok(Appended {
                            offsets,
                            ticket,
                            duplicate: false,
                            log_append_time: append_time,
                        });
                    }
                    demand
                }
            };
            drop(writer);
            self.make_room(&demand).map_err(|no_room| refuse(no_room.into()))?;
        }
    }

    /// Appends all batches, or those that there was room for: where the end is afterwards tells.
    pub(crate) fn append_replicated(
        self: &Arc<Self>,
        batches: &ReplicatedBatches,
        now: Now,
    ) -> Result<Appended, ReplicaAppendError> {
        let (Some(first), Some(end)) = (batches.first_offset(), batches.next_offset()) else {
            return Ok(self.nothing_appended());
        };
        let mut done: Option<(Offset, Ticket)> = None;
        let mut headers = batches.batches().peekable();
        let bytes_max = self.batch_bytes_max();
        let is_too_large = |header: &BatchHeader| header.size_bytes as u64 > u64::from(bytes_max);
        while let Some((_, header)) = headers.peek() {
            let bytes = header.size_bytes;
            if is_too_large(header) {
                return self.replica_result(first, done, &Refusal::TooLarge { bytes_max }, bytes);
            }
            let mut writer = self.writer();
            let admitted = match self.admit(&writer, bytes) {
                Ok(admitted) => admitted,
                Err(refusal) => return self.replica_result(first, done, &refusal, bytes),
            };
            let log_end = self.marks.accepted.get();
            if done.is_none() && first < log_end {
                return Err(ReplicaAppendError::BelowEnd { first, end, log_end });
            }
            let mut demand = self.demand_for_roll(bytes, now);
            let (mut new_epoch, mut is_behind_gap) = (None, false);
            if matches!(admitted, Admitted::Yes) {
                let mut run: Option<Run> = None;
                while let Some((at, header)) = headers.peek() {
                    if is_new_epoch(&writer, header.leader_epoch, header.base_offset) {
                        new_epoch = header.leader_epoch.map(|epoch| (epoch, header.base_offset));
                        break;
                    }
                    if is_too_large(header) {
                        break;
                    }
                    let expected = run.as_ref().map_or(log_end, |run| run.end);
                    is_behind_gap = header.base_offset > expected && !writer.gaps_noted;
                    if is_behind_gap {
                        break;
                    }
                    demand = Demand {
                        bytes: header.size_bytes,
                        first: header.base_offset,
                        last: header.last_offset(),
                        max_timestamp: header.max_timestamp,
                        now: now.wall,
                    };
                    if writer.active.need(&demand, &writer.config).is_some()
                        || !writer.active.segment.hold_file()
                    {
                        break;
                    }
                    note_batch(&mut writer, header, batches.bytes().get(*at..).unwrap_or_default(), now);
                    run = Some(Run::extended(run, *at, header));
                    headers.next();
                }
                if let Some(run) = run {
                    let part = batches.bytes().slice(run.from..run.to);
                    writer.queue.push(run.first, run.end, part, &self.shared.buffers);
                    done = Some((run.end, self.accepted_to(run.end, &mut writer, now)));
                }
            }
            drop(writer);
            self.shared.hand_driver_on();
            if let Some((epoch, start)) = new_epoch {
                if let Err(no_room) = self.note_epoch(epoch, start) {
                    return self.replica_result(first, done, &no_room.into(), demand.bytes);
                }
            } else if is_behind_gap {
                if let Err(no_room) = self.note_gaps() {
                    return self.replica_result(first, done, &no_room.into(), demand.bytes);
                }
            } else if headers.peek().is_some_and(|(_, header)| !is_too_large(header))
                && let Err(no_room) = self.make_room(&demand)
            {
                return self.replica_result(first, done, &no_room.into(), demand.bytes);
            }
        }
        self.replica_result(first, done, &Refusal::Truncating, 0)
    }

    /// What is larger no opening would take for a batch.
    fn batch_bytes_max(&self) -> u32 {
        u32::try_from(self.shared.limits.batch_bytes_max).unwrap_or(u32::MAX)
    }

    /// Whether the log takes bytes at all now.
    fn admit(&self, writer: &Writer, bytes: usize) -> Result<Admitted, Refusal> {
        if self.shared.has_failed() {
            return Err(Refusal::Closed(super::Closed::StoreFailed));
        }
        let admitted = match writer.phase {
            Phase::Open => Admitted::Yes,
            Phase::Rolling => Admitted::Rolling,
            Phase::Truncating => return Err(Refusal::Truncating),
            Phase::Closing => return Err(Refusal::Closed(super::Closed::StoreClosed)),
            Phase::Closed(why) => return Err(Refusal::Closed(why)),
        };
        let pending_bytes = writer.queue.pending_bytes();
        // One append always fits, however small the bound.
        if pending_bytes > 0 && pending_bytes + bytes > self.shared.limits.pending_bytes_max {
            return Err(Refusal::Busy { pending_bytes });
        }
        Ok(admitted)
    }

    /// Epoch and producer: a leader's checks at the point of order. `Some` for a duplicate.
    fn judge(
        &self,
        writer: &Writer,
        permit: Permit,
        batch: &ProducedBatch,
        stamps_time: bool,
    ) -> Result<Option<Appended>, AppendError> {
        if let Some(latest) = writer.epochs.latest().filter(|latest| latest.epoch > permit.epoch()) {
            return Err(AppendError::StaleEpoch { permit: permit.epoch(), latest: latest.epoch });
        }
        let Some(producer) = ProducerBatch::from_header(batch.header()) else { return Ok(None) };
        match writer.producers.check(&producer) {
            Verdict::Append => Ok(None),
            Verdict::Refuse(refusal) => Err(refusal.into()),
            Verdict::Duplicate { offsets, timestamp } => Ok(Some(Appended {
                offsets,
                ticket: self.ticket(offsets.end()),
                duplicate: true,
                log_append_time: stamps_time.then_some(timestamp),
            })),
        }
    }

    /// Everything below `end` is accepted. Without the writer's lock the caller then has somebody drive.
    fn accepted_to(self: &Arc<Self>, end: Offset, writer: &mut Writer, now: Now) -> Ticket {
        self.marks.accepted.set(end);
        writer.clock = now;
        if !writer.listed_dirty {
            writer.listed_dirty = true;
            lock(&self.shared.dirty).push_back((now.monotonic, self.id));
        }
        self.make_ready();
        self.ticket(end)
    }

    pub(crate) fn ticket(&self, end: Offset) -> Ticket {
        Ticket { log: self.id, end, generation: self.marks.generation() }
    }

    /// Asks for nothing but that a roll that is under way ends.
    fn demand_for_roll(&self, bytes: usize, now: Now) -> Demand {
        let first = self.marks.accepted.get();
        Demand { bytes, first, last: first, max_timestamp: None, now: now.wall }
    }

    fn nothing_appended(&self) -> Appended {
        let end = self.marks.accepted.get();
        let offsets = OffsetRange::new(end, end).expect("an empty range is one");
        Appended { offsets, ticket: self.ticket(end), duplicate: false, log_append_time: None }
    }

    fn epoch_error(&self, error: &BeginEpochError, bytes: usize) -> AppendError {
        match *error {
            BeginEpochError::Stale { asked, latest } => AppendError::StaleEpoch { permit: asked, latest },
            BeginEpochError::OutOfSpace => self.leader_error(&Refusal::OutOfSpace, bytes),
            BeginEpochError::OutOfDescriptors => AppendError::OutOfDescriptors,
            BeginEpochError::Truncating => AppendError::Truncating,
            BeginEpochError::Closed(why) => AppendError::Closed(why),
        }
    }

    fn leader_error(&self, refusal: &Refusal, bytes: usize) -> AppendError {
        match *refusal {
            Refusal::OutOfSpace => {
                AppendError::OutOfSpace { bytes, missing_bytes: self.missing_bytes(bytes) }
            }
            Refusal::OutOfDescriptors => AppendError::OutOfDescriptors,
            Refusal::Truncating => AppendError::Truncating,
            Refusal::Closed(why) => AppendError::Closed(why),
            Refusal::Busy { pending_bytes } => {
                AppendError::Busy { pending_bytes, pending_bytes_max: self.shared.limits.pending_bytes_max }
            }
            Refusal::TooLarge { bytes_max } => AppendError::TooLarge { bytes, bytes_max },
        }
    }

    /// What a full device would have to have free for an append, beside what it has; somebody may have made room since.
    fn missing_bytes(&self, bytes: usize) -> u64 {
        let disk = self.shared.disk.as_ref();
        let free = || disk.free_bytes(&self.shared.directory).unwrap_or_default();
        let allowed = self.shared.reserve.allow(disk, bytes as u64);
        allowed.err().unwrap_or_else(|| (bytes as u64).saturating_sub(free()).max(1))
    }

    /// What was appended before there was no room for more is appended.
    fn replica_result(
        &self,
        first: Offset,
        done: Option<(Offset, Ticket)>,
        refusal: &Refusal,
        bytes: usize,
    ) -> Result<Appended, ReplicaAppendError> {
        if let Some((end, ticket)) = done
            && let Some(offsets) = OffsetRange::new(first, end)
        {
            return Ok(Appended { offsets, ticket, duplicate: false, log_append_time: None });
        }
        Err(match *refusal {
            Refusal::OutOfSpace => {
                ReplicaAppendError::OutOfSpace { bytes, missing_bytes: self.missing_bytes(bytes) }
            }
            Refusal::OutOfDescriptors => ReplicaAppendError::OutOfDescriptors,
            Refusal::Truncating => ReplicaAppendError::Truncating,
            Refusal::Closed(why) => ReplicaAppendError::Closed(why),
            Refusal::Busy { pending_bytes } => ReplicaAppendError::Busy {
                pending_bytes,
                pending_bytes_max: self.shared.limits.pending_bytes_max,
            },
            Refusal::TooLarge { bytes_max } => ReplicaAppendError::TooLarge { bytes, bytes_max },
        })
    }
}

/// Whether the log has to learn of an epoch before a batch of it: its file is written first, so that a batch whose epoch is not in the
/// file is known for damage. What was noted for a batch behind a gap that then found no room begins earlier, if another comes in its place.
fn is_new_epoch(writer: &Writer, epoch: Option<LeaderEpoch>, at: Offset) -> bool {
    let is_known = |epoch: LeaderEpoch| {
        let latest = writer.epochs.latest();
        latest.is_some_and(|latest| latest.epoch > epoch || (latest.epoch == epoch && latest.start <= at))
    };
    epoch.is_some_and(|epoch| !is_known(epoch))
}

/// Takes a batch into epochs, producers, index and the active segment's figures.
#[inline]
fn note_batch(writer: &mut Writer, header: &BatchHeader, bytes: &[u8], now: Now) {
    if let Some(epoch) = header.leader_epoch
        && writer.epochs.assign(epoch, header.base_offset)
    {
        writer.epochs_unsynced = true;
    }
    let timestamp = header.max_timestamp.unwrap_or(Timestamp::from_millis(-1));
    if let Some(producer) = ProducerBatch::from_header(header) {
        writer.producers.note(&producer, header.offsets(), timestamp, now.monotonic);
    } else if let Some(marker) = transaction_marker(header, bytes) {
        writer.producers.note_marker(&marker, header.base_offset, timestamp, now.monotonic);
        if marker.kind == MarkerKind::Abort {
            writer.aborted.change(writer.active.segment.base());
        }
    }
    let active = &mut writer.active;
    active.index_is_full = active.segment.note(&Frame::of(header), active.size);
    if active.first.is_none() {
        active.first = Some(FirstBatch { max_timestamp: header.max_timestamp });
        active.created = now.wall;
    }
    active.size += header.size_bytes as u64;
}

enum Admitted {
    Yes,
    /// Once the next segment is there.
    Rolling,
}

/// Batches that lie one behind the other in what a leader sent, and go into one segment.
struct Run {
    from: usize,
    to: usize,
    first: Offset,
    end: Offset,
}

impl Run {
    fn extended(run: Option<Self>, at: usize, header: &BatchHeader) -> Self {
        let (from, first) = run.map_or((at, header.base_offset), |run| (run.from, run.first));
        Self { from, to: at + header.size_bytes, first, end: header.next_offset() }
    }
}
