//! What a supervisor takes before it starts anything: its data directory and the ports. Refuses in one sentence that says what to do.
//!
//! Brokers whose supervisor was killed still stop on their own; they hold their directories and ports for that long, and are waited for.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::holders::{self, Holder};

/// How long brokers of an earlier supervisor are waited for.
pub const ORPHANS_WAIT: Duration = Duration::from_secs(30);
/// How long a port is waited for that nobody can be seen to have.
pub const ENDING_WAIT: Duration = Duration::from_secs(5);
/// How long the lock of another supervisor is waited for: one that was killed holds it until the system has ended it.
pub const LOCK_WAIT: Duration = Duration::from_secs(1);

const LOCK_FILE: &str = ".supervisor.lock";
/// Made and taken away again, to see whether a broker could.
const PROBE_FILE: &str = ".supervisor.probe";

/// Why a cluster cannot be started here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The directory cannot be made or written.
    #[error("{path} cannot be written: {source}; make it writable or choose another with --data DIR")]
    NotWritable {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another supervisor runs on it.
    #[error(
        "a cluster already runs on {path} ({process}); stop it first or choose another directory with --data DIR"
    )]
    AlreadyRunning {
        /// The directory.
        path: PathBuf,
        /// The process that has it.
        process: String,
    },
    /// Somebody else listens on a port.
    #[error("port {port}, for broker {broker}, is in use{}; stop that or choose other ports with --port P", by(.holder.as_ref()))]
    PortInUse {
        /// The broker that needs it.
        broker: i32,
        /// The port.
        port: u16,
        /// Who has it, if that can be seen.
        holder: Option<Holder>,
    },
    /// A port cannot be taken for another reason.
    #[error("port {port}, for broker {broker}, cannot be taken: {source}; choose other ports with --port P")]
    Port {
        /// The broker that needs it.
        broker: i32,
        /// The port.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// A broker of an earlier supervisor, or a Kafka, does not let go of its directory.
    #[error("{path} is still held by {holder} after {} s; stop it, or kill it if it hangs", ORPHANS_WAIT.as_secs())]
    DirectoryHeld {
        /// The broker's directory.
        path: PathBuf,
        /// Who holds it.
        holder: Holder,
    },
}

fn by(holder: Option<&Holder>) -> String {
    holder.map(|holder| format!(" by {holder}")).unwrap_or_default()
}

/// The supervisor's data directory, locked until this is dropped.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    _lock: File,
}

impl DataDirectory {
    /// Makes the directory if it is missing, and locks it; refuses at once if somebody has it.
    pub fn claim(path: &Path) -> Result<Self, ClaimError> {
        let not_writable = |source| ClaimError::NotWritable { path: path.to_owned(), source };
        fs::create_dir_all(path).map_err(not_writable)?;
        let path = fs::canonicalize(path).map_err(not_writable)?;
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(false).clone();
        let mut lock = options.open(path.join(LOCK_FILE)).map_err(not_writable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let process = match lock.read_to_string(&mut text) {
                    Ok(_) if !text.trim().is_empty() => format!("process {}", text.trim()),
                    _ => "its process is not known".to_owned(),
                };
                return Err(ClaimError::AlreadyRunning { path, process });
            }
            Err(TryLockError::Error(source)) => return Err(not_writable(source)),
        }
        lock.set_len(0).and_then(|()| lock.rewind()).map_err(not_writable)?;
        write!(lock, "{}", std::process::id()).map_err(not_writable)?;
        Ok(Self { path, _lock: lock })
    }

    /// The directory, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// One broker, as far as what it needs for itself is concerned.
#[derive(Clone, Debug)]
pub struct Needs {
    /// The broker.
    pub broker: i32,
    /// Where it will listen.
    pub host: String,
    /// The port there.
    pub port: u16,
    /// Its data directory.
    pub directory: PathBuf,
}

