//! A process that waits for the end of this one, however it comes, and takes its mount down.

use std::io::{self, Read, stdin};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
    /// It acts when this is closed.
    alive: Option<ChildStdin>,
}

impl Guard {
    /// Guards a directory, on which something will be mounted.
    pub(super) fn of(root: &Path) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("guard")
            .arg(root)
            // Not to be interrupted together with this process.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let alive = process.stdin.take();
        Ok(Self { process, alive })
    }

    /// There is nothing to guard any more.
    pub(super) fn dismiss(&mut self) {
        drop(self.alive.take());
        drop(self.process.wait());
    }
}

/// What the process does.
pub(crate) fn stand_by(root: &Path) -> ExitCode {
    let _end = stdin().lock().read_to_end(&mut Vec::new());
    if is_mounted(root) {
        drop(detach(root));
        drop(std::fs::remove_dir(root));
    }
    ExitCode::SUCCESS
}

/// Whether something is mounted there.
pub(super) fn is_mounted(root: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().filter_map(|line| line.split(' ').nth(1)).any(|mounted| Path::new(mounted) == root)
}

/// Takes the mount out of the tree at once, whoever still uses it.
pub(super) fn detach(root: &Path) -> io::Result<()> {
    let status = Command::new("fusermount3").args(["-u", "-z"]).arg(root).status();
    let status =
        status.map_err(|error| io::Error::new(error.kind(), format!("fusermount3, of fuse3: {error}")))?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("fusermount3 -u: {status}"))) }
}
