//! Fetch, the leader's side: judged, read, parked while there is too little, answered.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::log::{ColdRead, Isolation, LogId, Read, ReadError, Records};
use highwater_engine::store::Job;
use highwater_engine::units::{LeaderEpoch, Monotonic, Now, Offset};

use super::event::Out;
use super::fetch_session::{PartName, fetcher};
use super::{ReplicaKey, Shard, errors};
use crate::partition::{FetchClaim, FetchVerdict, Fetcher, Input};
use crate::pending::{Answering, Ceiling, FetchPart, ParkedFetch, PartAnswer, PartRequest, Slot};
use crate::wire::fetch::{
    AbortedTransaction, EpochEndOffset, FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use crate::wire::{ErrorCode, RequestHeader};

/// A Fetch that is not answered yet.
#[derive(Debug)]
pub(super) struct OpenFetch {
    header: RequestHeader,
    session: i32,
    answering: Answering,
    fetcher: Fetcher,
    isolation: Isolation,
    bytes_max: usize,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    name: PartName,
    key: Result<ReplicaKey, ErrorCode>,
    claim: FetchClaim,
    bytes_max: usize,
    /// What a read from the device gave, until it is answered.
    cold: Option<Result<Records, ErrorCode>>,
}

/// What a Fetch is answered for one partition.
enum Found {
    Error(ErrorCode),
    Diverging {
        epoch: LeaderEpoch,
        end: Offset,
    },
    Records(Records),
    Nothing,
    /// It has to come from the device.
    Cold(ColdRead),
    /// The replica is out of sync, and this turn has given such ones enough.
    NotThisTurn,
}

impl Found {
    /// Whether it is worth an answer at once, whatever else there is.
    const fn is_urgent(&self) -> bool {
        matches!(self, Self::Error(_) | Self::Diverging { .. })
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Records(records) => records.size,
            Self::Error(_)
            | Self::Diverging { .. }
            | Self::Nothing { .. }
            | Self::Cold(_)
            | Self::NotThisTurn => 0,
        }
    }
}

/// What tells one read from another; `ColdRead` has no order.
type ColdKey = (LogId, Offset, Offset, usize, bool, Isolation);

const fn key_of(cold: &ColdRead) -> ColdKey {
    (cold.log, cold.from, cold.ceiling, cold.bytes_max, cold.at_least_one, cold.isolation)
}

/// Reads from the device that Fetches wait for.
#[derive(Debug, Default)]
pub(super) struct ColdReads {
    waiting: BTreeMap<ColdKey, Vec<(Slot, usize)>>,
}

impl Shard {
    pub(super) fn on_fetch(&mut self, now: Now, slot: Slot, header: RequestHeader, body: FetchRequest) {
        let fetcher = fetcher(&body);
        // A follower has everything, whatever it asks for.
        let isolation = match fetcher {
            Fetcher::Consumer => isolation(body.isolation_level),
            Fetcher::Follower { .. } => Isolation::Uncommitted,
        };
        if fetcher != Fetcher::Consumer {
            // What is parked on this connection is answered first, so that a new or truncated partition does not wait.
            self.requests.fetches.release(slot.connection);
            self.answer_ready(now);
        }
        let wait = Duration::from_millis(u64::try_from(body.max_wait_ms).unwrap_or(0));
        let min_bytes = usize::try_from(body.min_bytes).unwrap_or(0);
        let bytes_max = usize::try_from(body.max_bytes).unwrap_or(0).min(self.config.response_bytes_max);
        let opened = match self.open_session(now.monotonic, fetcher, body) {
            Ok(opened) => opened,
            Err(refused) => return self.refuse_fetch(slot, &header, &refused),
        };
        let parts =
            opened.parts.into_iter().map(|(name, request)| self.part(name, &request, fetcher)).collect();
        let mut fetch = OpenFetch {
            header,
            session: opened.id,
            answering: opened.answering,
            fetcher,
            isolation,
            bytes_max,
            parts,
        };
        self.note_follower(now, &fetch);
        let found = self.read_parts(&mut fetch);
        let gathered: usize = found.iter().map(Found::bytes).sum();
        let urgent = found.iter().any(Found::is_urgent) || found.is_empty();
        let incomplete = found.iter().any(|found| matches!(found, Found::Cold(_) | Found::NotThisTurn));
        let enough = urgent || gathered >= min_bytes || wait.is_zero();
        if enough && !(incomplete && gathered == 0 && !urgent) {
            return self.send_fetch(slot, fetch, found);
        }
        let next_turn = found.iter().any(|found| matches!(found, Found::NotThisTurn));
        let deadline = if next_turn { now.monotonic } else { now.monotonic.after(wait) };
        self.park(slot, fetch, &found, min_bytes, deadline);
    }