/// What keeps a cluster from being started for now.
#[derive(Debug, PartialEq, Eq)]
pub enum Free {
    /// Nothing.
    Yes,
    /// An earlier broker, which is stopping.
    NotYet {
        /// The directory that it holds.
        directory: PathBuf,
        /// The process.
        holder: Holder,
    },
    /// A port is in use and nobody can be seen to have it: a process that was killed has let go of its files and not of its sockets yet,
    /// or another user's has it.
    PortTaken {
        /// The broker that needs it.
        broker: i32,
        /// The port.
        port: u16,
    },
}

/// Refuses folders of brokers that cannot be written, before their processes would say so again and again.
pub fn check_writable(needs: &[Needs]) -> Result<(), ClaimError> {
    for Needs { directory, .. } in needs.iter().filter(|need| need.directory.exists()) {
        let probe = directory.join(PROBE_FILE);
        File::create(&probe)
            .and_then(|_| fs::remove_file(&probe))
            .map_err(|source| ClaimError::NotWritable { path: directory.clone(), source })?;
    }
    Ok(())
}

/// Looks once whether all directories and ports are free. A port that is held by the process that holds one of the directories is an
/// earlier broker's; held by anybody else it is refused at once.
pub fn check(needs: &[Needs]) -> Result<Free, ClaimError> {
    let held: Vec<(PathBuf, Holder)> = needs
        .iter()
        .filter_map(|need| Some((need.directory.clone(), holders::locker(&need.directory.join(".lock"))?)))
        .collect();
    let mut taken = None;
    for need in needs {
        let Err(source) = TcpListener::bind((need.host.as_str(), need.port)) else { continue };
        let (broker, port) = (need.broker, need.port);
        if source.kind() != io::ErrorKind::AddrInUse {
            return Err(ClaimError::Port { broker, port, source });
        }
        match holders::listener(port) {
            None => taken = Some(Free::PortTaken { broker, port }),
            Some(holder) if held.iter().any(|(_, orphan)| *orphan == holder) => {}
            holder @ Some(_) => return Err(ClaimError::PortInUse { broker, port, holder }),
        }
    }
    Ok(match held.into_iter().next() {
        Some((directory, holder)) => Free::NotYet { directory, holder },
        None => taken.unwrap_or(Free::Yes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_supervisor_is_refused_at_once_and_names_the_first() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("data");
        let first = DataDirectory::claim(&directory).unwrap();
        let refusal = DataDirectory::claim(&directory).unwrap_err().to_string();
        assert!(refusal.contains(&format!("(process {})", std::process::id())), "{refusal}");
        drop(first);
        DataDirectory::claim(&directory).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_one_sentence() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refusal = DataDirectory::claim(&file.path().join("data")).unwrap_err();
        assert!(matches!(refusal, ClaimError::NotWritable { .. }), "{refusal}");
        assert!(refusal.to_string().ends_with("choose another with --data DIR"), "{refusal}");
    }

    #[test]
    fn a_brokers_folder_that_cannot_be_written_is_one_sentence() {
        let data = tempfile::tempdir().unwrap();
        let need = |broker: i32| Needs {
            broker,
            host: "127.0.0.1".to_owned(),
            port: 1,
            directory: data.path().join(broker.to_string()),
        };
        fs::create_dir(data.path().join("1")).unwrap();
        check_writable(&[need(1), need(3)]).unwrap();
        assert_eq!(fs::read_dir(data.path().join("1")).unwrap().count(), 0);
        // Nobody can write in a file, not even who may do everything.
        fs::write(data.path().join("2"), "").unwrap();
        let refusal = check_writable(&[need(1), need(2)]).unwrap_err().to_string();
        assert!(refusal.contains("/2 cannot be written: "), "{refusal}");
    }

    #[test]
    fn a_port_in_use_names_its_process() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let needs =
            Needs { broker: 2, host: "127.0.0.1".to_owned(), port, directory: PathBuf::from("/nowhere") };
        let refusal = check(std::slice::from_ref(&needs)).unwrap_err().to_string();
        assert!(
            refusal.starts_with(&format!(
                "port {port}, for broker 2, is in use by process {}",
                std::process::id()
            )),
            "{refusal}"
        );
        drop(socket);
        assert_eq!(check(&[needs]).unwrap(), Free::Yes);
    }
}
