//! Where the embedded controller keeps its state: a log of its own, one record for each change, and a snapshot now and then.
//!
//! ```text
//! DIRECTORY/meta.properties            whose state it is; written once the cluster is durable
//! DIRECTORY/__cluster_state-0/         the changes; the offset of a record is the version before it
//! DIRECTORY/state.snapshot             a CRC and the state at some version; changes below it may be gone
//! ```
//! One batch is under way at a time, so that a whole batch behind a broken one is never a crash but damage. What is damaged is
//! refused, never guessed: brokers would be told of leaderships that were given to somebody else.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use highwater_engine::batch::{
    BatchBuilder, BatchLimits, BatchView, Compression, DecompressLimits, ProducedBatch, TimestampRule,
};
use highwater_engine::checkpoint::{
    Certainty, META_PROPERTIES, MetaProperties, Reading, read_properties, replace_file, write_properties,
};
use highwater_engine::disk::{Disk, Open, Patience, Wait};
use highwater_engine::log::{Log, LogConfig, Permit, Read, Step, Ticket};
use highwater_engine::store::{CloseError, Job, JobDone, Opened, Stop, Store, StoreConfig, StoreOpenError};
use highwater_engine::units::{LeaderEpoch, NodeId, Now, Offset, TopicPartition};

use super::change::{Change, StateError};
use super::state::{ClusterState, FORMAT_VERSION};

