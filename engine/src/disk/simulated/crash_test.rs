//! What a crash of a simulated disk leaves, scenario by scenario, and that each kind of loss does occur.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;

use bytes::Bytes;
use fastrand::Rng;

use super::{
    CallKind, Completing, Fault, PAGE_BYTES, SimulatedCounters, SimulatedDisk, Tear, Unsynced, is_crash,
};
use crate::disk::{Completion, Disk, Done, File, LockError, Open, Operation, OperationKind, Patience, Wait};

fn root() -> &'static Path {
    Path::new("/data")
}

fn new_disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    disk.create_directory(root()).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    disk
}

/// A file whose name and contents are certain.
fn certain_file(disk: &SimulatedDisk, name: &str, bytes: &[u8]) -> File {
    let file = disk.open(&root().join(name), Open::Create).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync().unwrap();
    disk.sync_directory(root()).unwrap();
    file
}

fn write(token: u64, file: &File, position: u64, bytes: Vec<u8>) -> Operation {
    let buffers = vec![Bytes::from(bytes)];
    Operation { token, file: File::clone(file), kind: OperationKind::Write { position, buffers } }
}

fn sync(token: u64, file: &File) -> Operation {
    let kind = OperationKind::Sync { patience: Patience::MustNotBlock };
    Operation { token, file: File::clone(file), kind }
}

/// Replaces a small file as checkpoints are replaced.
fn replace(disk: &SimulatedDisk, text: &[u8], synced: bool) -> io::Result<()> {
    let (path, new) = (root().join("checkpoint"), root().join("checkpoint.tmp"));
    let file = disk.open(&new, Open::Create)?;
    file.set_size(0)?;
    file.write_all_at(text, 0)?;
    if synced {
        file.sync()?;
    }
    disk.rename(&new, &path)?;
    disk.sync_directory(root())
}

/// For every crash point of a replacement, and several outcomes of each: what the file says afterwards.
fn outcomes_of_replacing(synced: bool) -> BTreeSet<Vec<u8>> {
    let base = new_disk(3);
    replace(&base, &[1; 6_000], true).unwrap();
    let counted = base.fork(0);
    counted.take_calls();
    replace(&counted, &[2; 9_000], synced).unwrap();
    let calls = counted.take_calls();
    assert!(
        calls.iter().any(|call| call.kind == CallKind::Rename)
            && calls.iter().all(|call| call.kind.is_change())
    );
    let mut outcomes = BTreeSet::new();
    for call in base.next_call()..=counted.next_call() {
        for seed in 0..40 {
            let disk = base.fork(seed);
            disk.crash_at(call);
            let result = replace(&disk, &[2; 9_000], synced);
            assert_eq!(disk.is_down(), result.as_ref().is_err_and(is_crash));
            let mut rng = Rng::with_seed(seed);
            let after = if seed % 4 == 0 {
                disk.crash_kill(&mut rng)
            } else {
                disk.crash_power(Unsynced::Chosen, &mut rng)
            };
            outcomes.insert(after.contents(&root().join("checkpoint")).unwrap());
            if result.is_ok() && synced {
                assert_eq!(after.contents(&root().join("checkpoint")).unwrap(), [2; 9_000]);
            }
        }
    }
    outcomes
}

#[test]
fn a_synced_replacement_leaves_the_old_or_the_new_at_every_crash_point() {
    assert_eq!(outcomes_of_replacing(true), BTreeSet::from([vec![1; 6_000], vec![2; 9_000]]));
}

#[test]
fn a_replacement_that_is_not_synced_is_found_out() {
    let outcomes = outcomes_of_replacing(false);
    assert!(outcomes.len() > 10, "{} outcomes", outcomes.len());
    assert!(outcomes.contains(&Vec::new()), "the name without the contents");
}

