//! The names of a segment's files: 20 digits of its base offset, and what kind of file it is.

use std::path::{Path, PathBuf};

use crate::units::Offset;

/// The kinds of files that carry an offset in their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// Record batches.
    Log,
    /// The offset index.
    OffsetIndex,
    /// The time index.
    TimeIndex,
    /// The index of aborted transactions.
    AbortedIndex,
    /// The state of producers, below the offset in the name.
    Snapshot,
}

impl FileKind {
    /// All files that belong to a segment, its log last, so that one who removes them in this order never leaves a log without
    /// the rest being gone.
    pub const OF_A_SEGMENT: [Self; 4] = [Self::OffsetIndex, Self::TimeIndex, Self::AbortedIndex, Self::Log];

    /// The suffix, with its dot.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::OffsetIndex => ".index",
            Self::TimeIndex => ".timeindex",
            Self::AbortedIndex => ".txnindex",
            Self::Snapshot => ".snapshot",
        }
    }
}

/// The path of a file in the directory of a log.
pub fn file_path(directory: &Path, offset: Offset, kind: FileKind) -> PathBuf {
    directory.join(format!("{:020}{}", offset.value(), kind.suffix()))
}

/// Reads the name of a file; `None` if it is not exactly 20 digits and one of the suffixes.
pub fn parse_file_name(name: &str) -> Option<(Offset, FileKind)> {
    let kinds = [
        FileKind::Log,
        FileKind::OffsetIndex,
        FileKind::TimeIndex,
        FileKind::AbortedIndex,
        FileKind::Snapshot,
    ];
    let (digits, kind) =
        kinds.into_iter().find_map(|kind| Some((name.strip_suffix(kind.suffix())?, kind)))?;
    if digits.len() != 20 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some((Offset::new(digits.parse().ok()?)?, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas() {
        let offset = Offset::new(12_345).unwrap();
        let path = file_path(Path::new("t-0"), offset, FileKind::TimeIndex);
        assert_eq!(path, Path::new("t-0/00000000000000012345.timeindex"));
        assert_eq!(parse_file_name("00000000000000012345.timeindex"), Some((offset, FileKind::TimeIndex)));
        for bad in [
            "12345.log",
            "00000000000000012345.log.swap",
            "0000000000000001234x.log",
            "99999999999999999999.log",
            ".log",
        ] {
            assert_eq!(parse_file_name(bad), None, "{bad}");
        }
    }
}
