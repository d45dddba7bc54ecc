//! A shell that waits for the end of a pipe, then stops what was started and removes its directory. The pipe ends when the guard is
//! dropped, and also when the bench is interrupted or killed: no broker outlives it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use std::os::unix::process::CommandExt as _;

use crate::error::{BenchError, Result};

const ENDED: &str = "ended";

/// See above.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Runs `script` with `arguments` as `$1`, `$2`, ... at the end, then removes the directory.
    pub(super) fn over(directory: &Path, script: &str, arguments: &[&str]) -> Result<Self> {
        let script = format!(
            "directory=$1; shift; read -r said\n[ \"$said\" = {ENDED} ] || {{ {script}\n}}\nrm -rf \"$directory\""
        );
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg("guard").arg(directory).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut shell = command.spawn().map_err(BenchError::io("starting sh"))?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    /// Tells it that what it would stop has ended already: the id may be another process's by now.
    pub(super) fn note_end(&mut self) {
        if let Some(pipe) = &mut self.pipe {
            // If it is gone, it stops nothing either.
            let _told = pipe.write_all(ENDED.as_bytes()).and_then(|()| pipe.write_all(b"\n"));
        }
    }

    /// Lets it begin to stop things.
    pub(super) fn release(&mut self) {
        self.pipe = None;
    }

    /// Waits until everything has ended.
    pub(super) fn wait(&mut self) {
        self.release();
        // It cannot fail to be waited for; if it could, it would go on alone all the same.
        let _ended = self.shell.wait();
    }
}
