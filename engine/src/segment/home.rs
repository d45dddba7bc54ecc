//! What all segments of a log have in common, and what is kept of a first batch.

use std::path::Path;
use std::sync::Arc;

use super::OpenFiles;
use crate::disk::Disk;
use crate::index::ActiveIndex;
use crate::units::{Offset, Timestamp};

/// How an index is made (`index.interval.bytes`, `segment.index.bytes`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexSettings {
    pub(crate) interval_bytes: u64,
    pub(crate) bytes_max: usize,
}

impl IndexSettings {
    pub(crate) const fn empty(self, base: Offset) -> ActiveIndex {
        ActiveIndex::new(base, self.interval_bytes, self.bytes_max)
    }
}

/// The greatest timestamp of a segment's first batch, from which its age is reckoned; absent if that batch has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstBatch {
    pub(crate) max_timestamp: Option<Timestamp>,
}

/// Where the segments of one log are.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) directory: Arc<Path>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) files: Arc<OpenFiles>,
    pub(crate) settings: IndexSettings,
}
