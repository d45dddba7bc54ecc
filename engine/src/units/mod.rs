//! One newtype for each meaning, so that an offset is never mistaken for a position or an epoch.
//!
//! There are no sentinels here: Kafka's `-1` becomes `None` where bytes are read, and `-1` again where they are written.

mod epoch;
mod name;
mod offset;
mod producer;
mod time;

pub use epoch::{LeaderEpoch, Negative, NodeId};
pub use name::{InvalidName, TopicId, TopicPartition};
pub use offset::{Offset, OffsetRange};
pub use producer::{ProducerEpoch, ProducerId, Sequence};
pub use time::{Monotonic, Now, Timestamp};
