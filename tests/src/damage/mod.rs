//! Every byte of a small directory of all file kinds changed, and each file cut at every length, after a clean stop and after a kill. No
//! panic, no wrong record, none missing without a word, no log shorter without a word; what came of each is counted.
//!
//! What no reader can tell is counted apart: the leader epoch in a batch's header, which lies outside of its CRC and is judged in runs; the
//! identities in `partition.metadata` and `meta.properties`, which Kafka writes without a checksum; and the end of a log that was not synced
//! and ends, after a kill, behind another batch than it did.

mod directory;
mod look;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use highwater_engine::batch::scan;
use highwater_engine::disk::{Disk, Open, SimulatedDisk};

pub use directory::Stop;
use directory::{DATA, files, make};
use look::{LogLook, Look, LookError, look};

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
    /// The log is not opened, and the reason is reported.
    LogRefused,
    /// The directory is not opened, with a typed error.
    DirectoryRefused,
    /// Nobody can tell.
    NoOneCanTell,
    /// It is met wrongly, and that is an open row of `tests/BUGS.md`.
    OpenBug,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Self::ServedWhole => "served whole",
            Self::Rebuilt => "rebuilt",
            Self::ReportedDamage => "reported damage",
            Self::Suspect => "suspect",
            Self::LogRefused => "log refused",
            Self::DirectoryRefused => "directory refused",
            Self::NoOneCanTell => "no one can tell",
            Self::OpenBug => "an open bug",
        }
    }
}

/// Outcomes by kind of file.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    counts: BTreeMap<(String, Outcome), u64>,
}

impl Outcomes {
    /// How many changes were judged.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Self) {
        for (key, count) in &other.counts {
            *self.counts.entry(key.clone()).or_default() += count;
        }
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((file, outcome), count) in &self.counts {
            writeln!(f, "{count:>9}  {file}: {}", outcome.words())?;
        }
        write!(f, "{:>9}  in all", self.total())
    }
}

/// A directory, what it says when nothing is damaged, and its files.
#[derive(Debug)]
pub struct Subject {
    stop: Stop,
    disk: SimulatedDisk,
    whole: BTreeMap<String, LogLook>,
    files: Vec<PathBuf>,
}

impl Subject {
    /// Makes it.
    pub fn new(stop: Stop) -> Self {
        let disk = make(stop);
        let whole = look(&disk.fork(1)).expect("nothing is damaged");
        Self { stop, files: files(&disk), whole: by_name(whole.logs), disk }
    }

    /// How many files it has.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// Damages one file in every way, or of every so many bytes one.
    pub fn damage_file(&self, number: usize, one_in: usize) -> Result<Outcomes, String> {
        let path = &self.files[number];
        let bytes = self.disk.contents(path).map_err(|error| error.to_string())?;
        let mut outcomes = Outcomes::default();
        for at in (number % one_in..bytes.len()).step_by(one_in) {
            for damage in [Damage::Flip(at), Damage::Zero(at), Damage::Set(at), Damage::Cut(at)] {
                if changed(bytes[at], damage) == Some(bytes[at]) {
                    continue;
                }
                let judged = catch_unwind(AssertUnwindSafe(|| self.judge(path, &bytes, damage)));
                let judged = judged.unwrap_or_else(|_| Err("it panicked".to_owned()));
                let outcome = match judged {
                    Err(_) if is_open_bug(path, &bytes, damage) => Outcome::OpenBug,
                    judged => judged
                        .map_err(|what| format!("{:?}, {}: {damage:?}: {what}", self.stop, path.display()))?,
                };
                *outcomes.counts.entry((kind_of(path), outcome)).or_default() += 1;
            }
        }
        Ok(outcomes)
    }

