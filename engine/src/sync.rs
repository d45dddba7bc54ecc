//! What threads share state with: the standard library's, or, with `--cfg shuttle`, stand-ins of the same shape for which a test chooses
//! who runs next (`tests/schedules`).
//!
//! Only what is shared between the threads of a store is taken from here. The floors below it (`disk`) hold their locks for no longer
//! than they look something up, so that nobody has to choose there.

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

/// Numbers that threads share.
pub(crate) mod atomic {
    #[cfg(shuttle)]
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
    #[cfg(not(shuttle))]
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
}

#[cfg(shuttle)]
pub(crate) use shuttle::{
    thread::{Thread, current as current_thread, park, yield_now},
    thread_local,
};
#[cfg(not(shuttle))]
pub(crate) use std::{
    thread::{Thread, current as current_thread, park, yield_now},
    thread_local,
};
