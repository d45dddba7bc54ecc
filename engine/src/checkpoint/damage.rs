//! `highwater-damaged-ranges`: what is known to be damaged in the logs of a data directory, so that it is known before anybody reads there.
//!
//! It carries no truth about the segments, which Kafka or an operator may have exchanged since: each is read again at the opening, and only
//! what still fails its check counts. Size, time and inode are those that the segment had then, for whoever looks at the note alone.
//! Where the note cannot be believed, every segment of the directory is read again.

use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::file::{Certainty, Reading, read_decoded, replace_file};
use super::text::Damage;
use crate::disk::{Disk, FileIdentity};
use crate::units::Offset;

/// The file's name, in the data directory.
pub const DAMAGE_NOTE: &str = "highwater-damaged-ranges";

const VERSION: u64 = 0;

/// One damaged range.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NotedDamage {
    /// The log, by the name of its directory.
    pub log: String,
    /// The base offset of the segment.
    pub segment: Offset,
    /// The offsets, from and until.
    pub offsets: (Offset, Offset),
    /// The bytes in the segment's file, from and until.
    pub bytes: (u64, u64),
    /// The size of the segment's file then.
    pub file_bytes: u64,
    /// Which file it was; absent where it could not be asked.
    pub file: Option<FileIdentity>,
}

/// Reads the note. It is always guarded.
pub(crate) fn read_damage(disk: &dyn Disk, path: &Path) -> io::Result<Reading<Vec<NotedDamage>>> {
    read_decoded(disk, path, decode_damage)
}

/// Replaces the note. A crash leaves the old or the new one.
pub(crate) fn write_damage(disk: &dyn Disk, path: &Path, ranges: &[NotedDamage]) -> io::Result<()> {
    replace_file(disk, path, encode_damage(ranges).as_bytes(), Certainty::Durable)
}

/// The text of the note, with its guard: the CRC-32 of the object without it.
pub fn encode_damage(ranges: &[NotedDamage]) -> String {
    let mut object = Map::new();
    object.insert("version".to_owned(), VERSION.into());
    object.insert("ranges".to_owned(), serde_json::json!(ranges));
    let guard = crc_of(&object);
    object.insert("guard".to_owned(), guard.into());
    Value::Object(object).to_string()
}

/// Reads the text of the note.
pub fn decode_damage(bytes: &[u8]) -> Reading<Vec<NotedDamage>> {
    if bytes.is_empty() {
        return Reading::Damaged { why: Damage::Empty };
    }
    Reading::from_result(decode(bytes), true)
}

fn decode(bytes: &[u8]) -> Result<Vec<NotedDamage>, Damage> {
    let mut object: Map<String, Value> = serde_json::from_slice(bytes).map_err(|_| Damage::Json)?;
    let stored = object.remove("guard").and_then(|guard| u32::try_from(guard.as_u64()?).ok());
    let (stored, computed) = (stored.ok_or(Damage::GuardLine)?, crc_of(&object));
    if stored != computed {
        return Err(Damage::Guard { stored, computed });
    }
    if object.get("version").and_then(Value::as_u64) != Some(VERSION) {
        return Err(Damage::Property { name: "version" });
    }
    let ranges = object.remove("ranges").ok_or(Damage::Property { name: "ranges" })?;
    serde_json::from_value(ranges).map_err(|_| Damage::Json)
}

fn crc_of(object: &Map<String, Value>) -> u32 {
    crc32fast::hash(Value::Object(object.clone()).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_believed_whole_or_not_at_all() {
        let file = Some(FileIdentity { modified_ms: 5, inode: 7 });
        let (segment, offsets) = (Offset::ZERO, (Offset::new(2).unwrap(), Offset::new(4).unwrap()));
        let noted =
            NotedDamage { log: "t-0".to_owned(), segment, offsets, bytes: (61, 122), file_bytes: 400, file };
        let text = encode_damage(std::slice::from_ref(&noted));
        assert_eq!(decode_damage(text.as_bytes()).known(), Some(vec![noted]));
        assert_eq!(decode_damage(encode_damage(&[]).as_bytes()).known(), Some(Vec::new()));
        for length in 0..text.len() {
            let cut = decode_damage(&text.as_bytes()[..length]);
            assert!(matches!(cut, Reading::Damaged { .. }), "cut at {length}: {cut:?}");
        }
        for at in 0..text.len() {
            let mut flipped = text.clone().into_bytes();
            flipped[at] ^= 1;
            let read = decode_damage(&flipped);
            assert!(matches!(read, Reading::Damaged { .. }), "flipped at {at}: {read:?}");
        }
    }
}
