//! A member of a group.

use std::time::Duration;

use bytes::Bytes;
use highwater_engine::units::Monotonic;

/// A rebalance waits at least for so long, whatever its members say: it goes round no faster.
pub(super) const REBALANCE_MIN: Duration = Duration::from_secs(1);

/// Ways of assigning that a member knows, the preferred first, each with what it says about itself in it.
pub(super) type Protocols = Vec<(String, Bytes)>;

/// See the module's documentation.
#[derive(Clone, Debug)]
pub(super) struct Member<T> {
    /// Its name over restarts (KIP-345).
    pub(super) instance: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) rebalance_timeout: Duration,
    pub(super) session_timeout: Duration,
    pub(super) protocols: Protocols,
    pub(super) assignment: Bytes,
    /// A `JoinGroup` that waits for the others.
    pub(super) joining: Option<T>,
    /// A `SyncGroup` that waits for the leader's.
    pub(super) syncing: Option<T>,
    /// It is gone if nothing is heard of it until then; while a request of it waits, that does not count.
    pub(super) expires: Monotonic,
}

impl<T> Member<T> {
    /// Something was heard of it.
    pub(super) fn heard(&mut self, now: Monotonic) {
        self.expires = now.after(self.session_timeout);
    }

    /// Until when it has to be heard of; `None` while it waits for an answer itself.
    pub(super) fn deadline(&self) -> Option<Monotonic> {
        (self.joining.is_none() && self.syncing.is_none()).then_some(self.expires)
    }

    /// What it says about itself in a way of assigning.
    pub(super) fn metadata(&self, protocol: &str) -> Bytes {
        let found = self.protocols.iter().find(|(name, _)| name == protocol);
        found.map(|(_, metadata)| metadata.clone()).unwrap_or_default()
    }
}
