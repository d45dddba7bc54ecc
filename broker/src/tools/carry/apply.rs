//! Makes the copy under a name that the next start of a broker would remove, then exchanges it for what is there.

use std::io;
use std::path::{Path, PathBuf};

use highwater_engine::batch::BatchHeader;
use highwater_engine::checkpoint::{
    CLEAN_MARK, CLEANER_OFFSETS, Certainty, HIGH_WATERMARKS, LEADER_EPOCH_CHECKPOINT, LOG_STARTS,
    OffsetCheckpoint, PARTITION_METADATA, RECOVERY_POINTS, Reading, decode_clean_mark, decode_offsets,
    encode_clean_mark, encode_epochs, encode_offsets, encode_partition_metadata, replace_file,
};
use highwater_engine::disk::{Disk, File, Open};
use highwater_engine::segment::{FileKind, file_path};
use highwater_engine::state::{EpochHistory, EpochStart, Producers, ProducersConfig};
use highwater_engine::units::{LeaderEpoch, Offset, TopicPartition};

use super::plan::CarryPlan;
use super::source::{Source, believed};
use super::target::{Target, read_or_empty};
use super::{CarryError, System};
use crate::tools::segment_file::legacy_bytes;

/// Where in a batch of the current format its leader epoch is, outside of its checksum.
const LEADER_EPOCH: std::ops::Range<usize> = 12..16;

pub(super) fn carry_out(plan: &CarryPlan, target: &Target) -> Result<(), CarryError> {
    let (disk, name) = (plan.disk.as_ref(), &plan.source.name);
    let place = target.directory.join(name.to_string());
    let names = Leftovers::new(&target.directory, name);
    let change = Change { disk, target, system: plan.direction.target(), name };
    let copy = names.next();
    let first = write_copy(disk, &plan.source, target, &copy)?;
    change.sync()?;
    // From here on the old log is to be believed in nothing, and from there to the second renaming there is none of this name.
    change.forget_in_mark()?;
    let rename = |from: &Path, to: &Path| disk.rename(from, to).map_err(CarryError::io(from));
    rename(&place, &names.next())?;
    change.sync()?;
    let end = plan.source.log.end();
    let start = plan.source.log.start();
    change.offsets(RECOVERY_POINTS, None)?;
    change.offsets(CLEANER_OFFSETS, None)?;
    change.offsets(
        LOG_STARTS,
        Some(start).filter(|start| *start > first || change.system == System::Highwater),
    )?;
    change.offsets(HIGH_WATERMARKS, Some(end))?;
    rename(&copy, &place)?;
    change.sync()
}

/// Names that mark a directory as one that is being deleted, in the pattern of both systems.
struct Leftovers<'a> {
    directory: &'a Path,
    name: &'a TopicPartition,
}

impl<'a> Leftovers<'a> {
    const fn new(directory: &'a Path, name: &'a TopicPartition) -> Self {
        Self { directory, name }
    }

    /// One that is free.
    fn next(&self) -> PathBuf {
        let suffix = |number: u64| format!("-{}.{number:032x}-delete", self.name.partition());
        let topic = |suffix: &str| self.name.topic().chars().take(255 - suffix.len()).collect::<String>();
        let mut numbers = u64::from(std::process::id())..;
        loop {
            let suffix = suffix(numbers.next().unwrap_or_default());
            let path = self.directory.join(format!("{}{suffix}", topic(&suffix)));
            if !path.exists() {
                return path;
            }
        }
    }
}

/// Changes of the target's small files.
struct Change<'a> {
    disk: &'a dyn Disk,
    target: &'a Target,
    system: System,
    name: &'a TopicPartition,
}

impl Change<'_> {
    fn sync(&self) -> Result<(), CarryError> {
        let directory = &self.target.directory;
        self.disk.sync_directory(directory).map_err(CarryError::io(directory))
    }

    fn replace(&self, path: &Path, text: &str) -> Result<(), CarryError> {
        replace_file(self.disk, path, text.as_bytes(), Certainty::Durable).map_err(CarryError::io(path))
    }

    /// Sets the partition's entry of a checkpoint, or takes it out.
    fn offsets(&self, file: &str, entry: Option<Offset>) -> Result<(), CarryError> {
        let path = self.target.directory.join(file);
        let mut offsets: OffsetCheckpoint = believed(path.clone(), decode_offsets(&read_or_empty(&path)?))?;
        let before = match entry {
            Some(offset) => offsets.insert(self.name.clone(), offset),
            None => offsets.remove(self.name),
        };
        if before == entry {
            return Ok(());
        }
        let text = match self.system {
            System::Highwater => encode_offsets(&offsets),
            System::Kafka => as_kafka(&offsets),
        };
        self.replace(&path, &text)
    }

    /// Our mark of a clean stop says what each log was. Of this one it is not true any more.
    fn forget_in_mark(&self) -> Result<(), CarryError> {
        let path = self.target.directory.join(CLEAN_MARK);
        let Reading::Known { mut value, .. } = decode_clean_mark(&read_or_empty(&path)?) else {
            return Ok(());
        };
        let is_named = value
            .facts
            .as_mut()
            .is_some_and(|facts| facts.partitions.remove(&self.name.to_string()).is_some());
        if is_named { self.replace(&path, &encode_clean_mark(&value)) } else { Ok(()) }
    }
}

