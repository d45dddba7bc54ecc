//! Keys and values of the records in `__consumer_offsets`, in Kafka's schemas (`OffsetCommitKey`, `GroupMetadataKey` and their values).
//!
//! Before each stands its version in two bytes. A key says by it what the record is about. Values are written in version 3, which every
//! Kafka since 2.1 reads, and read in all versions that Kafka has. A record without a value forgets what its key names.

use bytes::Bytes;

use super::field::{Field, Shape};
use super::read::{DecodeError, DecodeFault, Reader};
use super::schema::message;
use super::write::{EncodeError, Writer};

/// The topic, of which a broker's coordinator is the only writer.
pub const TOPIC: &str = "__consumer_offsets";

/// Keys of this version, and of the one before it, are about an offset.
const OFFSET_KEY: i16 = 1;
/// Keys of this version are about a group.
const GROUP_KEY: i16 = 2;
/// The version in which values are written.
const VALUE_WRITTEN: i16 = 3;
/// The one version that says when an offset is to be forgotten.
const WITH_EXPIRY: i16 = 1;
/// The last version of both values, and the first with compact lengths.
const VALUE_LAST: i16 = 4;

/// What a record is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// How far a group has come in a partition.
    Offset(OffsetKey),
    /// A group and its members.
    Group(GroupKey),
    /// Something of a newer protocol, which is left alone.
    Unknown {
        /// The key's version.
        version: i16,
    },
}

message! {
    /// A group's offset in a partition.
    pub struct OffsetKey {
        /// The group.
        group: String, 0..;
        /// The topic.
        topic: String, 0..;
        /// The partition's number.
        partition: i32, 0..;
    }

    /// A group.
    pub struct GroupKey {
        /// The group.
        group: String, 0..;
    }

    /// The offset.
    pub struct OffsetValue {
        /// The next offset to be read.
        offset: i64, 0..;
        /// The leader epoch of the last record that was read, -1 for unknown.
        leader_epoch: i32, 3.., default -1;
        /// What the group remembered with it.
        metadata: String, 0..;
        /// When it was committed, in ms since 1970.
        commit_timestamp: i64, 0..;
        /// When it is to be forgotten, -1 for when the broker says.
        expire_timestamp: i64, 1..=1, default -1;
    }

    /// A group's generation.
    pub struct GroupValue {
        /// What the group is for.
        protocol_type: String, 0..;
        /// The generation.
        generation: i32, 0..;
        /// How partitions are assigned.
        protocol: Option<String>, 0.., nullable 0..;
        /// The member that assigns.
        leader: Option<String>, 0.., nullable 0..;
        /// Since when the group is in its state, in ms since 1970, -1 for unknown.
        current_state_timestamp: i64, 2.., default -1;
        /// The members.
        members: Vec<MemberValue>, 0..;
    }

    /// One member.
    pub struct MemberValue {
        /// Its id.
        member_id: String, 0..;
        /// Its name over restarts.
        group_instance_id: Option<String>, 3.., nullable 3..;
        /// What its client calls itself.
        client_id: String, 0..;
        /// From where it came.
        client_host: String, 0..;
        /// How long a rebalance waits for it, in ms.
        rebalance_timeout: i32, 1.., default -1;
        /// For how long it may be silent, in ms.
        session_timeout: i32, 0..;
        /// Its subscription.
        subscription: Bytes, 0..;
        /// Its part.
        assignment: Bytes, 0..;
    }
}

impl Key {
    /// Reads a record's key.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let version = version(&mut reader)?;
        let shape = Shape::new(version, false);
        Ok(match version {
            0 | OFFSET_KEY => Self::Offset(OffsetKey::decode(&mut reader, shape)?),
            GROUP_KEY => Self::Group(GroupKey::decode(&mut reader, shape)?),
            version => Self::Unknown { version },
        })
    }
}

impl OffsetKey {
    /// The record's key.
    pub fn encode_record(&self) -> Result<Bytes, EncodeError> {
        encode(self, OFFSET_KEY)
    }
}

impl GroupKey {
    /// The record's key.
    pub fn encode_record(&self) -> Result<Bytes, EncodeError> {
        encode(self, GROUP_KEY)
    }
}

impl OffsetValue {
    /// Reads a record's value.
    pub fn decode_record(bytes: Bytes) -> Result<Self, DecodeError> {
        decode_value(bytes)
    }

    /// The record's value.
    pub fn encode_record(&self) -> Result<Bytes, EncodeError> {
        encode(self, if self.expire_timestamp == -1 { VALUE_WRITTEN } else { WITH_EXPIRY })
    }
}

impl GroupValue {
    /// Reads a record's value.
    pub fn decode_record(bytes: Bytes) -> Result<Self, DecodeError> {
        decode_value(bytes)
    }

    /// The record's value.
    pub fn encode_record(&self) -> Result<Bytes, EncodeError> {
        encode(self, VALUE_WRITTEN)
    }
}

fn version(reader: &mut Reader) -> Result<i16, DecodeError> {
    reader.array().map(i16::from_be_bytes).map_err(|error| error.within("record", "version"))
}

fn decode_value<T: Field>(bytes: Bytes) -> Result<T, DecodeError> {
    let mut reader = Reader::new(bytes);
    let version = version(&mut reader)?;
    if !(0..=VALUE_LAST).contains(&version) {
        return Err(reader.fault(DecodeFault::Version { version }).within("record", "version"));
    }
    T::decode(&mut reader, Shape::new(version, version >= VALUE_LAST))
}

fn encode<T: Field>(value: &T, version: i16) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::default();
    writer.put(&version.to_be_bytes());
    value.encode(&mut writer, Shape::new(version, false));
    writer.finish()
}
