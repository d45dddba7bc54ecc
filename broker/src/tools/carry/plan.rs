//! What would be done, as a value that can be shown: made from what both sides are, with both sides locked, so that it still holds when it is
//! carried out.

use std::fmt;
use std::sync::Arc;

use highwater_engine::disk::{Disk, PosixDisk, SyncThread};
use highwater_engine::units::{LeaderEpoch, Offset};

use super::source::Source;
use super::target::Target;
use super::{Carry, CarryError, Direction, apply};

/// What would be done.
#[derive(Debug)]
pub struct CarryPlan {
    pub(super) direction: Direction,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) source: Source,
    pub(super) targets: Vec<Target>,
}

impl CarryPlan {
    /// Looks at both sides, reads all of the source, and says what would be done. Takes their locks until the plan is dropped, and changes
    /// nothing else.
    pub fn make(what: &Carry) -> Result<Self, CarryError> {
        let disk: Arc<dyn Disk> = Arc::new(PosixDisk::new(SyncThread::Never));
        let source = Source::look(&disk, what)?;
        let mut targets: Vec<Target> = Vec::new();
        for into in &what.into {
            let target = Target::look(&disk, what, into, &source.name)?;
            targets.iter().try_for_each(|other| other.check_beside(&target))?;
            targets.push(target);
        }
        for target in &targets {
            let beside = target.replicas_beside(disk.as_ref(), &source.name);
            let is_meant = |path: &std::path::PathBuf| targets.iter().any(|target| target.directory == *path);
            if let Some(path) = beside.into_iter().find(|path| !is_meant(path)) {
                return Err(CarryError::ReplicaLeftOut { path });
            }
        }
        Ok(Self { direction: what.direction, disk, source, targets })
    }

    /// Does it, for one target after the other. A crash leaves each of them as it was, without the partition, or with all of it.
    pub fn carry_out(&self) -> Result<(), CarryError> {
        self.targets.iter().try_for_each(|target| apply::carry_out(self, target))
    }

    fn not_carried(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not carried over:")?;
        let survey = &self.source.survey;
        if let Some(latest) = survey.epochs.last() {
            let latest = LeaderEpoch::value(*latest);
            writeln!(f, "  leader epochs, up to {latest}: they are of its cluster; in the copy all are 0")?;
        }
        if !survey.producers.is_empty() {
            let count = survey.producers.len();
            writeln!(
                f,
                "  {count} idempotent producers: their ids are of its cluster; a batch that is sent again on the other side is there twice"
            )?;
        }
        if let Some(committed) =
            self.source.high_watermark.filter(|committed| *committed < self.source.log.end())
        {
            writeln!(
                f,
                "  the high watermark, last noted at {committed}: all that this replica has counts as committed in the copy"
            )?;
        }
        writeln!(
            f,
            "  the topic's settings, offsets of consumer groups, access rules: make them anew on the other side"
        )
    }
}

impl fmt::Display for CarryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Source { name, directory, cluster, log, bases, survey, .. } = &self.source;
        let (start, end) = (log.start(), log.end());
        writeln!(
            f,
            "{name}: offsets {start} to {end}, {} batches in {} segments",
            survey.batches,
            bases.len()
        )?;
        writeln!(f, "  {} bytes, each batch read and its checksum right", survey.bytes)?;
        if survey.legacy > 0 {
            writeln!(f, "  {} messages of formats v0 and v1, which stay as they are", survey.legacy)?;
        }
        if survey.aborted > 0 {
            writeln!(f, "  {} aborted transactions, which stay aborted", survey.aborted)?;
        }
        let of_cluster = cluster.as_ref().map_or_else(String::new, |cluster| format!(", cluster {cluster}"));
        writeln!(f, "from {}{of_cluster}", directory.display())?;
        for target in &self.targets {
            let Target { directory, node, cluster, topic_id, there, .. } = target;
            write!(
                f,
                "into {}, broker {}, cluster {cluster}, topic id {topic_id}",
                directory.display(),
                node.value()
            )?;
            match there {
                (start, end) if start < end => writeln!(f, "; its records {start} to {end} go")?,
                _ => writeln!(f, "; it is empty there")?,
            }
        }
        if start > Offset::ZERO {
            writeln!(f, "the copy begins at {start}, too")?;
        }
        self.not_carried(f)
    }
}
