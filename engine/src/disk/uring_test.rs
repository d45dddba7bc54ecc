//! What goes through the ring and what does not, and that a ring can be small, shared by threads that end, and left behind.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;

use super::UringQueue;
use crate::disk::{
    Completion, Disk, Done, File, IoMode, Open, Operation, OperationKind, Patience, PosixDisk, Queue,
    QueueCounters, SyncThread, UringDisk, Wait, sys,
};

fn files(root: &Path, count: usize) -> Vec<File> {
    let disk = PosixDisk::new(SyncThread::Never);
    (0..count).map(|number| disk.open(&root.join(number.to_string()), Open::Create).unwrap()).collect()
}

fn write(token: u64, file: &File, position: u64, bytes: Vec<u8>) -> Operation {
    let buffers = vec![Bytes::from(bytes)];
    Operation { token, file: File::clone(file), kind: OperationKind::Write { position, buffers } }
}

fn sync(token: u64, file: &File, patience: Patience) -> Operation {
    Operation { token, file: File::clone(file), kind: OperationKind::Sync { patience } }
}

fn read(token: u64, file: &File, length: usize) -> Operation {
    Operation { token, file: File::clone(file), kind: OperationKind::Read { position: 0, length } }
}

fn finish(queue: &mut dyn Queue) -> Vec<Completion> {
    let mut completed = Vec::new();
    while queue.in_flight() > 0 {
        queue.reap(Wait::ForOne, &mut completed);
    }
    assert!(completed.iter().all(|completion| completion.result.is_ok()), "{completed:?}");
    completed
}

/// One submission after the other, and what they made of the counters.
fn counters_after(mode: IoMode, submissions: Vec<Vec<Operation>>) -> QueueCounters {
    let mut queue = UringDisk::new(mode).unwrap().queue().unwrap();
    for mut operations in submissions {
        queue.submit(&mut operations);
        finish(&mut *queue);
    }
    queue.counters()
}

#[test]
fn writes_and_what_stands_alone_are_done_inline_and_what_fans_out_goes_through_the_ring() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path(), 3);
    let submissions = || {
        vec![
            vec![write(1, &files[0], 0, vec![1])],
            files.iter().map(|file| write(2, file, 0, vec![2])).collect(),
            files.iter().map(|file| write(2, file, 0, vec![2; 300 << 10])).collect(),
            vec![write(2, &files[0], 0, vec![2; 300 << 10])],
            vec![sync(3, &files[0], Patience::MayBlock)],
            vec![sync(4, &files[0], Patience::MustNotBlock)],
            files.iter().map(|file| sync(5, file, Patience::MayBlock)).collect(),
            vec![read(6, &files[0], 1)],
            vec![write(7, &files[0], 1, vec![1]), sync(8, &files[1], Patience::MustNotBlock)],
        ]
    };
    let auto = QueueCounters {
        writes_inline: 6,
        writes_ring: 3,
        syncs_inline: 1,
        syncs_ring: 5,
        syncs_thread: 0,
        reads_inline: 0,
        reads_ring: 1,
    };
    assert_eq!(counters_after(IoMode::Auto, submissions()), auto);
    let all = QueueCounters { writes_ring: 9, syncs_ring: 6, reads_ring: 1, ..QueueCounters::default() };
    assert_eq!(counters_after(IoMode::Uring, submissions()), all);
}

#[test]
fn a_sync_beside_others_that_are_under_way_shares_their_flush() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path(), 3);
    let mut queue = UringDisk::new(IoMode::Auto).unwrap().queue().unwrap();
    queue.submit(&mut files.iter().take(2).map(|file| sync(1, file, Patience::MayBlock)).collect());
    queue.submit(&mut vec![sync(2, &files[2], Patience::MayBlock)]);
    assert_eq!((queue.counters().syncs_ring, queue.counters().syncs_inline), (3, 0));
    finish(&mut *queue);
    queue.submit(&mut vec![sync(3, &files[2], Patience::MayBlock)]);
    assert_eq!((queue.counters().syncs_ring, queue.counters().syncs_inline), (3, 1));
}

