//! Afterwards: everything is read from the leaders, and each acknowledged record must be there once, at the offset it was given.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{DecompressLimits, scan};
use highwater_replication::wire::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData,
};

use crate::client::Connection;
use crate::clock;
use crate::error::{BenchError, Result};
use crate::load::Ledger;
use crate::records::Stamp;
use crate::topic::Layout;

/// The last version that names topics by their names.
const FETCH_VERSION: i16 = 12;
const FETCH_BYTES: i32 = 8 << 20;
const FETCH_WAIT_MS: i32 = 500;
/// For so long the high watermark may stay below what was acknowledged by the leader alone.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Found {
    /// Records that were sent.
    pub(crate) sent: u64,
    /// Records that were acknowledged.
    pub(crate) acknowledged: u64,
    /// Records in the log.
    pub(crate) records: u64,
}

/// Reads all partitions of a topic; an error unless each acknowledged record is there once.
pub(crate) fn verify(layout: &Layout, run: u64, ledgers: &[Ledger]) -> Result<Found> {
    let mut total = Found::default();
    for (leader, partitions) in &layout.leaders {
        let mut connection = Connection::open(*leader)?;
        for partition in partitions {
            let ledger = ledgers.iter().find(|ledger| ledger.partition == *partition);
            let Some(ledger) = ledger.filter(|ledger| ledger.sent > 0) else { continue };
            let found = verify_partition(&mut connection, *leader, &layout.topic, run, ledger)?;
            total.sent += found.sent;
            total.acknowledged += found.acknowledged;
            total.records += found.records;
        }
    }
    Ok(total)
}

fn verify_partition(
    connection: &mut Connection,
    leader: SocketAddr,
    topic: &str,
    run: u64,
    ledger: &Ledger,
) -> Result<Found> {
    let mut check = Check::new(run, ledger);
    let mut next = 0;
    let give_up = clock::now() + PATIENCE;
    loop {
        let data = fetch(connection, topic, ledger.partition, next)?;
        let high_watermark = data.high_watermark;
        let before = next;
        next = check.batches(&data.records.unwrap_or_default().into_bytes(), next)?;
        if next >= high_watermark && next >= check.end() {
            break;
        }
        if next == before && clock::now() > give_up {
            let what = format!("reading {topic}-{} at {leader} up to {}", ledger.partition, check.end());
            let last = Some(format!("a high watermark of {high_watermark}"));
            return Err(BenchError::TooLate { what, seconds: PATIENCE.as_secs(), last });
        }
    }
    check.finish().map_err(|why| BenchError::LogWrong { topic: format!("{topic}-{}", ledger.partition), why })
}

/// Asks for a partition's records from an offset on.
pub(crate) fn fetch_request(topic: &str, partitions: &[(i32, i64)]) -> FetchRequest {
    let partition = |(partition, fetch_offset): &(i32, i64)| FetchPartition {
        partition: *partition,
        fetch_offset: *fetch_offset,
        partition_max_bytes: FETCH_BYTES,
        ..FetchPartition::default()
    };
    let topic = FetchTopic {
        topic: topic.to_owned(),
        partitions: partitions.iter().map(partition).collect(),
        ..FetchTopic::default()
    };
    FetchRequest {
        max_wait_ms: FETCH_WAIT_MS,
        min_bytes: 1,
        max_bytes: FETCH_BYTES,
        topics: vec![topic],
        ..FetchRequest::default()
    }
}

/// Sends it and waits for the answer.
pub(crate) fn fetch_all(connection: &mut Connection, request: FetchRequest) -> Result<FetchResponse> {
    let response = FetchResponse::try_from(connection.call(FETCH_VERSION, request)?)
        .map_err(|other| BenchError::SomethingElse { asked: other.api() })?;
    BenchError::check("fetching", response.error_code, None)?;
    Ok(response)
}

fn fetch(connection: &mut Connection, topic: &str, partition: i32, from: i64) -> Result<PartitionData> {
    let response = fetch_all(connection, fetch_request(topic, &[(partition, from)]))?;
    let mut data = response.responses.into_iter().flat_map(|topic| topic.partitions);
    let data = data.find(|data| data.partition_index == partition).unwrap_or_default();
    BenchError::check(&format!("fetching {topic}-{partition} from {from}"), data.error_code, None)?;
    Ok(data)
}

/// What was read of one partition so far. Pure.
#[derive(Debug)]
struct Check<'a> {
    run: u64,
    ledger: &'a Ledger,
    /// The offset of each record, by its number.
    offsets: Vec<Option<i64>>,
    records: u64,
    twice: Vec<(u64, i64, i64)>,
    strange: Vec<i64>,
    scratch: Vec<u8>,
}

impl<'a> Check<'a> {
    fn new(run: u64, ledger: &'a Ledger) -> Self {
        let offsets = vec![None; usize::try_from(ledger.sent).unwrap_or(usize::MAX)];
        Self { run, ledger, offsets, records: 0, twice: Vec::new(), strange: Vec::new(), scratch: Vec::new() }
    }

    /// The offset behind the last acknowledged record.
    fn end(&self) -> i64 {
        let ends = self.ledger.acknowledged.iter().map(|part| part.offset + i64::from(part.count));
        ends.max().unwrap_or(0)
    }

