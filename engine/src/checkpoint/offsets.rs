//! The checkpoints of a data directory that hold an offset for each partition.
//!
//! ```text
//! 0
//! 3
//! __highwater_guard 0 3735928559       <- CRC-32 of the file without this line
//! orders 0 120
//! orders 1 7
//! ```
//! Kafka reads the guard as an entry of a topic that it does not have, and leaves it out when it writes the file again. A guard that is
//! there and right proves the rest; one that is wrong condemns it. Without one, Kafka wrote the file.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::file::{Certainty, Reading, read_decoded, replace_file};
use super::text::{Damage, FIRST_ENTRY_LINE, entries, frame, number};
use crate::disk::Disk;
use crate::units::{Offset, TopicPartition};

/// What the offset checkpoints hold.
pub type OffsetCheckpoint = BTreeMap<TopicPartition, Offset>;

/// Name of the file of recovery points: everything below is synced.
pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
/// Name of the file of high watermarks.
pub const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
/// Name of the file of log starts that lie behind the first segment's base.
pub const LOG_STARTS: &str = "log-start-offset-checkpoint";
/// Name of the file of the offsets up to which compaction has come.
pub const CLEANER_OFFSETS: &str = "cleaner-offset-checkpoint";
/// The topic's name in the guard entry; no topic may be called so.
pub const GUARD_TOPIC: &str = "__highwater_guard";

/// Reads an offset checkpoint.
pub(crate) fn read_offsets(disk: &dyn Disk, path: &Path) -> io::Result<Reading<OffsetCheckpoint>> {
    read_decoded(disk, path, decode_offsets)
}

/// Replaces an offset checkpoint, with its guard. A crash leaves the old or the new one.
pub(crate) fn write_offsets(disk: &dyn Disk, path: &Path, offsets: &OffsetCheckpoint) -> io::Result<()> {
    replace_file(disk, path, encode_offsets(offsets).as_bytes(), Certainty::Durable)
}

/// The text of an offset checkpoint, with its guard.
pub fn encode_offsets(offsets: &OffsetCheckpoint) -> String {
    let mut lines: Vec<String> = offsets
        .iter()
        .map(|(name, offset)| format!("{} {} {offset}", name.topic(), name.partition()))
        .collect();
    // The count includes the guard, so that a file which lost it does not pass for one without.
    let guard = crc_of(lines.len() + 1, lines.iter().map(String::as_str));
    lines.insert(0, format!("{GUARD_TOPIC} 0 {guard}"));
    frame(&lines)
}

/// Reads the text of an offset checkpoint.
pub fn decode_offsets(bytes: &[u8]) -> Reading<OffsetCheckpoint> {
    if bytes.is_empty() {
        return Reading::Missing;
    }
    let mut guarded = false;
    let result = decode(bytes, &mut guarded);
    Reading::from_result(result, guarded)
}

fn decode(bytes: &[u8], guarded: &mut bool) -> Result<OffsetCheckpoint, Damage> {
    let lines = entries(bytes)?;
    let guard = check_guard(&lines)?;
    *guarded = guard.is_some();
    let mut offsets = OffsetCheckpoint::new();
    for (at, line) in lines.iter().enumerate().filter(|(at, _)| Some(*at) != guard) {
        let line_number = at + FIRST_ENTRY_LINE;
        let (name, offset) = entry(line).ok_or(Damage::Line { line: line_number })?;
        if offsets.insert(name, offset).is_some() {
            return Err(Damage::Contradiction { line: line_number });
        }
    }
    Ok(offsets)
}

/// Where the guard is, if there is one and it is right.
fn check_guard(lines: &[&str]) -> Result<Option<usize>, Damage> {
    let Some(at) = lines.iter().position(|line| topic_of(line) == GUARD_TOPIC) else {
        let first = lines.first().and_then(|line| number::<u32>(line.rsplit(' ').next()?));
        // Where the first entry holds the CRC of the others, it is our guard, and its name is damaged.
        return if first == Some(crc_without(lines, 0)) { Err(Damage::GuardLine) } else { Ok(None) };
    };
    let stored = lines.get(at).and_then(|line| guard_value(line)).ok_or(Damage::GuardLine)?;
    let computed = crc_without(lines, at);
    if stored == computed { Ok(Some(at)) } else { Err(Damage::Guard { stored, computed }) }
}

fn entry(line: &str) -> Option<(TopicPartition, Offset)> {
    let (topic, rest) = line.split_once(' ')?;
    let (partition, offset) = rest.split_once(' ')?;
    let name = TopicPartition::new(topic, number(partition)?).ok()?;
    Some((name, Offset::new(number(offset)?)?))
}

fn topic_of(line: &str) -> &str {
    line.split(' ').next().unwrap_or_default()
}

fn guard_value(line: &str) -> Option<u32> {
    number(line.strip_prefix(GUARD_TOPIC)?.strip_prefix(" 0 ")?)
}

fn crc_without(lines: &[&str], guard: usize) -> u32 {
    let others = lines.iter().enumerate().filter(|(at, _)| *at != guard).map(|(_, line)| *line);
    crc_of(lines.len(), others)
}

/// CRC-32 of the file without its guard's line.
fn crc_of<'a>(count: usize, others: impl Iterator<Item = &'a str>) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(format!("0\n{count}\n").as_bytes());
    for line in others {
        crc.update(line.as_bytes());
        crc.update(b"\n");
    }
    crc.finalize()
}