    fn judge(&self, path: &Path, bytes: &[u8], damage: Damage) -> Result<Outcome, String> {
        let disk = self.disk.fork(2);
        apply(&disk, path, bytes, damage).map_err(|error| error.to_string())?;
        let damaged = disk.contents(path).map_err(|error| error.to_string())?;
        let found = match look(&disk) {
            Ok(found) => found,
            Err(LookError::Refused) => return Ok(Outcome::DirectoryRefused),
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
        Ok(worst)
    }

    fn compare(&self, path: &Path, bytes: &[u8], damage: Damage, found: &Look) -> Result<Outcome, String> {
        let mut worst = Outcome::ServedWhole;
        let by_name = by_name(found.logs.clone());
        for (name, whole) in &self.whole {
            let is_its = path.starts_with(Path::new(DATA).join(name));
            let Some(is) = by_name.get(name) else {
                let refused = found.report.refused.iter().any(|(path, _)| path.ends_with(name));
                if refused && is_its {
                    worst = worst.max(Outcome::LogRefused);
                    continue;
                }
                return Err(format!("{name} is gone, and nobody says why"));
            };
            if is.batches == whole.batches && is.told.is_empty() {
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
        let is_unknowable = in_epoch_of_a_batch(path, bytes, damage);
        for (base, batch) in &is.batches {
            let was = whole.batches.get(base);
            let is_below = was.is_none() && *base < whole.start;
            if was != Some(batch) && !is_below && !is_unknowable {
                return Err(format!("the batch at {base} is not what was appended"));
            }
        }
        if is.start > whole.start {
            return Err(format!("the start is {} and was {}", is.start, whole.start));
        }
        let mut outcome = if is_unknowable { Outcome::NoOneCanTell } else { Outcome::ServedWhole };
        let missing = whole.batches.keys().filter(|base| !is.batches.contains_key(base));
        for base in missing {
            let is_told = is.told.iter().any(|(from, until)| from <= base && base < until);
            let is_behind = *base >= is.end;
            outcome = outcome.max(match () {
                () if is_told => Outcome::ReportedDamage,
                () if is_behind && is.suspect => Outcome::Suspect,
                () if is_behind && self.is_an_unsynced_end(path, bytes, damage) => Outcome::NoOneCanTell,
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
        let is_last = self.stop == Stop::Kill
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
    if same && is.epochs == whole.epochs && is.producers == whole.producers && is.times == whole.times {
        return Ok(Outcome::ServedWhole);
    }
    if in_epoch_of_a_batch(path, bytes, damage) {
        return Ok(Outcome::NoOneCanTell);
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

/// A leader epoch lies outside of the CRC, and one batch alone does not show that it is wrong.
fn in_epoch_of_a_batch(path: &Path, bytes: &[u8], damage: Damage) -> bool {
    let (Damage::Flip(at) | Damage::Zero(at) | Damage::Set(at)) = damage else { return false };
    path.extension().is_some_and(|extension| extension == "log")
        && scan(bytes, 0).filter_map(Result::ok).any(|(position, _)| {
            (at as u64).checked_sub(position).is_some_and(|inside| (12..16).contains(&inside))
        })
}

/// R25: a base offset, which lies outside of the CRC, at the end of what was scanned. R26: a changed entry of the epoch checkpoint.
fn is_open_bug(path: &Path, bytes: &[u8], damage: Damage) -> bool {
    if path.ends_with("leader-epoch-checkpoint") {
        return true;
    }
    let (Damage::Flip(at) | Damage::Zero(at) | Damage::Set(at)) = damage else { return false };
    let is_base_offset = || {
        scan(bytes, 0)
            .filter_map(Result::ok)
            .any(|(position, _)| (at as u64).checked_sub(position).is_some_and(|inside| inside < 8))
    };
    let is_log = path.extension().is_some_and(|extension| extension == "log");
    is_log && is_base_offset()
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
        let mut wrong = Vec::new();
        for stop in [Stop::Clean, Stop::Kill] {
            let subject = Subject::new(stop);
            for number in 0..subject.files() {
                match subject.damage_file(number, 17) {
                    Ok(one) => all.add(&one),
                    Err(what) => wrong.push(what),
                }
            }
        }
        println!("{all}");
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
        assert!(all.total() > 1_000, "{all}");
    }
}
