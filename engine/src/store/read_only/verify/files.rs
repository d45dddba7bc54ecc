//! The small files of a data directory, and any file alone.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::FileVerified;
use super::finding::{Fault, Finding};
use super::indexes::{OffsetCheck, TimeCheck};
use crate::checkpoint::{
    CLEAN_MARK, CLEANER_OFFSETS, DAMAGE_NOTE, Damage, HIGH_WATERMARKS, LEADER_EPOCH_CHECKPOINT, LOG_STARTS,
    META_PROPERTIES, PARTITION_METADATA, RECOVERY_POINTS, Reading, read_clean_mark, read_damage, read_epochs,
    read_offsets, read_partition_metadata, read_properties,
};
use crate::disk::{Disk, File, Open, ReadOnlyDisk};
use crate::index::decode_aborted;
use crate::recovery::SegmentContext;
use crate::segment::{FileKind, Frame, IndexSettings, file_path, frame_at, parse_file_name};
use crate::state::{Producers, ProducersConfig};
use crate::store::read_ahead::IdleHelpers;
use crate::store::read_only::{ReadOnlyError, ReadOnlyStore, failed};
use crate::store::scan::{Place, ScannedSegment, scan_segment_seen};
use crate::units::{Monotonic, Offset, OffsetRange};

impl ReadOnlyStore {
    /// Reads the data directory's own small files: each has to be what it should be by itself. What they say of a log is compared by
    /// [`ReadOnlyStore::verify_log`].
    pub fn verify_files(&self) -> Result<Vec<Finding>, ReadOnlyError> {
        let mut findings = Vec::new();
        for name in [
            RECOVERY_POINTS,
            LOG_STARTS,
            HIGH_WATERMARKS,
            CLEANER_OFFSETS,
            CLEAN_MARK,
            DAMAGE_NOTE,
            META_PROPERTIES,
        ] {
            let path = self.directory.join(name);
            let believed = small_file(self.disk.as_ref(), name, &path).map_err(failed(&path))?;
            findings.extend(believed.and_then(Result::err).map(|why| Finding::new(path, why.into())));
        }
        // Both are there from the beginning.
        let read = |name| {
            read_offsets(self.disk.as_ref(), &self.directory.join(name)).map_err(failed(&self.directory))
        };
        let (points, high) = (read(RECOVERY_POINTS)?, read(HIGH_WATERMARKS)?);
        if points == Reading::Missing && matches!(high, Reading::Known { guarded: true, .. }) {
            findings.push(Finding::new(self.directory.join(RECOVERY_POINTS), Fault::NoFile));
        }
        Ok(findings)
    }

    /// Reads one of Kafka's files alone, known by its name: every batch of a segment; an index, compared with the segment beside it if there
    /// is one; or a small file. `None` if the name says nothing.
    pub fn verify_file(
        disk: &Arc<dyn Disk>,
        path: &Path,
        batch_bytes_max: usize,
        watch: &dyn Fn(u64),
    ) -> Result<Option<FileVerified>, ReadOnlyError> {
        let disk = ReadOnlyDisk::new(Arc::clone(disk));
        let alone = Alone { disk: &disk, path, batch_bytes_max, watch };
        alone.verify().map_err(failed(path))
    }
}

/// Whether a small file can be believed; `None` if the name is not that of one.
fn small_file(disk: &dyn Disk, name: &str, path: &Path) -> io::Result<Option<Result<(), Damage>>> {
    let why = match name {
        CLEAN_MARK => read_clean_mark(disk, path)?.damage(),
        DAMAGE_NOTE => read_damage(disk, path)?.damage(),
        META_PROPERTIES => read_properties(disk, path)?.damage(),
        PARTITION_METADATA => read_partition_metadata(disk, path)?.damage(),
        LEADER_EPOCH_CHECKPOINT => read_epochs(disk, path)?.damage(),
        name if name.ends_with("-offset-checkpoint") => read_offsets(disk, path)?.damage(),
        _ => return Ok(None),
    };
    Ok(Some(why.map_or(Ok(()), Err)))
}

struct Alone<'a> {
    disk: &'a ReadOnlyDisk,
    path: &'a Path,
    batch_bytes_max: usize,
    watch: &'a dyn Fn(u64),
}

