//! The small files of a data directory and of a partition's directory, each replaced as a whole.
//!
//! | file | what it says | how it guards itself |
//! |---|---|---|
//! | `recovery-point-offset-checkpoint` and its like | an offset for each partition | one entry that holds the CRC of the rest |
//! | `leader-epoch-checkpoint` | where each leader epoch begins | its entries are compared with the batches there |
//! | `partition.metadata` | the topic's id | the controller knows it too |
//! | `meta.properties` | which node of which cluster this is | strict parsing |
//! | `.kafka_cleanshutdown` | the last stop was clean, and what the logs were then | a field that holds the CRC of the rest |
//! | `highwater-damaged-ranges` | what cannot be read | the same; and what it names is read again |
//! | `highwater-has-gaps` | there may be gaps of offsets | it is there or not |
//!
//! A file that cannot be believed is [`Reading::Damaged`], which is never the same as empty, zero or missing: what it would have said is
//! unknown. Nothing here decides what follows from that.

mod clean;
mod damage;
mod epochs;
mod file;
mod gaps;
mod metadata;
mod offsets;
mod properties;
mod text;

#[cfg(test)]
mod checkpoint_test;

pub use clean::{CLEAN_MARK, CleanFacts, CleanMark, CleanPartition, decode_clean_mark, encode_clean_mark};
pub(crate) use clean::{read_clean_mark, remove_clean_mark, write_clean_mark};
pub use damage::{DAMAGE_NOTE, NotedDamage, decode_damage, encode_damage};
pub(crate) use damage::{read_damage, write_damage};
pub use epochs::{LEADER_EPOCH_CHECKPOINT, decode_epochs, encode_epochs};
pub(crate) use epochs::{read_epochs, write_epochs};
pub(crate) use file::renew_file;
pub use file::{CHECKPOINT_BYTES_MAX, Certainty, Reading, replace_file};
pub(crate) use gaps::{GAPS_NOTE, note_gaps};
pub use metadata::{PARTITION_METADATA, decode_partition_metadata, encode_partition_metadata};
pub(crate) use metadata::{read_partition_metadata, write_partition_metadata};
pub use offsets::{
    CLEANER_OFFSETS, GUARD_TOPIC, HIGH_WATERMARKS, LOG_STARTS, OffsetCheckpoint, RECOVERY_POINTS,
    decode_offsets, encode_offsets,
};
pub(crate) use offsets::{read_offsets, write_offsets};
pub use properties::{
    META_PROPERTIES, MetaProperties, decode_properties, encode_properties, read_properties, write_properties,
};
pub use text::Damage;
