//! A model of one log: what was attempted, what was promised, and what may be left of it after a crash.
//!
//! It knows no file and no segment. It repeats no rule of the engine either: epochs and producers are looked up in the batches.

use bytes::Bytes;

/// One batch as it must be in the log.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Batch {
    /// The offset of its first record.
    pub base: i64,
    /// Behind its last record.
    pub end: i64,
    /// The leadership that stamped it.
    pub epoch: i32,
    /// Its bytes, stamped.
    pub bytes: Bytes,
    /// The timestamps of its records.
    pub times: Vec<i64>,
    /// Whose it is, if its producer is idempotent.
    pub sent: Option<Sent>,
    /// The producer whose transaction it ends, if it is a marker.
    #[serde(default)]
    pub ends: Option<i64>,
}

/// What an idempotent producer's batch says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sent {
    /// The producer's id.
    pub id: i64,
    /// The sequence of the first record.
    pub first: i32,
    /// The sequence of the last record.
    pub last: i32,
}

/// What a leader must answer to an idempotent producer's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It is appended.
    Append,
    /// It is in the log already, there.
    Duplicate(i64, i64),
    /// As [`Expected::Duplicate`], or refused, because only the last batch of a producer outlives a restart.
    DuplicateOrRefused(i64, i64),
    /// It is refused.
    Refused,
}

/// A change of the log's extent that has begun and not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum UnderWay {
    /// A truncation to this end, or, where no segment begins below, a restart there.
    Cut {
        /// The end that it leaves at least.
        end: i64,
        /// Where a log would begin that is made anew.
        anew: Option<i64>,
    },
    /// Everything goes, and the log begins anew there.
    Restart {
        /// Where.
        at: i64,
    },
    /// What is damaged is replaced.
    Repair,
    /// The log goes.
    Delete,
}

/// How a life of the store ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Ending {
    /// Closed, with a mark.
    Clean,
    /// Dropped or killed: what was written is there.
    Kill,
    /// The machine went: what was durable is there.
    Power,
}

/// A log as it was found at an opening.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Found {
    /// Its start.
    pub start: i64,
    /// Its end.
    pub end: i64,
    /// Every batch from the one on that holds the start, but for those that are damaged.
    pub batches: Vec<Bytes>,
    /// The ranges that readers were told are damaged.
    pub damaged: Vec<(i64, i64)>,
    /// Its leader epochs and where each begins.
    pub epochs: Vec<(i32, i64)>,
    /// How much its segments hold, deleted batches too.
    pub bytes: u64,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Model {
    /// What was accepted, in order; what lies below the start may be gone or come back.
    pub batches: Vec<Batch>,
    /// Where the log began, with its first segment.
    pub origin: i64,
    /// The log's start as it was last seen.
    pub start: i64,
    /// Below this the start never goes again.
    pub start_sure: i64,
    /// The greatest start that was: epochs and producers of batches below may be forgotten.
    pub start_high: i64,
    /// The next offset.
    pub end: i64,
    /// What a kill leaves at least.
    pub written: i64,
    /// What a power loss leaves at least.
    pub durable: i64,
    /// From here on all batches of a producer are remembered, below only the last.
    pub remembered_from: i64,
    /// Up to here it is forgotten which transactions were decided.
    pub settled: i64,
    /// The leader's epoch.
    pub epoch: i32,
    /// Up to where a follower may have noted an epoch of which nothing was appended then.
    pub noted: i64,
    /// The log before a cut that a kill interrupted. What was cut is not certainly gone: until something is synced again, a power
    /// loss may bring the log back as it was.
    pub before_cut: Option<Box<Model>>,
    /// What has begun and not returned.
    pub under_way: Option<UnderWay>,
    /// Offsets that have rotted.
    pub damaged: Option<(i64, i64)>,
}

impl Model {
    /// The batches that readers may be given from `from` on.
    pub fn from(&self, from: i64) -> &[Batch] {
        let at = self.batches.partition_point(|batch| batch.end <= from);
        &self.batches[at..]
    }

    /// The last batch of a producer.
    fn last_of(&self, id: i64) -> Option<&Batch> {
        self.batches.iter().rev().find(|batch| batch.sent.is_some_and(|sent| sent.id == id))
    }

    /// The sequence with which a producer goes on; `None` if it cannot be said what the log remembers of it.
    pub fn next_sequence(&self, id: i64) -> Option<i32> {
        match self.last_of(id) {
            None => Some(0),
            Some(last) if last.end <= self.start_high => None,
            Some(last) => last.sent.map(|sent| sent.last + 1),
        }
    }

    /// The last batches of a producer, the newest first.
    pub fn newest_of(&self, id: i64) -> Vec<&Batch> {
        let of = self.batches.iter().rev().filter(|batch| batch.sent.is_some_and(|sent| sent.id == id));
        of.take(6).collect()
    }