    /// Looks at what a fetch from an offset brought; answers the offset behind it. A batch that is not whole is fetched again.
    fn batches(&mut self, bytes: &Bytes, from: i64) -> Result<i64> {
        let mut next = from;
        for batch in scan(bytes, 0) {
            let Ok((_, batch)) = batch else { break };
            let mut scratch = std::mem::take(&mut self.scratch);
            let records = batch.records(&DecompressLimits::default(), &mut scratch);
            for record in records.map_err(|damage| BenchError::Batch(damage.to_string()))? {
                let record = record.map_err(|damage| BenchError::Batch(damage.to_string()))?;
                let offset = record.offset.value();
                // The first batch may begin before the offset that was asked for.
                if offset >= from {
                    self.note(offset, record.key.and_then(Stamp::parse));
                }
            }
            self.scratch = scratch;
            next = next.max(batch.header().next_offset().value());
        }
        if next == from && !bytes.is_empty() {
            return Err(BenchError::Batch(format!("no whole batch came from offset {from}")));
        }
        Ok(next)
    }

    fn note(&mut self, offset: i64, stamp: Option<Stamp>) {
        self.records += 1;
        let ours = stamp.filter(|stamp| stamp.run == self.run && stamp.partition == self.ledger.partition);
        let slot = ours.and_then(|stamp| {
            let number = usize::try_from(stamp.number).ok()?;
            Some((stamp.number, self.offsets.get_mut(number)?))
        });
        match slot {
            Some((number, Some(earlier))) => self.twice.push((number, *earlier, offset)),
            Some((_, slot)) => *slot = Some(offset),
            None => self.strange.push(offset),
        }
    }

    fn finish(self) -> Result<Found, String> {
        if let [first, ..] = self.strange.as_slice() {
            return Err(format!("{} records are not this run's, the first at {first}", self.strange.len()));
        }
        if let [(number, earlier, later), ..] = self.twice.as_slice() {
            let count = self.twice.len();
            return Err(format!(
                "{count} records are there twice, the first is {number} at {earlier} and {later}"
            ));
        }
        let mut acknowledged = 0;
        for part in &self.ledger.acknowledged {
            for (number, expected) in (part.first..part.first + u64::from(part.count)).zip(part.offset..) {
                acknowledged += 1;
                let found = usize::try_from(number).ok().and_then(|at| *self.offsets.get(at)?);
                match found {
                    Some(offset) if offset == expected => {}
                    Some(offset) => {
                        return Err(format!(
                            "record {number} was acknowledged at {expected} and is at {offset}"
                        ));
                    }
                    None => {
                        return Err(format!(
                            "record {number} was acknowledged at {expected} and is not there"
                        ));
                    }
                }
            }
        }
        Ok(Found { sent: self.ledger.sent, acknowledged, records: self.records })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Acknowledged;

    fn ledger() -> Ledger {
        let acknowledged = vec![
            Acknowledged { first: 0, count: 3, offset: 10 },
            Acknowledged { first: 5, count: 1, offset: 13 },
        ];
        Ledger { partition: 2, sent: 6, acknowledged }
    }

    fn judge(log: &[(i64, u64)]) -> Result<Found, String> {
        let ledger = ledger();
        let mut check = Check::new(9, &ledger);
        assert_eq!(check.end(), 14);
        for (offset, number) in log {
            check.note(*offset, Some(Stamp { run: 9, partition: 2, number: *number }));
        }
        check.finish()
    }

    #[test]
    fn a_log_with_everything_acknowledged_is_right() {
        let found = Found { sent: 6, acknowledged: 4, records: 4 };
        assert_eq!(judge(&[(10, 0), (11, 1), (12, 2), (13, 5)]), Ok(found));
        // What was sent and never acknowledged may be there.
        assert_eq!(judge(&[(10, 0), (11, 1), (12, 2), (13, 5), (14, 4)]), Ok(Found { records: 5, ..found }));
    }

    #[test]
    fn what_is_missing_twice_or_elsewhere_is_noticed() {
        let wrong = |log: &[(i64, u64)]| judge(log).unwrap_err();
        assert_eq!(wrong(&[(10, 0), (12, 2), (13, 5)]), "record 1 was acknowledged at 11 and is not there");
        assert!(
            wrong(&[(10, 0), (11, 1), (12, 2), (13, 5), (14, 1)])
                .contains("twice, the first is 1 at 11 and 14")
        );
        assert!(wrong(&[(10, 0), (11, 1), (12, 2), (14, 5)]).contains("acknowledged at 13 and is at 14"));
        assert!(
            wrong(&[(10, 0), (11, 1), (12, 2), (13, 5), (14, 6)]).contains("not this run's"),
            "never sent"
        );
    }

    #[test]
    fn records_of_another_run_are_noticed() {
        let ledger = ledger();
        for stamp in [
            None,
            Some(Stamp { run: 8, partition: 2, number: 0 }),
            Some(Stamp { run: 9, partition: 1, number: 0 }),
        ] {
            let mut check = Check::new(9, &ledger);
            check.note(10, stamp);
            assert!(check.finish().unwrap_err().contains("not this run's"));
        }
    }
}
