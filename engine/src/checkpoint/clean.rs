//! `.kafka_cleanshutdown`: the mark of a clean stop. It is written last and taken away, directory synced, before the first write.
//!
//! ```json
//! {"version":0,"brokerEpoch":453,
//!  "highwater":{"partitions":{"orders-0":{"end":120,"last_batch_crc":48879,"log_bytes":9000,"index_crc":7,"aborted_crc":0}},"extra":{}},"highwaterGuard":3735928559}
//! ```
//! Kafka reads the first two fields and ignores the rest. The facts are believed only if the guard, the CRC-32 of the object without it
//! (keys sorted, no blanks), is right: then they prove whether the logs are as that stop left them. A mark without them is Kafka's; it says
//! that the stop was clean and proves nothing about files that changed since.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Map, Value};

use super::file::{Certainty, Reading, parent, read_decoded, replace_file};
use super::text::Damage;
use crate::disk::Disk;
use crate::units::{Offset, TopicPartition};

/// The file's name, in the data directory.
pub const CLEAN_MARK: &str = ".kafka_cleanshutdown";

const GUARD: &str = "highwaterGuard";
const FACTS: &str = "highwater";

/// What the mark says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CleanMark {
    /// The session in which the broker stopped; absent where it had none.
    pub broker_epoch: Option<i64>,
    /// What the logs were at the stop; absent in Kafka's mark.
    pub facts: Option<CleanFacts>,
}

/// What the logs of a directory were at a clean stop.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct CleanFacts {
    /// Each log, by the name of its directory.
    pub partitions: BTreeMap<String, CleanPartition>,
    /// What the owner of the store wants to find again.
    pub extra: Map<String, Value>,
}

impl CleanFacts {
    /// What this log was.
    pub fn partition(&self, name: &TopicPartition) -> Option<&CleanPartition> {
        self.partitions.get(&name.to_string())
    }
}

/// What one log was at a clean stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CleanPartition {
    /// The first offset behind its records.
    pub end: Offset,
    /// The CRC in the header of its last batch, if it has any.
    pub last_batch_crc: Option<u32>,
    /// The size of its last segment's log file, in bytes.
    pub log_bytes: u64,
    /// The CRC of its last segment's index files.
    #[serde(default)]
    pub index_crc: Option<u32>,
    /// The CRC of the indexes of aborted transactions of all its segments, where they say what the batches say; absent where that is not known.
    #[serde(default)]
    pub aborted_crc: Option<u32>,
}

/// Reads the mark. It is guarded if it has facts.
pub(crate) fn read_clean_mark(disk: &dyn Disk, path: &Path) -> io::Result<Reading<CleanMark>> {
    read_decoded(disk, path, decode_clean_mark)
}

/// Writes the mark, when everything that it speaks of is synced. A crash leaves it there or not.
pub(crate) fn write_clean_mark(disk: &dyn Disk, path: &Path, mark: &CleanMark) -> io::Result<()> {
    replace_file(disk, path, encode_clean_mark(mark).as_bytes(), Certainty::Durable)
}

/// Takes the mark away for certain, before the first write of a new session.
pub(crate) fn remove_clean_mark(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        // Also where it is gone already: an earlier removal may not be certain yet.
        Ok(()) | Err(_) => disk.sync_directory(parent(path)?),
    }
}

/// The text of the mark.
pub fn encode_clean_mark(mark: &CleanMark) -> String {
    let mut object = Map::new();
    object.insert("version".to_owned(), Value::from(0));
    object.insert("brokerEpoch".to_owned(), Value::from(mark.broker_epoch.unwrap_or(-1)));
    if let Some(facts) = &mark.facts {
        let facts = serde_json::to_value(facts).expect("maps with text as keys are JSON");
        object.insert(FACTS.to_owned(), facts);
        object.insert(GUARD.to_owned(), Value::from(guard_of(&object)));
    }
    Value::Object(object).to_string()
}

/// Reads the text of the mark. An empty one, as very old versions of Kafka write it, is damaged: it says too little to tell it from a
/// cut one.
pub fn decode_clean_mark(bytes: &[u8]) -> Reading<CleanMark> {
    match decode(bytes) {
        Ok(mark) => Reading::Known { guarded: mark.facts.is_some(), value: mark },
        Err(why) => Reading::Damaged { why },
    }
}

fn decode(bytes: &[u8]) -> Result<CleanMark, Damage> {
    if bytes.is_empty() {
        return Err(Damage::Empty);
    }
    let mut object: Map<String, Value> = serde_json::from_slice(bytes).map_err(|_| Damage::Json)?;
    let guard = object.remove(GUARD);
    let facts = match guard {
        Some(guard) => {
            let stored =
                guard.as_u64().and_then(|guard| u32::try_from(guard).ok()).ok_or(Damage::GuardLine)?;
            let computed = guard_of(&object);
            if stored != computed {
                return Err(Damage::Guard { stored, computed });
            }
            let facts = object.remove(FACTS).ok_or(Damage::Property { name: FACTS })?;
            Some(serde_json::from_value(facts).map_err(|_| Damage::Json)?)
        }
        // Kafka's mark has its own two fields and nothing else; ours without a guard is damaged.
        None if object.keys().any(|key| key != "version" && key != "brokerEpoch") => {
            return Err(Damage::GuardLine);
        }
        None => None,
    };
    if object.get("version").and_then(Value::as_u64) != Some(0) {
        let version = object.get("version").map(Value::to_string).unwrap_or_default();
        return Err(Damage::Version { version });
    }
    let epoch = object.get("brokerEpoch").and_then(Value::as_i64);
    let epoch = epoch.filter(|epoch| *epoch >= -1).ok_or(Damage::Property { name: "brokerEpoch" })?;
    Ok(CleanMark { broker_epoch: Some(epoch).filter(|epoch| *epoch >= 0), facts })
}

fn guard_of(object: &Map<String, Value>) -> u32 {
    // The map is sorted by key, so equal objects have equal text.
    crc32fast::hash(serde_json::to_string(object).expect("an object is JSON").as_bytes())
}
