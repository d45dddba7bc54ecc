//! `highwater recover DIR`: what is found in a data directory that nobody has open, what recovery would do about it, and then, unless only that
//! is wanted, the same done as by the start of a broker.
//!
//! Afterwards the directory is what a kill of its user leaves: a broker that starts finds a little less to do, and suspects what it would
//! have suspected. Of two suspicions a second opening knows nothing, because recovery has cut away what caused them; a controller that is not
//! told could let such a replica lead. So where one is found nothing is done, unless whoever asks says that there is no controller.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_engine::checkpoint::NotedDamage;
use highwater_engine::disk::{LockError, PosixDisk, SyncThread};
use highwater_engine::recovery::SuspectReason;
use highwater_engine::store::{Machine, Opened, OpeningPlan, Stop, Store, StoreConfig, StoreOpenError};
use highwater_engine::units::{Now, TopicPartition};
use serde_json::{Value, json};

use super::dump::Format;
use super::place::Place;

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recover {
    /// The plan.
    Show,
    /// The plan, and that it is carried out, if a broker would not have to tell its controller of it.
    Apply,
    /// The same, also where a controller would have to be told: there is none.
    ApplyAlone,
}

/// Why a directory was not recovered. Nothing was changed, unless it says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoverError {
    /// Somebody has it.
    #[error("{0}; stop it first, its logs are not at rest")]
    InUse(LockError),
    /// One partition, or one file, is not recovered by itself.
    #[error(
        "{path} is {what}, and how its broker stopped and how far it had synced is written beside the partitions: give the data directory \
         above; verify, dump and cat look at a part of it alone"
    )]
    Part {
        /// What was given.
        path: PathBuf,
        /// What that is.
        what: &'static str,
    },
    /// There is nothing that could be recovered, and nothing is to be made there.
    #[error("{path} is no data directory: no log is in it, and no broker has had it")]
    NoLogs {
        /// The directory.
        path: PathBuf,
    },
    /// It cannot be opened.
    #[error(transparent)]
    Open(StoreOpenError),
    /// A broker has to do it.
    #[error(
        "{name}: {reason}. A broker that starts tells its controller so, and after this recovery could not: start the broker. If no broker \
         of a cluster will have this directory, say --alone"
    )]
    ToBeTold {
        /// The log.
        name: TopicPartition,
        /// What a controller has to know.
        reason: SuspectReason,
    },
    /// Some logs are as they were.
    #[error("{} cannot be recovered and is left as it was, the others are: {why}", .path.display())]
    LeftAlone {
        /// The first of them.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The output cannot be written.
    #[error("the output cannot be written: {0}")]
    Write(#[from] io::Error),
}

impl From<StoreOpenError> for RecoverError {
    fn from(error: StoreOpenError) -> Self {
        if let StoreOpenError::Lock(lock @ LockError::Held { .. }) = error {
            Self::InUse(lock)
        } else {
            Self::Open(error)
        }
    }
}

/// Shows the facts and the plan of each log's recovery, and carries it out if that is wanted.
pub fn recover(
    directory: &Path,
    what: Recover,
    format: Format,
    now: Now,
    out: &mut dyn Write,
) -> Result<(), RecoverError> {
    check_place(directory)?;
    let plan = plan(directory, now)?;
    match format {
        Format::People => show(directory, &plan, out)?,
        Format::Json => show_objects(directory, &plan, out)?,
    }
    if what == Recover::Show {
        return Ok(());
    }
    if is_idle(&plan) {
        return Ok(end(format, "there is nothing to do", out)?);
    }
    if what == Recover::Apply {
        refuse_untold(&plan)?;
    }
    let Opened { report, .. } = open(directory, now)?;
    if let Some((path, why)) = report.refused.into_iter().next() {
        return Err(RecoverError::LeftAlone { path, why: why.to_string() });
    }
    Ok(end(format, "done", out)?)
}

/// An error unless this is a data directory, which alone can be recovered and repaired.
pub(super) fn check_place(given: &Path) -> Result<(), RecoverError> {
    let part = |what| Err(RecoverError::Part { path: given.to_owned(), what });
    // What is not there is told of by whoever opens it.
    let Ok(path) = std::fs::canonicalize(given) else { return Ok(()) };
    match Place::of(&path) {
        Place::DataDirectory => Ok(()),
        Place::File => part("a file"),
        Place::Partition(_) => part("the directory of one partition"),
        Place::NoLogs => Err(RecoverError::NoLogs { path: given.to_owned() }),
    }
}

fn end(format: Format, what: &str, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::People => writeln!(out, "{what}"),
        Format::Json => object(&json!({ "end": what }), out),
    }
}

