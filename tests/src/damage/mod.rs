//! Every byte of a small directory of all file kinds changed, and each file cut at every length, after a clean stop and after a kill. No
//! panic, no wrong record, none missing without a word, no log shorter without a word; what came of each is counted.
//!
//! One of the directories has a damaged range from before, which its note remembers. The index of aborted transactions is a Kafka's, and nobody
//! here believes it: which transactions are open is compared.
//!
//! What an opening calls damaged or suspect is also found by verification, which changes nothing.
//!
//! What no reader can tell is counted apart, under a name that says why ([`Outcome`]). Not judged are the identities in `partition.metadata`
//! and `meta.properties`, which Kafka writes without a checksum.

mod directory;
mod look;
mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use highwater_engine::batch::scan;
use highwater_engine::disk::{Disk, Open, SimulatedDisk};

pub use directory::Stop;
use directory::{files, make};
use look::{LogLook, Look, LookError, look};
use verify::verify;

/// Who has the directory, in which boot.
const LOCK: &str = ".lock";

/// One change of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit of a byte is another.
    Flip(usize),
    /// A byte is zero.
    Zero(usize),
    /// A byte has all bits.
    Set(usize),
    /// The file ends there.
    Cut(usize),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// All records are served, and the file was left as it is.
    ServedWhole,
    /// All records are served, and the file was made again or removed.
    Rebuilt,
    /// What is missing is reported as damaged, by its offsets.
    ReportedDamage,
    /// The log is shorter, or its state is not known, and it says that something may be missing.
    Suspect,
    /// After a kill the log ends in front of its last write, which was not synced: it looks like one that was interrupted.
    UnsyncedEnd,
    /// A batch at the border of two leader epochs has the other one, and is believed, because the epoch checkpoint might as well be wrong.
    NeighboursEpoch,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Self::ServedWhole => "served whole",
            Self::Rebuilt => "rebuilt",
            Self::ReportedDamage => "reported damage",
            Self::Suspect => "suspect",
            Self::UnsyncedEnd => "an end that was not synced, as an interrupted write leaves it",
            Self::NeighboursEpoch => "the epoch of a neighbour, which is as right as the epoch checkpoint",
        }
    }
}

/// Outcomes by kind of file, and what was met wrongly.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    counts: BTreeMap<(String, Outcome), u64>,
    wrong: Vec<String>,
}

impl Outcomes {
    /// How many changes were judged.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// What was met wrongly, each with its damage.
    pub fn wrong(&self) -> &[String] {
        &self.wrong
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: Self) {
        for (key, count) in other.counts {
            *self.counts.entry(key).or_default() += count;
        }
        self.wrong.extend(other.wrong);
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((file, outcome), count) in &self.counts {
            writeln!(f, "{count:>9}  {file}: {}", outcome.words())?;
        }
        write!(f, "{:>9}  in all, and {} wrong", self.total(), self.wrong.len())
    }
}

/// A directory, what it says when nothing is damaged, and its files.
#[derive(Debug)]
pub struct Subject {
    stop: Stop,
    disk: SimulatedDisk,
    whole: BTreeMap<String, LogLook>,
    /// What verification finds when nothing more is damaged.
    findings: Vec<String>,
    files: Vec<PathBuf>,
}

impl Subject {
    /// Makes it.
    pub fn new(stop: Stop) -> Self {
        let disk = make(stop);
        let whole = look(&disk.fork(1)).expect("nothing is damaged");
        let findings = verify(&disk).expect("nothing is damaged");
        assert_eq!(findings.is_empty(), stop != Stop::KillWithDamage, "{findings:#?}");
        Self { stop, files: files(&disk), whole: by_name(whole.logs), findings, disk }
    }

    /// How many files it has.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Damages one file in every way, or of every so many bytes one.
    pub fn damage_file(&self, number: usize, one_in: usize) -> Outcomes {
        let path = &self.files[number];
        let bytes = self.disk.contents(path).expect("it is one of its files");
        let mut outcomes = Outcomes::default();
        for at in (number % one_in..bytes.len()).step_by(one_in) {
            for damage in [Damage::Flip(at), Damage::Zero(at), Damage::Set(at), Damage::Cut(at)] {
                if changed(bytes[at], damage) == Some(bytes[at]) {
                    continue;
                }
                let judged = catch_unwind(AssertUnwindSafe(|| self.judge(path, &bytes, damage)));
                match judged.unwrap_or_else(|_| Err("it panicked".to_owned())) {
                    Ok(outcome) => *outcomes.counts.entry((kind_of(path), outcome)).or_default() += 1,
                    Err(what) => {
                        outcomes.wrong.push(format!(
                            "{:?}, {}: {damage:?}: {what}",
                            self.stop,
                            path.display()
                        ));
                    }
                }
            }
        }
        outcomes
    }

