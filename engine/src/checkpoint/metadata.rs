//! `partition.metadata`: the id of the topic that a partition's directory belongs to.

use std::io;
use std::path::Path;

use super::file::{Certainty, Reading, read_decoded, replace_file};
use super::text::Damage;
use crate::disk::Disk;
use crate::units::TopicId;

/// The file's name, in the partition's directory.
pub const PARTITION_METADATA: &str = "partition.metadata";

/// Reads a partition's metadata. It is never guarded; an empty file, on which Kafka refuses to start, is damaged.
pub(crate) fn read_partition_metadata(disk: &dyn Disk, path: &Path) -> io::Result<Reading<TopicId>> {
    read_decoded(disk, path, decode_partition_metadata)
}

/// Replaces a partition's metadata. A crash leaves the old or the new one.
pub(crate) fn write_partition_metadata(disk: &dyn Disk, path: &Path, topic: TopicId) -> io::Result<()> {
    replace_file(disk, path, encode_partition_metadata(topic).as_bytes(), Certainty::Durable)
}

/// The text of a partition's metadata; Kafka ends it without a newline.
pub fn encode_partition_metadata(topic: TopicId) -> String {
    format!("version: 0\ntopic_id: {topic}")
}

/// Reads the text of a partition's metadata.
pub fn decode_partition_metadata(bytes: &[u8]) -> Reading<TopicId> {
    Reading::from_result(decode(bytes), false)
}

fn decode(bytes: &[u8]) -> Result<TopicId, Damage> {
    let text = std::str::from_utf8(bytes).map_err(|_| Damage::NotText)?;
    let text = text.strip_suffix('\n').unwrap_or(text);
    let Some((version, topic)) = text.split_once('\n') else {
        return Err(if text.is_empty() { Damage::Empty } else { Damage::Cut });
    };
    if version != "version: 0" {
        return Err(Damage::Version { version: version.chars().take(40).collect() });
    }
    topic.strip_prefix("topic_id: ").and_then(TopicId::parse).ok_or(Damage::Line { line: 2 })
}