fn object(object: &Value, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, object)?;
    out.write_all(b"\n")
}

pub(super) fn plan(directory: &Path, now: Now) -> Result<OpeningPlan, RecoverError> {
    let disk = Arc::new(PosixDisk::new(SyncThread::Never));
    Ok(Store::plan_opening(disk, directory, StoreConfig::default(), now)?)
}

pub(super) fn open(directory: &Path, now: Now) -> Result<Opened, RecoverError> {
    let disk = Arc::new(PosixDisk::new(SyncThread::Never));
    Ok(Store::open(disk, directory, StoreConfig::default(), now)?)
}

/// An error if the plan has a suspicion that no later opening could have.
pub(super) fn refuse_untold(plan: &OpeningPlan) -> Result<(), RecoverError> {
    for (name, plan) in &plan.logs {
        let Ok(plan) = plan else { continue };
        let forgotten = plan.suspect.iter().find(|reason| {
            matches!(reason, SuspectReason::LastBatchLost { .. } | SuspectReason::MarkContradicted { .. })
        });
        if let Some(reason) = forgotten {
            return Err(RecoverError::ToBeTold { name: name.clone(), reason: reason.clone() });
        }
    }
    Ok(())
}

/// Whether an opening would find everything as a clean stop has left it. Then the mark of that stop is worth more than another opening.
fn is_idle(plan: &OpeningPlan) -> bool {
    let is_as_it_was = plan.logs.iter().all(|(_, plan)| {
        plan.as_ref()
            .is_ok_and(|plan| plan.steps.is_empty() && plan.suspect.is_empty() && plan.damaged.is_empty())
    });
    plan.stop == Stop::FirstUse || (plan.stop == Stop::Clean && is_as_it_was && plan.noted.is_some())
}

/// One object for the directory, one for each log with its plan, one for each range that was noted as damaged.
fn show_objects(directory: &Path, plan: &OpeningPlan, out: &mut dyn Write) -> io::Result<()> {
    let stop = match plan.stop {
        Stop::Clean => "clean",
        Stop::Unclean => "unclean",
        Stop::FirstUse => "first-use",
    };
    let machine = match plan.machine {
        Machine::Same => "same",
        Machine::OtherOrUnknown => "other-or-unknown",
    };
    let is_note_believed = plan.noted.is_some();
    object(
        &json!({ "directory": directory, "stop": stop, "machine": machine, "damage_note_believed": is_note_believed }),
        out,
    )?;
    for (name, plan) in &plan.logs {
        let name = name.to_string();
        match plan {
            Ok(plan) => object(&json!({ "log": name, "plan": plan, "text": plan.to_string() }), out)?,
            Err(why) => object(&json!({ "log": name, "left_alone": why.to_string() }), out)?,
        }
    }
    for NotedDamage { log, offsets: (from, until), .. } in plan.noted.iter().flatten() {
        let noted = json!({ "log": log, "noted_damage": { "from": from.value(), "until": until.value() } });
        object(&noted, out)?;
    }
    out.flush()
}

fn show(directory: &Path, plan: &OpeningPlan, out: &mut dyn Write) -> io::Result<()> {
    let stop = match plan.stop {
        Stop::Clean => "stopped cleanly",
        Stop::Unclean => "not stopped cleanly",
        Stop::FirstUse => "never used",
    };
    let machine = match plan.machine {
        Machine::Same => "the machine has run on since",
        Machine::OtherOrUnknown => "the machine may have crashed since",
    };
    writeln!(out, "{}: {stop}; {machine}", directory.display())?;
    for (name, plan) in &plan.logs {
        match plan {
            Ok(plan) => write!(out, "{name}: {plan}")?,
            Err(why) => writeln!(out, "{name}: left alone: {why}")?,
        }
    }
    match &plan.noted {
        Some(noted) => {
            for NotedDamage { log, offsets: (from, until), .. } in noted {
                writeln!(out, "{log}: {from} to {until} was damaged, and would be looked at again")?;
            }
        }
        None => writeln!(out, "the note of damaged ranges cannot be believed: every segment would be read")?,
    }
    out.flush()
}

#[cfg(test)]
mod recover_test;