    fn part(&self, name: PartName, request: &PartRequest, fetcher: Fetcher) -> Part {
        let claim = FetchClaim {
            fetcher,
            current_epoch: request.current_epoch,
            offset: request.offset,
            last_fetched_epoch: request.last_fetched_epoch,
            log_start: request.log_start,
        };
        let key = self.find(&name.topic, name.id, name.partition);
        Part { name, key, claim, bytes_max: request.bytes_max, cold: None }
    }

    /// A follower's offsets are what it has: its leader's machines are told once for each Fetch, before anything is read.
    fn note_follower(&mut self, now: Now, fetch: &OpenFetch) {
        if fetch.fetcher == Fetcher::Consumer {
            return;
        }
        for part in &fetch.parts {
            let Ok(key) = part.key else { continue };
            let Some(replica) = self.replicas.get(&key) else { continue };
            let verdict = replica.look(|machine, facts| machine.judge_fetch(&part.claim, facts));
            if matches!(verdict, Ok(FetchVerdict::Read { .. })) {
                self.step(now, key, Input::FollowerFetched(part.claim));
            }
        }
        self.settle(now);
    }

    fn read_parts(&mut self, fetch: &mut OpenFetch) -> Vec<Found> {
        let mut left = fetch.bytes_max;
        let mut found = Vec::with_capacity(fetch.parts.len());
        let mut any = false;
        for part in &mut fetch.parts {
            let bytes_max = left.min(part.bytes_max);
            let asked = (fetch.fetcher, fetch.isolation);
            let this = self.read_part(part, asked, bytes_max, !any);
            left = left.saturating_sub(this.bytes());
            any |= this.bytes() > 0;
            found.push(this);
        }
        found
    }

    /// Reads one part. The first batch of the first part that has any comes whole, however large, so that a reader always gets on.
    fn read_part(
        &mut self,
        part: &mut Part,
        (fetcher, isolation): (Fetcher, Isolation),
        bytes_max: usize,
        first: bool,
    ) -> Found {
        let replica = match part.key.map(|key| self.replicas.get(&key)) {
            Ok(Some(replica)) => replica,
            Ok(None) => return Found::Error(ErrorCode::NotLeaderOrFollower),
            Err(error) => return Found::Error(error),
        };
        let claim = &part.claim;
        let ceiling = match replica.look(|machine, facts| machine.judge_fetch(claim, facts)) {
            Ok(FetchVerdict::Read { ceiling }) => ceiling,
            Ok(FetchVerdict::Diverging { epoch, end }) => return Found::Diverging { epoch, end },
            Err(refusal) => return Found::Error(errors::of_fetch(refusal, claim.current_epoch.is_some())),
        };
        let ceiling = match isolation {
            Isolation::Uncommitted => ceiling,
            Isolation::Committed => replica.last_stable(ceiling),
        };
        if let Some(cold) = part.cold.take() {
            return cold.map_or_else(Found::Error, Found::Records);
        }
        if claim.offset >= ceiling {
            return Found::Nothing;
        }
        let catching_up =
            matches!(fetcher, Fetcher::Follower { node, .. } if !replica.machine.isr().contains(&node));
        if catching_up && self.requests.catch_up_bytes_left == 0 {
            return Found::NotThisTurn;
        }
        let read = match isolation {
            Isolation::Uncommitted => replica.log.read(claim.offset, ceiling, bytes_max, first),
            Isolation::Committed => replica.log.read_committed(claim.offset, ceiling, bytes_max, first),
        };
        let found = match read {
            Ok(Read::Records(records)) => Found::Records(records),
            Ok(Read::Empty) => Found::Nothing,
            Ok(Read::Cold(cold)) => Found::Cold(cold),
            Err(error) => Found::Error(errors::of_read(&error)),
        };
        if catching_up {
            let left = &mut self.requests.catch_up_bytes_left;
            *left = left.saturating_sub(found.bytes());
        }
        found
    }

