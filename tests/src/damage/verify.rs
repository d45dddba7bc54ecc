//! All that verification finds in a directory that nobody has open.

use std::path::Path;
use std::sync::Arc;

use highwater_engine::disk::{Disk, SimulatedDisk};
use highwater_engine::store::{ReadOnlyError, ReadOnlyStore};

use super::directory::{DATA, config};

/// Each finding; `None` if not everything could be read.
pub(super) fn verify(disk: &SimulatedDisk) -> Option<Vec<String>> {
    findings(disk).ok()
}

fn findings(disk: &SimulatedDisk) -> Result<Vec<String>, ReadOnlyError> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let store = ReadOnlyStore::open(&shared, Path::new(DATA), config())?;
    let mut findings = store.verify_files()?;
    for name in store.names()? {
        findings.extend(store.verify_log(&name, &|_| {})?.findings);
    }
    Ok(findings.iter().map(ToString::to_string).collect())
}
