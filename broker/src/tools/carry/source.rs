//! The partition that is carried: where it lies, whether it is at rest, and everything in it, read once from its start to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_engine::batch::{BatchHeader, BatchView, ControlRecord, DecompressLimits, TransactionEnd};
use highwater_engine::checkpoint::{CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, Reading};
use highwater_engine::disk::{DirectoryLock, Disk};
use highwater_engine::log::Cleanup;
use highwater_engine::segment::{FileKind, parse_file_name};
use highwater_engine::store::{ReadOnlyLog, ReadOnlyStore, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Offset, TopicPartition};

use super::target::{cluster_of, system_of};
use super::{Carry, CarryError};
use crate::tools::segment_file::legacy_bytes;

/// How much is read at once.
const READ_BYTES: usize = 1 << 20;

/// Topics whose records mean something in their own cluster only.
const INTERNAL: [(&str, &str); 5] = [
    (
        "__consumer_offsets",
        "offsets of consumer groups are their cluster's; set them anew with kafka-consumer-groups --reset-offsets",
    ),
    (
        "__transaction_state",
        "transactions are their cluster's; end them before, and let producers begin anew",
    ),
    ("__share_group_state", "the state of share groups is their cluster's; it begins anew"),
    ("__remote_log_metadata", "it says where remote storage has the segments of its own cluster"),
    (
        "__cluster_metadata",
        "it is the KRaft controller's log; make topics and their settings anew on the other side",
    ),
];

/// The source, locked.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) name: TopicPartition,
    pub(super) directory: PathBuf,
    pub(super) cluster: Option<String>,
    pub(super) log: ReadOnlyLog,
    /// The base offsets of its segments.
    pub(super) bases: Vec<Offset>,
    /// What its broker last noted to be committed.
    pub(super) high_watermark: Option<Offset>,
    pub(super) survey: Survey,
    _lock: Box<dyn DirectoryLock>,
}

/// What is in it.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) batches: u64,
    pub(super) bytes: u64,
    pub(super) epochs: BTreeSet<LeaderEpoch>,
    pub(super) producers: BTreeSet<i64>,
    /// Messages of formats v0 and v1.
    pub(super) legacy: u64,
    /// Transactions whose records readers of committed records are not given: by their markers, which are carried over as they are.
    pub(super) aborted: u64,
    open: BTreeMap<i64, Offset>,
}

impl Source {
    pub(super) fn look(disk: &Arc<dyn Disk>, what: &Carry) -> Result<Self, CarryError> {
        let not_a_partition = || CarryError::NotAPartition { path: what.from.clone() };
        let path = std::fs::canonicalize(&what.from).map_err(CarryError::io(&what.from))?;
        let file_name = path.file_name().and_then(|name| name.to_str()).ok_or_else(not_a_partition)?;
        let name = TopicPartition::from_directory_name(file_name).map_err(|_| not_a_partition())?;
        if let Some((_, why)) = INTERNAL.iter().find(|(topic, _)| *topic == name.topic()) {
            return Err(CarryError::Internal { name, why });
        }
        let directory = path.parent().ok_or_else(not_a_partition)?;
        let lock = disk.lock(directory)?;
        let (found, wanted) = (system_of(directory)?, what.direction.source());
        if found != wanted {
            return Err(CarryError::OtherSystem { path: directory.to_owned(), found, wanted });
        }
        let looker = ReadOnlyStore::open(disk, directory, StoreConfig::default())?;
        let offset = |file: &str| -> Result<Option<Offset>, CarryError> {
            let read = looker.read_offset_checkpoint(file).map_err(CarryError::io(directory.join(file)))?;
            Ok(read.known().and_then(|offsets| offsets.get(&name).copied()))
        };
        // Only what is compacted has an entry there.
        let is_compacted = what.compacted || offset(CLEANER_OFFSETS)?.is_some();
        let (log_start, high_watermark) = (offset(LOG_STARTS)?, offset(HIGH_WATERMARKS)?);
        let mut config = StoreConfig::default();
        config.log.cleanup = if is_compacted { Cleanup::Compact } else { Cleanup::Delete };
        let log = ReadOnlyStore::open(disk, directory, config)?.log(&name)?;
        let bases = bases_in(disk.as_ref(), &path)?;
        let mut source = Self {
            cluster: cluster_of(disk.as_ref(), directory).ok(),
            name,
            directory: path.clone(),
            log,
            bases,
            high_watermark,
            survey: Survey::default(),
            _lock: lock,
        };
        source.refuse_what_is_not_here(log_start)?;
        source.survey = source.read_all()?;
        Ok(source)
    }

