//! What only a real file system shows: modes, links, pipes, blocks, and the sync thread.

use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::{
    Completion, Disk, Done, EntryKind, File, Open, Operation, OperationKind, Patience, PosixDisk, SyncThread,
    Wait, sys,
};

fn disk() -> PosixDisk {
    PosixDisk::new(SyncThread::Never)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_and_directories_are_for_their_owner_only() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a/b");
    disk().create_directory(&directory).unwrap();
    disk().open(&directory.join("file"), Open::Create).unwrap();
    let _guard = disk().lock(&directory).unwrap();
    assert_eq!([mode(&directory), mode(&root.path().join("a"))], [0o700, 0o700]);
    assert_eq!([mode(&directory.join("file")), mode(&directory.join(".lock"))], [0o600, 0o600]);
}

#[test]
fn links_and_pipes_are_not_files() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    disk().open(&path("file"), Open::Create).unwrap();
    symlink(path("file"), path("link")).unwrap();
    assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
    for how in [Open::Read, Open::Write, Open::Create] {
        assert!(disk().open(&path("link"), how).is_err());
        assert_eq!(disk().open(&path("pipe"), how).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let kinds: Vec<_> = disk().list(root.path()).unwrap().into_iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::File, EntryKind::Other, EntryKind::Other]);
    std::fs::create_dir(path("data")).unwrap();
    symlink(path("file"), path("data/.lock")).unwrap();
    assert!(disk().lock(&path("data")).is_err());
}

#[test]
fn reserved_room_is_taken_from_the_device_and_given_back() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a");
    let file = disk().open(&path, Open::Create).unwrap();
    file.write_all_at(b"abc", 0).unwrap();
    file.sync().unwrap();
    let blocks = || std::fs::metadata(&path).unwrap().blocks();
    let before = blocks();
    match file.reserve(1 << 20) {
        Err(error) if error.kind() == ErrorKind::Unsupported => return,
        reserved => reserved.unwrap(),
    }
    assert!(blocks() >= 2_048, "a MiB in blocks of 512 bytes");
    assert_eq!(file.size().unwrap(), 3);
    file.set_size(3).unwrap();
    assert_eq!(blocks(), before, "setting the size gives back what is behind it");
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_of_an_unknown_kind_has_no_incarnation() {
    assert_eq!(disk().incarnation(Path::new("/proc")), None);
    assert_eq!(disk().incarnation(Path::new("/nowhere/at/all")), None);
}

fn sync(token: u64, file: &File, patience: Patience) -> Operation {
    Operation { token, file: File::clone(file), kind: OperationKind::Sync { patience } }
}

#[test]
fn a_sync_that_must_not_block_goes_to_the_sync_thread_and_is_announced() {
    let root = tempfile::tempdir().unwrap();
    let disk = PosixDisk::new(SyncThread::WhenNeeded);
    let file = disk.open(&root.path().join("a"), Open::Create).unwrap();
    let mut queue = disk.queue().unwrap();
    let descriptor = queue.wake_descriptor().unwrap().unwrap();
    let mut completed = Vec::new();
    queue.submit(&mut vec![sync(1, &file, Patience::MayBlock)]);
    queue.reap(Wait::Not, &mut completed);
    assert!(matches!(&completed[..], [Completion { token: 1, result: Ok(Done::Synced) }]));
    assert_eq!((queue.counters().syncs_inline, queue.counters().syncs_thread), (1, 0));
    assert!(!sys::is_readable(&descriptor, 0).unwrap());

    queue.submit(&mut (2..5).map(|token| sync(token, &file, Patience::MustNotBlock)).collect());
    while completed.len() < 4 {
        assert!(sys::is_readable(&descriptor, 10_000).unwrap(), "it is announced");
        queue.reap(Wait::Not, &mut completed);
    }
    let tokens: Vec<_> = completed.iter().map(|completion| completion.token).collect();
    assert_eq!(tokens, [1, 2, 3, 4], "one thread keeps the order");
    assert_eq!((queue.counters().syncs_inline, queue.counters().syncs_thread), (1, 3));
}

#[test]
fn without_leave_for_a_thread_a_sync_is_done_by_its_submitter() {
    let root = tempfile::tempdir().unwrap();
    let file = disk().open(&root.path().join("a"), Open::Create).unwrap();
    let mut queue = disk().queue().unwrap();
    queue.submit(&mut vec![sync(1, &file, Patience::MustNotBlock)]);
    assert_eq!((queue.counters().syncs_inline, queue.counters().syncs_thread), (1, 0));
    assert!(queue.wake_descriptor().unwrap().is_none());
}
