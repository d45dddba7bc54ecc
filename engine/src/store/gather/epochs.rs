//! What the log says of leader epochs where its epoch checkpoint says something: at each beginning, in front of it, and where recovery
//! begins to read.

use super::Gathering;
use crate::recovery::{EpochWitness, Facts};
use crate::segment::{FileKind, Segment, parse_file_name};
use crate::units::{LeaderEpoch, Offset};

impl Gathering<'_> {
    /// What the log says where the epoch checkpoint lets an epoch begin, in segments that were not read.
    pub(super) fn witnesses(&self, facts: &Facts) -> Vec<EpochWitness> {
        let Some(history) = &facts.epochs.file else { return Vec::new() };
        let bases = bases(facts);
        let mut witnesses = Vec::new();
        for entry in history.starts() {
            let from = bases.partition_point(|(base, _)| *base <= entry.start).saturating_sub(1);
            for (base, bytes) in bases.iter().skip(from) {
                if facts.scans.get(base).is_some_and(|scan| scan.from == 0) {
                    break;
                }
                let segment = Segment::sealed(self.home.clone(), *base, *bytes);
                if let Ok(Some((_, frame))) = segment.find(entry.start) {
                    witnesses.push(EpochWitness { start: entry.start, base: frame.base, epoch: frame.epoch });
                    break;
                }
            }
        }
        witnesses
    }

    /// Whether a batch says something else than the checkpoint. Then the checkpoint is an old one, or damaged in a way that it can be read
    /// all the same, and only the headers know what it lacks.
    pub(super) fn checkpoint_is_contradicted(&self, facts: &Facts) -> bool {
        let Some(history) = &facts.epochs.file else { return false };
        // A batch without an epoch, too, where there should be one.
        let differs = |offset: Offset, epoch: Option<LeaderEpoch>| history.epoch_at(offset) != epoch;
        let first_read = facts.scans.values().find_map(|scan| scan.runs.first());
        let bases = bases(facts);
        let lowest = bases.first().map_or(Offset::ZERO, |(base, _)| *base);
        let start = facts.log_start.unwrap_or(Offset::ZERO).max(lowest);
        let first = history.starts().first().filter(|first| first.start > start);
        first_read.is_some_and(|run| differs(run.offsets.start(), run.epoch))
            || first.is_some_and(|first| self.epoch_in_front_of(facts, &bases, first.start).is_some())
            || facts
                .epochs
                .witnesses
                .iter()
                .any(|witness| witness.base <= witness.start && differs(witness.start, witness.epoch))
            || history.starts().windows(2).any(|two| match two {
                [before, next] => self
                    .epoch_in_front_of(facts, &bases, next.start)
                    .is_some_and(|epoch| epoch != before.epoch),
                _ => false,
            })
    }

    /// The epoch of the batch that ends where another epoch begins, if it is in a segment that was not read.
    fn epoch_in_front_of(
        &self,
        facts: &Facts,
        bases: &[(Offset, u64)],
        start: Offset,
    ) -> Option<LeaderEpoch> {
        let last = start.checked_add(-1)?;
        let (base, bytes) = bases.iter().rev().find(|(base, _)| *base < start)?;
        if facts.scans.get(base).is_some_and(|scan| scan.from == 0) {
            return None;
        }
        let (_, frame) = Segment::sealed(self.home.clone(), *base, *bytes).find(last).ok()??;
        // Where compaction has left a gap there is none.
        frame.epoch.filter(|_| frame.base < start)
    }
}

/// Each segment's base and size, ascending.
fn bases(facts: &Facts) -> Vec<(Offset, u64)> {
    let named = facts.files.iter().filter_map(|file| Some((parse_file_name(&file.name)?, file.bytes)));
    let mut bases: Vec<(Offset, u64)> =
        named.filter_map(|((base, kind), bytes)| (kind == FileKind::Log).then_some((base, bytes))).collect();
    bases.sort_unstable();
    bases
}