    fn judge(&self, path: &Path, bytes: &[u8], damage: Damage) -> Result<Outcome, String> {
        let disk = self.disk.fork(2);
        apply(&disk, path, bytes, damage).map_err(|error| error.to_string())?;
        let damaged = disk.contents(path).map_err(|error| error.to_string())?;
        let findings = verify(&disk);
        let is_found = findings.as_ref().is_none_or(|findings| *findings != self.findings);
        let found = match look(&disk) {
            Ok(found) => found,
            Err(LookError::Refused) => return Err("the directory is refused".to_owned()),
            Err(LookError::Wrong(what)) => return Err(what),
        };
        let mut worst = self.compare(path, bytes, damage, &found)?;
        if worst == Outcome::ServedWhole && disk.contents(path).ok().as_ref() != Some(&damaged) {
            worst = Outcome::Rebuilt;
        }
        // The next process finds the same.
        let again = look(&disk.crash_kill(&mut fastrand::Rng::with_seed(1)));
        let again = again.map_err(|error| format!("at the next opening: {error:?}"))?;
        for (name, first) in &found.logs {
            let second = again.logs.get(name).ok_or("a log is gone at the next opening")?;
            let same =
                first.batches == second.batches && first.told == second.told && first.end == second.end;
            if !same {
                return Err(format!("{name} at the next opening: {second:?}\nbefore: {first:?}"));
            }
        }
        // What the lock says is not compared with anything: another boot is no fault. Nor is an interrupted write.
        // Of a log that is suspect anyway nobody can tell one that was cut from one whose length is another.
        let may_be_cut = matches!(damage, Damage::Cut(_)) || self.stop == Stop::KillWithDamage;
        let is_interrupted = may_be_cut && self.is_an_unsynced_end(path, bytes, damage);
        let is_fault = matches!(worst, Outcome::ReportedDamage | Outcome::Suspect);
        if is_fault && !is_found && !is_interrupted && !path.ends_with(LOCK) {
            return Err(format!("{}, and verification finds nothing", worst.words()));
        }
        Ok(worst)
    }

    fn compare(&self, path: &Path, bytes: &[u8], damage: Damage, found: &Look) -> Result<Outcome, String> {
        let mut worst = Outcome::ServedWhole;
        let by_name = by_name(found.logs.clone());
        for (name, whole) in &self.whole {
            let Some(is) = by_name.get(name) else {
                return Err(format!("{name} is not there: {:?}", found.report.refused));
            };
            if is.batches == whole.batches && is.told == whole.told {
                worst = worst.max(compare_state(path, bytes, damage, name, is, whole)?);
                continue;
            }
            worst = worst.max(self.compare_records(path, bytes, damage, is, whole).map_err(|what| {
                format!(
                    "{name}: {what}\n{}",
                    found.report.logs.iter().map(|log| log.plan.to_string()).collect::<String>()
                )
            })?);
        }
        Ok(worst)
    }

    fn compare_records(
        &self,
        path: &Path,
        bytes: &[u8],
        damage: Damage,
        is: &LogLook,
        whole: &LogLook,
    ) -> Result<Outcome, String> {
        let is_ambiguous = takes_a_neighbours_epoch(path, bytes, damage, whole);
        for (base, batch) in &is.batches {
            let was = whole.batches.get(base);
            let is_below = was.is_none() && *base < whole.start;
            if was != Some(batch) && !is_below && !is_ambiguous {
                return Err(format!("the batch at {base} is not what was appended"));
            }
        }
        if is.start > whole.start {
            return Err(format!("the start is {} and was {}", is.start, whole.start));
        }
        let mut outcome = if is_ambiguous { Outcome::NeighboursEpoch } else { Outcome::ServedWhole };
        let missing = whole.batches.keys().filter(|base| !is.batches.contains_key(base));
        for base in missing {
            let is_told = is.told.iter().any(|(from, until)| from <= base && base < until);
            let is_behind = *base >= is.end;
            outcome = outcome.max(match () {
                () if is_told => Outcome::ReportedDamage,
                () if is_behind && is.suspect => Outcome::Suspect,
                () if is_behind && self.is_an_unsynced_end(path, bytes, damage) => Outcome::UnsyncedEnd,
                () => return Err(format!("the batch at {base} is missing, and nobody says so: {is:?}")),
            });
        }
        if is.end < whole.end && self.stop == Stop::Clean && !is.suspect {
            return Err(format!("the log ends at {} and ended at {}", is.end, whole.end));
        }
        Ok(outcome)
    }