#[test]
fn a_crash_ends_handles_locks_and_queues_and_changes_the_boot_only_with_the_machine() {
    let mut rng = Rng::with_seed(1);
    let disk = new_disk(1);
    let file = certain_file(&disk, "a", b"bytes");
    let guard = disk.lock(root()).unwrap();
    guard.write(b"process 1").unwrap();
    let mut queue = disk.queue().unwrap();
    let life = disk.incarnation(root()).unwrap();

    let second = disk.crash_kill(&mut rng);
    assert!(is_crash(&file.size().unwrap_err()) && is_crash(&file.sync().unwrap_err()));
    assert!(is_crash(&disk.list(root()).unwrap_err()) && is_crash(&guard.read().unwrap_err()));
    queue.submit(&mut vec![sync(7, &file)]);
    let mut completed = Vec::new();
    queue.reap(Wait::ForOne, &mut completed);
    assert!(matches!(&completed[..], [Completion { token: 7, result: Err(error) }] if is_crash(error)));
    assert_eq!(second.incarnation(root()).unwrap(), life);
    let new_guard = second.lock(root()).unwrap();
    assert_eq!(new_guard.read().unwrap(), b"process 1", "a kill keeps what was written");
    drop(guard);
    assert!(matches!(second.lock(root()), Err(LockError::Held { .. })), "an old guard frees nothing");

    let third = second.crash_power(Unsynced::Lost, &mut rng);
    assert_ne!(third.incarnation(root()).unwrap(), life);
    third.lock(root()).unwrap();
    third.hide_incarnation();
    assert_eq!(third.incarnation(root()), None);
}

#[test]
fn the_extremes_of_a_power_loss() {
    for unsynced in [Unsynced::Lost, Unsynced::Kept] {
        let disk = new_disk(1);
        let file = certain_file(&disk, "a", &[1; 5_000]);
        disk.open(&root().join("new"), Open::Create).unwrap();
        file.write_all_at(&[2; 5_000], 4_000).unwrap();
        let kept = unsynced == Unsynced::Kept;
        let disk = disk.crash_power(unsynced, &mut Rng::with_seed(1));
        let bytes = disk.contents(&root().join("a")).unwrap();
        assert_eq!(bytes, if kept { [[1; 4_000].as_slice(), &[2; 5_000]].concat() } else { vec![1; 5_000] });
        assert_eq!(disk.open(&root().join("new"), Open::Read).is_ok(), kept);
    }
}

#[test]
fn renames_are_done_or_undone_as_a_whole_and_in_order() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..100 {
        let disk = new_disk(seed);
        certain_file(&disk, "a", b"bytes");
        disk.rename(&root().join("a"), &root().join("b")).unwrap();
        disk.rename(&root().join("b"), &root().join("c")).unwrap();
        let disk = disk.crash_power(Unsynced::Chosen, &mut Rng::with_seed(seed));
        let names: Vec<_> = disk.list(root()).unwrap().into_iter().map(|entry| entry.name).collect();
        outcomes.insert(names.join(" and "));
    }
    assert_eq!(outcomes, ["a", "b", "c"].map(str::to_owned).into());
}

/// Whatever the order of the two, a sync never covers a write that it was submitted with.
#[test]
fn a_sync_in_a_queue_covers_only_what_had_completed_before_it_was_submitted() {
    let mut orders = BTreeSet::new();
    for seed in 0..10 {
        let mut rng = Rng::with_seed(seed);
        let disk = new_disk(5);
        disk.set_completing(Completing::WhenTold);
        let file = certain_file(&disk, "a", b"");
        let mut queue = disk.queue().unwrap();
        let mut completed = Vec::new();
        queue.submit(&mut vec![write(1, &file, 0, b"one".to_vec())]);
        assert!(disk.complete_next(&mut rng));
        queue.reap(Wait::Not, &mut completed);
        queue.submit(&mut vec![write(2, &file, 3, b"two".to_vec()), sync(3, &file)]);
        assert_eq!((disk.uncompleted(), queue.in_flight()), (2, 2));
        while disk.complete_next(&mut rng) {}
        queue.reap(Wait::Not, &mut completed);
        assert!(completed.iter().all(|completion| completion.result.is_ok()));
        orders.insert(completed.iter().map(|completion| completion.token).collect::<Vec<_>>());
        assert_eq!(disk.certain_contents(&root().join("a")).unwrap(), b"one", "seed {seed}");
        queue.submit(&mut vec![sync(4, &file)]);
        queue.reap(Wait::ForOne, &mut completed);
        assert!(matches!(completed.last(), Some(Completion { token: 4, result: Ok(Done::Synced) })));
        assert_eq!(disk.certain_contents(&root().join("a")).unwrap(), b"onetwo");
    }
    assert_eq!(orders, BTreeSet::from([vec![1, 2, 3], vec![1, 3, 2]]));
}

