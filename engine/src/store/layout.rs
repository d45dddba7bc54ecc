//! The names in a data directory: which directories are logs, which are leftovers, which are not ours.

use std::path::{Path, PathBuf};

use crate::units::TopicPartition;

const DELETED: &str = "-delete";
const SET_ASIDE: [&str; 2] = ["-future", "-stray"];

/// What the name of a directory says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DirectoryName {
    /// A log.
    Log(TopicPartition),
    /// A log that was being deleted.
    Deleted,
    /// Set aside by Kafka, or nothing of ours.
    Foreign,
}

/// Reads the name of a directory.
pub(super) fn directory_name(name: &str) -> DirectoryName {
    if name.contains('.') {
        if name.ends_with(DELETED) {
            return DirectoryName::Deleted;
        }
        if SET_ASIDE.iter().any(|suffix| name.ends_with(suffix)) {
            return DirectoryName::Foreign;
        }
    }
    match TopicPartition::from_directory_name(name) {
        // Two names for one log cannot both be opened; ours is the one without leading zeros.
        Ok(partition) if partition.to_string() == name => DirectoryName::Log(partition),
        Ok(_) | Err(_) => DirectoryName::Foreign,
    }
}

/// The path that a log's directory has while its files are removed, after Kafka's pattern: at most 255 bytes, cut in the topic.
pub(super) fn deleted_path(directory: &Path, name: &TopicPartition, random: u128) -> PathBuf {
    let suffix = format!("-{}.{random:032x}{DELETED}", name.partition());
    let room = 255usize.saturating_sub(suffix.len());
    let topic: String = name.topic().chars().take(room).collect();
    directory.join(format!("{topic}{suffix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_told_apart() {
        let log = |name: &str| DirectoryName::Log(TopicPartition::from_directory_name(name).unwrap());
        for (name, expected) in [
            ("orders-0", log("orders-0")),
            ("a.b-delete-3", log("a.b-delete-3")),
            ("orders-0.0123456789abcdef0123456789abcdef-delete", DirectoryName::Deleted),
            ("orders-0.0123456789abcdef0123456789abcdef-stray", DirectoryName::Foreign),
            ("orders-00", DirectoryName::Foreign),
            ("remote-log-index-cache", DirectoryName::Foreign),
        ] {
            assert_eq!(directory_name(name), expected, "{name}");
        }
    }

    #[test]
    fn the_name_of_a_deleted_log_fits() {
        let name = TopicPartition::new(&"x".repeat(249), 12).unwrap();
        let path = deleted_path(Path::new("d"), &name, 7);
        let file = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(file.len(), 255);
        assert_eq!(directory_name(file), DirectoryName::Deleted);
    }
}
