//! `OffsetCommit` and `OffsetFetch`: how far a group has come.
//!
//! Which topics there are is the host's to know: it names them, and answers for those that are not there.

use highwater_engine::units::{Now, Timestamp, TopicId};
use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};
use highwater_replication::wire::offset_fetch::OffsetFetchResponsePartition;

use super::coordinator::{Coordinator, WriteId};
use super::group::State;
use super::offsets::{Committed, Offsets, Part};
use super::records;
use super::turn::Turn;
use super::writes::Purpose;

/// Partitions whose offsets are asked for, or all that there are.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// These partitions of these topics.
    Some(Vec<(String, Vec<i32>)>),
    /// All.
    All,
}

/// Offsets by topic.
pub(crate) type Fetched = Vec<(String, Vec<OffsetFetchResponsePartition>)>;

/// What a commit does.
enum Accepted {
    /// Nothing: every partition was refused.
    Nothing(OffsetCommitResponse),
    /// It is answered when it is written.
    Written,
}

impl<T: Copy> Coordinator<T> {
    /// A group has come so far. `topic` gives a topic's name and id, by the request's own words; a topic that is not there is refused
    /// with the error that is given instead.
    pub(crate) fn commit(
        &mut self,
        now: Now,
        to: T,
        request: &OffsetCommitRequest,
        topic: impl Fn(&str, Option<TopicId>) -> Result<(String, TopicId), ErrorCode>,
    ) {
        let name = request.group_id.clone();
        let mut response = OffsetCommitResponse::default();
        let mut asked = Vec::new();
        for wanted in &request.topics {
            let found = topic(&wanted.name, wanted.topic_id);
            let error_code = found.as_ref().err().copied().unwrap_or_default();
            let partitions = wanted.partitions.iter().map(|partition| OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code,
            });
            response.topics.push(OffsetCommitResponseTopic {
                name: wanted.name.clone(),
                topic_id: wanted.topic_id,
                partitions: partitions.collect(),
            });
            asked.push(found.ok());
        }
        let outcome = self.home(&name).and_then(|_| {
            // Whoever has no members needs no group before the first offset.
            if request.generation_id_or_member_epoch < 0 {
                self.make(now, &name)?;
            }
            let accepted = self.with(now, &name, |turn| turn.commit(to, request, &asked, response.clone()));
            accepted.unwrap_or(Err(ErrorCode::IllegalGeneration))
        });
        match outcome {
            Ok(Accepted::Written) => {}
            Ok(Accepted::Nothing(response)) => self.writes.reply(to, response.into()),
            Err(error) => {
                let partitions = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
                partitions.for_each(|partition| partition.error_code = error);
                self.writes.reply(to, response.into());
            }
        }
    }

    /// How far a group has come; nothing is known of a group that is not there, nor of a topic that is another one of its name now.
    pub(crate) fn fetch(
        &mut self,
        name: &str,
        wanted: Wanted,
        id_of: impl Fn(&str) -> Option<TopicId>,
    ) -> Result<Fetched, ErrorCode> {
        let number = self.home(name)?;
        let group = self.group(number, name);
        let offsets = group.map(|group| &group.offsets);
        let is_of_now = |topic: &str, committed: &Committed| {
            let (then, now) = (committed.topic, id_of(topic));
            then.is_none() || now.is_none() || then == now
        };
        Ok(match wanted {
            Wanted::All => {
                let mut all = Fetched::new();
                for ((topic, partition), committed) in offsets.into_iter().flat_map(Offsets::iter) {
                    if !is_of_now(topic, committed) {
                        continue;
                    }
                    if all.last().is_none_or(|(last, _)| last != topic) {
                        all.push((topic.clone(), Vec::new()));
                    }
                    if let Some((_, partitions)) = all.last_mut() {
                        partitions.push(known(*partition, Some(committed)));
                    }
                }
                all
            }
            Wanted::Some(topics) => topics
                .into_iter()
                .map(|(topic, partitions)| {
                    let one = |partition: i32| {
                        let committed = offsets.and_then(|offsets| offsets.get(&topic, partition));
                        known(partition, committed.filter(|committed| is_of_now(&topic, committed)))
                    };
                    let fetched = partitions.into_iter().map(one).collect();
                    (topic, fetched)
                })
                .collect(),
        })
    }
}