    fn refuse_what_is_not_here(&self, log_start: Option<Offset>) -> Result<(), CarryError> {
        let name = self.name.clone();
        if let (Some(start), Some(first)) = (log_start, self.bases.first().copied())
            && start < first
        {
            return Err(CarryError::Remote { name, start, first });
        }
        let damaged = self.log.damaged();
        if damaged.is_empty() {
            return Ok(());
        }
        let ranges: Vec<String> = damaged.iter().map(|range| range.offsets.to_string()).collect();
        Err(CarryError::Damaged { name, ranges: ranges.join(", ") })
    }

    fn read_all(&self) -> Result<Survey, CarryError> {
        let mut survey = Survey::default();
        self.each_piece(|first, bytes| survey.take(&self.name, first, bytes))?;
        if let Some(first) = survey.open.values().min().copied() {
            return Err(CarryError::OpenTransaction { name: self.name.clone(), first });
        }
        Ok(survey)
    }

    /// Gives all whole batches, in pieces that lie in one segment each, with the base offset of the first.
    pub(super) fn each_piece(
        &self,
        mut take: impl FnMut(Offset, &[u8]) -> Result<(), CarryError>,
    ) -> Result<(), CarryError> {
        let mut next = self.log.start();
        while let Some(records) = self.log.read(next, READ_BYTES)? {
            take(records.first, &records.parts.concat())?;
            next = records.end;
        }
        Ok(())
    }
}

impl Survey {
    fn take(&mut self, name: &TopicPartition, first: Offset, bytes: &[u8]) -> Result<(), CarryError> {
        let mut rest = bytes;
        let mut at = first;
        while !rest.is_empty() {
            let size = match BatchHeader::parse(rest) {
                Ok(header) => {
                    at = header.base_offset;
                    self.note(&header, rest).map_err(|why| CarryError::NoBatch {
                        name: name.clone(),
                        at,
                        why,
                    })?;
                    header.size_bytes
                }
                Err(damage) => {
                    self.legacy += 1;
                    legacy_bytes(rest).ok_or_else(|| CarryError::NoBatch {
                        name: name.clone(),
                        at,
                        why: damage.to_string(),
                    })?
                }
            };
            self.batches += 1;
            self.bytes += size as u64;
            rest = rest.get(size..).unwrap_or_default();
        }
        Ok(())
    }

    fn note(&mut self, header: &BatchHeader, bytes: &[u8]) -> Result<(), String> {
        self.epochs.extend(header.leader_epoch);
        let Some(producer) = header.producer_id else { return Ok(()) };
        self.producers.insert(producer.value());
        if header.attributes.is_control() {
            let view = BatchView::parse(bytes).map_err(|damage| damage.to_string())?;
            let mut scratch = Vec::new();
            let limits = DecompressLimits::default();
            for record in view.records(&limits, &mut scratch).map_err(|error| error.to_string())? {
                let record = record.map_err(|damage| damage.to_string())?;
                let said = ControlRecord::parse(&record).map_err(|damage| damage.to_string())?;
                let ControlRecord::Marker { end, .. } = said else { continue };
                if self.open.remove(&producer.value()).is_some() && end == TransactionEnd::Abort {
                    self.aborted += 1;
                }
            }
        } else if header.attributes.is_transactional() {
            self.open.entry(producer.value()).or_insert(header.base_offset);
        }
        Ok(())
    }
}

/// The base offsets of the segments in a partition's directory.
pub(super) fn bases_in(disk: &dyn Disk, directory: &Path) -> Result<Vec<Offset>, CarryError> {
    let entries = disk.list(directory).map_err(CarryError::io(directory))?;
    let named = entries.iter().filter_map(|entry| parse_file_name(&entry.name));
    Ok(named.filter_map(|(base, kind)| (kind == FileKind::Log).then_some(base)).collect())
}

/// What a small file says; one that cannot be believed cannot be changed either.
pub(super) fn believed<T: Default>(path: PathBuf, reading: Reading<T>) -> Result<T, CarryError> {
    match reading {
        Reading::Known { value, .. } => Ok(value),
        Reading::Missing => Ok(T::default()),
        Reading::Damaged { why } => Err(CarryError::Checkpoint { path, why: why.to_string() }),
    }
}
