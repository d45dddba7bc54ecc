//! What a path is that somebody names: a broker's data directory, that of one partition, one file, or none of these.

use std::path::Path;

use highwater_engine::checkpoint::{META_PROPERTIES, RECOVERY_POINTS};
use highwater_engine::segment::{FileKind, parse_file_name};
use highwater_engine::units::TopicPartition;

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A broker has had it, also if it has no log yet.
    DataDirectory,
    /// The directory of this partition.
    Partition(TopicPartition),
    File,
    /// A directory without any log, or nothing.
    NoLogs,
}

impl Place {
    /// Looks at names alone. `path` is canonical, so that its last part is a name.
    pub(super) fn of(path: &Path) -> Self {
        if path.is_file() {
            return Self::File;
        }
        let name = path.file_name().and_then(|name| name.to_str());
        match name.and_then(|name| TopicPartition::from_directory_name(name).ok()) {
            Some(name) if has_segments(path) => Self::Partition(name),
            _ if is_data_directory(path) => Self::DataDirectory,
            _ => Self::NoLogs,
        }
    }
}

fn is_data_directory(directory: &Path) -> bool {
    let has_logs = || {
        let Ok(mut entries) = std::fs::read_dir(directory) else { return false };
        entries.any(|entry| entry.is_ok_and(|entry| is_log(&entry)))
    };
    [META_PROPERTIES, RECOVERY_POINTS].iter().any(|name| directory.join(name).exists()) || has_logs()
}

fn is_log(entry: &std::fs::DirEntry) -> bool {
    let name = entry.file_name();
    let is_name = name.to_str().is_some_and(|name| TopicPartition::from_directory_name(name).is_ok());
    is_name && has_segments(&entry.path())
}

fn has_segments(directory: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(directory) else { return false };
    entries.any(|entry| entry.is_ok_and(|entry| is_segment(&entry)))
}

/// Whether this is a `.log` file.
pub(super) fn is_segment(entry: &std::fs::DirEntry) -> bool {
    let name = entry.file_name();
    name.to_str().and_then(parse_file_name).is_some_and(|(_, kind)| kind == FileKind::Log)
}
