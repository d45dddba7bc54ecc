//! What a shard is told and what it gives out. Frames that come in are without their four length bytes; those that
//! go out have them.

use bytes::Bytes;
use highwater_engine::store::{CompactionReport, Job, JobDone, StoreFailure};
use highwater_engine::units::{LeaderEpoch, NodeId, Offset, OffsetRange, TopicPartition};

use crate::controller::{ControllerCall, ControllerReply, ControllerRequest, RegistrationRefusal};
use crate::partition::PartitionEvent;
use crate::pending::{ConnectionId, Slot};

/// One of the connections from a follower to a leader. Each has one Fetch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The leader's node.
    pub leader: NodeId,
    /// What its topics count.
    pub kind: LaneKind,
}

/// Topics that count what is durable have a connection of their own, so that a sync delays nobody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// Contributions are `written`.
    Written,
    /// Contributions are `durable`.
    Durable,
    /// None: what is damaged here is fetched on it, and delays nobody.
    Repair,
}

/// Names a call to the controller, for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerCallId(pub u64);

/// Names a question of the host's, for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Something that happened outside.
#[derive(Debug)]
pub enum Event {
    /// A request for one of the APIs that [`super::Shard::answers`].
    Frame {
        /// The place of its answer, from the host's [`crate::pending::ReplyOrder`].
        slot: Slot,
        /// The request with its header.
        frame: Bytes,
    },
    /// A Produce of the host's own, for a topic of which it is the only writer: refused as by a follower unless this replica leads in this
    /// very epoch, so that what was read in one leadership is not written in another.
    OwnFrame {
        /// The place of its answer; of a connection that is the host's own.
        slot: Slot,
        /// The leadership.
        epoch: LeaderEpoch,
        /// The request with its header.
        frame: Bytes,
    },
    /// The connection is gone; what it waits for is dropped.
    Disconnected {
        /// Which.
        connection: ConnectionId,
    },
    /// The answer to the last [`Out::PeerFrame`] of this lane.
    PeerFrame {
        /// Which lane.
        lane: Lane,
        /// The response with its header.
        frame: Bytes,
    },
    /// The connection of this lane could not be made, broke, or gave no answer in time.
    PeerDown {
        /// Which lane.
        lane: Lane,
    },
    /// What came of an [`Out::Controller`].
    ControllerAnswered {
        /// Which call.
        call: ControllerCallId,
        /// The reply; `None` if there was none: it may have been carried out all the same.
        reply: Option<ControllerReply>,
    },
    /// The host asks the controller something in the name of this broker's session.
    Ask {
        /// For [`Out::Answer`].
        ask: AskId,
        /// What.
        request: ControllerRequest,
    },
    /// A job was run.
    JobDone(JobDone),
    /// The broker is about to stop: leaderships are handed over, then [`Out::MayStop`] comes.
    Stop,
}

/// Something for the host to do.
#[derive(Debug)]
pub enum Out {
    /// A response, as parts to be written one behind the other.
    Frame {
        /// Which request is answered.
        slot: Slot,
        /// The response with its header and its length, to be written one behind the other; empty if there is none (acks=0).
        parts: Vec<Bytes>,
    },
    /// Close a connection: what it sent cannot be answered otherwise.
    Close {
        /// Which.
        connection: ConnectionId,
        /// Why, for the log.
        why: CloseReason,
    },
    /// A request for a leader; answered by [`Event::PeerFrame`] or [`Event::PeerDown`] of the lane. The address is in the shard's view.
    PeerFrame {
        /// Which lane.
        lane: Lane,
        /// The request with its header and its length, as parts to be written one behind the other.
        parts: Vec<Bytes>,
    },
    /// The lane is not needed any more.
    PeerClose {
        /// Which lane.
        lane: Lane,
    },
    /// A call to the controller; answered by [`Event::ControllerAnswered`]. Calls do not wait for each other.
    Controller {
        /// For the answer.
        call: ControllerCallId,
        /// The call.
        request: ControllerCall,
    },
    /// The answer to [`Event::Ask`]; `None` if the controller could not be reached or the session ended.
    Answer {
        /// Which.
        ask: AskId,
        /// The reply.
        reply: Option<ControllerReply>,
    },
    /// To be run where blocking is allowed, and told with [`Event::JobDone`].
    Job(Job),
    /// Leaderships are handed over, as far as others can take them.
    MayStop,
    /// For people.
    News(News),
}

/// Why a connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The request could not be read.
    #[error("the request cannot be read: {why}")]
    Unreadable {
        /// What the decoder says.
        why: String,
    },
    /// An acks=0 produce failed; closing is the only way to say so, as in Kafka.
    #[error("an append without acknowledgement was refused")]
    UnacknowledgedAppendRefused,
    /// Too many requests wait on this connection.
    #[error("too many requests wait")]
    TooManyRequests,
}

/// Something that people should hear of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum News {
    /// The broker's session with the controller began.
    SessionBegan {
        /// The cluster, for `meta.properties`.
        cluster_id: String,
    },
    /// The broker's session is over; it registers again.
    SessionEnded,
    /// The controller does not let this broker in. Final.
    RegistrationRefused(RegistrationRefusal),
    /// A replica's news.
    Partition {
        /// Which.
        name: TopicPartition,
        /// What.
        event: PartitionEvent,
    },
    /// A log was cut.
    Truncated {
        /// Which.
        name: TopicPartition,
        /// Its end now.
        end: Offset,
    },
    /// A round of compaction is over.
    Compacted {
        /// Which.
        name: TopicPartition,
        /// What came of it.
        report: CompactionReport,
    },
    /// A log could not be compacted; it is tried again.
    NotCompacted {
        /// Which.
        name: TopicPartition,
        /// What happened.
        why: String,
    },
    /// A log could not be cut, and is as it was; it is tried again.
    NotCut {
        /// Which.
        name: TopicPartition,
        /// What happened.
        why: String,
    },
    /// A replica's log could not be made, or failed; the replica is offline.
    LogFailed {
        /// Which.
        name: TopicPartition,
        /// What happened.
        why: String,
    },
    /// What was fetched for a damaged range was not put in its place, and the log is as it was; it is tried again.
    NotRepaired {
        /// Which.
        name: TopicPartition,
        /// The range.
        offsets: OffsetRange,
        /// What happened.
        why: String,
    },
    /// A log that had failed is open again; its replica catches up.
    LogReopened {
        /// Which.
        name: TopicPartition,
        /// Its end, as recovery found it.
        end: Offset,
    },
    /// A log belongs to no topic of the cluster; it is left alone.
    Stray {
        /// Which.
        name: TopicPartition,
    },
    /// The machine of a replica met a broken invariant; the replica is offline, its last inputs are in the text.
    Panicked {
        /// Which.
        name: TopicPartition,
        /// The panic and the last inputs.
        dump: String,
    },
    /// The data directory failed.
    StoreFailed(StoreFailure),
}