    /// After a kill, what is above the recovery point may have been in the middle of its write.
    fn is_an_unsynced_end(&self, path: &Path, bytes: &[u8], damage: Damage) -> bool {
        let is_last = self.stop != Stop::Clean
            && path.extension().is_some_and(|extension| extension == "log")
            && self.files.iter().filter(|other| other.parent() == path.parent()).all(|other| {
                other.extension().is_none_or(|extension| extension != "log") || other.as_path() <= path
            });
        let last = scan(bytes, 0).filter_map(Result::ok).last().map_or(0, |(position, _)| position);
        is_last
            && match damage {
                Damage::Cut(_) => true,
                Damage::Flip(at) | Damage::Zero(at) | Damage::Set(at) => at as u64 >= last,
            }
    }
}

/// All records are there. Then so is what follows from them.
fn compare_state(
    path: &Path,
    bytes: &[u8],
    damage: Damage,
    name: &str,
    is: &LogLook,
    whole: &LogLook,
) -> Result<Outcome, String> {
    let same = is.start == whole.start && is.end == whole.end;
    let same_producers = is.producers == whole.producers && is.unstable == whole.unstable;
    if same && is.epochs == whole.epochs && same_producers && is.times == whole.times {
        return Ok(Outcome::ServedWhole);
    }
    if takes_a_neighbours_epoch(path, bytes, damage, whole) {
        return Ok(Outcome::NeighboursEpoch);
    }
    if is.suspect && same && is.times == whole.times {
        return Ok(Outcome::Suspect);
    }
    Err(format!("{name} has all its records, and is not what it was: {is:?}\nwas: {whole:?}"))
}

fn by_name(logs: BTreeMap<highwater_engine::units::TopicPartition, LogLook>) -> BTreeMap<String, LogLook> {
    logs.into_iter().map(|(name, log)| (name.to_string(), log)).collect()
}

fn changed(byte: u8, damage: Damage) -> Option<u8> {
    match damage {
        Damage::Flip(at) => Some(byte ^ (1 << (at % 8))),
        Damage::Zero(_) => Some(0),
        Damage::Set(_) => Some(0xff),
        Damage::Cut(_) => None,
    }
}

fn apply(disk: &SimulatedDisk, path: &Path, bytes: &[u8], damage: Damage) -> std::io::Result<()> {
    match damage {
        Damage::Flip(at) | Damage::Zero(at) | Damage::Set(at) => {
            let byte = changed(bytes[at], damage).unwrap_or_default();
            disk.damage(path, at as u64, &[byte])
        }
        Damage::Cut(length) => disk.open(path, Open::Write)?.set_size(length as u64),
    }
}

/// The first batch of an epoch has the epoch before, or the last of one has the next: an epoch checkpoint that is wrong by a batch would look
/// the same, and neither has a checksum.
fn takes_a_neighbours_epoch(path: &Path, bytes: &[u8], damage: Damage, whole: &LogLook) -> bool {
    let (Damage::Flip(at) | Damage::Zero(at) | Damage::Set(at)) = damage else { return false };
    if path.extension().is_none_or(|extension| extension != "log") {
        return false;
    }
    let inside =
        |position: u64| (at as u64).checked_sub(position).is_some_and(|inside| (12..16).contains(&inside));
    let hit = scan(bytes, 0).filter_map(Result::ok).find(|(position, _)| inside(*position));
    let (Some((position, batch)), Some(byte)) = (hit, changed(bytes[at], damage)) else { return false };
    let mut field: [u8; 4] = batch.bytes()[12..16].try_into().expect("four bytes are four");
    field[at - usize::try_from(position).expect("the file is small") - 12] = byte;
    let epoch_at =
        |offset| whole.epochs.iter().rev().find(|(_, start)| *start <= offset).map(|(epoch, _)| *epoch);
    let (first, end) = (batch.header().base_offset.value(), batch.header().next_offset().value());
    [epoch_at(first - 1), epoch_at(end)].contains(&Some(i32::from_be_bytes(field)))
}

/// The name, or what all files of a kind share.
fn kind_of(path: &Path) -> String {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.split_at_checked(20) {
        Some((digits, suffix)) if digits.bytes().all(|digit| digit.is_ascii_digit()) => suffix.to_owned(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcomes, Stop, Subject};

    #[test]
    fn a_part_of_all_damage_to_all_kinds_of_files() {
        let mut all = Outcomes::default();
        for stop in [Stop::Clean, Stop::Kill, Stop::KillWithDamage] {
            let subject = Subject::new(stop);
            for number in 0..subject.files() {
                all.add(subject.damage_file(number, 17));
            }
        }
        println!("{all}");
        assert!(all.wrong().is_empty(), "{}", all.wrong().join("\n\n"));
        assert!(all.total() > 1_000, "{all}");
    }
}
