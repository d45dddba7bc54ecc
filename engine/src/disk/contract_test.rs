//! What every disk does in the absence of crashes: one body of tests, run over each implementation.

use std::io::ErrorKind;
use std::path::Path;

use bytes::{Bytes, BytesMut};

use super::simulated::{Completing, SimulatedDisk};
use super::{
    Completion, Disk, Done, EntryKind, File, LockError, Open, Operation, OperationKind, Patience, PosixDisk,
    SyncThread, Wait,
};

macro_rules! over {
    ($name:ident, $run:path, [$($test:ident),*]) => {
        mod $name { $( #[test] fn $test() { $run(super::$test); } )* }
    };
}

macro_rules! over_each_disk {
    ($($test:ident),* $(,)?) => {
        over!(posix, super::run_posix, [$($test),*]);
        over!(posix_with_sync_thread, super::run_posix_with_sync_thread, [$($test),*]);
        #[cfg(all(target_os = "linux", feature = "uring"))]
        over!(uring_auto, super::run_uring_auto, [$($test),*]);
        #[cfg(all(target_os = "linux", feature = "uring"))]
        over!(uring, super::run_uring, [$($test),*]);
        over!(simulated, super::run_simulated, [$($test),*]);
        over!(simulated_held, super::run_simulated_held, [$($test),*]);
    };
}

fn run_on_file_system(disk: &dyn Disk, test: fn(&dyn Disk, &Path)) {
    let root = tempfile::tempdir().unwrap();
    test(disk, root.path());
}

fn run_posix(test: fn(&dyn Disk, &Path)) {
    run_on_file_system(&PosixDisk::new(SyncThread::Never), test);
}

fn run_posix_with_sync_thread(test: fn(&dyn Disk, &Path)) {
    run_on_file_system(&PosixDisk::new(SyncThread::WhenNeeded), test);
}

#[cfg(all(target_os = "linux", feature = "uring"))]
fn run_uring_auto(test: fn(&dyn Disk, &Path)) {
    run_on_file_system(&super::UringDisk::new(super::IoMode::Auto).unwrap(), test);
}

#[cfg(all(target_os = "linux", feature = "uring"))]
fn run_uring(test: fn(&dyn Disk, &Path)) {
    run_on_file_system(&super::UringDisk::new(super::IoMode::Uring).unwrap(), test);
}

fn run_simulated(test: fn(&dyn Disk, &Path)) {
    let disk = SimulatedDisk::new(1);
    disk.create_directory(Path::new("/data")).unwrap();
    test(&disk, Path::new("/data"));
}

fn run_simulated_held(test: fn(&dyn Disk, &Path)) {
    let disk = SimulatedDisk::new(2);
    disk.set_completing(Completing::WhenTold);
    disk.create_directory(Path::new("/data")).unwrap();
    test(&disk, Path::new("/data"));
}

over_each_disk!(
    a_file_is_created_only_when_asked,
    reads_end_at_the_end_of_the_file,
    a_write_behind_the_end_leaves_zeros,
    a_size_is_cut_and_grown_with_zeros,
    reserving_room_changes_nothing_that_shows,
    a_directory_lists_sorted_names_and_kinds,
    directories_are_made_with_their_parents,
    a_rename_replaces_and_keeps_handles,
    a_removed_file_stays_readable_through_its_handle,
    a_directory_goes_with_all_that_is_in_it,
    what_is_not_there_is_not_found,
    a_map_shows_the_first_bytes,
    identity_tells_files_apart,
    a_lock_excludes_this_process_too,
    a_lock_file_is_only_had_through_its_guard,
    free_bytes_and_incarnation_are_told,
    a_queue_completes_everything_with_its_token,
    a_queue_writes_buffers_one_behind_the_other,
    a_queue_reports_an_error_for_its_operation_only,
    waiting_on_an_idle_queue_returns,
    dropping_a_queue_finishes_its_operations,
);

fn create(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> File {
    let file = disk.open(path, Open::Create).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn contents(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    contents_of(&disk.open(path, Open::Read).unwrap())
}

fn contents_of(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn a_file_is_created_only_when_asked(disk: &dyn Disk, root: &Path) {
    let path = root.join("a.log");
    assert_eq!(disk.open(&path, Open::Read).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.open(&path, Open::Write).unwrap_err().kind(), ErrorKind::NotFound);
    let file = create(disk, &path, b"hello");
    file.sync().unwrap();
    disk.sync_directory(root).unwrap();
    assert_eq!(disk.open(&path, Open::Create).unwrap().size().unwrap(), 5, "opening does not truncate");
    disk.open(&path, Open::Write).unwrap().write_all_at(b"J", 0).unwrap();
    assert_eq!(contents(disk, &path), b"Jello");
    assert!(disk.open(&path, Open::Read).unwrap().write_all_at(b"x", 0).is_err());
    assert!(disk.open(root, Open::Read).is_err(), "a directory is no file");
}

fn reads_end_at_the_end_of_the_file(disk: &dyn Disk, root: &Path) {
    let file = create(disk, &root.join("a"), b"0123456789");
    let mut buffer = [0; 8];
    assert_eq!(file.read_at(&mut buffer, 6).unwrap(), 4);
    assert_eq!(&buffer[..4], b"6789");
    assert_eq!(file.read_at(&mut buffer, 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, 1000).unwrap(), 0);
    let mut out = BytesMut::from(&b"ab"[..]);
    if let Some(count) = file.read_cached(&mut out, 8, 6).unwrap() {
        assert_eq!((count, &out[..]), (4, &b"ab6789"[..]));
        assert_eq!(
            file.read_cached(&mut out, 1, 3).unwrap(),
            Some(1),
            "no more than asked, however much room there is"
        );
        assert_eq!(&out[..], b"ab67893");
    }
}

fn a_write_behind_the_end_leaves_zeros(disk: &dyn Disk, root: &Path) {
    let file = create(disk, &root.join("a"), b"x");
    file.write_all_at(b"y", 9_000).unwrap();
    let mut wanted = vec![0; 9_001];
    wanted[0] = b'x';
    wanted[9_000] = b'y';
    assert!(contents_of(&file) == wanted);
}

fn a_size_is_cut_and_grown_with_zeros(disk: &dyn Disk, root: &Path) {
    let file = create(disk, &root.join("a"), &[7; 10_000]);
    file.set_size(5_000).unwrap();
    file.set_size(10_000).unwrap();
    let bytes = contents_of(&file);
    assert!(bytes[..5_000].iter().all(|byte| *byte == 7), "what is below the cut stays");
    assert!(bytes[5_000..].iter().all(|byte| *byte == 0), "what was cut does not come back");
}

fn reserving_room_changes_nothing_that_shows(disk: &dyn Disk, root: &Path) {
    let file = create(disk, &root.join("a"), b"abc");
    match file.reserve(1 << 20) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
    }
    assert_eq!(contents_of(&file), b"abc");
    file.reserve(1).unwrap();
    file.write_all_at(b"d", 3).unwrap();
    assert_eq!(contents_of(&file), b"abcd");
}

fn a_directory_lists_sorted_names_and_kinds(disk: &dyn Disk, root: &Path) {
    create(disk, &root.join("b"), b"");
    create(disk, &root.join("a"), b"");
    disk.create_directory(&root.join("c")).unwrap();
    let entries = disk.list(root).unwrap();
    let found: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    assert_eq!(found, [("a", EntryKind::File), ("b", EntryKind::File), ("c", EntryKind::Directory)]);
}

fn directories_are_made_with_their_parents(disk: &dyn Disk, root: &Path) {
    let deep = root.join("x/y/z");
    disk.create_directory(&deep).unwrap();
    disk.create_directory(&deep).unwrap();
    create(disk, &deep.join("file"), b"1");
    assert_eq!(contents(disk, &deep.join("file")), b"1");
    assert!(disk.create_directory(&deep.join("file")).is_err(), "a file is in the way");
    assert_eq!(disk.list(&root.join("x")).unwrap().len(), 1);
}

fn a_rename_replaces_and_keeps_handles(disk: &dyn Disk, root: &Path) {
    let old = create(disk, &root.join("checkpoint"), b"old");
    let new = create(disk, &root.join("checkpoint.tmp"), b"new");
    disk.rename(&root.join("checkpoint.tmp"), &root.join("checkpoint")).unwrap();
    assert_eq!(contents(disk, &root.join("checkpoint")), b"new");
    assert_eq!(disk.list(root).unwrap().len(), 1);
    assert_eq!(contents_of(&old), b"old");
    new.write_all_at(b"NEW", 0).unwrap();
    assert_eq!(contents(disk, &root.join("checkpoint")), b"NEW");

    disk.create_directory(&root.join("t-0/deep")).unwrap();
    create(disk, &root.join("t-0/log"), b"records");
    disk.rename(&root.join("t-0"), &root.join("t-0.deleted")).unwrap();
    assert_eq!(contents(disk, &root.join("t-0.deleted/log")), b"records");
    assert_eq!(disk.list(&root.join("t-0")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.list(&root.join("t-0.deleted")).unwrap().len(), 2);
}

fn a_removed_file_stays_readable_through_its_handle(disk: &dyn Disk, root: &Path) {
    let file = create(disk, &root.join("a"), b"still here");
    disk.remove_file(&root.join("a")).unwrap();
    assert_eq!(disk.open(&root.join("a"), Open::Read).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(contents_of(&file), b"still here");
    create(disk, &root.join("a"), b"another");
    assert_eq!(contents_of(&file), b"still here");
}

fn a_directory_goes_with_all_that_is_in_it(disk: &dyn Disk, root: &Path) {
    disk.create_directory(&root.join("t/deep/er")).unwrap();
    create(disk, &root.join("t/a"), b"");
    create(disk, &root.join("t/deep/b"), b"");
    create(disk, &root.join("t2"), b"");
    disk.remove_directory(&root.join("t")).unwrap();
    let left: Vec<_> = disk.list(root).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(left, ["t2"]);
}

fn what_is_not_there_is_not_found(disk: &dyn Disk, root: &Path) {
    let missing = root.join("missing");
    assert_eq!(disk.list(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.remove_file(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.remove_directory(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.rename(&missing, &root.join("b")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.sync_directory(&missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(disk.open(&missing.join("a"), Open::Create).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(matches!(disk.lock(&missing), Err(LockError::Io { .. })));
}

fn a_map_shows_the_first_bytes(disk: &dyn Disk, root: &Path) {
    let file = create(disk, &root.join("a.index"), b"0123456789");
    assert_eq!(&*file.map(10).unwrap(), b"0123456789");
    assert_eq!(&*file.map(4).unwrap(), b"0123");
    assert_eq!(&*file.map(0).unwrap(), b"");
    assert_eq!(file.map(11).unwrap_err().kind(), ErrorKind::UnexpectedEof);
}

fn identity_tells_files_apart(disk: &dyn Disk, root: &Path) {
    let file = create(disk, &root.join("a"), b"1");
    let other = create(disk, &root.join("b"), b"1");
    let before = file.identity().unwrap();
    assert_ne!(before.inode, other.identity().unwrap().inode);
    assert_eq!(before, disk.open(&root.join("a"), Open::Read).unwrap().identity().unwrap());
}

fn a_lock_excludes_this_process_too(disk: &dyn Disk, root: &Path) {
    disk.create_directory(&root.join("data")).unwrap();
    disk.create_directory(&root.join("other")).unwrap();
    let directory = root.join("data");
    let guard = disk.lock(&directory).unwrap();
    let LockError::Held { process, .. } = disk.lock(&directory).unwrap_err() else {
        panic!("the lock is held, nothing else is wrong")
    };
    assert!(process.is_some(), "the holder is told");
    disk.lock(&root.join("other")).unwrap();
    assert_eq!(guard.read().unwrap(), b"");
    guard.write(b"process 12345").unwrap();
    guard.write(b"process 7").unwrap();
    assert_eq!(guard.read().unwrap(), b"process 7");
    drop(guard);
    let again = disk.lock(&directory).unwrap();
    assert_eq!(again.read().unwrap(), b"process 7", "the file stays");
}

fn a_lock_file_is_only_had_through_its_guard(disk: &dyn Disk, root: &Path) {
    let guard = disk.lock(root).unwrap();
    assert_eq!(disk.open(&root.join(".lock"), Open::Read).unwrap_err().kind(), ErrorKind::PermissionDenied);
    guard.write(b"mine").unwrap();
    drop(guard);
    assert_eq!(contents(disk, &root.join(".lock")), b"mine");
}

fn free_bytes_and_incarnation_are_told(disk: &dyn Disk, root: &Path) {
    assert!(disk.free_bytes(root).unwrap() > 1 << 20);
    assert_eq!(disk.incarnation(root), disk.incarnation(root));
    assert!(disk.incarnation(root).is_some_and(|life| !life.boot.is_empty()));
}

fn write(token: u64, file: &File, position: u64, bytes: &'static [u8]) -> Operation {
    let buffers = vec![Bytes::from_static(bytes)];
    Operation { token, file: File::clone(file), kind: OperationKind::Write { position, buffers } }
}

fn sync(token: u64, file: &File, patience: Patience) -> Operation {
    Operation { token, file: File::clone(file), kind: OperationKind::Sync { patience } }
}

fn read(token: u64, file: &File, position: u64, length: usize) -> Operation {
    Operation { token, file: File::clone(file), kind: OperationKind::Read { position, length } }
}

fn reap(queue: &mut dyn super::Queue, count: usize) -> Vec<Completion> {
    let mut completed = Vec::new();
    while completed.len() < count {
        let before = completed.len();
        queue.reap(Wait::ForOne, &mut completed);
        assert!(completed.len() > before, "waiting gives at least one");
    }
    assert_eq!(queue.in_flight(), 0);
    completed.sort_by_key(|completion| completion.token);
    completed
}

fn a_queue_completes_everything_with_its_token(disk: &dyn Disk, root: &Path) {
    let mut queue = disk.queue().unwrap();
    let files: Vec<_> = (0..8).map(|number| create(disk, &root.join(format!("{number}")), b"")).collect();
    let mut writes = (10..).zip(&files).map(|(token, file)| write(token, file, 0, b"some bytes")).collect();
    queue.submit(&mut writes);
    assert_eq!(queue.in_flight(), 8);
    for (token, completion) in (10..).zip(reap(&mut *queue, 8)) {
        assert_eq!(completion.token, token);
        assert!(matches!(completion.result, Ok(Done::Written { .. })));
    }
    let patience = [Patience::MayBlock, Patience::MustNotBlock];
    let mut syncs = (20..)
        .zip(&files)
        .zip(patience.into_iter().cycle())
        .map(|((token, file), patience)| sync(token, file, patience))
        .collect();
    queue.submit(&mut syncs);
    assert!(reap(&mut *queue, 8).iter().all(|completion| matches!(completion.result, Ok(Done::Synced))));
    queue.submit(&mut (30..).zip(&files).map(|(token, file)| read(token, file, 5, 100)).collect());
    for completion in reap(&mut *queue, 8) {
        let Ok(Done::Read(bytes)) = completion.result else { panic!("a read gives bytes") };
        assert_eq!(&*bytes, b"bytes");
    }
    let all = queue.counters();
    assert_eq!(all.writes_inline + all.writes_ring, 8);
    assert_eq!(all.syncs_inline + all.syncs_ring + all.syncs_thread, 8);
    assert_eq!(all.reads_inline + all.reads_ring, 8);
}

fn a_queue_writes_buffers_one_behind_the_other(disk: &dyn Disk, root: &Path) {
    let mut queue = disk.queue().unwrap();
    let file = create(disk, &root.join("a"), b"head");
    // More than the kernel takes in one call, with empty ones among them.
    let buffers: Vec<_> = (0..2_500_u32)
        .map(|number| Bytes::from(vec![number.to_le_bytes()[0]; (number % 3) as usize]))
        .collect();
    let wanted = buffers.concat();
    queue.submit(&mut vec![
        Operation { token: 1, file: File::clone(&file), kind: OperationKind::Write { position: 4, buffers } },
        Operation {
            token: 2,
            file: File::clone(&file),
            kind: OperationKind::Write { position: 0, buffers: vec![] },
        },
    ]);
    for completion in reap(&mut *queue, 2) {
        completion.result.unwrap();
    }
    let bytes = contents_of(&file);
    assert_eq!(&bytes[..4], b"head");
    assert!(bytes[4..] == wanted);
}

fn a_queue_reports_an_error_for_its_operation_only(disk: &dyn Disk, root: &Path) {
    let mut queue = disk.queue().unwrap();
    let good = create(disk, &root.join("a"), b"");
    create(disk, &root.join("b"), b"untouched");
    let read_only = disk.open(&root.join("b"), Open::Read).unwrap();
    queue.submit(&mut vec![
        write(1, &read_only, 0, b"no"),
        write(2, &good, 0, b"yes"),
        read(3, &read_only, 0, 9),
    ]);
    let completed = reap(&mut *queue, 3);
    assert!(completed[0].result.is_err());
    assert!(matches!(completed[1].result, Ok(Done::Written { .. })));
    assert!(matches!(&completed[2].result, Ok(Done::Read(bytes)) if &**bytes == b"untouched"));
}

fn waiting_on_an_idle_queue_returns(disk: &dyn Disk, _: &Path) {
    let mut queue = disk.queue().unwrap();
    let mut completed = Vec::new();
    queue.reap(Wait::ForOne, &mut completed);
    queue.submit(&mut Vec::new());
    queue.reap(Wait::ForOne, &mut completed);
    assert!(completed.is_empty());
}

fn dropping_a_queue_finishes_its_operations(disk: &dyn Disk, root: &Path) {
    let mut queue = disk.queue().unwrap();
    let files: Vec<_> = (0..4).map(|number| create(disk, &root.join(format!("{number}")), b"")).collect();
    let mut operations: Vec<_> = files.iter().map(|file| write(1, file, 0, b"bytes")).collect();
    operations.extend(files.iter().map(|file| sync(2, file, Patience::MustNotBlock)));
    queue.submit(&mut operations);
    drop(queue);
    for file in &files {
        assert_eq!(contents_of(file), b"bytes");
    }
}
