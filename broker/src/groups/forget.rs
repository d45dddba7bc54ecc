//! What is forgotten: groups and offsets by order, those of topics that are gone, and what nobody has needed for long.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::units::{Now, TopicId};
use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::delete_groups::DeleteGroupsRequest;
use highwater_replication::wire::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

use super::coordinator::{Coordinator, WriteId};
use super::group::{CONSUMER, State};
use super::offsets::Part;
use super::records;
use super::turn::Turn;
use super::writes::Purpose;

/// The topics that a group's members read; `None` if they have to be taken for all.
type Subscribed<'a> = Option<&'a BTreeSet<String>>;

impl<T: Copy> Coordinator<T> {
    /// Groups are to be forgotten with their offsets.
    pub(crate) fn delete_groups(&mut self, now: Now, to: T, request: DeleteGroupsRequest) {
        let gather = self.writes.gather(to);
        for name in request.groups_names {
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
    pub(crate) fn delete_offsets(&mut self, now: Now, to: T, request: &OffsetDeleteRequest) {
        let outcome = self.home(&request.group_id).and_then(|_| {
            let deleted = self.with(now, &request.group_id, |turn| turn.delete_offsets(to, request));
            deleted.unwrap_or(Err(ErrorCode::GroupIdNotFound))
        });
        if let Err(error_code) = outcome {
            self.writes.reply(to, OffsetDeleteResponse { error_code, ..Default::default() }.into());
        }
    }

    /// The cluster's topics may have changed: offsets of those that are gone, or that are others of the same name, are forgotten.
    pub(crate) fn topics_changed(&mut self, now: Now, id_of: impl Fn(&str) -> Option<TopicId>) {
        let topics = std::mem::take(&mut self.topics);
        let gone: Vec<String> = topics
            .iter()
            .filter(|(name, id)| id_of(name) != Some(**id))
            .map(|(name, _)| name.clone())
            .collect();
        self.topics = topics.into_iter().filter(|(name, _)| !gone.contains(name)).collect();
        if gone.is_empty() {
            return;
        }
        self.forget_where(now, |_, _, part| gone.contains(&part.0));
    }

    /// Offsets that no member reads and that were not committed for so long, and groups that have nothing left.
    pub(super) fn forget_what_nobody_needs(&mut self, now: Now) {
        let retention = i64::try_from(self.config.retention.as_millis()).unwrap_or(i64::MAX);
        self.forget_where(now, |turn, subscribed, part| turn.is_expired(part, subscribed, retention));
    }

    fn forget_where(&mut self, now: Now, is_gone: impl Fn(&Turn<'_, T>, Subscribed<'_>, &Part) -> bool) {
        let loaded = self.partitions.iter().filter(|(_, partition)| !partition.is_loading);
        let names = loaded
            .flat_map(|(number, partition)| partition.groups.keys().map(|name| (*number, name.clone())));
        for (number, name) in names.collect::<Vec<_>>() {
            self.with_in(now, number, &name, |turn| turn.forget_where(&is_gone));
        }
    }

    /// Which topics there are offsets of, for those that were loaded.
    pub(crate) fn learn_topics(&mut self, id_of: impl Fn(&str) -> Option<TopicId>) {
        let groups = self.partitions.values().flat_map(|partition| partition.groups.values());
        let names = groups.flat_map(|group| group.offsets.iter().map(|((topic, _), _)| topic.as_str()));
        let mut found = BTreeMap::new();
        for name in names {
            if !self.topics.contains_key(name)
                && let Some(id) = id_of(name)
            {
                found.insert(name.to_owned(), id);
            }
        }
        self.topics.extend(found);
    }
}

impl<T: Copy> Turn<'_, T> {
    fn delete(&mut self, gather: u64) -> Result<(), ErrorCode> {
        if !self.group.has_nobody() {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let offsets = self.group.offsets.iter().map(|(part, _)| records::offset(self.name, part, None));
        let records = offsets.chain([records::no_group(self.name)]).collect::<Result<Vec<_>, _>>();
        let records = records.map_err(|_| ErrorCode::UnknownServerError)?;
        self.write(Purpose::GroupDelete { group: self.name.to_owned(), gather }, records);
        Ok(())
    }

    /// The log says that the group is gone. Who joined meanwhile is in a group without a past.
    pub(super) fn forget_group(&mut self, write: WriteId) {
        let parts: Vec<Part> = self.group.offsets.iter().map(|(part, _)| part.clone()).collect();
        self.forget(write, &parts);
        self.group.is_written = false;
    }

    /// The log says that these offsets are gone, but for those that came behind it.
    pub(super) fn forget(&mut self, write: WriteId, parts: &[Part]) {
        for part in parts {
            self.group.offsets.forget(write, part);
        }
    }

    fn delete_offsets(&mut self, to: T, request: &OffsetDeleteRequest) -> Result<(), ErrorCode> {
        let is_consumer = self.group.protocol_type.as_deref() == Some(CONSUMER);
        if !self.group.members.is_empty() && !is_consumer {
            return Err(ErrorCode::NonEmptyGroup);
        }
        let subscribed = self.group.subscribed();
        let is_read = |topic: &str| subscribed.as_ref().is_none_or(|topics| topics.contains(topic));
        let mut parts = Vec::new();
        let mut response = OffsetDeleteResponse::default();
        for topic in &request.topics {
            let is_read = is_read(&topic.name);
            let error_code = if is_read { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None };
            let mut partitions = Vec::new();
            for partition in &topic.partitions {
                let partition_index = partition.partition_index;
                partitions.push(OffsetDeleteResponsePartition { partition_index, error_code });
                if !is_read && self.group.offsets.get(&topic.name, partition_index).is_some() {
                    parts.push((topic.name.clone(), partition_index));
                }
            }
            response.topics.push(OffsetDeleteResponseTopic { name: topic.name.clone(), partitions });
        }
        if parts.is_empty() {
            self.reply(to, response);
            return Ok(());
        }
        let records = parts.iter().map(|part| records::offset(self.name, part, None));
        let records = records.collect::<Result<Vec<_>, _>>().map_err(|_| ErrorCode::UnknownServerError)?;
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
        let subscribed = self.group.subscribed();
        let all: Vec<Part> = self.group.offsets.iter().map(|(part, _)| part.clone()).collect();
        let forgotten: Vec<Part> =
            all.iter().filter(|part| is_gone(self, subscribed.as_ref(), part)).cloned().collect();
        let offsets = &self.group.offsets;
        let nothing_left = forgotten.len() == all.len() && offsets.pending == 0 && self.group.has_nobody();
        let group_goes = nothing_left && self.group.is_written;
        if forgotten.is_empty() && !group_goes {
            return;
        }
        let records = forgotten.iter().map(|part| records::offset(self.name, part, None));
        let records =
            records.chain(group_goes.then(|| records::no_group(self.name))).collect::<Result<Vec<_>, _>>();
        // What was written once can be named again.
        let Ok(records) = records else { return };
        let group = self.name.to_owned();
        self.write(Purpose::Housekeeping { group, forgotten, is_gone: group_goes }, records);
    }
}
