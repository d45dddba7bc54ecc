//! Who holds a port or a lock, so that a refusal can name the process. Reads `/proc`; elsewhere, and where the kernel hides it, nobody is known.
//!
//! Decides nothing: whether a port is free is found by binding it, whether a directory is, by locking it.

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A process, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its id.
    pub process: u32,
    /// Its name, as the kernel has it.
    pub name: String,
}

impl Holder {
    fn of(process: u32) -> Self {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        Self { process, name: name.trim().to_owned() }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.is_empty() {
            write!(f, "process {}", self.process)
        } else {
            write!(f, "process {} ({})", self.process, self.name)
        }
    }
}

/// The process that listens on the TCP port, at whatever address.
pub(super) fn listener(port: u16) -> Option<Holder> {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .collect();
    let links: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    processes().find(|process| has_open(*process, &links)).map(Holder::of)
}

/// The process that holds an `fcntl` lock on the file.
pub(super) fn locker(file: &Path) -> Option<Holder> {
    let inode = fs::metadata(file).ok()?.ino();
    let path = fs::canonicalize(file).ok()?.to_str()?.to_owned();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // Inodes are counted by each file system on its own: the process has to have this file open, too.
    lockers(&locks, inode)
        .into_iter()
        .find(|process| has_open(*process, std::slice::from_ref(&path)))
        .map(Holder::of)
}

/// The inodes of the sockets that listen on the port, from a table like `/proc/net/tcp`.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    const LISTEN: &str = "0A";
    let ending = format!(":{port:04X}");
    let sockets = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (local, state) = (fields.nth(1)?, fields.nth(1)?);
        let inode = fields.nth(5)?;
        (local.ends_with(&ending) && state == LISTEN).then(|| inode.to_owned())
    });
    sockets.collect()
}

/// The processes with a POSIX lock on the inode, from a table like `/proc/locks`.
fn lockers(table: &str, inode: u64) -> Vec<u32> {
    let ending = format!(":{inode}");
    let locks = table.lines().filter_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (kind, process) = (fields.next()?, fields.nth(2)?);
        let file = fields.next()?;
        (kind == "POSIX" && file.ends_with(&ending)).then(|| process.parse().ok())?
    });
    locks.collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn has_open(process: u32, links: &[String]) -> bool {
    let mut files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    files.any(|file| {
        let link = fs::read_link(file.path()).unwrap_or_default();
        links.iter().any(|known| link.as_os_str() == known.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_the_kernel_are_read() {
        let tcp = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                   0: 0100007F:2384 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n\
                   1: 0100007F:2384 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n";
        assert_eq!(listening_inodes(tcp, 9092), ["4711"]);
        assert!(listening_inodes(tcp, 9093).is_empty());
        let locks = "1: POSIX  ADVISORY  WRITE 77 08:01:123 0 EOF\n2: FLOCK  ADVISORY  WRITE 78 08:01:123 0 EOF\n1: -> POSIX  ADVISORY  WRITE 79 08:01:123 0 EOF\n";
        assert_eq!(lockers(locks, 123), [77]);
        assert!(lockers(locks, 23).is_empty());
    }

    #[test]
    fn this_process_is_found_by_its_port() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let holder = listener(socket.local_addr().unwrap().port()).unwrap();
        assert_eq!(holder.process, std::process::id());
        assert!(holder.to_string().starts_with(&format!("process {} (", std::process::id())));
    }
}