fn known(partition_index: i32, committed: Option<&Committed>) -> OffsetFetchResponsePartition {
    match committed {
        Some(committed) => OffsetFetchResponsePartition {
            partition_index,
            committed_offset: committed.offset,
            committed_leader_epoch: committed.leader_epoch,
            metadata: Some(committed.metadata.clone()),
            ..Default::default()
        },
        None => OffsetFetchResponsePartition {
            partition_index,
            metadata: Some(String::new()),
            ..Default::default()
        },
    }
}

impl<T: Copy> Turn<'_, T> {
    /// Whether the sender may commit for the group.
    fn may_commit(&mut self, request: &OffsetCommitRequest) -> Result<(), ErrorCode> {
        let generation = request.generation_id_or_member_epoch;
        let instance = request.group_instance_id.as_deref();
        if generation < 0 && self.group.state == State::Empty {
            return Ok(());
        }
        if generation < 0 && request.member_id.is_empty() && instance.is_none() {
            // Somebody outside of the group; its members would not know.
            return Err(ErrorCode::UnknownMemberId);
        }
        self.group.validate(&request.member_id, instance)?;
        if generation != self.group.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if let Some(member) = self.group.members.get_mut(&request.member_id) {
            member.heard(self.now.monotonic);
        }
        match self.group.state {
            // It has joined the next generation, and does not know its part of it yet.
            State::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::Empty | State::PreparingRebalance | State::Stable => Ok(()),
        }
    }

    /// Commits for the topics that have a name in `asked`.
    fn commit(
        &mut self,
        to: T,
        request: &OffsetCommitRequest,
        asked: &[Option<(String, TopicId)>],
        mut response: OffsetCommitResponse,
    ) -> Result<Accepted, ErrorCode> {
        self.may_commit(request)?;
        let expires = (request.retention_time_ms >= 0).then(|| {
            Timestamp::from_millis(self.now.wall.millis().saturating_add(request.retention_time_ms))
        });
        let mut offsets: Vec<(Part, Committed)> = Vec::new();
        let topics = request.topics.iter().zip(&mut response.topics).zip(asked);
        for ((wanted, answer), name) in topics {
            let Some((name, id)) = name else { continue };
            for (partition, answer) in wanted.partitions.iter().zip(&mut answer.partitions) {
                match self.committed_of(partition, *id, expires) {
                    Ok(committed) => offsets.push(((name.clone(), partition.partition_index), committed)),
                    Err(error) => answer.error_code = error,
                }
            }
        }
        if offsets.is_empty() {
            return Ok(Accepted::Nothing(response));
        }
        let records =
            offsets.iter().map(|(part, committed)| records::offset(self.name, part, Some(committed)));
        let records =
            records.collect::<Result<Vec<_>, _>>().map_err(|_| ErrorCode::InvalidCommitOffsetSize)?;
        self.group.offsets.pending += 1;
        self.write(Purpose::Commit { group: self.name.to_owned(), to, offsets, response }, records);
        Ok(Accepted::Written)
    }

    fn committed_of(
        &self,
        partition: &OffsetCommitRequestPartition,
        topic: TopicId,
        expires: Option<Timestamp>,
    ) -> Result<Committed, ErrorCode> {
        let metadata = partition.committed_metadata.clone().unwrap_or_default();
        if metadata.len() > self.config.metadata_bytes_max {
            return Err(ErrorCode::OffsetMetadataTooLarge);
        }
        Ok(Committed {
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata,
            topic: Some(topic),
            at: self.now.wall,
            expires,
        })
    }

    /// A commit is over; these offsets are in the log.
    pub(super) fn committed(&mut self, write: WriteId, offsets: Vec<(Part, Committed)>) {
        self.group.offsets.pending = self.group.offsets.pending.saturating_sub(1);
        for (part, committed) in offsets {
            self.group.offsets.written(write, part, committed);
        }
    }
}