    fn park(&mut self, slot: Slot, fetch: OpenFetch, found: &[Found], min_bytes: usize, deadline: Monotonic) {
        let ceiling = match fetch.fetcher {
            Fetcher::Follower { .. } => Ceiling::Written,
            Fetcher::Consumer => Ceiling::HighWatermark,
        };
        let mut parts = Vec::with_capacity(fetch.parts.len());
        for (index, (part, found)) in fetch.parts.iter().zip(found).enumerate() {
            if let Found::Cold(cold) = found {
                self.read_cold(*cold, slot, index);
            }
            if let Ok(partition) = part.key {
                // What has records already is woken by what comes behind them.
                let from = match found {
                    Found::Records(records) => records.end,
                    Found::Cold(cold) => cold.ceiling,
                    Found::Error(_) | Found::Diverging { .. } | Found::Nothing | Found::NotThisTurn => {
                        part.claim.offset
                    }
                };
                parts.push(FetchPart { partition, ceiling, from, bytes: found.bytes() });
            }
        }
        let parked = self.requests.fetches.park(ParkedFetch { slot, min_bytes, deadline, parts });
        if parked.is_err() {
            let nothing = found.iter().map(|_| Found::Nothing).collect();
            return self.send_fetch(slot, fetch, nothing);
        }
        self.requests.open_fetches.insert(slot, fetch);
    }

    fn read_cold(&mut self, cold: ColdRead, slot: Slot, part: usize) {
        let waiting = self.requests.cold_reads.waiting.entry(key_of(&cold)).or_default();
        if waiting.is_empty() {
            self.out.push(Out::Job(Job::ColdRead(cold)));
        }
        waiting.push((slot, part));
    }

    pub(super) fn on_cold_read(&mut self, now: Now, asked: ColdRead, result: Result<Read, ReadError>) {
        let result = match result {
            Ok(Read::Records(records)) => Some(Ok(records)),
            Ok(Read::Empty | Read::Cold(_)) => None,
            Err(error) => Some(Err(errors::of_read(&error))),
        };
        for (slot, part) in self.requests.cold_reads.waiting.remove(&key_of(&asked)).unwrap_or_default() {
            let Some(fetch) = self.requests.open_fetches.get_mut(&slot) else { continue };
            if let Some(part) = fetch.parts.get_mut(part) {
                part.cold.clone_from(&result);
            }
            self.answer_fetch(now, slot);
        }
    }

    /// How many bytes a parked part has by now.
    pub(super) fn measure(&mut self, _now: Now, slot: Slot, partition: ReplicaKey) {
        let Some(mut fetch) = self.requests.open_fetches.remove(&slot) else { return };
        let (asked, bytes_max) = ((fetch.fetcher, fetch.isolation), fetch.bytes_max);
        let part = fetch.parts.iter_mut().find(|part| part.key == Ok(partition));
        let bytes = part.map_or(0, |part| {
            let bytes_max = bytes_max.min(part.bytes_max);
            match self.read_part(part, asked, bytes_max, true) {
                Found::Records(records) => records.size,
                // An error is an answer, and so is what only the device has.
                Found::Error(_) | Found::Diverging { .. } | Found::Cold(_) => usize::MAX,
                Found::Nothing | Found::NotThisTurn => 0,
            }
        });
        self.requests.open_fetches.insert(slot, fetch);
        self.requests.fetches.gathered(slot, &partition, bytes);
    }