#[test]
fn a_kill_leaves_a_prefix_of_a_write_in_flight() {
    let mut lengths = BTreeSet::new();
    for seed in 0..60 {
        let disk = new_disk(seed);
        disk.set_completing(Completing::WhenTold);
        let file = certain_file(&disk, "a", b"");
        let mut queue = disk.queue().unwrap();
        let bytes: Vec<u8> = (0..10_000_u32).map(|number| number.to_le_bytes()[0] | 1).collect();
        queue.submit(&mut vec![write(1, &file, 0, bytes.clone())]);
        let disk = disk.crash_kill(&mut Rng::with_seed(seed));
        let left = disk.contents(&root().join("a")).unwrap();
        assert!(bytes.starts_with(&left), "seed {seed}");
        lengths.insert(left.len());
    }
    assert!(lengths.contains(&0) && lengths.len() > 20, "{lengths:?}");
}

#[test]
fn completions_overtake_each_other_in_an_order_of_the_seed() {
    let order = |seed| {
        let disk = new_disk(seed);
        let file = certain_file(&disk, "a", b"");
        let mut queue = disk.queue().unwrap();
        queue.submit(&mut (0..8).map(|token| write(token, &file, token, vec![0])).collect());
        let mut completed = Vec::new();
        queue.reap(Wait::Not, &mut completed);
        completed.iter().map(|completion| completion.token).collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn a_full_disk_refuses_but_reserved_room_is_kept() {
    let page = PAGE_BYTES as u64;
    let disk = new_disk(1);
    disk.set_capacity(Some(10 * page));
    let file = certain_file(&disk, "a", &[1; PAGE_BYTES]);
    assert_eq!(disk.free_bytes(root()).unwrap(), 9 * page);
    file.reserve(4 * page).unwrap();
    assert_eq!(disk.free_bytes(root()).unwrap(), 6 * page);
    let other = certain_file(&disk, "b", &vec![1; 6 * PAGE_BYTES]);
    assert_eq!(other.write_all_at(&[1], 6 * page).unwrap_err().kind(), ErrorKind::StorageFull);
    assert_eq!(other.reserve(7 * page).unwrap_err().kind(), ErrorKind::StorageFull);
    file.write_all_at(&[2; 3 * PAGE_BYTES], page).unwrap();
    assert_eq!(file.write_all_at(&[3; 2], 4 * page - 1).unwrap_err().kind(), ErrorKind::StorageFull);
    disk.remove_file(&root().join("b")).unwrap();
    assert_eq!(disk.free_bytes(root()).unwrap(), 0, "it is open");
    drop(other);
    assert_eq!(disk.free_bytes(root()).unwrap(), 6 * page);
    file.set_size(page).unwrap();
    assert_eq!(disk.free_bytes(root()).unwrap(), 9 * page);
    assert_eq!(disk.counters().out_of_space, 3);
}

#[test]
fn a_call_is_failed_once_by_its_number() {
    for (fault, kind) in [(Fault::NoSpace, ErrorKind::StorageFull), (Fault::Io, ErrorKind::Other)] {
        let disk = new_disk(1);
        disk.fail_call(disk.next_call() + 1, fault);
        assert!(disk.list(root()).is_ok());
        let error = disk.create_directory(&root().join("t")).unwrap_err();
        assert!(error.kind() == kind || error.raw_os_error() == Some(libc::EIO), "{error}");
        assert!(!is_crash(&error));
        disk.create_directory(&root().join("t")).unwrap();
    }
    let disk = new_disk(1);
    let file = certain_file(&disk, "a", b"");
    disk.fail_call(disk.next_call(), Fault::ShortWrite);
    file.write_all_at(&[1; 100], 0).unwrap_err();
    assert_eq!(file.size().unwrap(), 50);
}

/// As on Linux: after a failed sync the next one succeeds and proves nothing.
#[test]
fn a_sync_after_a_failed_one_does_not_bring_back_what_was_lost() {
    let mut lost = 0;
    for seed in 0..20 {
        let disk = new_disk(seed);
        let file = certain_file(&disk, "a", b"old");
        file.write_all_at(b"new", 0).unwrap();
        disk.fail_call(disk.next_call(), Fault::Io);
        file.sync().unwrap_err();
        file.sync().unwrap();
        assert_eq!(disk.contents(&root().join("a")).unwrap(), b"new", "the page cache shows it");
        let disk = disk.crash_power(Unsynced::Kept, &mut Rng::with_seed(seed));
        lost += u64::from(disk.contents(&root().join("a")).unwrap() == b"old");
    }
    assert!(lost > 0 && lost < 20, "{lost}");
}

/// What the page cache shows gets to the medium when it is written again: the same bytes, at the same places.
#[test]
fn what_is_written_again_after_a_failed_sync_is_certain_with_the_next() {
    for seed in 0..20 {
        let disk = new_disk(seed);
        let file = certain_file(&disk, "a", b"old");
        file.write_all_at(&[7; 9_000], 0).unwrap();
        disk.rename(&root().join("a"), &root().join("b")).unwrap();
        disk.fail_call(disk.next_call(), Fault::Io);
        file.sync().unwrap_err();
        disk.fail_call(disk.next_call(), Fault::Io);
        disk.sync_directory(root()).unwrap_err();

        let disk = disk.crash_kill(&mut Rng::with_seed(seed));
        let file = disk.open(&root().join("b"), Open::Write).unwrap();
        file.write_all_at(&[7; 9_000], 0).unwrap();
        file.sync().unwrap();
        disk.open(&root().join("c"), Open::Create).unwrap();
        disk.sync_directory(root()).unwrap();
        let disk = disk.crash_power(Unsynced::Lost, &mut Rng::with_seed(seed));
        assert_eq!(disk.contents(&root().join("b")).unwrap(), [7; 9_000]);
        assert!(disk.contents(&root().join("a")).is_err());
    }
}

/// A day in the life of a disk: appends, cuts, renames, removals, faults and crashes.
fn live_through(seed: u64) -> (SimulatedCounters, Vec<Vec<u8>>) {
    let mut rng = Rng::with_seed(seed);
    let mut disk = new_disk(seed);
    disk.set_completing(Completing::WhenTold);
    disk.set_cold_percent(20);
    let mut left = Vec::new();
    for round in 0..6 {
        let file = disk.open(&root().join("log"), Open::Create).unwrap();
        let mut queue = disk.queue().unwrap();
        for number in 0..12 {
            let position = file.size().unwrap();
            let bytes = vec![rng.u8(1..); rng.usize(1..9_000)];
            match rng.u8(..12) {
                0 => file.set_size(position / 2).unwrap(),
                1 => drop(disk.rename(&root().join("log.tmp"), &root().join("log.old"))),
                2 => drop(disk.remove_file(&root().join("log.old"))),
                3 => drop(disk.open(&root().join("log.tmp"), Open::Create).unwrap()),
                4 => drop(file.sync()),
                5 => disk.sync_directory(root()).unwrap(),
                6 => {
                    let fault = [Fault::Io, Fault::NoSpace, Fault::ShortWrite][rng.usize(..3)];
                    disk.fail_call(disk.next_call(), fault);
                    drop(if rng.bool() { file.write_all_at(&bytes, position) } else { file.sync() });
                }
                7 => drop(file.read_cached(&mut bytes::BytesMut::new(), 10, 0)),
                8 => queue.submit(&mut vec![write(number, &file, position + 50_000, bytes), sync(99, &file)]),
                9 => drop(disk.complete_next(&mut rng)),
                _ => file.write_all_at(&bytes, position).unwrap(),
            }
        }
        disk = match round % 3 {
            0 => disk.crash_kill(&mut rng),
            _ => disk.crash_power(Unsynced::Chosen, &mut rng),
        };
        left.push(disk.contents(&root().join("log")).unwrap_or_default());
    }
    (disk.counters(), left)
}

#[test]
fn everything_follows_from_the_seed() {
    assert_eq!(live_through(7), live_through(7));
    assert_ne!(live_through(7), live_through(8));
}

#[test]
fn every_kind_of_loss_occurs() {
    let mut sum = [0; 19];
    for seed in 0..300 {
        let (counters, _) = live_through(seed);
        let SimulatedCounters {
            power_losses,
            kills,
            holes,
            sizes_before_data,
            stale_pages,
            torn_pages,
            reorderings,
            lost_sizes,
            undone_cuts,
            lost_names,
            resurrected_names,
            dropped_operations,
            interrupted_writes,
            short_writes,
            io_errors,
            out_of_space,
            failed_syncs,
            cold_reads,
            overtakings,
        } = counters;
        let all = [
            power_losses,
            kills,
            holes,
            sizes_before_data,
            stale_pages,
            torn_pages,
            reorderings,
            lost_sizes,
            undone_cuts,
            lost_names,
            resurrected_names,
            dropped_operations,
            interrupted_writes,
            short_writes,
            io_errors,
            out_of_space,
            failed_syncs,
            cold_reads,
            overtakings,
        ];
        sum.iter_mut().zip(all).for_each(|(sum, count)| *sum += count);
    }
    assert!(sum.iter().all(|count| *count > 0), "{sum:?}");
}

#[test]
fn pages_are_whole_where_the_medium_does_not_tear_them() {
    let mut found = BTreeSet::new();
    for seed in 0..200 {
        let disk = new_disk(seed);
        disk.set_tear(if seed % 2 == 0 { Tear::Pages } else { Tear::Sectors });
        let file = certain_file(&disk, "a", &[1; PAGE_BYTES]);
        file.write_all_at(&[2; PAGE_BYTES], 0).unwrap();
        let disk = disk.crash_power(Unsynced::Chosen, &mut Rng::with_seed(seed));
        let bytes = disk.contents(&root().join("a")).unwrap();
        let is_whole = bytes.iter().all(|byte| *byte == bytes[0]);
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])), "seed {seed}");
        found.insert((seed % 2 == 0, is_whole));
    }
    assert_eq!(found, BTreeSet::from([(true, true), (false, true), (false, false)]));
}

#[test]
fn damage_shows_at_once_and_after_a_crash() {
    let disk = new_disk(1);
    certain_file(&disk, "a", &[1; 5_000]);
    disk.damage(&root().join("a"), 4_090, &[9; 10]).unwrap();
    let disk = disk.crash_power(Unsynced::Lost, &mut Rng::with_seed(1));
    let bytes = disk.contents(&root().join("a")).unwrap();
    assert_eq!((bytes.len(), &bytes[4_088..4_102]), (5_000, &[1, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 1, 1][..]));
}

#[test]
fn a_fork_goes_its_own_way() {
    let disk = new_disk(1);
    let file = certain_file(&disk, "a", b"both");
    let _guard = disk.lock(root()).unwrap();
    let fork = disk.fork(2);
    fork.lock(root()).unwrap();
    fork.open(&root().join("a"), Open::Write).unwrap().write_all_at(b"fork", 0).unwrap();
    file.write_all_at(b"more than both", 0).unwrap();
    assert_eq!(fork.contents(&root().join("a")).unwrap(), b"fork");
    assert_eq!(disk.contents(&root().join("a")).unwrap(), b"more than both");
}
