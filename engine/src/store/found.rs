//! What a data directory's own files say, before any log in it is looked at: how its last user stopped, and what it wrote down. Changes
//! nothing.

use std::io;
use std::path::{Path, PathBuf};

use super::gather::Trust;
use super::layout::{DirectoryName, directory_name};
use super::{Machine, Stop};
use crate::checkpoint::{
    CLEAN_MARK, CLEANER_OFFSETS, CleanFacts, CleanMark, DAMAGE_NOTE, Damage, LOG_STARTS, META_PROPERTIES,
    NotedDamage, OffsetCheckpoint, RECOVERY_POINTS, Reading, read_clean_mark, read_damage, read_offsets,
};
use crate::disk::{Disk, Entry, EntryKind, Incarnation, LOCK_FILE};
use crate::log::RESERVE_FILE;

/// What `.lock` says.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct LockText {
    pub(super) process: u32,
    pub(super) incarnation: Option<Incarnation>,
}

impl LockText {
    pub(super) fn parse(text: &[u8]) -> Self {
        serde_json::from_slice(text).unwrap_or_default()
    }

    /// Whether the page cache has survived since this was written.
    pub(super) fn machine(&self, disk: &dyn Disk, directory: &Path) -> Machine {
        match (&self.incarnation, disk.incarnation(directory)) {
            (Some(before), Some(now)) if *before == now => Machine::Same,
            _ => Machine::OtherOrUnknown,
        }
    }
}

/// See the module's documentation.
pub(super) struct Found {
    pub(super) entries: Vec<Entry>,
    pub(super) stop: Stop,
    pub(super) machine: Machine,
    pub(super) mark_extra: serde_json::Map<String, serde_json::Value>,
    pub(super) facts: Option<CleanFacts>,
    pub(super) points: Reading<OffsetCheckpoint>,
    pub(super) starts: Reading<OffsetCheckpoint>,
    /// How far compaction has come, of each log for which that can be believed.
    pub(super) cleaned: OffsetCheckpoint,
    /// `None` where the note cannot be believed.
    pub(super) damage: Option<Vec<NotedDamage>>,
}

impl Found {
    /// Reads; the error names the file.
    pub(super) fn read(
        disk: &dyn Disk,
        directory: &Path,
        machine: Machine,
    ) -> Result<Self, (PathBuf, io::Error)> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| (path, error)
        };
        let entries = disk.list(directory).map_err(at(directory))?;
        let mark_path = directory.join(CLEAN_MARK);
        let mark = read_clean_mark(disk, &mark_path).map_err(at(&mark_path))?;
        let new = [LOCK_FILE, META_PROPERTIES, RESERVE_FILE];
        let is_new = entries.iter().all(|entry| new.contains(&entry.name.as_str()));
        let mark_extra = mark_fields(&mark);
        let (stop, facts) = judge_stop(mark, is_new);
        let points_path = directory.join(RECOVERY_POINTS);
        let points = read_offsets(disk, &points_path).map_err(at(&points_path))?;
        let starts_path = directory.join(LOG_STARTS);
        let starts = read_offsets(disk, &starts_path).map_err(at(&starts_path))?;
        // Nothing else says what was deleted, and what was synced: that one read failed must not bring records back, nor take what a crash
        // has left for damage.
        for (read, path) in [(&points, points_path), (&starts, starts_path)] {
            if let Reading::Damaged { why: why @ Damage::Unreadable { .. } } = read {
                return Err((path, io::Error::other(why.clone())));
            }
        }
        let cleaned_path = directory.join(CLEANER_OFFSETS);
        // What is not known begins at the log's start.
        let cleaned =
            read_offsets(disk, &cleaned_path).map_err(at(&cleaned_path))?.known().unwrap_or_default();
        let damage_path = directory.join(DAMAGE_NOTE);
        let damage = match read_damage(disk, &damage_path).map_err(at(&damage_path))? {
            Reading::Missing => Some(Vec::new()),
            Reading::Known { value, .. } => Some(value),
            Reading::Damaged { .. } => None,
        };
        Ok(Self { entries, stop, machine, mark_extra, facts, points, starts, cleaned, damage })
    }

    pub(super) fn directories(&self) -> impl Iterator<Item = (&str, DirectoryName)> {
        let directories = self.entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
        directories.map(|entry| (entry.name.as_str(), directory_name(&entry.name)))
    }

    pub(super) fn trust(&self) -> Trust<'_> {
        let Self { stop, machine, points, starts, facts, .. } = self;
        Trust { stop: *stop, machine: *machine, points, starts, facts: facts.as_ref() }
    }
}

/// What the mark says beside the facts of the logs; the session in which the broker stopped is Kafka's own field.
fn mark_fields(mark: &Reading<CleanMark>) -> serde_json::Map<String, serde_json::Value> {
    let Reading::Known { value, .. } = mark else { return serde_json::Map::new() };
    let mut fields = value.facts.as_ref().map(|facts| facts.extra.clone()).unwrap_or_default();
    if let Some(session) = value.broker_epoch {
        fields.insert("brokerEpoch".to_owned(), session.into());
    }
    fields
}

fn judge_stop(mark: Reading<CleanMark>, is_new: bool) -> (Stop, Option<CleanFacts>) {
    match mark {
        Reading::Known { value, .. } => (Stop::Clean, value.facts),
        Reading::Missing if is_new => (Stop::FirstUse, None),
        Reading::Missing | Reading::Damaged { .. } => (Stop::Unclean, None),
    }
}
