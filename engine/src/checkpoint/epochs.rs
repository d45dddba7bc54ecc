//! `leader-epoch-checkpoint`: where each leader epoch of a log begins.
//!
//! It has no guard. Each of its entries can be compared with the batch at its start, and recovery believes none that disagrees; an empty
//! epoch that a power loss forgets is given again by the controller.

use std::io;
use std::path::Path;

use super::file::{Certainty, Reading, read_decoded, replace_file};
use super::text::{Damage, FIRST_ENTRY_LINE, entries, frame, number};
use crate::disk::Disk;
use crate::state::{EpochHistory, EpochStart};
use crate::units::{LeaderEpoch, Offset};

/// The file's name, in the partition's directory.
pub const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";

/// Reads an epoch checkpoint. It is never guarded.
pub(crate) fn read_epochs(disk: &dyn Disk, path: &Path) -> io::Result<Reading<EpochHistory>> {
    read_decoded(disk, path, decode_epochs)
}

/// Replaces an epoch checkpoint. A leadership begins with [`Certainty::Written`]; before the recovery point passes the first batch of
/// its epoch, it is replaced once more with [`Certainty::Durable`].
pub(crate) fn write_epochs(
    disk: &dyn Disk,
    path: &Path,
    history: &EpochHistory,
    certainty: Certainty,
) -> io::Result<()> {
    replace_file(disk, path, encode_epochs(history).as_bytes(), certainty)
}

/// The text of an epoch checkpoint, as Kafka writes it.
pub fn encode_epochs(history: &EpochHistory) -> String {
    let lines: Vec<String> =
        history.starts().iter().map(|entry| format!("{} {}", entry.epoch, entry.start)).collect();
    frame(&lines)
}

/// Reads the text of an epoch checkpoint: epochs and starts both strictly ascend.
pub fn decode_epochs(bytes: &[u8]) -> Reading<EpochHistory> {
    if bytes.is_empty() {
        return Reading::Missing;
    }
    Reading::from_result(decode(bytes), false)
}

fn decode(bytes: &[u8]) -> Result<EpochHistory, Damage> {
    let mut starts: Vec<EpochStart> = Vec::new();
    for (at, line) in entries(bytes)?.into_iter().enumerate() {
        let number = at + FIRST_ENTRY_LINE;
        let next = entry(line).ok_or(Damage::Line { line: number })?;
        if starts.last().is_some_and(|last| next.epoch <= last.epoch || next.start <= last.start) {
            return Err(Damage::Contradiction { line: number });
        }
        starts.push(next);
    }
    Ok(EpochHistory::from_starts(starts))
}

fn entry(line: &str) -> Option<EpochStart> {
    let (epoch, start) = line.split_once(' ')?;
    Some(EpochStart { epoch: LeaderEpoch::new(number(epoch)?)?, start: Offset::new(number(start)?)? })
}