    /// What a leader must answer.
    pub fn expect(&self, sent: Sent) -> Expected {
        let newest = self.newest_of(sent.id);
        let Some(last) = newest.first().and_then(|batch| batch.sent) else { return Expected::Append };
        if sent.first == last.last + 1 {
            return Expected::Append;
        }
        let known = newest.iter().take(5).position(|batch| batch.sent == Some(sent));
        match known.and_then(|at| Some((at, newest.get(at)?))) {
            Some((at, batch)) if at == 0 || batch.base >= self.remembered_from => {
                Expected::Duplicate(batch.base, batch.end)
            }
            Some((_, batch)) => Expected::DuplicateOrRefused(batch.base, batch.end),
            None => Expected::Refused,
        }
    }

    /// A batch was accepted.
    pub fn accept(&mut self, batch: Batch) {
        self.end = batch.end;
        self.batches.push(batch);
    }

    /// Where a cut to `to` ends: behind the last whole batch below.
    pub fn end_below(&self, to: i64) -> i64 {
        let kept = self.batches.iter().rev().find(|batch| batch.end <= to);
        kept.map_or(self.origin, |batch| batch.end.max(self.origin))
    }

    /// A truncation has ended there.
    pub fn cut(&mut self, end: i64) {
        self.batches.retain(|batch| batch.end <= end);
        let is_boundary = self.batches.last().is_some_and(|batch| batch.end == end);
        // Elsewhere no batch ends, so that nothing is left below.
        self.origin = if is_boundary { self.origin.min(end) } else { end };
        self.noted = 0;
        self.end = end;
        self.start = self.start.min(end);
        self.start_sure = self.start_sure.min(end);
        self.written = self.written.min(end);
        self.durable = self.durable.min(end);
        (self.remembered_from, self.settled) = (end, 0);
        self.under_way = None;
    }

    /// A restart has ended there.
    pub fn restart(&mut self, at: i64) {
        *self = Self { epoch: self.epoch, origin: at, ..Self::default() };
        (self.start, self.start_sure, self.start_high) = (at, at, at);
        (self.end, self.written, self.durable, self.remembered_from) = (at, at, at, at);
    }

    /// Compares what was found with what may be there, and goes on from it.
    pub fn survive(&mut self, ending: Ending, found: &Found) -> Result<(), String> {
        // Nothing was synced since. A kill makes nothing certain either, and behind any other ending all that is there is.
        let earlier = self.before_cut.take().filter(|_| ending != Ending::Clean);
        if let (Ending::Power, Some(before)) = (ending, &earlier) {
            let before = before.clone();
            let durable = self.durable.min(before.durable);
            let start_high = self.start_high.max(before.start_high);
            let mut before = Self { start_high, durable, ..*before };
            before.written = before.durable;
            if before.survive(ending, found).is_ok() {
                *self = before;
                return Ok(());
            }
        }
        let earlier = earlier.filter(|_| ending == Ending::Kill);
        let before = if self.under_way.is_some() {
            Some(Box::new(Self { before_cut: earlier, ..self.clone() }))
        } else {
            earlier
        };
        if let Some(at) = self.begun_anew(found) {
            // A snapshot of producers may be left.
            let memories: Vec<Batch> = self.batches.iter().filter(|batch| batch.end <= at).cloned().collect();
            match self.under_way {
                Some(UnderWay::Cut { .. }) => self.cut(at),
                Some(UnderWay::Restart { .. } | UnderWay::Repair | UnderWay::Delete) | None => {
                    self.restart(at);
                }
            }
            self.batches = memories;
            (self.start, self.start_high, self.end, self.written) = (at, at, at, at);
            self.before_cut = before;
            return Ok(());
        }
        let promised = match ending {
            Ending::Clean => self.end,
            Ending::Kill => self.written,
            Ending::Power => self.durable,
        };
        let must = match self.under_way {
            None | Some(UnderWay::Repair | UnderWay::Delete) => promised,
            Some(UnderWay::Cut { end, .. }) => promised.min(end),
            Some(UnderWay::Restart { .. }) => 0,
        };
        self.check_extent(found, must, ending)?;
        if self.under_way == Some(UnderWay::Repair) && found.damaged.is_empty() {
            self.damaged = None;
        }
        if found.damaged != self.damaged.into_iter().collect::<Vec<_>>() {
            let (told, is, count) = (&found.damaged, self.damaged, found.batches.len());
            return Err(format!(
                "readers were told that {told:?} is damaged, and {is:?} is; {count} batches"
            ));
        }
        let rotten = |batch: &Batch| {
            self.damaged.is_some_and(|(from, until)| from <= batch.base && batch.end <= until)
        };
        let from = self.batches.partition_point(|batch| batch.end <= found.start);
        let left: Vec<&Batch> = self.batches[from..].iter().filter(|batch| !rotten(batch)).collect();
        if found.batches.len() > left.len() {
            let what = format!("{} batches were found from offset {} on", found.batches.len(), found.start);
            return Err(format!("{what}, of which only {} had been attempted", left.len()));
        }
        for (is, was) in found.batches.iter().zip(&left) {
            if *is != was.bytes {
                return Err(format!("the batch at {} is not the one that was appended", was.base));
            }
        }
        let count = found.batches.len();
        let end = left[..count].last().map_or(found.start, |batch| batch.end);
        if found.end != end {
            return Err(format!("the end is {} and the last batch ends at {end}", found.end));
        }
        let hidden = self.batches[from..].iter().filter(|batch| rotten(batch) && batch.end <= end).count();
        self.batches.truncate(from + count + hidden);
        if found.bytes == 0 {
            // What is left of the batches are memories of producers.
            self.origin = found.start;
        }
        self.start_high = self.start_high.max(self.start);
        self.start = found.start;
        self.start_sure = self.start_sure.min(found.start);
        (self.end, self.written, self.remembered_from) = (end, end, end);
        self.settled = 0;
        self.under_way = None;
        self.before_cut = before;
        Ok(())
    }

