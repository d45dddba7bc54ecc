//! Consumer groups, in Kafka's classic protocol: who is a member of which generation, what each was given, and how far a group has come.
//!
//! ```text
//!   requests, written, led, lost, time --> Coordinator --> replies, records to be written
//! ```
//! The machine is pure: no socket, no log, no clock. Who hosts it brings the records of `__consumer_offsets` back to it when this broker
//! begins to lead a partition, writes what it wants written, and says when that is committed.
//!
//! A group lives in the partition that its name hashes to ([`partition_of`]), and is coordinated by that partition's leader. Nothing is
//! answered before what it promises is committed to the log, so that the next leader knows it too: a commit when its offsets are, a
//! generation when its assignment is. Who is a member of a generation that has no assignment yet is not written down, as in Kafka; such
//! members join again after a fail-over. The rules are those of `GroupMetadataManager` and `OffsetMetadataManager` of Apache Kafka 4.3.

mod assign;
mod commit;
mod coordinator;
mod describe;
mod forget;
mod group;
mod join;
mod leave;
mod member;
mod offsets;
mod rebalance;
mod records;
mod subscription;
mod turn;
mod writes;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod members_test;
#[cfg(test)]
mod offsets_test;

pub(crate) use commit::{Fetched, Wanted};
pub(crate) use coordinator::{Coordinator, Effect, GroupConfig, Origin, WriteId};
pub(crate) use records::Record;

pub(crate) use highwater_replication::wire::consumer_offsets::TOPIC;

/// The partition of [`TOPIC`] in which a group lives: Java's `String.hashCode`, without its sign, modulo the number of partitions.
pub(crate) fn partition_of(group: &str, partitions: i32) -> i32 {
    let hash =
        group.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    (hash & i32::MAX).checked_rem(partitions).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::partition_of;

    #[test]
    fn a_groups_partition_is_kafkas() {
        // As `Utils.abs("...".hashCode()) % 50` of Kafka's has it.
        let known = [("", 0), ("a", 47), ("group", 47), ("console-consumer-1", 24), ("naïve-日本", 21)];
        for (group, partition) in known {
            assert_eq!(partition_of(group, 50), partition, "{group}");
        }
    }
}
