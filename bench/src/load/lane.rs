//! The connection to one leader with the records that go over it: what was sent, and what was acknowledged where.

use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use highwater_replication::wire::produce::{
    PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData,
};
use highwater_replication::wire::{ApiKey, ErrorCode};

use super::Acks;
use crate::client::{Connection, Receiver, Sender};
use crate::clock;
use crate::error::{BenchError, Result};
use crate::records::Batches;
use crate::topic::Layout;

/// The last version that names topics by their names.
const PRODUCE_VERSION: i16 = 12;
const TIMEOUT_MS: i32 = 30_000;

/// What the load is made of.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Shape {
    /// Key and value together.
    pub(crate) record_bytes: usize,
    /// The largest batch; a request carries one for each partition of its leader.
    pub(crate) batch_bytes: usize,
    /// Requests of one connection that are not yet answered, at most.
    pub(crate) in_flight: usize,
}

/// Records of one partition that were acknowledged together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// The offset that the broker gave to the first; the others follow it.
    pub(crate) offset: i64,
}

/// What became of one partition's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) partition: i32,
    /// Records with a number below this were sent.
    pub(crate) sent: u64,
    pub(crate) acknowledged: Vec<Acknowledged>,
}

/// One leader, its partitions and their records so far.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
}

/// The sending half of a lane.
#[derive(Debug)]
pub(super) struct Outgoing {
    sender: Sender,
    batches: Batches,
    topic: String,
    acks: Acks,
    /// Each partition with the number of its next record.
    feeds: Vec<(i32, u64)>,
    pub(super) records_per_batch: u32,
    pub(super) requests_unanswered: i32,
}

/// The receiving half of a lane.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) receiver: Receiver,
    ledgers: Vec<Ledger>,
}

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) at: Instant,
    pub(super) records: u64,
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    feed: usize,
    first: u64,
    count: u32,
}

/// Connects to every leader of a topic.
pub(crate) fn open_lanes(layout: &Layout, run: u64, acks: Acks, shape: &Shape) -> Result<Vec<Lane>> {
    layout
        .leaders
        .iter()
        .map(|(at, partitions)| Lane::open(*at, layout, partitions, run, acks, shape))
        .collect()
}

impl Lane {
    fn open(
        leader: SocketAddr,
        layout: &Layout,
        partitions: &[i32],
        run: u64,
        acks: Acks,
        shape: &Shape,
    ) -> Result<Self> {
        let Connection { sender, receiver } = Connection::open(leader)?;
        let batches = Batches::new(run, shape.record_bytes);
        let records_per_batch = batches.records_in(shape.batch_bytes);
        let ledger = |partition: &i32| Ledger { partition: *partition, ..Ledger::default() };
        let outgoing = Outgoing {
            sender,
            batches,
            topic: layout.topic.clone(),
            acks,
            feeds: partitions.iter().map(|partition| (*partition, 0)).collect(),
            records_per_batch,
            requests_unanswered: 0,
        };
        Ok(Self {
            outgoing,
            incoming: Incoming { receiver, ledgers: partitions.iter().map(ledger).collect() },
        })
    }

    /// How many partitions it has.
    pub(crate) fn partitions(&self) -> usize {
        self.outgoing.feeds.len()
    }

    /// What it is acknowledged by.
    pub(crate) fn acks(&self) -> Acks {
        self.outgoing.acks
    }

    /// What was sent and acknowledged so far, by partition.
    pub(crate) fn ledgers(&self) -> Vec<Ledger> {
        let mut ledgers = self.incoming.ledgers.clone();
        for (ledger, (_, next)) in ledgers.iter_mut().zip(&self.outgoing.feeds) {
            ledger.sent = *next;
        }
        ledgers
    }

    /// Sends a record to each partition for which the leader's acknowledgement is waited for, whatever the lane's acks: when it
    /// comes, everything that was sent before is in the log, because a broker keeps the order of a connection.
    pub(super) fn await_everything(&mut self) -> Result<u64> {
        let acks = std::mem::replace(&mut self.outgoing.acks, Acks::Leader);
        let sent = self.outgoing.send(&vec![1; self.partitions()]);
        self.outgoing.acks = acks;
        self.incoming.receiver.expects_none_to(std::mem::take(&mut self.outgoing.requests_unanswered));
        self.incoming.receive(&sent?)
    }
}

impl Outgoing {
    pub(super) fn partitions(&self) -> usize {
        self.feeds.len()
    }

    /// Sends so many records to each partition, in one request.
    pub(super) fn send(&mut self, counts: &[u32]) -> Result<Sent> {
        let mut data = Vec::with_capacity(counts.len());
        let mut parts = Vec::with_capacity(counts.len());
        for (feed, &count) in counts.iter().enumerate() {
            let Some((partition, next)) = self.feeds.get_mut(feed).filter(|_| count > 0) else { continue };
            let records: Bytes = self.batches.build(*partition, *next, count)?;
            data.push(PartitionProduceData { index: *partition, records: Some(records) });
            parts.push(Part { feed, first: *next, count });
            *next += u64::from(count);
        }
        let topic = TopicProduceData {
            name: self.topic.clone(),
            partition_data: data,
            ..TopicProduceData::default()
        };
        let request = ProduceRequest {
            transactional_id: None,
            acks: self.acks.code(),
            timeout_ms: TIMEOUT_MS,
            topic_data: vec![topic],
        };
        let at = clock::now();
        self.sender.send(PRODUCE_VERSION, &request.into())?;
        if self.acks == Acks::None {
            self.requests_unanswered = self.requests_unanswered.wrapping_add(1);
        }
        Ok(Sent { at, records: parts.iter().map(|part| u64::from(part.count)).sum(), parts })
    }

    pub(super) fn hang_up(&self) {
        self.sender.hang_up();
    }
}

impl Incoming {
    /// Waits for the next acknowledgement.
    pub(super) fn answer(&mut self) -> Result<ProduceResponse> {
        ProduceResponse::try_from(self.receiver.receive(ApiKey::Produce, PRODUCE_VERSION)?)
            .map_err(|_| BenchError::SomethingElse { asked: ApiKey::Produce })
    }

    /// Writes down what an acknowledgement says.
    pub(super) fn note(&mut self, sent: &Sent, response: &ProduceResponse) -> Result<u64> {
        let answers = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        for part in &sent.parts {
            let Some(ledger) = self.ledgers.get_mut(part.feed) else { continue };
            let answer = answers.clone().find(|answer| answer.index == ledger.partition);
            let code = answer.map_or(ErrorCode::UnknownServerError, |answer| answer.error_code);
            let detail = answer.and_then(|answer| answer.error_message.as_deref());
            BenchError::check(&format!("producing to partition {}", ledger.partition), code, detail)?;
            let offset = answer.map_or(-1, |answer| answer.base_offset);
            ledger.acknowledged.push(Acknowledged { first: part.first, count: part.count, offset });
        }
        Ok(sent.records)
    }

    /// Waits for the acknowledgement of the oldest request; answers how many records it had.
    pub(super) fn receive(&mut self, sent: &Sent) -> Result<u64> {
        let response = self.answer()?;
        self.note(sent, &response)
    }
}
