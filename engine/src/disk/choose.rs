//! Which disk a host gets: the one with rings where the kernel gives them, otherwise the POSIX one, and why.

use std::io;
use std::sync::Arc;

use super::{Disk, PosixDisk, SyncThread, sys};

/// How operations reach the disk; the setting `disk.io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum IoMode {
    /// Writes that are not large are done inline, and so is a sync that stands alone; syncs of several files, and several large writes, go
    /// through `io_uring`. POSIX where there is none.
    #[default]
    Auto,
    /// Everything goes through `io_uring`; without one it is an error.
    Uring,
    /// Plain system calls.
    Posix,
}

/// Lets this process open as many files as it may allow itself: raises the soft limit of descriptors to the hard one. Answers how many
/// that are. A host that serves many logs calls it once, before it opens them; an error leaves the limit as it was.
pub fn raise_descriptor_limit() -> io::Result<u64> {
    sys::raise_descriptor_limit()
}

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingRefusal {
    /// EPERM or EACCES: a sysctl, a seccomp filter or a security module.
    #[error("io_uring is forbidden here: {source}")]
    Forbidden {
        /// The system's error.
        source: io::Error,
    },
    /// ENOSYS.
    #[error("the kernel has no io_uring")]
    Missing,
    /// ENOMEM: usually the limit of locked memory.
    #[error("there is not enough memory for io_uring, or RLIMIT_MEMLOCK is too low")]
    NoMemory,
    /// Older than Linux 5.5, where completions could be dropped.
    #[error("the kernel's io_uring is too old")]
    TooOld,
    /// Not Linux, or built without the feature `uring`.
    #[error("this build has no io_uring")]
    NotBuilt,
    /// Something else.
    #[error("io_uring cannot be set up: {source}")]
    Failed {
        /// The system's error.
        source: io::Error,
    },
}

#[cfg(any(test, all(target_os = "linux", feature = "uring")))]
impl RingRefusal {
    /// What an error of the setup means.
    pub(super) fn from_error(source: io::Error) -> Self {
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Forbidden { source },
            Some(libc::ENOSYS) => Self::Missing,
            Some(libc::ENOMEM) => Self::NoMemory,
            _ => Self::Failed { source },
        }
    }
}

/// What [`open_disk`] gives.
#[derive(Debug)]
#[non_exhaustive]
pub struct OpenedDisk {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// In [`IoMode::Auto`]: why it is the POSIX disk. To be said once.
    pub fallback: Option<RingRefusal>,
}

/// Opens the file system in the way that is asked for. `sync_thread` is for the POSIX disk; a ring needs none.
pub fn open_disk(mode: IoMode, sync_thread: SyncThread) -> Result<OpenedDisk, RingRefusal> {
    choose(mode, sync_thread, || with_rings(mode))
}

fn choose(
    mode: IoMode,
    sync_thread: SyncThread,
    with_rings: impl FnOnce() -> Result<Arc<dyn Disk>, RingRefusal>,
) -> Result<OpenedDisk, RingRefusal> {
    let posix = |fallback| OpenedDisk { disk: Arc::new(PosixDisk::new(sync_thread)), fallback };
    match mode {
        IoMode::Posix => Ok(posix(None)),
        IoMode::Uring => Ok(OpenedDisk { disk: with_rings()?, fallback: None }),
        IoMode::Auto => Ok(match with_rings() {
            Ok(disk) => OpenedDisk { disk, fallback: None },
            Err(refusal) => posix(Some(refusal)),
        }),
    }
}

#[cfg(all(target_os = "linux", feature = "uring"))]
fn with_rings(mode: IoMode) -> Result<Arc<dyn Disk>, RingRefusal> {
    Ok(Arc::new(super::UringDisk::new(mode)?))
}

#[cfg(not(all(target_os = "linux", feature = "uring")))]
fn with_rings(_: IoMode) -> Result<Arc<dyn Disk>, RingRefusal> {
    Err(RingRefusal::NotBuilt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused() -> Result<Arc<dyn Disk>, RingRefusal> {
        Err(RingRefusal::from_error(io::Error::from_raw_os_error(libc::EPERM)))
    }

    #[test]
    fn a_refused_ring_is_told_once_in_auto_and_is_an_error_in_uring() {
        let opened = choose(IoMode::Auto, SyncThread::Never, refused).unwrap();
        assert!(matches!(opened.fallback, Some(RingRefusal::Forbidden { .. })));
        assert!(format!("{:?}", opened.disk).starts_with("PosixDisk"));
        let refusal = choose(IoMode::Uring, SyncThread::Never, refused).unwrap_err();
        assert!(matches!(refusal, RingRefusal::Forbidden { .. }));
        let posix = || -> Result<Arc<dyn Disk>, RingRefusal> { panic!("a ring was asked for") };
        assert!(choose(IoMode::Posix, SyncThread::Never, posix).unwrap().fallback.is_none());
    }

    #[test]
    fn the_limit_of_descriptors_is_raised_to_what_is_allowed() {
        let raised = raise_descriptor_limit().unwrap();
        assert!(raised > 0);
        assert_eq!(raise_descriptor_limit().unwrap(), raised, "a second call changes nothing");
    }

    #[test]
    fn refusals_are_told_apart() {
        let refusal = |errno| RingRefusal::from_error(io::Error::from_raw_os_error(errno));
        assert!(matches!(refusal(libc::ENOSYS), RingRefusal::Missing));
        assert!(matches!(refusal(libc::ENOMEM), RingRefusal::NoMemory));
        assert!(matches!(refusal(libc::EACCES), RingRefusal::Forbidden { .. }));
        assert!(matches!(refusal(libc::EMFILE), RingRefusal::Failed { .. }));
    }
}