#[test]
fn more_operations_than_the_ring_holds_go_in_pieces() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path(), 50);
    let mut queue = UringQueue::with_entries(2);
    let content = |number: usize| vec![u8::try_from(number).unwrap(); 10_000 + number];
    let numbered = || (0_u64..).zip(&files);
    queue.submit(
        &mut numbered()
            .map(|(token, file)| write(token, file, 0, content(token.try_into().unwrap())))
            .collect(),
    );
    assert_eq!(queue.in_flight(), 50);
    let tokens: BTreeSet<_> = finish(&mut queue).iter().map(|completion| completion.token).collect();
    assert_eq!(tokens, (0..50).collect());
    queue.submit(&mut numbered().map(|(token, file)| read(token, file, 20_000)).collect());
    for Completion { token, result } in finish(&mut queue) {
        let Ok(Done::Read(bytes)) = result else { panic!("a read gives bytes") };
        assert!(*bytes == content(token.try_into().unwrap()), "file {token}");
    }
}

#[test]
fn the_descriptor_tells_that_there_is_something_to_reap() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path(), 2);
    let mut queue = UringDisk::new(IoMode::Auto).unwrap().queue().unwrap();
    let descriptor = queue.wake_descriptor().unwrap().unwrap();
    assert!(!sys::is_readable(&descriptor, 0).unwrap());
    queue.submit(&mut files.iter().map(|file| sync(1, file, Patience::MustNotBlock)).collect());
    let mut completed = Vec::new();
    while completed.len() < 2 {
        assert!(sys::is_readable(&descriptor, 10_000).unwrap(), "it is announced");
        queue.reap(Wait::Not, &mut completed);
    }
    assert_eq!(queue.in_flight(), 0);
}

/// The kernel cancels what a thread submitted when the thread ends; the queue does it again.
#[test]
fn a_thread_that_submits_may_end_before_its_operations() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path(), 40);
    let mut queue = UringQueue::with_entries(64);
    for round in 0..5_u8 {
        let mut writes: Vec<_> = files.iter().map(|file| write(1, file, 0, vec![round; 100_000])).collect();
        let mut syncs: Vec<_> = files.iter().map(|file| sync(2, file, Patience::MustNotBlock)).collect();
        queue = std::thread::spawn(move || {
            queue.submit(&mut writes);
            queue.submit(&mut syncs);
            queue
        })
        .join()
        .unwrap();
        assert_eq!(finish(&mut queue).len(), 80);
        for file in &files {
            let mut bytes = vec![0xFF; 100_000];
            assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 100_000);
            assert!(bytes.iter().all(|byte| *byte == round));
        }
    }
}

#[test]
fn a_file_may_be_let_go_while_its_operations_are_in_flight() {
    let root = tempfile::tempdir().unwrap();
    let mut queue = UringQueue::with_entries(8);
    for file in files(root.path(), 30) {
        queue.submit(&mut vec![write(1, &file, 0, vec![7; 50_000]), read(2, &file, 10)]);
    }
    drop(queue);
    for file in files(root.path(), 30) {
        assert_eq!(file.size().unwrap(), 50_000, "dropping the queue waits for its operations");
    }
}

#[test]
fn each_queue_has_a_ring_of_its_own() {
    let disk = UringDisk::new(IoMode::Uring).unwrap();
    let (first, second) = (disk.queue().unwrap(), disk.queue().unwrap());
    let root = tempfile::tempdir().unwrap();
    let file = disk.open(&root.path().join("a"), Open::Create).unwrap();
    let descriptor = |queue: &dyn Queue| queue.wake_descriptor().unwrap().unwrap();
    let (of_first, of_second) = (descriptor(&*first), descriptor(&*second));
    let mut first = first;
    first.submit(&mut vec![sync(1, &file, Patience::MustNotBlock)]);
    assert!(sys::is_readable(&of_first, 10_000).unwrap());
    assert!(!sys::is_readable(&of_second, 0).unwrap());
}
