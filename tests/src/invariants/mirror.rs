//! What the ghost knows of one replica's log: a fact for each batch, kept in step with what is written.

use highwater_engine::batch::{BatchHeader, scan};
use highwater_engine::log::{Log, Read, ReadError};
use highwater_engine::store::{Job, JobDone, Store};
use highwater_engine::units::{LeaderEpoch, NodeId, Offset};

/// A batch, as far as logs have to agree on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchFact {
    pub(crate) base: i64,
    pub(crate) end: i64,
    pub(crate) epoch: i32,
    pub(crate) crc: u32,
    /// Producer id, producer epoch and first sequence.
    pub(crate) producer: Option<(i64, i16, i32)>,
}

impl BatchFact {
    pub(crate) fn of(header: &BatchHeader) -> Self {
        let producer = header.producer_id.zip(header.producer_epoch).zip(header.base_sequence);
        Self {
            base: header.base_offset.value(),
            end: header.base_offset.value() + i64::from(header.last_offset_delta) + 1,
            epoch: header.leader_epoch.map_or(-1, LeaderEpoch::value),
            crc: header.crc,
            producer: producer.map(|((id, epoch), sequence)| (id.value(), epoch.value(), sequence.value())),
        }
    }
}

impl std::fmt::Display for BatchFact {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { base, end, epoch, crc, .. } = self;
        write!(f, "[{base}..{end}@{epoch} {crc:08x}]")
    }
}

/// How a process left its logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// Cleanly, or by a kill: all that was written is there.
    Process,
    /// By power loss: all that was durable is there.
    Machine,
    /// The disk was exchanged: nothing is promised.
    Disk,
}

/// Whether a process runs over the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Ended {
    /// It runs.
    #[default]
    No,
    /// It does not; so much of the log is promised to be there when it opens again.
    Promised(i64),
}

/// Replicas that count, each with the session by which whoever counts them goes; `None`: the process that runs.
pub(super) type Counted = Vec<(NodeId, Option<i64>)>;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Mirror {
    pub(super) start: i64,
    pub(super) batches: Vec<BatchFact>,
    /// The first offset of each epoch that has batches.
    pub(super) epochs: Vec<(i32, i64)>,
    /// Where the log ends, also if not all of it can be read.
    pub(super) written: i64,
    pub(super) durable: i64,
    /// What an earlier process had synced; the present one may not know.
    pub(super) was_durable: i64,
    /// Up to here it is what is committed.
    pub(super) matched: i64,
    pub(super) ended: Ended,
    /// It is being cut to here: a crash meanwhile may leave less than before.
    pub(super) being_cut_to: Option<i64>,
    /// Where it ended when it was looked at before, if it has grown since.
    pub(super) grown_from: Option<i64>,
    pub(super) life: u64,
    /// The session of the process that runs.
    pub(super) session: Option<i64>,
    /// The last session that its process had.
    pub(super) last_session: Option<i64>,
    /// What the process before had, if that ever had a session.
    pub(super) before: Option<Box<Mirror>>,
    /// It leads and goes by these sets: its committed ISR, and the maximal one while the controller is asked for another.
    pub(super) leads: Vec<Counted>,
    /// It led when it was looked at before, by these sets, and may have counted since.
    pub(super) led_with: Vec<Counted>,
    pub(super) known_epoch: i32,
    pub(super) high: i64,
    pub(super) high_of: (u64, i32),
}

impl Mirror {
    pub(super) fn end(&self) -> i64 {
        self.batches.last().map_or(self.start, |batch| batch.end)
    }

    pub(super) fn batch_at(&self, base: i64) -> Option<&BatchFact> {
        let at = self.batches.binary_search_by_key(&base, |batch| batch.base).ok()?;
        self.batches.get(at)
    }

    pub(super) fn push(&mut self, batch: BatchFact) {
        if self.epochs.last().is_none_or(|(epoch, _)| *epoch != batch.epoch) {
            self.epochs.push((batch.epoch, batch.base));
        }
        self.batches.push(batch);
    }

    pub(super) fn cut(&mut self, end: i64) {
        self.being_cut_to = None;
        while self.batches.last().is_some_and(|batch| batch.end > end) {
            self.batches.pop();
        }
        self.epochs.retain(|(_, start)| *start < end);
        self.matched = self.matched.min(end);
        self.durable = self.durable.min(end);
        self.was_durable = self.was_durable.min(end);
    }

