//! What is forgotten: groups and offsets by order, those of topics that are gone, and what nobody has needed for long.

use std::collections::BTreeSet;

use highwater_engine::units::{Now, TopicId};
use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::delete_groups::DeleteGroupsRequest;
use highwater_replication::wire::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

use super::coordinator::{Coordinator, WriteId};
use super::group::{CONSUMER, State};
use super::offsets::Part;
use super::records::{self, Record};
use super::turn::Turn;
use super::writes::Purpose;

/// What one write that forgets offsets may take; a batch may be larger with all settings by default.
const PIECE_BYTES: usize = 512 << 10;
/// What a record has besides the names, at most.
const RECORD_BYTES: usize = 64;

/// The topics that a group's members read; `None` if they have to be taken for all.
type Subscribed<'a> = Option<&'a BTreeSet<String>>;

impl<T: Copy> Coordinator<T> {
    /// Groups are to be forgotten with their offsets.
    pub(crate) fn delete_groups(&mut self, now: Now, to: T, request: DeleteGroupsRequest) {
        let gather = self.writes.gather(to);
        for name in BTreeSet::from_iter(request.groups_names) {
            self.writes.await_one(gather);
            let outcome = self.home(&name).and_then(|_| {
                let deleted = self.with(now, &name, |turn| turn.delete(gather));
                deleted.unwrap_or(Err(ErrorCode::GroupIdNotFound))
            });
            if let Err(error) = outcome {
                self.writes.settle(gather, Some((name, error)));
            }
        }
        self.writes.settle(gather, None);
    }

    /// Offsets of a group are to be forgotten.
    pub(crate) fn delete_offsets(
        &mut self,
        now: Now,
        to: T,
        request: &OffsetDeleteRequest,
        is_there: impl Fn(&str) -> bool,
    ) {
        let outcome = self.home(&request.group_id).and_then(|_| {
            let deleted =
                self.with(now, &request.group_id, |turn| turn.delete_offsets(to, request, is_there));
            deleted.unwrap_or(Err(ErrorCode::GroupIdNotFound))
        });
        if let Err(error_code) = outcome {
            self.writes.reply(to, OffsetDeleteResponse { error_code, ..Default::default() }.into());
        }
    }

    /// The cluster's topics may have changed: offsets of those that are gone, or that are others of the same name, are forgotten.
    pub(crate) fn topics_changed(&mut self, now: Now, id_of: impl Fn(&str) -> Option<TopicId>) {
        self.forget_where(now, |turn, _, part| {
            let committed = turn.group.offsets.get(&part.0, part.1);
            committed.and_then(|committed| committed.topic).is_some_and(|then| id_of(&part.0) != Some(then))
        });
    }

    /// Offsets that no member reads and that were not committed for so long, and groups that have nothing left.
    pub(super) fn forget_what_nobody_needs(&mut self, now: Now) {
        let retention = i64::try_from(self.config.retention.as_millis()).unwrap_or(i64::MAX);
        self.each(now, |turn| {
            turn.forget_if_nothing_is_left();
        });
        self.forget_where(now, |turn, subscribed, part| turn.is_expired(part, subscribed, retention));
    }

    fn forget_where(&mut self, now: Now, is_gone: impl Fn(&Turn<'_, T>, Subscribed<'_>, &Part) -> bool) {
        self.each(now, |turn| turn.forget_where(&is_gone));
    }