const LOG: &str = "__cluster_state";
const SNAPSHOT: &str = "state.snapshot";
/// Bytes of changes in one batch, about; one change more may lie above it.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Why a controller cannot start on its directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerOpenError {
    /// The directory is in use, or cannot be read.
    #[error(transparent)]
    Store(#[from] StoreOpenError),
    /// A file beside the log could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Written by a newer program.
    #[error("the controller's state in {directory}: {source}")]
    NewerFormat {
        /// The controller's directory.
        directory: PathBuf,
        /// Which format.
        source: StateError,
    },
    /// The state is not all there, or not what was written.
    #[error(
        "the controller's state in {directory} is damaged: {why}; \
         `highwater controller rebuild` makes a new one out of the brokers' directories"
    )]
    Damaged {
        /// The controller's directory.
        directory: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Why a controller cannot go on. Its process has to end; what was answered is durable.
#[derive(Debug, thiserror::Error)]
#[error("the controller's state cannot be kept any more: {why}")]
pub struct ControllerFailure {
    why: String,
}

impl ControllerFailure {
    pub(super) fn new(why: impl std::fmt::Display) -> Self {
        Self { why: why.to_string() }
    }
}

/// The open directory.
#[derive(Debug)]
pub(super) struct StateStore {
    store: Store,
    log: Log,
    directory: PathBuf,
    snapshot_version: u64,
    cluster_is_named: bool,
}

impl StateStore {
    /// Opens the directory and reads the state in it; an empty one gives the empty state.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        now: Now,
    ) -> Result<(Self, ClusterState), ControllerOpenError> {
        let mut config = StoreConfig::default();
        config.log = log_config();
        config.batch_bytes_max = BATCH_BYTES_MAX;
        // The name of a new directory is certain only when the one above it is synced.
        disk.create_directory(directory).map_err(io_error(directory))?;
        if let Some(above) = directory.parent().filter(|above| !above.as_os_str().is_empty()) {
            disk.sync_directory(above).map_err(io_error(above))?;
        }
        let Opened { store, report } = Store::open(disk, directory, config, now)?;
        let damaged = |why: String| ControllerOpenError::Damaged { directory: directory.to_owned(), why };
        if let Some((path, why)) = report.refused.first() {
            return Err(damaged(format!("{}: {why}", path.display())));
        }
        for log in &report.logs {
            // Its own writes cannot leave a hole, and a clean stop leaves nothing to cut.
            let below_recovery = log.recovery_point.is_some_and(|point| log.end < point);
            if log.hole || below_recovery || (report.stop == Stop::Clean && log.cut_bytes > 0) {
                return Err(damaged(format!("{} ends at {} and then goes on", log.name, log.end)));
            }
        }
        // The controller is no replica: nobody is to be told of a machine crash before it may be forgotten.
        store.confirm_incarnation().map_err(io_error(directory))?;
        let name = TopicPartition::new(LOG, 0).map_err(|error| damaged(error.to_string()))?;
        let snapshot = read_snapshot(store.disk().as_ref(), directory)?;
        let properties_path = directory.join(META_PROPERTIES);
        let properties = match read_properties(store.disk().as_ref(), &properties_path)
            .map_err(io_error(&properties_path))?
        {
            Reading::Known { value, .. } => Some(value),
            Reading::Missing => None,
            Reading::Damaged { why } => return Err(damaged(format!("{META_PROPERTIES}: {why}"))),
        };
        let log = match store.log(&name) {
            Some(log) => log,
            None if snapshot.is_some() || properties.is_some() => {
                return Err(damaged("its log is missing".to_owned()));
            }
            None => store
                .create_log(&name, None, log_config(), now)
                .map_err(|error| damaged(error.to_string()))?,
        };
        // What an earlier process wrote and did not live to sync is told to brokers only when it is certain; and as long as it is not,
        // nothing new would be appended.
        let durable = store.wait(log.ticket(), Step::Durable);
        durable.map_err(|error| io_error(directory)(io::Error::other(error)))?;
        let snapshot_version = snapshot.as_ref().map_or(0, |state| state.version);
        let mut state = replay(&store, &log, snapshot.unwrap_or_else(ClusterState::empty)).map_err(
            |failed| match failed {
                Replay::Newer(source) => {
                    ControllerOpenError::NewerFormat { directory: directory.to_owned(), source }
                }
                Replay::Damaged(why) => damaged(why),
            },
        )?;
        if let Some(properties) = &properties
            && properties.cluster != state.cluster_id
        {
            let (named, found) = (&properties.cluster, &state.cluster_id);
            return Err(damaged(format!(
                "it is cluster '{found}', {META_PROPERTIES} names cluster '{named}'"
            )));
        }
        let cluster_is_named = properties.is_some();
        let mut kept =
            Self { store, log, directory: directory.to_owned(), snapshot_version, cluster_is_named };
        if state.version > 0 && state.format < FORMAT_VERSION {
            // Said before the first change is made that an older program cannot read, so that it refuses by the format.
            state.format = FORMAT_VERSION;
            let raised = kept.write_snapshot(&state, now);
            raised.map_err(|failure| io_error(directory)(io::Error::other(failure)))?;
        }
        Ok((kept, state))
    }

    /// The version that is durable.
    pub(super) fn durable(&self) -> u64 {
        u64::try_from(self.log.durable().value()).unwrap_or_default()
    }

    /// Whether a batch is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.log.durable() < self.log.accepted()
    }

    /// Appends as many of these changes as make one batch, and asks for its sync. How many.
    pub(super) fn append<'a>(
        &self,
        changes: impl Iterator<Item = &'a Change>,
        now: Now,
    ) -> Result<(usize, Ticket), ControllerFailure> {
        let mut builder = BatchBuilder::new(Compression::None);
        let mut count = 0;
        for change in changes {
            builder
                .push(Some(now.wall), None, Some(&change.encode()), &[])
                .map_err(ControllerFailure::new)?;
            count += 1;
            if builder.size_bytes() >= BATCH_BYTES {
                break;
            }
        }
        let mut limits = BatchLimits::default();
        limits.batch_bytes_max = BATCH_BYTES_MAX;
        limits.timestamps = TimestampRule::CreateTime { before_ms_max: i64::MAX, after_ms_max: i64::MAX };
        let bytes = builder.finish().map_err(ControllerFailure::new)?;
        let batch = ProducedBatch::check(bytes, &limits, now.wall).map_err(ControllerFailure::new)?;
        let appended =
            self.log.append(Permit::new(LeaderEpoch::ZERO), batch, now).map_err(ControllerFailure::new)?;
        self.store.want_durable(&self.log);
        Ok((count, appended.ticket))
    }

    /// Blocks until a batch is durable.
    pub(super) fn wait(&self, ticket: Ticket) -> Result<(), ControllerFailure> {
        self.store.wait(ticket, Step::Durable).map_err(ControllerFailure::new)
    }

    /// One turn of the driver, and whether the log still lives.
    pub(super) fn turn(&self, patience: Patience) -> Result<(), ControllerFailure> {
        let report = self.store.turn(Wait::Not, patience);
        match self.log.closed() {
            Some(why) => Err(ControllerFailure::new(why)),
            None if report.store_failed => Err(ControllerFailure::new("its directory failed")),
            None => Ok(()),
        }
    }

    /// Does what the engine wants done: checkpoints, seals.
    pub(super) fn run_due_jobs(&self, now: Now) -> Result<(), ControllerFailure> {
        for job in self.store.due_jobs(now) {
            self.run(job)?;
        }
        Ok(())
    }

    fn run(&self, job: Job) -> Result<(), ControllerFailure> {
        if let JobDone::Failed { error, .. } = job.run(&self.store) {
            return Err(ControllerFailure::new(error));
        }
        Ok(())
    }

    /// Writes down, once, whose state this is. Only when the change that created the cluster is durable.
    pub(super) fn name_cluster(&mut self, cluster_id: &str) -> Result<(), ControllerFailure> {
        if self.cluster_is_named {
            return Ok(());
        }
        let properties = MetaProperties {
            node: NodeId::new(0).ok_or_else(|| ControllerFailure::new("there is no node 0"))?,
            cluster: cluster_id.to_owned(),
            directory: None,
            others: [("highwater.kind".to_owned(), "controller".to_owned())].into(),
        };
        let path = self.directory.join(META_PROPERTIES);
        write_properties(self.store.disk().as_ref(), &path, &properties).map_err(ControllerFailure::new)?;
        self.cluster_is_named = true;
        Ok(())
    }

    /// How many changes lie behind the last snapshot.
    pub(super) fn changes_since_snapshot(&self) -> u64 {
        self.durable().saturating_sub(self.snapshot_version)
    }

    /// Writes a snapshot of a state that is durable, then lets go of the changes below it.
    ///
    /// A crash leaves the old or the new snapshot, and changes from it on.
    pub(super) fn write_snapshot(&mut self, state: &ClusterState, now: Now) -> Result<(), ControllerFailure> {
        let path = self.directory.join(SNAPSHOT);
        replace_file(self.store.disk().as_ref(), &path, &encode_snapshot(state), Certainty::Durable)
            .map_err(ControllerFailure::new)?;
        self.snapshot_version = state.version;
        let version = i64::try_from(state.version).ok().and_then(Offset::new);
        let to = version.ok_or_else(|| ControllerFailure::new("the versions are used up"))?;
        let log = self.log.id();
        self.run(Job::RaiseStart { log, to })?;
        self.run(Job::Retention { log, ceiling: to, now })
    }

    /// Stops cleanly.
    pub(super) fn close(self) -> Result<(), CloseError> {
        self.store.close(serde_json::Map::new(), None)
    }

    /// A descriptor that becomes readable when a turn would find something done.
    pub(super) fn wake_descriptor(&self) -> io::Result<Option<OwnedFd>> {
        self.store.wake_descriptor()
    }
}

