//! Which leader epochs to believe: those of the checkpoint that the log confirms, and those of the batches that were read.

use super::facts::{EpochFacts, Facts, Machine, Stop};
use super::scan::EpochRun;
use crate::state::{EpochHistory, EpochStart};
use crate::units::{LeaderEpoch, Offset, OffsetRange};

/// What the batches and the checkpoint say together.
pub(super) struct Believed {
    pub(super) history: EpochHistory,
    /// Batches, with their segment, whose epoch nobody confirms: their headers are damaged.
    pub(super) damaged: Vec<(Offset, EpochRun)>,
}

/// The history of the log with these offsets.
pub(super) fn believed(facts: &Facts, log: OffsetRange) -> Believed {
    let mut runs: Vec<(Offset, EpochRun)> = Vec::new();
    for (base, scan) in &facts.scans {
        // What is cut confirms nothing, so that a plan made after the cut is the same.
        let kept = scan.runs.iter().filter(|run| run.offsets.start() < log.end());
        runs.extend(kept.map(|run| (*base, *run)));
    }
    let damaged = unconfirmed(facts, &runs);
    runs.retain(|run| !damaged.contains(run));
    let is_damaged = |base: Offset| damaged.iter().any(|(_, run)| run.offsets.contains(base));
    let mut epochs = facts.epochs.clone();
    epochs.witnesses.retain(|witness| !is_damaged(witness.base));
    let mut entries = confirmed_by_log(&epochs, &runs, log);
    for (_, run) in &runs {
        entries.extend(run.epoch.map(|epoch| EpochStart { epoch, start: run.offsets.start() }));
    }
    // An older checkpoint may name a beginning behind what is left; put behind the batches' epochs, it would evict them.
    entries.retain(|entry| entry.start < log.end());
    // By offset, so that each goes through the rule of assignment where it belongs; at one offset the higher epoch counts.
    entries.sort_unstable_by_key(|entry| (entry.start, entry.epoch));
    let mut history = EpochHistory::from_starts(entries);
    history.truncate_from_start(log.start());
    // Last, so that a log without records has no epochs either; begun ones that are empty are given again.
    history.truncate_from_end(log.end());
    Believed { history, damaged }
}

/// The entries of the checkpoint that a batch confirms, or that no batch contradicts because there is none from there on: what the
/// checkpoint says of a damaged end is all that is known of it.
fn confirmed_by_log(epochs: &EpochFacts, runs: &[(Offset, EpochRun)], log: OffsetRange) -> Vec<EpochStart> {
    let Some(file) = &epochs.file else { return Vec::new() };
    let first_scanned = runs.first().map(|(_, run)| run.offsets.start());
    let scanned = |start: Offset| first_scanned.is_some_and(|first| first <= start);
    let confirm = |entry: &EpochStart| {
        let run = runs.iter().find(|(_, run)| run.offsets.end() > entry.start);
        if let Some((_, run)) = run.filter(|_| scanned(entry.start)) {
            return confirmed(*entry, run.offsets.start(), run.epoch, log);
        }
        let mut witnesses = epochs.witnesses.iter().filter(|witness| witness.base < log.end());
        match witnesses.find(|witness| witness.start == entry.start) {
            Some(witness) => confirmed(*entry, witness.base, witness.epoch, log),
            None => Some(*entry),
        }
    };
    file.starts().iter().filter_map(confirm).collect()
}

/// The entry as the batches there, from `base` on and of this epoch, confirm it.
fn confirmed(
    entry: EpochStart,
    base: Offset,
    epoch: Option<LeaderEpoch>,
    log: OffsetRange,
) -> Option<EpochStart> {
    let epoch = epoch?;
    if base > entry.start {
        // Compaction has removed the epoch's batches, and a later epoch may follow.
        return (epoch >= entry.epoch).then_some(entry);
    }
    // An epoch begins with a batch, unless the log's start has moved into it.
    let start = if entry.start > log.start() { base } else { entry.start };
    (epoch == entry.epoch).then_some(EpochStart { start, ..entry })
}

/// Single batches whose epoch the checkpoint does not have there, and their neighbours show to be wrong: it does not lie between theirs. At the end of the log there is no second neighbour: there an epoch is wrong where the checkpoint lets the one before
/// go on, because it is written before an epoch's first batch.
fn unconfirmed(facts: &Facts, runs: &[(Offset, EpochRun)]) -> Vec<(Offset, EpochRun)> {
    let file = facts.epochs.file.as_ref();
    let in_file = |run: &EpochRun| {
        let mut starts = file.iter().flat_map(|file| file.starts());
        starts.any(|entry| Some(entry.epoch) == run.epoch && run.offsets.contains(entry.start))
    };
    let known = |run: &EpochRun| file.and_then(|file| file.epoch_at(run.offsets.start()));
    let in_doubt = |run: &EpochRun| {
        run.batches == 1 && !in_file(run) && (run.epoch.is_none() || known(run) != run.epoch)
    };
    let mut damaged = Vec::new();
    for three in runs.windows(3) {
        let [(_, before), (base, run), (_, after)] = three else { continue };
        let is_between = (before.epoch..=after.epoch).contains(&run.epoch);
        if in_doubt(run) && before.epoch <= after.epoch && !is_between {
            damaged.push((*base, *run));
        }
    }
    // What is damaged is no neighbour.
    let runs: Vec<_> = runs.iter().filter(|run| !damaged.contains(run)).copied().collect();
    if let [(base, first), (_, after), ..] = &runs[..]
        && in_doubt(first)
        && (first.epoch > after.epoch
            || (first.epoch.is_none() && known(first).is_some() && known(first) == after.epoch))
    {
        damaged.push((*base, *first));
    }
    // A power loss may have taken the checkpoint that named it.
    let is_certain = facts.stop != Stop::Unclean || facts.machine == Machine::Same;
    if let [.., (_, before), (base, last)] = &runs[..]
        && in_doubt(last)
        && last.epoch != before.epoch
        && (last.epoch < before.epoch || (is_certain && known(last).is_some() && known(last) == before.epoch))
    {
        damaged.push((*base, *last));
    }
    damaged
}