    /// Lets something happen in each group whose partition is loaded.
    fn each(&mut self, now: Now, act: impl Fn(&mut Turn<'_, T>)) {
        let loaded = self.partitions.iter().filter(|(_, partition)| !partition.is_loading);
        let names = loaded
            .flat_map(|(number, partition)| partition.groups.keys().map(|name| (*number, name.clone())));
        for (number, name) in names.collect::<Vec<_>>() {
            self.with_in(now, number, &name, |turn| act(turn));
        }
    }

    /// Of which topics the offsets are that were loaded.
    pub(crate) fn name_topics(&mut self, id_of: impl Fn(&str) -> Option<TopicId>) {
        let groups = self.partitions.values_mut().flat_map(|partition| partition.groups.values_mut());
        groups.for_each(|group| group.offsets.name_topics(&id_of));
    }
}

impl<T: Copy> Turn<'_, T> {
    fn delete(&mut self, gather: u64) -> Result<(), ErrorCode> {
        if !self.group.has_nobody() {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let mut pieces = self.in_pieces(self.group.offsets.iter().map(|(part, _)| part.clone()).collect());
        let last = pieces.pop().unwrap_or_default();
        for forgotten in pieces {
            let records = self.tombstones(&forgotten)?;
            let group = self.name.to_owned();
            self.write(Purpose::Housekeeping { group, forgotten, is_gone: false }, records);
        }
        let mut records = self.tombstones(&last)?;
        records.push(records::no_group(self.name).map_err(|_| ErrorCode::UnknownServerError)?);
        self.write(Purpose::GroupDelete { group: self.name.to_owned(), parts: last, gather }, records);
        Ok(())
    }

    /// So many offsets at a time as one batch can forget.
    fn in_pieces(&self, parts: Vec<Part>) -> Vec<Vec<Part>> {
        let mut pieces: Vec<Vec<Part>> = Vec::new();
        let mut bytes = PIECE_BYTES;
        for part in parts {
            let one = self.name.len() + part.0.len() + RECORD_BYTES;
            bytes += one;
            if let Some(piece) = pieces.last_mut().filter(|_| bytes <= PIECE_BYTES) {
                piece.push(part);
            } else {
                bytes = one;
                pieces.push(vec![part]);
            }
        }
        pieces
    }

    fn tombstones(&self, parts: &[Part]) -> Result<Vec<Record>, ErrorCode> {
        let records = parts.iter().map(|part| records::offset(self.name, part, None));
        // What was written once can be named again.
        records.collect::<Result<_, _>>().map_err(|_| ErrorCode::UnknownServerError)
    }

    /// The log says that these offsets are gone, but for those that came behind it.
    pub(super) fn forget(&mut self, write: WriteId, parts: &[Part]) {
        for part in parts {
            self.group.offsets.forget(write, part);
        }
    }

    fn delete_offsets(
        &mut self,
        to: T,
        request: &OffsetDeleteRequest,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<(), ErrorCode> {
        let is_consumer = self.group.protocol_type.as_deref() == Some(CONSUMER);
        if !self.group.members.is_empty() && !is_consumer {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let subscribed = self.group.subscribed();
        let is_read = |topic: &str| subscribed.as_ref().is_none_or(|topics| topics.contains(topic));
        let mut parts = Vec::new();
        let mut response = OffsetDeleteResponse::default();
        for topic in &request.topics {
            let error_code = if !is_there(&topic.name) {
                ErrorCode::UnknownTopicOrPartition
            } else if is_read(&topic.name) {
                ErrorCode::GroupSubscribedToTopic
            } else {
                ErrorCode::None
            };
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let partition_index = partition.partition_index;
                partitions.push(OffsetDeleteResponsePartition { partition_index, error_code });
                if error_code.is_none() && self.group.offsets.get(&topic.name, partition_index).is_some() {
                    parts.push((topic.name.clone(), partition_index));
                }
            }
            response.topics.push(OffsetDeleteResponseTopic { name: topic.name.clone(), partitions });
        }
        if parts.is_empty() {
            self.reply(to, response);
            return Ok(());
        }
        let records = self.tombstones(&parts)?;
        self.write(Purpose::OffsetDelete { group: self.name.to_owned(), to, parts, response }, records);
        Ok(())
    }

    /// Whether nobody has needed an offset for so many milliseconds (KIP-211): since its group became empty or, if nobody reads the topic,
    /// since it was committed.
    fn is_expired(&self, part: &Part, subscribed: Subscribed<'_>, retention: i64) -> bool {
        let Some(committed) = self.group.offsets.get(&part.0, part.1) else { return false };
        let now = self.now.wall.millis();
        if let Some(expires) = committed.expires {
            return expires.millis() <= now;
        }
        let since = match (self.group.state, &self.group.protocol_type) {
            (State::Empty, Some(_)) => self.group.since.max(committed.at),
            (State::Empty, None) => committed.at,
            _ => {
                if subscribed.is_none_or(|topics| topics.contains(&part.0)) {
                    return false;
                }
                committed.at
            }
        };
        now.saturating_sub(since.millis()) >= retention
    }

    fn forget_where(&mut self, is_gone: &impl Fn(&Self, Subscribed<'_>, &Part) -> bool) {
        // A commit that is under way is older in the log than what would be written now, and newer than what is known here.
        if self.group.offsets.pending > 0 {
            return;
        }
        let subscribed = self.group.subscribed();
        let all: Vec<Part> = self.group.offsets.iter().map(|(part, _)| part.clone()).collect();
        let forgotten: Vec<Part> =
            all.iter().filter(|part| is_gone(self, subscribed.as_ref(), part)).cloned().collect();
        for forgotten in self.in_pieces(forgotten) {
            let Ok(records) = self.tombstones(&forgotten) else { return };
            let group = self.name.to_owned();
            self.write(Purpose::Housekeeping { group, forgotten, is_gone: false }, records);
        }
    }

    /// A group of which nothing is left but its record is forgotten.
    fn forget_if_nothing_is_left(&mut self) {
        let is_nothing = self.group.has_nobody() && self.group.offsets.is_empty() && self.group.is_written;
        if is_nothing && let Ok(record) = records::no_group(self.name) {
            let group = self.name.to_owned();
            self.write(Purpose::Housekeeping { group, forgotten: Vec::new(), is_gone: true }, vec![record]);
        }
    }
}
