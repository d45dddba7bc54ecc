//! Exchanges of segments that were interrupted, ours and Kafka's: each is undone or finished before anything else is decided.
//!
//! ```text
//! BASE.log.cleaned, ...   being written: nothing was exchanged. What of it is called .swap already goes first, so that it is never alone
//! BASE.log.swap, ...      all of it is written and synced: the segments whose offsets it covers go, and it takes their place, its log last
//! BASE.index.swap alone   its log is in place already
//! ```
//! Source: `LogLoader.load`, `LocalLog.replaceSegments`. Kafka removes producer snapshots in the whole range; here that in front of the new
//! segment stays, which says as before what was open there. An index that is not there is made again from the log.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::split_name;
use super::{FileFact, Refusal, Step};
use crate::segment::FileKind;
use crate::units::Offset;

const KINDS: [FileKind; 4] = FileKind::OF_A_SEGMENT;

/// The logs that are to be exchanged, by their base offsets: where each of them ends has to be known for the plan.
pub(crate) fn swapped_logs(files: &[FileFact]) -> Vec<Offset> {
    let names = Names::of(files);
    names.kept_swaps().filter(|(_, kinds)| kinds.contains(&FileKind::Log)).map(|(base, _)| base).collect()
}

/// What is to be done about exchanges that were interrupted; nothing if there is none. `ends` has for each of [`swapped_logs`] the first offset
/// behind its last batch, or none where the file is not whole: what it was to replace may be gone or not, so that the log is left alone.
pub(crate) fn plan_exchange(
    files: &[FileFact],
    ends: &BTreeMap<Offset, Option<Offset>>,
) -> Result<Vec<Step>, Refusal> {
    let names = Names::of(files);
    if names.swaps.is_empty() {
        // What was being written is removed with other leftovers.
        return Ok(Vec::new());
    }
    let mut steps = names.undo();
    for (base, kinds) in names.kept_swaps() {
        if kinds.contains(&FileKind::Log) {
            let Some(Some(end)) = ends.get(&base) else {
                return Err(Refusal::UnfinishedCompaction { file: swap(base, FileKind::Log) });
            };
            names.finish(base, *end, kinds, &mut steps);
        } else if names.live.contains(&(base, FileKind::Log)) {
            let behind = kinds.iter().map(|kind| put_in_place(base, *kind));
            steps.extend(behind.chain([Step::SyncNames]));
        } else {
            steps.extend(kinds.iter().map(|kind| removed(swap(base, *kind))));
        }
    }
    Ok(steps)
}

/// The names of a directory when these steps are done: those that are gone, and under which of today's a file is found that has another then.
pub(crate) fn names_behind(steps: &[Step]) -> (BTreeSet<String>, BTreeMap<String, String>) {
    let (mut gone, mut renamed) = (BTreeSet::new(), BTreeMap::new());
    for step in steps {
        if let Step::RemoveExchanged { name } = step {
            gone.insert(name.clone());
        } else if let Step::RenameFile { from, to } = step {
            gone.insert(from.clone());
            gone.remove(to);
            renamed.insert(to.clone(), from.clone());
        }
    }
    (gone, renamed)
}

/// The files of segments by what they are.
struct Names {
    live: BTreeSet<(Offset, FileKind)>,
    snapshots: BTreeSet<Offset>,
    cleaned: BTreeSet<(Offset, FileKind)>,
    swaps: BTreeMap<Offset, BTreeSet<FileKind>>,
}

impl Names {
    fn of(files: &[FileFact]) -> Self {
        let mut names = Self {
            live: BTreeSet::new(),
            snapshots: BTreeSet::new(),
            cleaned: BTreeSet::new(),
            swaps: BTreeMap::new(),
        };
        for file in files {
            let Some((base, suffix)) = split_name(&file.name) else { continue };
            let kind = |suffix: &str| KINDS.into_iter().find(|kind| kind.suffix() == suffix);
            if let Some(kind) = kind(suffix) {
                names.live.insert((base, kind));
            } else if suffix == FileKind::Snapshot.suffix() {
                names.snapshots.insert(base);
            } else if let Some(kind) = suffix.strip_suffix(".cleaned").and_then(kind) {
                names.cleaned.insert((base, kind));
            } else if let Some(kind) = suffix.strip_suffix(".swap").and_then(kind) {
                names.swaps.entry(base).or_default().insert(kind);
            }
        }
        names
    }

    /// Those that are complete: in front of everything that is being written.
    fn kept_swaps(&self) -> impl Iterator<Item = (Offset, &BTreeSet<FileKind>)> {
        let first = self.cleaned.first().map(|(base, _)| *base);
        let swaps = self.swaps.iter().filter(move |(base, _)| first.is_none_or(|first| **base < first));
        swaps.map(|(base, kinds)| (*base, kinds))
    }

    fn undo(&self) -> Vec<Step> {
        let Some((first, _)) = self.cleaned.first() else { return Vec::new() };
        let swaps =
            self.swaps.range(first..).flat_map(|(base, kinds)| kinds.iter().map(|kind| (*base, *kind)));
        let mut steps: Vec<Step> = swaps.map(|(base, kind)| removed(swap(base, kind))).collect();
        if !steps.is_empty() {
            steps.push(Step::SyncNames);
        }
        let cleaned = |(base, kind): &(Offset, FileKind)| removed(format!("{}.cleaned", live(*base, *kind)));
        steps.extend(self.cleaned.iter().map(cleaned));
        steps
    }

