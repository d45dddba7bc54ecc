//! Requests that are not answered yet. A Fetch or a Produce covers many partitions; here is what is still open of each.
//!
//! Pure values: *tell*, *take*, *look*. They know slots, partitions, ceilings and deadlines; why a partition is ready, and what is in a
//! reply, they refuse to know. Everything is bounded and goes with its connection.
//!
//! - [`ReplyOrder`]: a connection's replies leave in the order of its requests.
//! - [`Fetches`]: parked Fetches, woken by ceilings: followers by what is written, consumers by the high watermark.
//! - [`Produces`]: produce requests whose parts are acknowledged one by one.
//! - [`FetchSessions`] and [`FollowerSession`]: both ends of an incremental fetch session (KIP-227).

mod fetches;
mod produces;
mod reply_order;
mod session;

pub use fetches::{Ceiling, FetchLimits, FetchPart, FetchReady, Fetches, ParkedFetch, TooManyParts};
pub use produces::Produces;
pub use reply_order::{ReplyOrder, Slot, TooManyRequests};
pub use session::{
    Answering, FetchSessions, FollowerSession, OpenedSession, PartAnswer, PartRequest, SessionError,
    SessionFetch, SessionLimits,
};

/// Names a connection to this process; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);
