//! The APIs that are understood, and in which versions.
//!
//! One table; the ranges are those of Apache Kafka 4.3.1. It refuses to know the messages' fields.

use std::fmt;
use std::ops::RangeInclusive;

macro_rules! api_keys {
    ($($(#[$attribute:meta])* $variant:ident = $code:literal, $versions:expr, flexible from $flexible:expr;)+) => {
        /// An API of Kafka's protocol that Highwater understands.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ApiKey {
            $( $(#[$attribute])* $variant = $code, )+
        }

        impl ApiKey {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The API with this number.
            pub const fn from_code(code: i16) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// Its name in Kafka's specifications.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant),)+ }
            }

            /// The versions that are understood.
            pub const fn versions(self) -> RangeInclusive<i16> {
                match self { $(Self::$variant => $versions,)+ }
            }

            /// The first version with compact lengths and tagged fields (KIP-482).
            pub const fn flexible_from(self) -> i16 {
                match self { $(Self::$variant => $flexible,)+ }
            }
        }
    };
}

api_keys! {
    /// Appends records.
    Produce = 0, 3..=13, flexible from 9;
    /// Reads records, for consumers and for followers.
    Fetch = 1, 4..=18, flexible from 12;
    /// Finds offsets by timestamp.
    ListOffsets = 2, 1..=11, flexible from 6;
    /// Which topics and brokers there are, and who leads.
    Metadata = 3, 0..=13, flexible from 9;
    /// Remembers how far a group has come.
    OffsetCommit = 8, 2..=10, flexible from 8;
    /// How far groups have come.
    OffsetFetch = 9, 1..=10, flexible from 6;
    /// Finds the coordinator of a group or of a transaction.
    FindCoordinator = 10, 0..=6, flexible from 3;
    /// Makes a consumer a member of a group.
    JoinGroup = 11, 0..=9, flexible from 6;
    /// A member of a group lives.
    Heartbeat = 12, 0..=4, flexible from 4;
    /// Takes members out of a group.
    LeaveGroup = 13, 0..=5, flexible from 4;
    /// Brings and gives out the assignment of a group.
    SyncGroup = 14, 0..=5, flexible from 4;
    /// The members of groups, and what they have.
    DescribeGroups = 15, 0..=6, flexible from 5;
    /// The groups that a broker coordinates.
    ListGroups = 16, 0..=5, flexible from 3;
    /// Which APIs a broker understands.
    ApiVersions = 18, 0..=4, flexible from 3;
    /// Makes topics.
    CreateTopics = 19, 2..=7, flexible from 5;
    /// Deletes topics.
    DeleteTopics = 20, 1..=6, flexible from 4;
    /// Gives a producer its id and epoch.
    InitProducerId = 22, 0..=5, flexible from 2;
    /// Where a leader epoch ends.
    OffsetForLeaderEpoch = 23, 2..=4, flexible from 4;
    /// The settings of topics and brokers.
    DescribeConfigs = 32, 1..=4, flexible from 4;
    /// Forgets groups without members.
    DeleteGroups = 42, 0..=2, flexible from 2;
    /// Elects leaders by order of an operator.
    ElectLeaders = 43, 0..=2, flexible from 2;
    /// Forgets offsets of a group.
    OffsetDelete = 47, 0..=0, flexible from i16::MAX;
    /// Puts partitions on other brokers.
    AlterPartitionReassignments = 45, 0..=1, flexible from 0;
    /// Which partitions are under way to other brokers.
    ListPartitionReassignments = 46, 0..=0, flexible from 0;
    /// Which brokers there are.
    DescribeCluster = 60, 0..=2, flexible from 0;
    /// Highwater's own, between its brokers and their controller; never advertised.
    Highwater = 0x4857, 0..=0, flexible from i16::MAX;
}

impl ApiKey {
    /// The number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The versions that clients are told of; `None` for what is private.
    ///
    /// Produce is advertised from version 0, as Kafka does: by that, librdkafka decides whether it may compress, and then it asks in a
    /// later one (KAFKA-18659).
    pub const fn versions_advertised(self) -> Option<RangeInclusive<i16>> {
        if matches!(self, Self::Highwater) {
            return None;
        }
        let first = if matches!(self, Self::Produce) { 0 } else { *self.versions().start() };
        Some(first..=*self.versions().end())
    }

    /// Whether a version, known or not, has compact lengths and tagged fields.
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.flexible_from()
    }

    /// The version of the header before a request of this version.
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// The version of the header before a response of this version. `ApiVersions` keeps version 0, because the client does not know
    /// yet what the broker understands.
    pub const fn response_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self, Self::ApiVersions) { 1 } else { 0 }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
