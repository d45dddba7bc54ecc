//! Which life of the machine, and of a mount, a directory is seen in: what has to be equal for the page cache to have survived.
//!
//! Only file systems are answered for of which it is known that a completed write stays in this machine's memory until it is
//! on the device. Everything else (network, FUSE, unknown) has no incarnation.

use std::path::Path;

use super::Incarnation;

/// ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, JFS, NILFS, `ReiserFS`, tmpfs, ramfs and overlayfs.
#[cfg(target_os = "linux")]
const LOCAL: [u64; 12] = [
    0xEF53,
    0x5846_5342,
    0x9123_683E,
    0xF2F5_2010,
    0x2FC1_2FC1,
    0xCA45_1A4E,
    0x3153_464A,
    0x3434,
    0x5265_4973,
    0x0102_1994,
    0x8584_58F6,
    0x794C_7630,
];

/// See [`super::Disk::incarnation`].
#[cfg(target_os = "linux")]
pub(super) fn incarnation(directory: &Path) -> Option<Incarnation> {
    use super::sys;
    use std::os::unix::fs::MetadataExt;

    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let boot = boot.trim().to_owned();
    let file = std::fs::File::open(directory).ok()?;
    if boot.is_empty() || !LOCAL.contains(&sys::file_system_magic(&file).ok()?) {
        return None;
    }
    Some(Incarnation { boot, device: file.metadata().ok()?.dev(), mount: sys::mount_id(&file).ok()?? })
}

/// See [`super::Disk::incarnation`].
#[cfg(not(target_os = "linux"))]
pub(super) fn incarnation(_: &Path) -> Option<Incarnation> {
    None
}
