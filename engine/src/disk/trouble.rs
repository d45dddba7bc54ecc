//! What an error says of the disk: that it is full, that descriptors have run out, or that it has failed.
//!
//! The first two pass by themselves, and what was refused for them is tried again. A sync is never tried again: whatever its error says,
//! the disk has failed. That is kept here, in one place, so that no caller has to think of it.

use std::io;

/// Whether the error says that there is no room, or no descriptor: that is no fault of the disk, and passes.
pub(crate) fn is_passing(error: &io::Error) -> bool {
    is_full(error) || is_out_of_descriptors(error)
}

/// Whether the error says that there is no more room: on the device, in the quota, or below the limit of a file's size.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}

/// Whether no more files can be opened, by this process or by any.
pub(crate) fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Whether the error says that the bytes are there and the medium does not give them: a read error, or a checksum of the file system's that
/// does not fit.
pub(crate) fn is_bad_medium(error: &io::Error) -> bool {
    #[cfg(target_os = "linux")]
    let is_bad_checksum = matches!(error.raw_os_error(), Some(libc::EBADMSG | libc::EUCLEAN));
    #[cfg(not(target_os = "linux"))]
    let is_bad_checksum = false;
    is_bad_checksum || error.raw_os_error() == Some(libc::EIO)
}

/// The error of a sync as [`super::DiskFile::sync`] gives it: with the same text, and never one of those that pass. Where blocks are given
/// out late, or a quota is kept elsewhere, a sync is what finds no room, and then the pages are gone all the same.
pub(super) fn of_sync(error: io::Error) -> io::Error {
    if is_passing(&error) { io::Error::other(error) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn want_of_room_passes_and_a_failed_sync_does_not() {
        for number in [libc::ENOSPC, libc::EDQUOT, libc::EFBIG, libc::EMFILE, libc::ENFILE] {
            let error = || io::Error::from_raw_os_error(number);
            assert!(is_passing(&error()), "{number}");
            assert!(!is_passing(&of_sync(error())), "{number}");
            assert_eq!(of_sync(error()).to_string(), error().to_string());
        }
        for number in [libc::EIO, libc::EROFS, libc::EACCES, libc::ENOENT, libc::ENODEV] {
            assert!(!is_passing(&io::Error::from_raw_os_error(number)), "{number}");
        }
    }
}