    /// Whether a change is under way that throws everything away.
    pub fn may_begin_anew(&self) -> bool {
        matches!(self.under_way, Some(UnderWay::Restart { .. } | UnderWay::Cut { anew: Some(_), .. }))
    }

    /// Where a log begins that an interrupted restart has left empty.
    fn begun_anew(&self, found: &Found) -> Option<i64> {
        let anew = match self.under_way? {
            UnderWay::Cut { anew, .. } => anew?,
            UnderWay::Restart { at } => at,
            UnderWay::Repair | UnderWay::Delete => return None,
        };
        let is_empty = found.bytes == 0 && found.start == found.end;
        // Until the new segment is there, the log's start as it was last written down is all that is known.
        let may_begin = found.start == anew || (self.start_sure..=self.start).contains(&found.start);
        (is_empty && may_begin).then_some(found.start)
    }

    fn check_extent(&self, found: &Found, must: i64, ending: Ending) -> Result<(), String> {
        let low = self.start_sure;
        // Of a batch that lies across the start nothing stays, and the log goes on, empty, in front of it.
        let is_cut_in_front = found.start == found.end
            && matches!(self.under_way, Some(UnderWay::Cut { end, .. }) if end == found.start);
        if (found.start < low && !is_cut_in_front) || found.start > self.start {
            return Err(format!("the start is {}, and may be {low} to {}", found.start, self.start));
        }
        if found.end < must {
            return Err(format!("the log ends at {} after {ending:?}, and {must} was promised", found.end));
        }
        Ok(())
    }

    /// Whether the epochs are those of the batches; `begun` says that one may begin at the end, without a record.
    pub fn check_epochs(&self, epochs: &[(i32, i64)], begun: bool) -> Result<(), String> {
        let at = |offset: i64| epochs.iter().rev().find(|(_, start)| *start <= offset).map(|entry| entry.0);
        for batch in self.from(self.start) {
            let is = at(batch.base.max(self.start));
            let may_be_forgotten = batch.base < self.start_high && is.is_none();
            if is != Some(batch.epoch) && !may_be_forgotten {
                return Err(format!(
                    "offset {} is said to be of epoch {is:?} instead of {}",
                    batch.base, batch.epoch
                ));
            }
        }
        for (epoch, start) in epochs {
            let next = self.batches.iter().find(|batch| batch.end > *start);
            let fits = match next {
                Some(batch) if batch.base <= *start => batch.epoch == *epoch,
                Some(batch) => batch.epoch >= *epoch,
                None => begun && *start <= self.end.max(self.noted),
            };
            if !fits {
                let end = self.end;
                return Err(format!(
                    "epoch {epoch} is said to begin at {start}, where no batch is of it (end {end})"
                ));
            }
        }
        Ok(())
    }

    /// Whether what a log knows of its producers, each with the last sequence and the last offset, is what its batches say. Those whose
    /// batches may be deleted may be known or not.
    pub fn check_producers(&self, known: &[(i64, i32, i64)]) -> Result<(), String> {
        for (id, sequence, last) in known {
            let newest = self.last_of(*id).and_then(|batch| Some((batch.sent?.last, batch.end - 1)));
            if newest != Some((*sequence, *last)) && *last >= self.start_high {
                return Err(format!(
                    "producer {id} is known by {sequence} at {last}, and its last is {newest:?}"
                ));
            }
        }
        let ids = self.from(self.start_high).iter().filter_map(|batch| Some(batch.sent?.id));
        for id in ids {
            if !known.iter().any(|(known, ..)| *known == id) {
                return Err(format!("producer {id} is not known"));
            }
        }
        Ok(())
    }

    /// The first record from the start on and below `ceiling` that is not older.
    pub fn first_not_older(&self, time: i64, ceiling: i64) -> Option<(i64, i64)> {
        self.records(ceiling).find(|(_, is)| *is >= time)
    }

    /// The first record with the greatest timestamp from the start on and below `ceiling`.
    pub fn newest(&self, ceiling: i64) -> Option<(i64, i64)> {
        self.records(ceiling).reduce(|best, next| if next.1 > best.1 { next } else { best })
    }

    fn records(&self, ceiling: i64) -> impl Iterator<Item = (i64, i64)> {
        let ceiling = ceiling.min(self.written);
        self.from(self.start)
            .iter()
            .flat_map(|batch| (batch.base..).zip(batch.times.iter().copied()))
            .filter(move |(offset, _)| *offset >= self.start && *offset < ceiling)
    }
}