/// A checkpoint as Kafka writes it.
fn as_kafka(offsets: &OffsetCheckpoint) -> String {
    let lines =
        offsets.iter().map(|(name, offset)| format!("{} {} {offset}\n", name.topic(), name.partition()));
    format!("0\n{}\n{}", offsets.len(), lines.collect::<String>())
}

/// Writes the whole copy, synced. Gives the base of its first segment.
fn write_copy(disk: &dyn Disk, source: &Source, target: &Target, copy: &Path) -> Result<Offset, CarryError> {
    disk.create_directory(copy).map_err(CarryError::io(copy))?;
    let mut segments = Segments { disk, source, copy, open: None, first: None };
    source.each_piece(|first, bytes| segments.append(first, bytes))?;
    let (start, end) = (source.log.start(), source.log.end());
    let (first, is_empty) = segments.finish()?;
    // What a producer of the other cluster has done ends here: the log goes on in a segment of its own, behind a snapshot without producers.
    if !is_empty || start > Offset::ZERO {
        let snapshot = Producers::new(ProducersConfig::default()).encode_snapshot();
        write(disk, &file_path(copy, end, FileKind::Snapshot), &snapshot)?;
    }
    write(disk, &file_path(copy, end, FileKind::Log), &[])?;
    let first = first.unwrap_or(end);
    let epochs = (!is_empty).then_some(EpochStart { epoch: LeaderEpoch::ZERO, start: start.max(first) });
    write(
        disk,
        &copy.join(LEADER_EPOCH_CHECKPOINT),
        encode_epochs(&EpochHistory::from_starts(epochs)).as_bytes(),
    )?;
    write(disk, &copy.join(PARTITION_METADATA), encode_partition_metadata(target.topic_id).as_bytes())?;
    disk.sync_directory(copy).map_err(CarryError::io(copy))?;
    Ok(first)
}

fn write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), CarryError> {
    let written = || -> io::Result<()> {
        let file = disk.open(path, Open::Create)?;
        file.write_all_at(bytes, 0)?;
        file.sync()
    };
    written().map_err(CarryError::io(path))
}

/// The segments of the copy, one behind the other, with the bounds that they have in the source. No index is written: whoever opens the
/// copy next makes them, and reads every batch for it.
struct Segments<'a> {
    disk: &'a dyn Disk,
    source: &'a Source,
    copy: &'a Path,
    open: Option<OpenSegment>,
    first: Option<Offset>,
}

struct OpenSegment {
    /// In the source.
    base: Offset,
    path: PathBuf,
    file: File,
    size: u64,
}

impl Segments<'_> {
    fn append(&mut self, first: Offset, bytes: &[u8]) -> Result<(), CarryError> {
        let base = self.source.bases.iter().rev().find(|base| **base <= first).copied().unwrap_or(first);
        if self.open.as_ref().is_none_or(|open| open.base != base) {
            self.seal()?;
            // What lies below the start is left out, and the first segment is named after what is not.
            let start = self.source.log.start();
            let name = if base >= start { base } else { first.min(start) };
            self.first.get_or_insert(name);
            let path = file_path(self.copy, name, FileKind::Log);
            let file = self.disk.open(&path, Open::Create).map_err(CarryError::io(&path))?;
            self.open = Some(OpenSegment { base, path, file, size: 0 });
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut stamped = bytes.to_vec();
        stamp(&mut stamped);
        open.file.write_all_at(&stamped, open.size).map_err(CarryError::io(&open.path))?;
        open.size += stamped.len() as u64;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), CarryError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        open.file.sync().map_err(CarryError::io(open.path))
    }

    /// Gives the first segment's base, and whether there is no record at all.
    fn finish(mut self) -> Result<(Option<Offset>, bool), CarryError> {
        self.seal()?;
        Ok((self.first, self.first.is_none()))
    }
}

/// Sets the leader epoch of all batches to 0. They were read before and are whole; old formats have none.
fn stamp(bytes: &mut [u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let size = match BatchHeader::parse(rest) {
            Ok(header) => {
                if let Some(epoch) = rest.get_mut(LEADER_EPOCH) {
                    epoch.copy_from_slice(&LeaderEpoch::ZERO.value().to_be_bytes());
                }
                header.size_bytes
            }
            Err(_) => legacy_bytes(rest).unwrap_or(rest.len()),
        };
        let behind = size.min(rest.len());
        rest = rest.split_at_mut(behind).1;
    }
}