    pub(super) fn restart(&mut self, at: i64) {
        *self = Self {
            start: at,
            life: self.life,
            session: self.session,
            last_session: self.last_session,
            before: self.before.take(),
            matched: at,
            durable: at,
            ..Self::default()
        };
    }

    pub(super) fn runs(&self) -> bool {
        self.ended == Ended::No
    }

    /// What the process of a session had: sessions grow.
    pub(super) fn of_session(&self, session: i64) -> &Self {
        match &self.before {
            Some(before) if before.last_session >= Some(session) => before.of_session(session),
            Some(_) | None => self,
        }
    }

    /// Forgets processes that ended before this session.
    pub(super) fn forget_before(&mut self, session: i64) {
        self.before.take_if(|before| before.last_session < Some(session));
        if let Some(before) = &mut self.before {
            before.forget_before(session);
        }
    }

    /// Whether this process had this high watermark at the last look; who leads now, in the same epoch.
    pub(super) fn has_counted(&self, high: i64, leads: bool) -> bool {
        let (life, epoch) = self.high_of;
        life == self.life && high <= self.high && (!leads || epoch == self.known_epoch)
    }

    /// Matches no further than to here; nor does what the process before had.
    pub(super) fn match_no_further(&mut self, to: i64) {
        self.matched = self.matched.min(to);
        if let Some(before) = &mut self.before {
            before.match_no_further(to);
        }
    }

    /// Goes on matching, as far as it is the same as `possible`.
    pub(super) fn match_on(&mut self, possible: &[BatchFact]) {
        let from = possible.partition_point(|batch| batch.base < self.matched);
        for batch in possible.get(from..).unwrap_or_default() {
            if batch.base != self.matched || self.batch_at(batch.base) != Some(batch) {
                break;
            }
            self.matched = batch.end;
        }
        if let Some(before) = &mut self.before {
            before.match_on(possible);
        }
    }

    /// What it contributes.
    pub(super) fn contribution(&self, counts_durable: bool) -> i64 {
        if counts_durable { self.durable.min(self.end()) } else { self.end() }
    }
}

/// Reads the batches of `from..to`, from wherever they are; fewer if something cannot be read. Of those that were `struck` it is known what
/// they are.
pub(super) fn read_batches(
    store: &Store,
    log: &Log,
    from: Offset,
    to: Offset,
    struck: &[BatchFact],
) -> Vec<BatchFact> {
    let mut facts: Vec<BatchFact> = Vec::new();
    let mut at = from;
    while at < to {
        if let Some(known) = struck.iter().find(|batch| batch.base == at.value()) {
            facts.push(*known);
            at = Offset::new(known.end).unwrap_or(to);
            continue;
        }
        // Nothing that was struck is read, so that it is not found sooner than it would be.
        let until = struck.iter().filter_map(|batch| Offset::new(batch.base)).filter(|base| *base > at).min();
        let until = until.unwrap_or(to).min(to);
        let Some(bytes) = read_some(store, log, at, until) else { break };
        let before = at;
        for (_, batch) in scan(&bytes, 0).flatten() {
            let batch = BatchFact::of(batch.header());
            at = Offset::new(batch.end).unwrap_or(at);
            if batch.base >= from.value() {
                facts.push(batch);
            }
        }
        if at == before {
            break;
        }
    }
    facts
}

#[expect(clippy::wildcard_enum_match_arm, reason = "a cold read is answered by a read")]
fn read_some(store: &Store, log: &Log, at: Offset, to: Offset) -> Option<Vec<u8>> {
    const BYTES: usize = 1 << 20;
    // A fault that was planted for the process may be met here instead; it strikes once.
    for _ in 0..3 {
        let read = match log.read(at, to, BYTES, true) {
            Ok(Read::Cold(cold)) => match Job::ColdRead(cold).run(store) {
                JobDone::Read { result, .. } => result,
                _ => return None,
            },
            other => other,
        };
        match read {
            Ok(Read::Records(records)) => return Some(records.parts.concat()),
            Err(ReadError::Io { .. }) => {}
            Err(ReadError::Damaged { path, offsets: None, .. }) => examine(store, log, &path),
            Ok(Read::Empty | Read::Cold(_)) | Err(_) => return None,
        }
    }
    None
}

/// Has a segment examined, as the process would by and by, so that what lies behind its damage can be read.
fn examine(store: &Store, log: &Log, path: &std::path::Path) {
    let base = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok()).and_then(Offset::new);
    if let Some(segment) = base {
        drop(Job::Examine { log: log.id(), segment }.run(store));
    }
}
