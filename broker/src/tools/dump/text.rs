//! The text files of a partition's and of a data directory: each line as it is there, then whether the file can be believed.
//!
//! Files with a guard say so: it is `right`, `wrong`, or `missing`, where Kafka wrote the file last.

use std::io;
use std::path::Path;

use highwater_engine::checkpoint::{
    Damage, GUARD_TOPIC, Reading, decode_clean_mark, decode_epochs, decode_offsets,
};
use serde_json::Value;

use super::lines::{Lines, fields};
use super::small::{damage, read};

/// Whether a file can be believed, whatever it says.
pub(super) enum Verdict {
    Guarded,
    Unguarded,
    Missing,
    Damaged(Damage),
}

impl<T> From<Reading<T>> for Verdict {
    fn from(reading: Reading<T>) -> Self {
        match reading {
            Reading::Known { guarded: true, .. } => Self::Guarded,
            Reading::Known { guarded: false, .. } => Self::Unguarded,
            Reading::Missing => Self::Missing,
            Reading::Damaged { why } => Self::Damaged(why),
        }
    }
}

impl Verdict {
    fn show(&self, lines: &mut Lines<'_>) -> io::Result<()> {
        match self {
            Self::Guarded | Self::Unguarded | Self::Missing => Ok(()),
            Self::Damaged(why) => damage(lines, &why.to_string()),
        }
    }

    fn show_with_guard(&self, lines: &mut Lines<'_>) -> io::Result<()> {
        let guard = match self {
            Self::Guarded => "right",
            Self::Unguarded => "missing",
            Self::Damaged(Damage::Guard { .. } | Damage::GuardLine) => "wrong",
            Self::Missing | Self::Damaged(_) => return self.show(lines),
        };
        lines.put(fields([("guard", Value::from(guard))]))?;
        self.show(lines)
    }
}

/// An offset for each partition. The guard's own entry is not one of them.
pub(super) fn offsets(path: &Path, lines: &mut Lines<'_>) -> io::Result<()> {
    let bytes = read(path)?;
    entries(&bytes, &["topic", "partition", "offset"], lines)?;
    Verdict::from(decode_offsets(&bytes)).show_with_guard(lines)
}

/// Where each leader epoch begins.
pub(super) fn epochs(path: &Path, lines: &mut Lines<'_>) -> io::Result<()> {
    let bytes = read(path)?;
    entries(&bytes, &["epoch", "start_offset"], lines)?;
    Verdict::from(decode_epochs(&bytes)).show(lines)
}

/// A file of a few lines.
pub(super) fn plain(
    path: &Path,
    lines: &mut Lines<'_>,
    believe: impl FnOnce(&[u8]) -> Verdict,
) -> io::Result<()> {
    let bytes = read(path)?;
    as_it_is(&bytes, lines)?;
    believe(&bytes).show(lines)
}

/// The mark of a clean stop.
pub(super) fn clean_mark(path: &Path, lines: &mut Lines<'_>) -> io::Result<()> {
    let bytes = read(path)?;
    as_it_is(&bytes, lines)?;
    Verdict::from(decode_clean_mark(&bytes)).show_with_guard(lines)
}

fn as_it_is(bytes: &[u8], lines: &mut Lines<'_>) -> io::Result<()> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().try_for_each(|line| lines.put(fields([("line", Value::from(line))])))
}

/// The lines behind version and count, with these fields; what has others is shown as it is.
fn entries(bytes: &[u8], names: &[&str], lines: &mut Lines<'_>) -> io::Result<()> {
    let text = String::from_utf8_lossy(bytes);
    for row in text.lines().skip(2) {
        let values: Vec<&str> = row.split_whitespace().collect();
        if values.first() == Some(&GUARD_TOPIC) {
            continue;
        }
        if values.len() != names.len() {
            lines.put(fields([("line", Value::from(row))]))?;
            continue;
        }
        let value = |text: &&str| text.parse::<i64>().map_or_else(|_| Value::from(*text), Value::from);
        lines.put(names.iter().map(|name| (*name).to_owned()).zip(values.iter().map(value)).collect())?;
    }
    Ok(())
}
