//! Reading a small file as a whole and replacing it as a whole.

use std::io;
use std::path::{Path, PathBuf};

use super::text::Damage;
use crate::disk::{Disk, Open, is_bad_medium};

/// A small file is not larger than this, in bytes; a larger one is damaged.
pub const CHECKPOINT_BYTES_MAX: u64 = 64 << 20;

/// What a small file said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// It can be believed.
    Known {
        /// What it says.
        value: T,
        /// Whether its own guard proves it. Otherwise someone else wrote it, and it obeys the strict rules of its format.
        guarded: bool,
    },
    /// There is no such file; or an empty one, as Kafka makes before it has anything to say.
    Missing,
    /// It cannot be believed: what it would say is unknown.
    Damaged {
        /// Why.
        why: Damage,
    },
}

impl<T> Reading<T> {
    /// What it says, if that is known.
    pub fn known(self) -> Option<T> {
        match self {
            Self::Known { value, .. } => Some(value),
            Self::Missing | Self::Damaged { .. } => None,
        }
    }

    /// Why it cannot be believed, if so.
    pub fn damage(self) -> Option<Damage> {
        match self {
            Self::Damaged { why } => Some(why),
            Self::Known { .. } | Self::Missing => None,
        }
    }

    pub(super) fn from_result(result: Result<T, Damage>, guarded: bool) -> Self {
        match result {
            Ok(value) => Self::Known { value, guarded },
            Err(why) => Self::Damaged { why },
        }
    }
}

/// How certain a replaced file is when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// A kill leaves the old or the new file. A power loss may leave the new name with anything in it, and the old file is
    /// gone, until it has been replaced once more with [`Certainty::Durable`].
    Written,
    /// A kill and a power loss leave the old or the new file, and the new one once the call has returned.
    Durable,
}

/// Replaces a file: writes `NAME.tmp` beside it, then renames it over the old one.
///
/// What `NAME.tmp` held before does not matter. An error leaves the old file, or with [`Certainty::Durable`] perhaps the new one
/// without the certainty that it stays. One that says that there is no room or no descriptor is not the end: the call may be made again.
pub fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8], certainty: Certainty) -> io::Result<()> {
    let temporary = temporary_name(path)?;
    let file = disk.open(&temporary, Open::Create)?;
    file.set_size(0)?;
    file.write_all_at(bytes, 0)?;
    match certainty {
        Certainty::Written => disk.rename(&temporary, path),
        Certainty::Durable => {
            file.sync()?;
            disk.rename(&temporary, path)?;
            disk.sync_directory(parent(path)?)
        }
    }
}

/// Replaces a file by what it shows, byte for byte, if it is there, and makes name and contents certain. A sync of it that failed before, also
/// one that nobody was left to hear of, has perhaps left it in the page cache alone; a second sync would not change that.
pub(crate) fn renew_file(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match read_file(disk, path)? {
        Some(Ok(bytes)) => replace_file(disk, path, &bytes, Certainty::Durable),
        Some(Err(_)) | None => Ok(()),
    }
}

/// The bytes of a file; `None` if there is none. What is wrong with the contents comes as [`Damage`], also where the medium does not give
/// them; any other error is returned, because the file may well be whole.
pub(super) fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Option<Result<Vec<u8>, Damage>>> {
    match read_bytes(disk, path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if is_bad_medium(&error) => Ok(Some(Err(Damage::Unreadable { error: error.to_string() }))),
        Err(error) => Err(error),
    }
}

fn read_bytes(disk: &dyn Disk, path: &Path) -> io::Result<Result<Vec<u8>, Damage>> {
    let file = disk.open(path, Open::Read)?;
    let size = file.size()?;
    let Some(length) = usize::try_from(size).ok().filter(|_| size <= CHECKPOINT_BYTES_MAX) else {
        return Ok(Err(Damage::TooLarge { bytes: size }));
    };
    let mut bytes = vec![0; length];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Ok(bytes))
}

/// Reads a file through the decoder of its format.
pub(super) fn read_decoded<T>(
    disk: &dyn Disk,
    path: &Path,
    decode: impl FnOnce(&[u8]) -> Reading<T>,
) -> io::Result<Reading<T>> {
    Ok(match read_file(disk, path)? {
        None => Reading::Missing,
        Some(Ok(bytes)) => decode(&bytes),
        Some(Err(why)) => Reading::Damaged { why },
    })
}

pub(super) fn parent(path: &Path) -> io::Result<&Path> {
    path.parent().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path has no directory"))
}

fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"));
    };
    let mut name = name.to_owned();
    name.push(".tmp");
    Ok(path.with_file_name(name))
}
