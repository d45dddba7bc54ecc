//! `ListOffsets` and `OffsetForLeaderEpoch`: questions that a log answers at once.

use highwater_engine::log::{Isolation, ReadError, TimestampedOffset};
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

/// What is asked for.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Latest,
    Earliest,
    MaxTimestamp,
    /// What only a tiered log has.
    Tiered,
    At(Timestamp),
}

impl Wanted {
    /// Some timestamps mean something else, each from a version on.
    fn of(timestamp: i64, version: i16) -> Result<Self, ErrorCode> {
        match timestamp {
            -1 => Ok(Self::Latest),
            -2 => Ok(Self::Earliest),
            -3 if version >= 7 => Ok(Self::MaxTimestamp),
            -4 if version >= 8 => Ok(Self::Earliest),
            -5 if version >= 9 => Ok(Self::Tiered),
            -6 if version >= 11 => Ok(Self::Tiered),
            time if time >= 0 => Ok(Self::At(Timestamp::from_millis(time))),
            _ => Err(ErrorCode::UnsupportedVersion),
        }
    }
}

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
                let found = Wanted::of(partition.timestamp, version).and_then(|wanted| {
                    let key = self.find(&topic.name, None, partition.partition_index)?;
                    self.list_offset(key, reader, wanted, partition)
                });
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
        wanted: Wanted,
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
        let read = |error: ReadError| errors::of_read(&error);
        match wanted {
            Wanted::Latest | Wanted::MaxTimestamp if !settled => Err(ErrorCode::OffsetNotAvailable),
            Wanted::Latest => Ok(at(ceiling)),
            Wanted::Earliest => Ok(at(log.start())),
            Wanted::MaxTimestamp => by_time(log.max_timestamp(ceiling).map_err(read)?),
            Wanted::Tiered => Ok(ListOffsetsPartitionResponse::default()),
            Wanted::At(time) => by_time(log.offset_for_timestamp(time, ceiling).map_err(read)?),
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