    fn finish(&self, base: Offset, end: Offset, kinds: &BTreeSet<FileKind>, steps: &mut Vec<Step>) {
        let is_covered = |(there, _): &&(Offset, FileKind)| *there > base && *there < end;
        let has_no_new = |(there, kind): &&(Offset, FileKind)| {
            *there == base && *kind != FileKind::Log && !kinds.contains(kind)
        };
        let covered: BTreeSet<Offset> =
            self.live.iter().filter(is_covered).map(|(there, _)| *there).collect();
        let replaced = self.live.iter().filter(is_covered).chain(self.live.iter().filter(has_no_new));
        steps.extend(replaced.map(|(there, kind)| removed(live(*there, *kind))));
        let snapshots = self.snapshots.intersection(&covered);
        steps.extend(snapshots.map(|there| removed(live(*there, FileKind::Snapshot))));
        steps.push(Step::SyncNames);
        let indexes = kinds.iter().filter(|kind| **kind != FileKind::Log);
        steps.extend(indexes.map(|kind| put_in_place(base, *kind)));
        // The log's name is the last to go: as long as it is there all of this is done again.
        steps.extend([Step::SyncNames, put_in_place(base, FileKind::Log), Step::SyncNames]);
    }
}

fn live(base: Offset, kind: FileKind) -> String {
    format!("{:020}{}", base.value(), kind.suffix())
}

fn swap(base: Offset, kind: FileKind) -> String {
    format!("{}.swap", live(base, kind))
}

fn put_in_place(base: Offset, kind: FileKind) -> Step {
    Step::RenameFile { from: swap(base, kind), to: live(base, kind) }
}

const fn removed(name: String) -> Step {
    Step::RemoveExchanged { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::new(offset).unwrap()
    }

    fn files(names: &[&str]) -> Vec<FileFact> {
        let full = |name: &&str| {
            let (base, rest) = name.split_once('.').unwrap();
            FileFact { name: format!("{base:0>20}.{rest}"), bytes: 1 }
        };
        names.iter().map(full).collect()
    }

    /// The names that are left, shortened, when the plan is done.
    fn left(names: &[&str], ends: &[(i64, i64)]) -> Vec<String> {
        let files = files(names);
        let ends = ends.iter().map(|(base, end)| (at(*base), Some(at(*end)))).collect();
        let steps = plan_exchange(&files, &ends).unwrap();
        let (gone, renamed) = names_behind(&steps);
        let mut left: BTreeSet<String> = files.into_iter().map(|file| file.name).collect();
        left.retain(|name| !gone.contains(name));
        left.extend(renamed.into_keys());
        left.iter().map(|name| name.trim_start_matches('0').to_owned()).collect()
    }

    const OLD: [&str; 6] = ["0.log", "0.index", "10.log", "10.txnindex", "10.snapshot", "20.log"];

    #[test]
    fn what_is_still_being_written_is_undone_with_all_that_is_called_swap_already() {
        let mut names = OLD.to_vec();
        names.extend(["0.index.swap", "0.timeindex.cleaned", "0.log.swap"]);
        assert_eq!(swapped_logs(&files(&names)), []);
        let steps = plan_exchange(&files(&names), &BTreeMap::new()).unwrap();
        let name = |name: &str| removed(format!("{:0>20}{name}", ""));
        assert_eq!(
            steps,
            [name(".log.swap"), name(".index.swap"), Step::SyncNames, name(".timeindex.cleaned")],
            "the swaps first, so that no crash leaves one that passes for complete"
        );
    }

    #[test]
    fn what_is_complete_takes_the_place_of_all_that_it_covers() {
        let mut names = OLD.to_vec();
        names.extend(["0.index.swap", "0.timeindex.swap", "0.log.swap"]);
        assert_eq!(swapped_logs(&files(&names)), [at(0)]);
        assert_eq!(left(&names, &[(0, 20)]), [".index", ".log", ".timeindex", "20.log"]);
        // Any part of that is done already.
        assert_eq!(
            left(&["0.log", "0.timeindex.swap", "0.log.swap", "20.log"], &[(0, 20)]),
            [".log", ".timeindex", "20.log"]
        );
        assert_eq!(left(&["0.log", "0.index.swap", "20.log"], &[]), [".index", ".log", "20.log"]);
        assert_eq!(left(&["5.index.swap", "20.log"], &[]), ["20.log"]);
    }

    #[test]
    fn an_old_index_is_no_index_of_the_new_log() {
        assert_eq!(left(&["0.log", "0.txnindex", "0.index", "0.log.swap"], &[(0, 5)]), [".log"]);
    }

    #[test]
    fn a_swap_in_front_of_what_is_being_written_is_of_another_exchange() {
        let names = ["0.log", "0.log.swap", "10.log", "10.log.cleaned", "10.index.swap"];
        assert_eq!(swapped_logs(&files(&names)), [at(0)]);
        assert_eq!(left(&names, &[(0, 10)]), [".log", "10.log"]);
    }

    #[test]
    fn a_log_that_is_not_whole_replaces_nothing() {
        let files = files(&["0.log", "0.log.swap"]);
        let refused = plan_exchange(&files, &[(at(0), None)].into());
        assert_eq!(refused, Err(Refusal::UnfinishedCompaction { file: swap(at(0), FileKind::Log) }));
    }
}
