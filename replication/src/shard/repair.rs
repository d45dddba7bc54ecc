//! What is damaged here is fetched from leaders and put in its place: one range at a time, on a connection of its own.
//!
//! ```text
//!  wanted --turn--> Asking --Fetch--> leader --batches, checked--> Asking --all of the range--> Fetched --Job::Repair--> Writing
//! ```
//! It refuses to decide anything: the machines say what is fetched and whether it is still wanted when it is here.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use highwater_engine::batch::ReplicatedBatches;
use highwater_engine::log::LogId;
use highwater_engine::store::Job;
use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Now, Offset, OffsetRange};

use super::event::{Lane, LaneKind, News, Out};
use super::follow::{FETCH_VERSION, failure};
use super::{ReplicaKey, Shard};
use crate::partition::{FetchFailure, Input};
use crate::wire::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState};
use crate::wire::{self, ApiKey, RequestHeader, Response};

/// No segment is larger, and a damaged range lies in one.
const BYTES_MAX: usize = i32::MAX.unsigned_abs() as usize;
/// The fetch session epoch that begins none.
const NO_SESSION: i32 = -1;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    wanted: VecDeque<Wanted>,
    current: Option<Current>,
    next_correlation: i32,
}

/// A range that a machine wants of its leader.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    key: ReplicaKey,
    leader: NodeId,
    epoch: LeaderEpoch,
    offsets: OffsetRange,
}

#[derive(Debug)]
struct Current {
    wanted: Wanted,
    step: Step,
}

#[derive(Debug)]
enum Step {
    /// Whole batches up to `next` are here; the rest was asked for.
    Asking { here: BytesMut, next: Offset, correlation: i32, sent_at: Monotonic },
    /// All of it is here.
    Fetched { batches: ReplicatedBatches, replaced: OffsetRange },
    /// The job runs.
    Writing,
}

impl Repairs {
    pub(super) fn want(&mut self, key: ReplicaKey, leader: NodeId, epoch: LeaderEpoch, offsets: OffsetRange) {
        self.wanted.retain(|wanted| wanted.key != key);
        self.wanted.push_back(Wanted { key, leader, epoch, offsets });
    }

    /// A replica is gone. A job that runs for it ends without it.
    pub(super) fn forget(&mut self, key: ReplicaKey) {
        self.wanted.retain(|wanted| wanted.key != key);
        self.current.take_if(|current| current.wanted.key == key);
    }

    /// When an answer is overdue.
    pub(super) fn next_deadline(&self, timeout: Duration) -> Option<Monotonic> {
        match &self.current.as_ref()?.step {
            Step::Asking { sent_at, .. } => Some(sent_at.after(timeout)),
            Step::Fetched { .. } | Step::Writing => None,
        }
    }
}

impl Shard {
    /// Asks for the next range, if none is under way.
    pub(super) fn go_on_repairing(&mut self, now: Now) {
        let timeout = self.config.peer_timeout;
        if self.repairs.next_deadline(timeout).is_some_and(|at| at <= now.monotonic) {
            self.range_fails(now, FetchFailure::Unreachable);
        }
        // Nobody wanted it any more when it was here.
        self.repairs.current.take_if(|current| matches!(current.step, Step::Fetched { .. }));
        if self.repairs.current.is_none()
            && let Some(wanted) = self.repairs.wanted.pop_front()
        {
            self.ask_for(now, wanted, BytesMut::new(), wanted.offsets.start());
        }
    }

    fn ask_for(&mut self, now: Now, wanted: Wanted, here: BytesMut, next: Offset) {
        let Some(replica) = self.replicas.get(&wanted.key) else { return };
        let part = FetchPartition {
            partition: replica.name.partition(),
            current_leader_epoch: wanted.epoch.value(),
            fetch_offset: next.value(),
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: self.config.fetch_partition_bytes_max,
            ..Default::default()
        };
        let topic =
            FetchTopic { topic_id: Some(replica.topic_id), partitions: vec![part], ..Default::default() };
        let request = FetchRequest {
            replica_state: ReplicaState { replica_id: -1, replica_epoch: -1 },
            max_wait_ms: i32::try_from(self.config.fetch_wait_max.as_millis()).unwrap_or(i32::MAX),
            min_bytes: 1,
            max_bytes: self.config.fetch_bytes_max,
            session_epoch: NO_SESSION,
            topics: vec![topic],
            ..Default::default()
        };
        let correlation = self.repairs.next_correlation;
        self.repairs.next_correlation = correlation.wrapping_add(1) & i32::MAX;
        let header = RequestHeader {
            api: ApiKey::Fetch,
            version: FETCH_VERSION,
            correlation_id: correlation,
            client_id: Some(format!("highwater-{}", self.config.node)),
        };
        let Ok(parts) = wire::encode_request(&header, &request.into()) else { return };
        let step = Step::Asking { here, next, correlation, sent_at: now.monotonic };
        self.repairs.current = Some(Current { wanted, step });
        self.out.push(Out::PeerFrame { lane: lane(wanted.leader), parts });
    }

    pub(super) fn on_repair_lane_down(&mut self, now: Now, leader: NodeId) {
        if self.repairs.current.as_ref().is_some_and(|current| current.wanted.leader == leader) {
            self.range_fails(now, FetchFailure::Unreachable);
        }
    }

