//! `ListOffsets` and `OffsetForLeaderEpoch`: questions that a log answers at once.

use highwater_engine::log::{Isolation, TimestampedOffset};
use highwater_engine::units::{LeaderEpoch, Offset, Timestamp};

use super::{ReplicaKey, Shard, errors};
use crate::partition::{Asker, ListBound};
use crate::pending::Slot;
use crate::wire::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use crate::wire::offset_for_leader_epoch::{
    LeaderEpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition, OffsetForLeaderTopicResult,
};
use crate::wire::{ErrorCode, RequestHeader};

/// The timestamps that mean something else, and the version each came with.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

impl Shard {
    pub(super) fn on_list_offsets(&mut self, slot: Slot, header: &RequestHeader, body: ListOffsetsRequest) {
        let asker = match body.replica_id {
            -2 => Asker::Debugger,
            id if id < 0 => Asker::Client,
            _ => Asker::Replica,
        };
        let reader = (asker, super::fetch::isolation(body.isolation_level));
        let version = header.version;
        let topics = body.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let found = self
                    .find(&topic.name, None, partition.partition_index)
                    .and_then(|key| self.list_offset(key, reader, version, partition));
                let answer = match found {
                    Ok(found) => found,
                    Err(error_code) => ListOffsetsPartitionResponse { error_code, ..Default::default() },
                };
                ListOffsetsPartitionResponse { partition_index: partition.partition_index, ..answer }
            });
            let partitions = partitions.collect();
            ListOffsetsTopicResponse { name: topic.name, partitions }
        });
        let response = ListOffsetsResponse { topics: topics.collect(), ..Default::default() };
        self.reply(slot, header, &response.into());
    }

    fn list_offset(
        &self,
        key: ReplicaKey,
        (asker, isolation): (Asker, Isolation),
        version: i16,
        part: &ListOffsetsPartition,
    ) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
        let replica = self.replicas.get(&key).ok_or(ErrorCode::NotLeaderOrFollower)?;
        let epoch = LeaderEpoch::new(part.current_leader_epoch);
        let bound = replica
            .look(|machine, facts| machine.list_bound(asker, epoch, facts))
            .map_err(errors::of_fenced)?;
        let (ceiling, settled) = match bound {
            ListBound::Settled(ceiling) => (ceiling, true),
            ListBound::Unsettled(ceiling) => (ceiling, false),
        };
        let ceiling = match (asker, isolation) {
            (Asker::Client, Isolation::Committed) => replica.last_stable(ceiling),
            (Asker::Client | Asker::Debugger | Asker::Replica, _) => ceiling,
        };
        let at = |offset: Offset| ListOffsetsPartitionResponse {
            offset: offset.value(),
            leader_epoch: replica
                .look(|_, facts| facts.epochs.epoch_at(offset))
                .map_or(-1, LeaderEpoch::value),
            ..Default::default()
        };
        let nothing = || {
            if settled {
                Ok(ListOffsetsPartitionResponse::default())
            } else {
                Err(ErrorCode::OffsetNotAvailable)
            }
        };
        let by_time = |found: Option<TimestampedOffset>| match found {
            Some(found) => Ok(ListOffsetsPartitionResponse {
                offset: found.offset.value(),
                timestamp: found.timestamp.millis(),
                leader_epoch: found.epoch.map_or(-1, LeaderEpoch::value),
                ..Default::default()
            }),
            None => nothing(),
        };
        let log = &replica.log;
        match part.timestamp {
            LATEST if settled => Ok(at(ceiling)),
            LATEST => Err(ErrorCode::OffsetNotAvailable),
            EARLIEST => Ok(at(log.start())),
            EARLIEST_LOCAL if version >= 8 => Ok(at(log.start())),
            MAX_TIMESTAMP if version >= 7 && !settled => Err(ErrorCode::OffsetNotAvailable),
            MAX_TIMESTAMP if version >= 7 => {
                by_time(log.max_timestamp(ceiling).map_err(|error| errors::of_read(&error))?)
            }
            LATEST_TIERED if version >= 9 => Ok(ListOffsetsPartitionResponse::default()),
            EARLIEST_PENDING_UPLOAD if version >= 11 => Ok(ListOffsetsPartitionResponse::default()),
            time if time >= 0 => {
                let found = log.offset_for_timestamp(Timestamp::from_millis(time), ceiling);
                by_time(found.map_err(|error| errors::of_read(&error))?)
            }
            _ => Err(ErrorCode::UnsupportedVersion),
        }
    }

    pub(super) fn on_offset_for_leader_epoch(
        &mut self,
        slot: Slot,
        header: &RequestHeader,
        body: OffsetForLeaderEpochRequest,
    ) {
        let topics = body.topics.into_iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let found = self
                    .find(&topic.topic, None, partition.partition)
                    .and_then(|key| self.epoch_end(key, partition));
                let answer = match found {
                    Ok(found) => found,
                    Err(error_code) => LeaderEpochEndOffset { error_code, ..Default::default() },
                };
                LeaderEpochEndOffset { partition: partition.partition, ..answer }
            });
            let partitions = partitions.collect();
            OffsetForLeaderTopicResult { topic: topic.topic, partitions }
        });
        let response = OffsetForLeaderEpochResponse { topics: topics.collect(), ..Default::default() };
        self.reply(slot, header, &response.into());
    }

    fn epoch_end(
        &self,
        key: ReplicaKey,
        asked: &OffsetForLeaderPartition,
    ) -> Result<LeaderEpochEndOffset, ErrorCode> {
        let replica = self.replicas.get(&key).ok_or(ErrorCode::NotLeaderOrFollower)?;
        let current = LeaderEpoch::new(asked.current_leader_epoch);
        let Some(epoch) = LeaderEpoch::new(asked.leader_epoch) else {
            return Ok(LeaderEpochEndOffset::default());
        };
        let end = replica
            .look(|machine, facts| machine.epoch_end(current, epoch, facts))
            .map_err(errors::of_fenced)?;
        Ok(end.map_or_else(LeaderEpochEndOffset::default, |end| LeaderEpochEndOffset {
            leader_epoch: end.epoch.value(),
            end_offset: end.end.value(),
            ..Default::default()
        }))
    }
}