    /// Answers with what there is; what the device has is waited for, if there is nothing else.
    pub(super) fn answer_fetch(&mut self, now: Now, slot: Slot) {
        let Some(mut fetch) = self.requests.open_fetches.remove(&slot) else { return };
        let found = self.read_parts(&mut fetch);
        let nothing_else = found.iter().all(|found| found.bytes() == 0 && !found.is_urgent());
        if nothing_else && found.iter().any(|found| matches!(found, Found::Cold(_))) {
            let deadline = now.monotonic.after(self.config.peer_timeout);
            return self.park(slot, fetch, &found, 1, deadline);
        }
        self.send_fetch(slot, fetch, found);
    }

    fn send_fetch(&mut self, slot: Slot, fetch: OpenFetch, found: Vec<Found>) {
        let mut topics: Vec<FetchableTopicResponse> = Vec::new();
        let mut last = None;
        for (part, found) in fetch.parts.into_iter().zip(found) {
            let data = self.partition_data(&part, fetch.isolation, found);
            let news = !data.error_code.is_none()
                || data.records.as_ref().is_some_and(|records| !records.is_empty())
                || data.diverging_epoch != EpochEndOffset::default();
            // What comes with a divergence is not taken (KAFKA-14704), so it is said again when the follower has cut its log.
            let is_taken = data.diverging_epoch == EpochEndOffset::default();
            let said = |offset| Offset::new(offset).filter(|_| is_taken);
            let (high_watermark, log_start) = (said(data.high_watermark), said(data.log_start_offset));
            let answer = PartAnswer { high_watermark, log_start, news };
            let must_say = self.requests.sessions.must_say(fetch.session, &part.name, answer);
            if fetch.answering == Answering::Incremental && !must_say {
                continue;
            }
            let PartName { topic, id, .. } = part.name;
            let named = Some((topic, id));
            match topics.last_mut() {
                Some(topic) if last == named => topic.partitions.push(data),
                Some(_) | None => topics.push(FetchableTopicResponse {
                    topic: named.as_ref().map_or_else(String::new, |(topic, _)| topic.to_string()),
                    topic_id: id,
                    partitions: vec![data],
                }),
            }
            last = named;
        }
        let parts = topics.iter().flat_map(|topic| &topic.partitions);
        let node_endpoints = self.endpoints(parts.map(|part| &part.current_leader));
        let response = FetchResponse {
            session_id: fetch.session,
            responses: topics,
            node_endpoints,
            ..Default::default()
        };
        self.reply(slot, &fetch.header, &response.into());
    }

    fn partition_data(&self, part: &Part, isolation: Isolation, found: Found) -> PartitionData {
        let mut data = PartitionData { partition_index: part.name.partition, ..Default::default() };
        (data.high_watermark, data.records) = (-1, Some(crate::wire::Records::default()));
        let replica = part.key.ok().and_then(|key| self.replicas.get(&key));
        if let (Some(replica), false) = (replica, matches!(found, Found::Error(_))) {
            let high_watermark = replica.machine.high_watermark();
            data.high_watermark = high_watermark.value();
            data.last_stable_offset = replica.last_stable(high_watermark).value();
            data.aborted_transactions = (isolation == Isolation::Committed).then(Vec::new);
            data.log_start_offset = replica.log.start().value();
        }
        match found {
            Found::Error(error) => {
                data.error_code = error;
                data.current_leader = self.leader_hint(error, part.key.ok());
            }
            Found::Diverging { epoch, end } => {
                data.diverging_epoch = EpochEndOffset { epoch: epoch.value(), end_offset: end.value() };
            }
            Found::Records(records) => {
                let aborted = records.aborted.iter().map(|aborted| AbortedTransaction {
                    producer_id: aborted.producer.value(),
                    first_offset: aborted.first.value(),
                });
                data.aborted_transactions = (isolation == Isolation::Committed).then(|| aborted.collect());
                data.records = Some(records.parts.into());
            }
            Found::Nothing | Found::Cold(_) | Found::NotThisTurn => {}
        }
        data
    }
}

/// Kafka knows no other levels than these two.
pub(super) const fn isolation(level: i8) -> Isolation {
    if level == 1 { Isolation::Committed } else { Isolation::Uncommitted }
}