impl Alone<'_> {
    fn verify(&self) -> io::Result<Option<FileVerified>> {
        let name = self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let file = self.disk.open(self.path, Open::Read)?;
        let bytes = file.size()?;
        if let Some(believed) = small_file(self.disk, name, self.path)? {
            return Ok(Some(self.said(bytes, 1, believed.err().map(Fault::from))));
        }
        Ok(Some(match parse_file_name(name) {
            Some((base, FileKind::Log)) => self.segment(&file, base, bytes)?,
            // Somebody has given it another name; its first batch says where it begins.
            None if name.ends_with(FileKind::Log.suffix()) => {
                let mut first = [0; 64];
                let count = file.read_at(&mut first, 0)?;
                let base = first.get(..count).and_then(frame_at).map_or(Offset::ZERO, |frame| frame.base);
                self.segment(&file, base, bytes)?
            }
            Some((base, kind @ (FileKind::OffsetIndex | FileKind::TimeIndex))) => {
                self.index(&whole(&file, bytes)?, base, kind)?
            }
            Some((base, FileKind::AbortedIndex)) => match decode_aborted(&whole(&file, bytes)?, base) {
                Ok(entries) => self.said(bytes, entries.len() as u64, None),
                Err(damage) => self.said(bytes, 0, Some(damage.into())),
            },
            Some((_, FileKind::Snapshot)) => {
                let (config, loaded) = (ProducersConfig::default(), Monotonic::default());
                match Producers::decode_snapshot(&whole(&file, bytes)?, config, loaded) {
                    Ok(producers) => self.said(bytes, producers.len() as u64, None),
                    Err(damage) => self.said(bytes, 0, Some(damage.into())),
                }
            }
            None => return Ok(None),
        }))
    }

    fn said(&self, bytes: u64, entries: u64, fault: Option<Fault>) -> FileVerified {
        let findings = fault.map(|fault| Finding::new(self.path.to_owned(), fault)).into_iter().collect();
        FileVerified { bytes, entries, findings }
    }

    fn segment(&self, file: &File, base: Offset, bytes: u64) -> io::Result<FileVerified> {
        let scan = self.scan(file, base, bytes, &mut |_, _| {})?.scan;
        let bad = scan.bad.iter().map(|bad| {
            let (from, until, expected) = (bad.position, bad.until, bad.expected);
            let fault = Fault::NoBatch { from, until, looks: bad.kind, expected, found: bad.next };
            let offsets = OffsetRange::new(expected, bad.next.unwrap_or(expected));
            Finding { offsets, ..Finding::new(self.path.to_owned(), fault).at(from) }
        });
        let mut findings: Vec<Finding> = bad.collect();
        // Nothing but the neighbours says which epoch is right.
        for (before, run) in scan.runs.iter().zip(scan.runs.iter().skip(1)) {
            if let (Some(expected), true) = (before.epoch, run.epoch < before.epoch) {
                let fault = Fault::Epoch { expected, found: run.epoch };
                let finding = Finding::new(self.path.to_owned(), fault).at(run.position.0);
                findings.push(finding.of(run.offsets.start(), run.offsets.end()));
            }
        }
        Ok(FileVerified { bytes, entries: scan.batches, findings })
    }

    fn index(&self, bytes: &[u8], base: Offset, kind: FileKind) -> io::Result<FileVerified> {
        let log = file_path(self.path.parent().unwrap_or(Path::new(".")), base, FileKind::Log);
        let (length, is_of_offsets) = (bytes.len() as u64, kind == FileKind::OffsetIndex);
        let entries = length / if is_of_offsets { 8 } else { 12 };
        let file = match self.disk.open(&log, Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let fault = if is_of_offsets {
                    crate::index::check_offset_index(bytes, base, u64::MAX).err()
                } else {
                    crate::index::check_time_index(bytes, base).err()
                };
                return Ok(self.said(length, entries, fault.map(Fault::from)));
            }
            Err(error) => return Err(error),
        };
        let log_bytes = file.size()?;
        let fault = if is_of_offsets {
            let mut check = OffsetCheck::new(bytes, base, log_bytes);
            self.scan(&file, base, log_bytes, &mut |position, frame| check.batch(position, frame))?;
            check.finish()
        } else {
            let mut check = TimeCheck::new(bytes, base);
            self.scan(&file, base, log_bytes, &mut |_, frame| check.batch(frame))?;
            check.finish()
        };
        Ok(self.said(length, entries, fault))
    }

    fn scan(
        &self,
        file: &File,
        base: Offset,
        log_bytes: u64,
        seen: &mut dyn FnMut(u64, &Frame),
    ) -> io::Result<ScannedSegment> {
        let place = Place { base, log_bytes, from: 0, expected: base };
        let index = IndexSettings { interval_bytes: u64::MAX, bytes_max: 0 }.empty(base);
        let idle = IdleHelpers::new(1);
        let mut show = |position, header: &_, bytes: &[u8]| {
            (self.watch)(bytes.len() as u64);
            seen(position, &Frame::of(header));
        };
        let context = SegmentContext::default();
        scan_segment_seen(file, place, context, index, self.batch_bytes_max, &idle, &mut show)
    }
}

fn whole(file: &File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut contents = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    let count = file.read_at(&mut contents, 0)?;
    contents.truncate(count);
    Ok(contents)
}
