//! `highwater controller rebuild`: a controller whose state is lost or damaged gets a new one, made out of the directories of the brokers.
//!
//! Everything is locked and looked at before anything is written; without `--execute` nothing is. What cannot be known is said.

mod look;
#[cfg(test)]
mod rebuild_test;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use highwater_engine::disk::{Disk, PosixDisk, SyncThread};
use highwater_engine::units::Now;
use highwater_replication::controller::{
    ClusterState, FoundBroker, RebuildError, RebuildRefusal, rebuild, write_rebuilt,
};

pub use look::LookError;
use look::{Looked, epoch_text, look};

/// What is to be rebuilt.
#[derive(Clone, Debug, Default)]
pub struct Rebuild {
    /// Where the controller's state is to lie.
    pub controller: PathBuf,
    /// The data directories of all brokers.
    pub brokers: Vec<PathBuf>,
    /// The settings of topics, as far as somebody knows them.
    pub topics: BTreeMap<String, BTreeMap<String, String>>,
    /// Settings of topics that do not say.
    pub defaults: BTreeMap<String, String>,
    /// Whether it is done, or only shown.
    pub execute: bool,
}

/// Why a state was not rebuilt. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RebuildFailure {
    /// A directory of a broker cannot be made use of.
    #[error(transparent)]
    Look(#[from] LookError),
    /// No state can be made of what was found.
    #[error(transparent)]
    Refused(#[from] RebuildRefusal),
    /// A setting was given for a topic that nobody has.
    #[error("--topic {topic}: nobody has such a topic")]
    NoSuchTopic {
        /// The topic.
        topic: String,
    },
    /// There is something where the state is to lie.
    #[error("{path} is there; move it away, it is not used any more, and give its place to the new state")]
    InTheWay {
        /// The controller's directory.
        path: PathBuf,
    },
    /// The state cannot be written.
    #[error(transparent)]
    Write(#[from] RebuildError),
    /// A directory cannot be named, or chance is not to be had.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The output cannot be written.
    #[error("the output cannot be written: {0}")]
    Output(#[from] io::Error),
}

/// Shows what was found and what cannot be known, and writes the new state if it is to be.
pub fn rebuild_controller(
    what: &Rebuild,
    now: Now,
    seed: u64,
    out: &mut dyn Write,
) -> Result<(), RebuildFailure> {
    let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
    let controller = what.controller.as_path();
    if is_in_use(controller) {
        return Err(RebuildFailure::InTheWay { path: controller.to_owned() });
    }
    let looked: Vec<Looked> =
        what.brokers.iter().map(|directory| look(&disk, directory)).collect::<Result<_, _>>()?;
    let found: Vec<FoundBroker> = looked.iter().map(|looked| looked.found.clone()).collect();
    let state = rebuild(&found, &what.topics, &what.defaults, now.wall.millis(), seed)?;
    if let Some(topic) = what.topics.keys().find(|topic| !state.topics.contains_key(*topic)) {
        return Err(RebuildFailure::NoSuchTopic { topic: topic.clone() });
    }
    show(&looked, &state, what, out)?;
    if !what.execute {
        writeln!(out, "nothing was changed; --execute does it")?;
        return Ok(());
    }
    write(&disk, controller, state, now)?;
    writeln!(out, "{}: done; start the cluster, with all of these brokers", controller.display())?;
    Ok(())
}

/// Whether something lies there. An empty directory is nothing.
fn is_in_use(directory: &Path) -> bool {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Under another name first: what a crash leaves of it is never taken for a state.
fn write(
    disk: &Arc<dyn Disk>,
    directory: &Path,
    state: ClusterState,
    now: Now,
) -> Result<(), RebuildFailure> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RebuildFailure::Io { path, source }
    };
    let mut name = directory.file_name().unwrap_or_default().to_owned();
    name.push(".rebuilding");
    let half = directory.with_file_name(name);
    match disk.remove_directory(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&half)(error)),
        Ok(()) | Err(_) => {}
    }
    write_rebuilt(Arc::clone(disk), &half, state, now)?;
    disk.rename(&half, directory).map_err(failed(directory))?;
    let above = directory.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    disk.sync_directory(above).map_err(failed(above))
}

fn show(looked: &[Looked], state: &ClusterState, what: &Rebuild, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "cluster {}", state.cluster_id)?;
    for Looked { directory, found, .. } in looked {
        let session = if found.session.is_some() { "" } else { ", its last session is not known" };
        writeln!(out, "broker {}: {}, {} logs{session}", found.node, directory.display(), found.logs.len())?;
        for log in found.logs.iter().filter(|log| log.topic_id.is_none()) {
            let name = &log.partition;
            writeln!(out, "  {name} does not say of which topic it is, and is left alone")?;
        }
    }
    for (name, topic) in &state.topics {
        let known = if what.topics.contains_key(name) {
            "settings as given".to_owned()
        } else {
            format!(
                "settings not known: nothing is deleted by retention until --topic {name}:KEY=VALUE says more"
            )
        };
        writeln!(out, "topic {name}, id {}, {} partitions; {known}", topic.id, topic.partitions.len())?;
        for (number, partition) in topic.partitions.iter().enumerate() {
            let holders: Vec<String> = (looked.iter().map(|looked| &looked.found))
                .filter_map(|found| {
                    let is_it = |log: &&highwater_replication::controller::FoundLog| {
                        log.topic_id == Some(topic.id)
                            && i32::try_from(number).is_ok_and(|number| log.partition.partition() == number)
                    };
                    let log = found.logs.iter().find(|log| log.partition.topic() == name && is_it(log))?;
                    Some(format!("broker {} with {}", found.node, epoch_text(log.epoch)))
                })
                .collect();
            let epoch = partition.leader_epoch;
            writeln!(out, "  {name}-{number}: {}; goes on in epoch {epoch}", holders.join(", "))?;
        }
    }
    writeln!(out, "producer ids go on at {}", state.next_producer_id)?;
    writeln!(
        out,
        "not known, and so: who was in sync (the replica with the highest epoch and end leads, when all of them are there); replicas on brokers \
         that were not named (they are not waited for, and what only they have is lost); partitions behind the last that was found; what \
         elections have lost before; whether a topic had durability=fsync"
    )
}