fn log_config() -> LogConfig {
    let mut config = LogConfig::default();
    config.segment_bytes_max = 64 << 20;
    config.retention_bytes = None;
    config.retention_age = None;
    config
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> ControllerOpenError {
    let path = path.to_owned();
    move |source| ControllerOpenError::Io { path, source }
}

/// `crc32` of the state in eight digits, a line end, the state.
fn encode_snapshot(state: &ClusterState) -> Vec<u8> {
    let state = state.encode();
    let mut bytes = format!("{:08x}\n", crc32fast::hash(&state)).into_bytes();
    bytes.extend_from_slice(&state);
    bytes
}

fn read_snapshot(disk: &dyn Disk, directory: &Path) -> Result<Option<ClusterState>, ControllerOpenError> {
    let path = directory.join(SNAPSHOT);
    let damaged = |why: String| ControllerOpenError::Damaged {
        directory: directory.to_owned(),
        why: format!("{SNAPSHOT}: {why}"),
    };
    let file = match disk.open(&path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error(&path)(error)),
    };
    let size = file.size().map_err(io_error(&path))?;
    let mut bytes = vec![0; usize::try_from(size).map_err(|error| damaged(error.to_string()))?];
    let read = file.read_at(&mut bytes, 0).map_err(io_error(&path))?;
    bytes.truncate(read);
    let (guard, state) = bytes.split_at_checked(9).ok_or_else(|| damaged("it is torn".to_owned()))?;
    if guard != format!("{:08x}\n", crc32fast::hash(state)).as_bytes() {
        return Err(damaged("its CRC is another one".to_owned()));
    }
    match ClusterState::decode(state) {
        Ok(state) => Ok(Some(state)),
        Err(source @ StateError::NewerFormat { .. }) => {
            Err(ControllerOpenError::NewerFormat { directory: directory.to_owned(), source })
        }
        Err(error) => Err(damaged(error.to_string())),
    }
}

