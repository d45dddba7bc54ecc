//! Whose records lie in a damaged range, as far as the records around it tell: producers whose next batch does not follow on their last one,
//! and transactions that are open where the range begins.

use std::collections::BTreeMap;

use highwater_engine::batch::{BatchView, ControlRecord, DecompressLimits, TransactionEnd, scan};
use highwater_engine::log::ReadError;
use highwater_engine::state::{
    MarkerKind, ProducerBatch, ProducerRefusal, Producers, ProducersConfig, TransactionMarker, Verdict,
};
use highwater_engine::store::{ReadOnlyLog, ReadOnlyReadError};
use highwater_engine::units::{Monotonic, Offset, OffsetRange, ProducerId, Timestamp};

/// How much is read at once.
const READ_BYTES: usize = 1 << 20;

/// Says of each in a line what it misses.
pub(super) fn touched(log: &ReadOnlyLog, range: OffsetRange) -> Result<Vec<String>, ReadOnlyReadError> {
    let mut seen = Seen::default();
    let mut next = log.start();
    while next < log.end() {
        match log.read(next, READ_BYTES) {
            Ok(Some(records)) => {
                for part in &records.parts {
                    for (_, batch) in scan(part, 0).filter_map(Result::ok) {
                        seen.batch(&batch, range);
                    }
                }
                next = records.end;
            }
            Ok(None) => break,
            Err(ReadOnlyReadError::Read(ReadError::Damaged { offsets: Some(offsets), .. }))
                if offsets.end() > next =>
            {
                next = offsets.end();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(seen.lines(range))
}

#[derive(Debug)]
struct Seen {
    producers: Producers,
    /// Where transactions began that are open where the range begins.
    open: Option<BTreeMap<ProducerId, Offset>>,
    lines: Vec<String>,
}

impl Default for Seen {
    fn default() -> Self {
        Self { producers: Producers::new(ProducersConfig::default()), open: None, lines: Vec::new() }
    }
}

impl Seen {
    fn batch(&mut self, batch: &BatchView<'_>, range: OffsetRange) {
        let header = batch.header();
        let is_behind = header.base_offset >= range.end();
        if is_behind {
            self.reach_the_range();
        }
        let time = header.max_timestamp.unwrap_or(Timestamp::from_millis(-1));
        if let Some(said) = ProducerBatch::from_header(header) {
            let verdict = self.producers.check(&said);
            if let (true, Verdict::Refuse(ProducerRefusal::OutOfOrder { given, expected })) =
                (is_behind, verdict)
            {
                self.lines.push(format!(
                    "producer {}: behind it comes sequence {}, and {} is the next that is known",
                    said.producer.value(),
                    given.value(),
                    expected.value()
                ));
            }
            self.producers.note(&said, header.offsets(), time, Monotonic::default());
        } else if let Some(marker) = marker_of(batch) {
            let _ended = self.producers.note_marker(&marker, header.base_offset, time, Monotonic::default());
        }
    }

    fn reach_the_range(&mut self) {
        let open = |producers: &Producers| {
            let summaries = producers.summaries();
            summaries.filter_map(|known| Some((known.id, known.transaction_first?))).collect()
        };
        if self.open.is_none() {
            self.open = Some(open(&self.producers));
        }
    }

    fn lines(mut self, range: OffsetRange) -> Vec<String> {
        self.reach_the_range();
        let at_the_end: BTreeMap<ProducerId, Option<Offset>> =
            self.producers.summaries().map(|known| (known.id, known.transaction_first)).collect();
        for (id, first) in self.open.unwrap_or_default() {
            let stays = at_the_end.get(&id).copied().flatten() == Some(first);
            let id = id.value();
            self.lines.push(if stays {
                format!(
                    "the transaction of producer {id} from offset {first} on has no end in the log: it stays open, and readers of committed \
                     records stop there"
                )
            } else {
                format!(
                    "the transaction of producer {id} from offset {first} on ends behind {}: records of it may be missing",
                    range.end()
                )
            });
        }
        self.lines
    }
}

fn marker_of(batch: &BatchView<'_>) -> Option<TransactionMarker> {
    let header = batch.header();
    if !header.attributes.is_control() || !header.attributes.is_transactional() {
        return None;
    }
    let mut scratch = Vec::new();
    let record = batch.records(&DecompressLimits::default(), &mut scratch).ok()?.next()?.ok()?;
    let Ok(ControlRecord::Marker { end, coordinator_epoch }) = ControlRecord::parse(&record) else {
        return None;
    };
    let kind = match end {
        TransactionEnd::Abort => MarkerKind::Abort,
        TransactionEnd::Commit => MarkerKind::Commit,
    };
    let (producer, epoch) = (header.producer_id?, header.producer_epoch?);
    Some(TransactionMarker { producer, epoch, coordinator_epoch, kind })
}
