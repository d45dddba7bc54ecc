//! A descriptor that becomes readable when a queue has something to reap: an eventfd, elsewhere a pipe.
//!
//! It carries no count. A wake-up may come once too often, never too rarely.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
#[cfg(all(target_os = "linux", feature = "uring"))]
use std::os::fd::{AsRawFd, RawFd};

use super::sys;

/// Both ends.
#[derive(Debug)]
pub(super) struct Wake {
    readable: File,
    #[cfg(not(target_os = "linux"))]
    writable: File,
}

impl Wake {
    #[cfg(target_os = "linux")]
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { readable: sys::event_descriptor()?.into() })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn new() -> io::Result<Self> {
        let (readable, writable) = io::pipe()?;
        sys::set_nonblocking(&readable)?;
        sys::set_nonblocking(&writable)?;
        let (readable, writable) = (OwnedFd::from(readable), OwnedFd::from(writable));
        Ok(Self { readable: readable.into(), writable: writable.into() })
    }

    /// The readable end, once more.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.readable.try_clone()?.into())
    }

    /// The readable end itself, for the ring that writes to it.
    #[cfg(all(target_os = "linux", feature = "uring"))]
    pub(super) fn raw_descriptor(&self) -> RawFd {
        self.readable.as_raw_fd()
    }

    /// Makes the descriptor readable. It cannot fail in a way that matters: a full counter or pipe is readable already.
    pub(super) fn signal(&self) {
        #[cfg(target_os = "linux")]
        let mut end = &self.readable;
        #[cfg(not(target_os = "linux"))]
        let mut end = &self.writable;
        drop(end.write(&1_u64.to_ne_bytes()));
    }

    /// Makes the descriptor unreadable. To be called before looking for results, so that none is missed.
    pub(super) fn clear(&self) {
        let mut waste = [0; 512];
        let mut end = &self.readable;
        drop(end.read(&mut waste));
    }
}
