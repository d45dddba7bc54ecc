//! Groups and offsets as records of the topic, and back.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::units::{Now, Timestamp};
use highwater_replication::wire::consumer_offsets::{
    GroupKey, GroupValue, Key, MemberValue, OffsetKey, OffsetValue,
};
use highwater_replication::wire::{DecodeError, EncodeError};

use super::group::{Group, State};
use super::member::{Member, REBALANCE_MIN};
use super::offsets::{Committed, Part};

/// A record's key and value; without a value it forgets what the key names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The key.
    pub(crate) key: Bytes,
    /// The value.
    pub(crate) value: Option<Bytes>,
}

/// A record that says nothing here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It has no key.
    #[error("a record without a key")]
    NoKey,
    /// Its bytes are not what Kafka writes.
    #[error("a record that cannot be read: {0}")]
    Bytes(#[from] DecodeError),
}

/// What is committed for a partition, or that nothing is.
pub(super) fn offset(group: &str, part: &Part, committed: Option<&Committed>) -> Result<Record, EncodeError> {
    let key = OffsetKey { group: group.to_owned(), topic: part.0.clone(), partition: part.1 };
    let value = committed.map(|committed| {
        OffsetValue {
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
            metadata: committed.metadata.clone(),
            commit_timestamp: committed.at.millis(),
            expire_timestamp: committed.expires.map_or(-1, Timestamp::millis),
        }
        .encode_record()
    });
    Ok(Record { key: key.encode_record()?, value: value.transpose()? })
}

/// A group is forgotten.
pub(super) fn no_group(group: &str) -> Result<Record, EncodeError> {
    Ok(Record { key: GroupKey { group: group.to_owned() }.encode_record()?, value: None })
}

/// A group with its members, each with the part that is given for it.
pub(super) fn group<T>(
    name: &str,
    group: &Group<T>,
    part: impl Fn(&str) -> Bytes,
) -> Result<Record, EncodeError> {
    let protocol = group.protocol.as_deref().unwrap_or_default();
    let members = group.members.iter().map(|(id, member)| MemberValue {
        member_id: id.clone(),
        group_instance_id: member.instance.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        rebalance_timeout: millis(member.rebalance_timeout),
        session_timeout: millis(member.session_timeout),
        subscription: member.metadata(protocol),
        assignment: part(id),
    });
    let value = GroupValue {
        protocol_type: group.protocol_type.clone().unwrap_or_default(),
        generation: group.generation,
        protocol: group.protocol.clone(),
        leader: group.leader.clone(),
        current_state_timestamp: group.since.millis(),
        members: members.collect(),
    };
    let key = GroupKey { group: name.to_owned() };
    Ok(Record { key: key.encode_record()?, value: Some(value.encode_record()?) })
}

fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}

fn duration(millis: i32) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Takes a record of the topic into its groups, the older ones first.
pub(super) fn load<T>(
    now: Now,
    groups: &mut BTreeMap<String, Group<T>>,
    key: Option<Bytes>,
    value: Option<Bytes>,
) -> Result<(), Unreadable> {
    match Key::decode(key.ok_or(Unreadable::NoKey)?)? {
        Key::Offset(OffsetKey { group, topic, partition }) => {
            let committed = value.map(OffsetValue::decode_record).transpose()?.map(|value| Committed {
                offset: value.offset,
                leader_epoch: value.leader_epoch,
                metadata: value.metadata,
                topic: None,
                at: Timestamp::from_millis(value.commit_timestamp),
                expires: (value.expire_timestamp >= 0)
                    .then(|| Timestamp::from_millis(value.expire_timestamp)),
            });
            let group = groups.entry(group).or_insert_with(|| Group::new(now.wall));
            group.offsets.loaded((topic, partition), committed);
        }
        Key::Group(GroupKey { group }) => {
            let loaded = match value {
                Some(value) => loaded(now, GroupValue::decode_record(value)?),
                None => Group::new(now.wall),
            };
            let group = groups.entry(group).or_insert_with(|| Group::new(now.wall));
            let offsets = std::mem::take(&mut group.offsets);
            *group = Group { offsets, ..loaded };
        }
        // Groups of the newer protocols are nothing that this coordinator has.
        Key::Unknown { .. } => {}
    }
    Ok(())
}

fn loaded<T>(now: Now, value: GroupValue) -> Group<T> {
    let protocol = value.protocol.clone().unwrap_or_default();
    let mut group = Group::new(now.wall);
    group.since = match value.current_state_timestamp {
        -1 => now.wall,
        at => Timestamp::from_millis(at),
    };
    group.is_written = true;
    group.generation = value.generation;
    group.protocol_type = Some(value.protocol_type).filter(|name| !name.is_empty());
    if value.members.is_empty() {
        return group;
    }
    (group.protocol, group.leader) = (value.protocol, value.leader);
    for member in value.members {
        if let Some(instance) = &member.group_instance_id {
            group.instances.insert(instance.clone(), member.member_id.clone());
        }
        let session_timeout = duration(member.session_timeout);
        let loaded = Member {
            instance: member.group_instance_id,
            client_id: member.client_id,
            client_host: member.client_host,
            rebalance_timeout: match member.rebalance_timeout {
                -1 => session_timeout,
                millis => duration(millis),
            }
            .max(REBALANCE_MIN),
            session_timeout,
            protocols: vec![(protocol.clone(), member.subscription)],
            assignment: member.assignment,
            joining: None,
            syncing: None,
            expires: now.monotonic.after(session_timeout),
        };
        group.members.insert(member.member_id, loaded);
    }
    group.state = State::Stable;
    group
}