enum Replay {
    Newer(StateError),
    Damaged(String),
}

impl From<StateError> for Replay {
    fn from(error: StateError) -> Self {
        match error {
            StateError::NewerFormat { .. } => Self::Newer(error),
            StateError::Unreadable { .. } | StateError::DoesNotFit { .. } => Self::Damaged(error.to_string()),
        }
    }
}

/// Adds the log's changes to the snapshot.
fn replay(store: &Store, log: &Log, mut state: ClusterState) -> Result<ClusterState, Replay> {
    let end = log.accepted();
    let at = |state: &ClusterState| {
        let version = i64::try_from(state.version).ok().and_then(Offset::new);
        version.ok_or_else(|| Replay::Damaged("its snapshot has no version".to_owned()))
    };
    let snapshot = at(&state)?;
    if snapshot < log.start() || snapshot > end {
        let start = log.start();
        return Err(Replay::Damaged(format!(
            "its snapshot is of version {snapshot}, its log has {start} to {end}"
        )));
    }
    while at(&state)? < end {
        let from = at(&state)?;
        for part in read_from(store, log, from)? {
            apply_batches(&mut state, &part)?;
        }
        if at(&state)? == from {
            return Err(Replay::Damaged(format!("its log has no change {from}")));
        }
    }
    Ok(state)
}

fn read_from(store: &Store, log: &Log, from: Offset) -> Result<Vec<Bytes>, Replay> {
    let damaged = |why: String| Replay::Damaged(why);
    let read = log.read(from, Offset::MAX, BATCH_BYTES, true).map_err(|error| damaged(error.to_string()))?;
    let read = match read {
        Read::Cold(asked) => {
            let done = Job::ColdRead(asked).run(store);
            let JobDone::Read { result, .. } = done else {
                return Err(damaged(format!("a read ended as {done:?}")));
            };
            result.map_err(|error| damaged(error.to_string()))?
        }
        read @ (Read::Records(_) | Read::Empty) => read,
    };
    match read {
        Read::Records(records) => Ok(records.parts),
        Read::Empty | Read::Cold(_) => Ok(Vec::new()),
    }
}

/// Applies the changes of whole batches; those below the state's version are in it already.
fn apply_batches(state: &mut ClusterState, mut bytes: &[u8]) -> Result<(), Replay> {
    let mut scratch = Vec::new();
    while !bytes.is_empty() {
        let batch = BatchView::parse(bytes).map_err(|damage| Replay::Damaged(damage.to_string()))?;
        let records = batch
            .records(&DecompressLimits::default(), &mut scratch)
            .map_err(|damage| Replay::Damaged(damage.to_string()))?;
        for record in records {
            let record = record.map_err(|damage| Replay::Damaged(damage.to_string()))?;
            let version = u64::try_from(record.offset.value()).unwrap_or_default();
            if version < state.version {
                continue;
            }
            if version > state.version {
                return Err(Replay::Damaged(format!("its log has no change {}", state.version)));
            }
            state.apply(&Change::decode(record.value.unwrap_or_default(), version)?)?;
        }
        bytes = bytes.get(batch.bytes().len()..).unwrap_or_default();
    }
    Ok(())
}