    /// What was asked for does not come. The connection goes with it, and whatever may still come on it.
    fn range_fails(&mut self, now: Now, why: FetchFailure) {
        let asking = |current: &mut Current| matches!(current.step, Step::Asking { .. });
        let Some(Current { wanted, .. }) = self.repairs.current.take_if(asking) else { return };
        self.out.push(Out::PeerClose { lane: lane(wanted.leader) });
        self.range_is_here(now, wanted, Err(why));
    }

    fn range_is_here(&mut self, now: Now, wanted: Wanted, outcome: Result<(), FetchFailure>) {
        let Wanted { key, epoch, offsets, .. } = wanted;
        self.step(now, key, Input::RangeFetched { offsets, epoch, outcome });
    }

    pub(super) fn on_repair_frame(&mut self, now: Now, leader: NodeId, frame: Bytes) {
        let Some(Current { wanted, step: Step::Asking { here, next, correlation, .. } }) =
            &mut self.repairs.current
        else {
            return;
        };
        if wanted.leader != leader {
            return;
        }
        let (wanted, next) = (*wanted, *next);
        let data = match wire::decode_response(ApiKey::Fetch, FETCH_VERSION, frame) {
            Ok((answered, Response::Fetch(response))) if answered == *correlation => {
                response.responses.into_iter().flat_map(|topic| topic.partitions).next()
            }
            Ok(_) | Err(_) => None,
        };
        let taken = match data {
            Some(data) => take(&data, wanted, next, here),
            None => Err(FetchFailure::LeaderFailed),
        };
        match taken {
            Err(why) => self.range_fails(now, why),
            Ok(next) if next < wanted.offsets.end() => {
                let here = std::mem::take(here);
                self.ask_for(now, wanted, here, next);
            }
            Ok(_) => {
                let whole = std::mem::take(here).freeze();
                match ReplicatedBatches::check(whole, wanted.epoch) {
                    Ok(batches) => {
                        let replaced = replaced(wanted.offsets, &batches);
                        let step = Step::Fetched { batches, replaced };
                        self.repairs.current = Some(Current { wanted, step });
                        self.out.push(Out::PeerClose { lane: lane(leader) });
                        self.range_is_here(now, wanted, Ok(()));
                    }
                    Err(_) => self.range_fails(now, FetchFailure::Corrupt),
                }
            }
        }
    }

    /// The machine still wants what is here.
    pub(super) fn repair(&mut self, now: Now, key: ReplicaKey, offsets: OffsetRange) {
        let Some(replica) = self.replicas.get(&key) else { return };
        let Some(current) = &mut self.repairs.current else { return };
        if current.wanted.key != key || current.wanted.offsets != offsets {
            return;
        }
        if let Step::Fetched { batches, replaced } = std::mem::replace(&mut current.step, Step::Writing) {
            let log = replica.log.id();
            self.out.push(Out::Job(Job::Repair { log, offsets: replaced, batches, now }));
        }
    }

    pub(super) fn on_repaired(&mut self, now: Now, log: LogId) {
        let Some(key) = self.by_log.get(&log).copied() else { return };
        if let Some(offsets) = self.take_written(key) {
            self.step(now, key, Input::Repaired { offsets });
        }
    }

    pub(super) fn on_not_repaired(&mut self, now: Now, key: ReplicaKey, why: &str) {
        let Some(replica) = self.replicas.get(&key) else { return };
        if replica.log.closed().is_some() {
            return self.fail_log(now, key, why);
        }
        let name = replica.name.clone();
        if let Some(offsets) = self.take_written(key) {
            self.out.push(Out::News(News::NotRepaired { name, offsets, why: why.to_owned() }));
            self.step(now, key, Input::NotRepaired { offsets });
        }
    }

    fn take_written(&mut self, key: ReplicaKey) -> Option<OffsetRange> {
        let is_written =
            |current: &mut Current| current.wanted.key == key && matches!(current.step, Step::Writing);
        Some(self.repairs.current.take_if(is_written)?.wanted.offsets)
    }
}

const fn lane(leader: NodeId) -> Lane {
    Lane { leader, kind: LaneKind::Repair }
}

/// Keeps the batches of an answer that belong to the range, and says where to go on.
fn take(
    data: &PartitionData,
    wanted: Wanted,
    next: Offset,
    here: &mut BytesMut,
) -> Result<Offset, FetchFailure> {
    if !data.error_code.is_none() {
        return Err(failure(data.error_code));
    }
    let records = data.records.clone().unwrap_or_default().into_bytes();
    let batches = ReplicatedBatches::check(records, wanted.epoch).map_err(|_| FetchFailure::Corrupt)?;
    let mut at = next;
    for (position, header) in batches.batches() {
        at = header.next_offset();
        if header.base_offset >= wanted.offsets.end() {
            break;
        }
        let batch = batches.bytes().get(position..position + header.size_bytes).unwrap_or_default();
        if here.len() + batch.len() > BYTES_MAX {
            return Err(FetchFailure::Corrupt);
        }
        here.extend_from_slice(batch);
    }
    if at > next { Ok(at) } else { Err(FetchFailure::NotCommitted) }
}

/// What the batches take the place of: the range that was asked for, and what of its first and last batch lies outside.
fn replaced(wanted: OffsetRange, batches: &ReplicatedBatches) -> OffsetRange {
    let start = batches.first_offset().map_or(wanted.start(), |first| first.min(wanted.start()));
    let end = batches.next_offset().map_or(wanted.end(), |next| next.max(wanted.end()));
    OffsetRange::new(start, end).unwrap_or(wanted)
}
