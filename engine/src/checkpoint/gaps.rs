//! `highwater-has-gaps`: a file without contents in the directory of a log. From some time on batches were appended to it with gaps of offsets
//! between them, as the follower of a compacted log does; the file is made before the first of them, and stays. Kafka leaves it alone.
//!
//! A base offset lies outside of its batch's CRC, and behind the last batch there is none that shows whether it is right. In a log without
//! the note, and written by nobody else since the recovery point, a gap in front of the last batch is damage.

use std::io;
use std::path::Path;

use crate::disk::{Disk, Open};

/// The file's name.
pub(crate) const GAPS_NOTE: &str = "highwater-has-gaps";

/// Makes it. A power loss may take it until the directory is synced.
pub(crate) fn note_gaps(disk: &dyn Disk, directory: &Path) -> io::Result<()> {
    disk.open(&directory.join(GAPS_NOTE), Open::Create).map(drop)
}
