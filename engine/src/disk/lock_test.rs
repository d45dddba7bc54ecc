//! A data directory and two processes: the second is this test's own program, run again.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{Disk, LockError, Open, PosixDisk, SyncThread};

const DIRECTORY: &str = "HIGHWATER_TEST_LOCK_DIRECTORY";

/// Not a test of its own: the other process. It takes the lock, says so and holds it until its input ends or it is killed.
#[test]
fn the_other_process() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let _guard = disk().lock(Path::new(&directory)).unwrap();
    println!("\nlocked");
    std::io::stdout().flush().unwrap();
    drop(std::io::stdin().read_line(&mut String::new()));
}

fn disk() -> PosixDisk {
    PosixDisk::new(SyncThread::Never)
}

fn start_other(directory: &Path) -> Child {
    let mut other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "disk::lock_test::the_other_process", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(other.stdout.as_mut().unwrap());
    assert!(
        said.lines().map_while(Result::ok).any(|line| line == "locked"),
        "the other process has the lock"
    );
    other
}

#[test]
fn another_process_is_named_and_its_death_frees_the_directory() {
    let root = tempfile::tempdir().unwrap();
    let mut other = start_other(root.path());
    let LockError::Held { process, path } = disk().lock(root.path()).unwrap_err() else {
        panic!("held by the other process")
    };
    assert_eq!((process, &*path), (Some(other.id()), root.path()));
    // SIGKILL.
    other.kill().unwrap();
    other.wait().unwrap();
    disk().lock(root.path()).unwrap();
}

#[test]
fn a_clean_end_frees_the_directory() {
    let root = tempfile::tempdir().unwrap();
    let mut other = start_other(root.path());
    assert!(disk().lock(root.path()).is_err());
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
    disk().lock(root.path()).unwrap();
}

/// Closing any descriptor of a locked file gives a record lock away. Neither a refused second lock nor a refused open does.
#[test]
fn a_refused_lock_in_this_process_does_not_give_the_lock_away() {
    let root = tempfile::tempdir().unwrap();
    let _guard = disk().lock(root.path()).unwrap();
    let LockError::Held { process, .. } = disk().lock(root.path()).unwrap_err() else {
        panic!("held by this process")
    };
    assert_eq!(process, Some(std::process::id()));
    disk().lock(&root.path().join(".")).unwrap_err();
    disk().open(&root.path().join(".lock"), Open::Write).unwrap_err();
    let other = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "disk::lock_test::the_other_process", "--nocapture"])
        .env(DIRECTORY, root.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!other.status.success(), "{}", String::from_utf8_lossy(&other.stdout));
}
