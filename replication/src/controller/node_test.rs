//! The controller over its store: nothing is answered that a crash could take back, and damage is refused.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use highwater_engine::disk::simulated::{Completing, Unsynced};
use highwater_engine::disk::{Disk, Patience, SimulatedDisk};
use highwater_engine::units::{Monotonic, Now, Timestamp};

use super::fixture::*;
use super::*;
use crate::rules::Rules;

const DIRECTORY: &str = "/controller";

fn now(step: u64) -> Now {
    let millis = 1_000_000 + i64::try_from(step).unwrap();
    Now {
        monotonic: Monotonic::from_duration(Duration::from_millis(step)),
        wall: Timestamp::from_millis(millis),
    }
}

fn open(disk: &SimulatedDisk, snapshot_changes: u64) -> Result<ControllerNode, ControllerOpenError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let config = ControllerConfig { snapshot_changes, ..config() };
    ControllerNode::open(disk, Path::new(DIRECTORY), config, Rules::default(), 5, now(0))
}

/// The calls of a small cluster's life.
fn script() -> Vec<ControllerRequest> {
    let mut calls: Vec<ControllerRequest> =
        (1..=3).map(|id| ControllerRequest::Register(registration(id))).collect();
    for round in 0..3 {
        calls.push(ControllerRequest::CreateTopic(NewTopic {
            partitions: Some(4),
            ..new_topic(&format!("topic-{round}"))
        }));
        calls.push(ControllerRequest::AllocateProducerIds);
        calls.push(ControllerRequest::ProcessEnded { node: node(round + 1), process: None });
        calls.push(ControllerRequest::Register(registration(round + 1)));
    }
    calls.push(ControllerRequest::DeleteTopic { name: "topic-1".to_owned(), id: None });
    calls
}

/// Plays the script as far as the disk lets it: the last state of which an answer got out, and every state on the way by version.
fn play(disk: &SimulatedDisk, snapshot_changes: u64) -> (u64, BTreeMap<u64, ClusterState>) {
    let mut states = BTreeMap::from([(0, ClusterState::empty())]);
    let mut answered = 0;
    let Ok(mut controller) = open(disk, snapshot_changes) else { return (answered, states) };
    for (id, request) in (0..).zip(script()) {
        controller.tell(Input::Call { id: CallId(id), call: ControllerCall { sender: None, request } });
        let turned = controller.turn(now(id), Patience::MayBlock);
        states.insert(controller.state().version, controller.state().clone());
        match turned {
            Ok(outs) => {
                let replies = outs.iter().filter(|out| matches!(out, ControllerOut::Reply { .. })).count();
                assert_eq!(replies, 1, "call {id}");
                answered = controller.state().version;
            }
            Err(_) => return (answered, states),
        }
    }
    (answered, states)
}

#[test]
fn a_controller_goes_on_where_it_was_left() {
    for (snapshot_changes, stop_cleanly) in [(1_000, false), (1_000, true), (4, false), (4, true)] {
        let disk = SimulatedDisk::new(1);
        let (version, states) = play(&disk, snapshot_changes);
        let mut disk = disk.crash_kill(&mut fastrand::Rng::with_seed(1));
        if stop_cleanly {
            open(&disk, snapshot_changes).unwrap().close().unwrap();
            disk = disk.crash_power(Unsynced::Lost, &mut fastrand::Rng::with_seed(1));
        }
        let controller = open(&disk, snapshot_changes).unwrap();
        assert_eq!(Some(controller.state()), states.get(&version), "{snapshot_changes} {stop_cleanly}");
        assert_eq!(disk.contents(Path::new("/controller/state.snapshot")).is_ok(), snapshot_changes == 4);
    }
}

#[test]
fn whatever_call_of_the_disk_a_crash_comes_at_what_was_answered_stays() {
    let whole = SimulatedDisk::new(2);
    let (last, states) = play(&whole, 4);
    let calls = whole.next_call();
    assert!(calls > 50 && last > 10, "{calls} calls, {last} changes");
    let mut lost_changes = 0;
    for call in 0..calls {
        for (kind, seed) in
            [Some(Unsynced::Lost), Some(Unsynced::Kept), Some(Unsynced::Chosen), None].iter().zip(1..)
        {
            let disk = SimulatedDisk::new(2);
            disk.crash_at(call);
            let (answered, seen) = play(&disk, 4);
            let mut rng = fastrand::Rng::with_seed(seed * 1_000 + call);
            let disk = match kind {
                Some(unsynced) => disk.crash_power(*unsynced, &mut rng),
                None => disk.crash_kill(&mut rng),
            };
            let mut controller =
                open(&disk, 4).unwrap_or_else(|error| panic!("call {call} {kind:?}: {error}"));
            // An empty state is made a cluster at once; everything else is a state that was there.
            let version = controller.state().version;
            assert!(version >= answered, "call {call} {kind:?}: {answered} answered, {version} left");
            let before = if version == 1 { None } else { states.get(&version) };
            if let Some(before) = before {
                assert_eq!(controller.state(), before, "call {call} {kind:?}");
            }
            lost_changes += usize::from(seen.keys().last().is_some_and(|made| *made > version));
            let request = ControllerRequest::AllocateProducerIds;
            controller
                .tell(Input::Call { id: CallId(1_000), call: ControllerCall { sender: None, request } });
            let outs = controller.turn(now(1_000), Patience::MayBlock).unwrap();
            let replies = outs.iter().filter(|out| matches!(out, ControllerOut::Reply { .. })).count();
            assert_eq!(replies, 1, "call {call} {kind:?}: the next process does not answer");
        }
    }
    assert!(lost_changes > 0, "some crash has to come between a change and its sync");
}

#[test]
fn nothing_leaves_before_its_sync_is_done() {
    let disk = SimulatedDisk::new(3);
    let mut controller = open(&disk, 1_000).unwrap();
    controller.turn(now(0), Patience::MayBlock).unwrap();
    disk.set_completing(Completing::WhenTold);
    let call = |request| ControllerCall { sender: None, request };
    controller.tell(Input::Call { id: CallId(1), call: call(ControllerRequest::AllocateProducerIds) });
    assert_eq!(controller.turn(now(1), Patience::MustNotBlock).unwrap(), []);
    // A reply that changes nothing waits too: it may speak of what is not durable yet.
    let ended = ControllerRequest::ProcessEnded { node: node(9), process: None };
    controller.tell(Input::Call { id: CallId(2), call: call(ended) });
    assert_eq!(controller.turn(now(2), Patience::MustNotBlock).unwrap(), []);
    assert!(controller.waits_for_disk());
    let mut rng = fastrand::Rng::with_seed(3);
    let mut outs = Vec::new();
    for step in 3..20 {
        assert!(outs.is_empty() || !controller.waits_for_disk());
        disk.complete_next(&mut rng);
        outs.extend(controller.turn(now(step), Patience::MustNotBlock).unwrap());
    }
    let block = ProducerIdBlock { first: 0, count: 1_000 };
    assert_eq!(
        outs,
        [
            ControllerOut::Reply { id: CallId(1), reply: ControllerReply::ProducerIds(Some(block)) },
            ControllerOut::Reply { id: CallId(2), reply: ControllerReply::Heard },
        ]
    );
}

type Harm = fn(&SimulatedDisk);

#[test]
fn damage_is_refused_and_says_what_to_do() {
    let disk = SimulatedDisk::new(4);
    play(&disk, 12);
    let disk = disk.crash_kill(&mut fastrand::Rng::with_seed(4));
    open(&disk, 12).unwrap().close().unwrap();
    let disk = disk.crash_kill(&mut fastrand::Rng::with_seed(4));
    let harms: [(&str, Harm); 3] = [
        ("a snapshot with a flipped digit", |disk| {
            disk.damage(Path::new("/controller/state.snapshot"), 40, b"7").unwrap();
        }),
        ("no log", |disk| disk.remove_directory(Path::new("/controller/__cluster_state-0")).unwrap()),
        ("another cluster's name", |disk| {
            let path = Path::new("/controller/meta.properties");
            let text = String::from_utf8(disk.contents(path).unwrap()).unwrap();
            let at = text.find("cluster.id=").unwrap() + "cluster.id=".len();
            disk.damage(path, u64::try_from(at).unwrap(), b"B").unwrap();
        }),
    ];
    for (what, harm) in harms {
        let copy = disk.fork(1);
        harm(&copy);
        let error = open(&copy, 12).err().unwrap_or_else(|| panic!("{what}: opened"));
        assert!(matches!(error, ControllerOpenError::Damaged { .. }), "{what}: {error:?}");
        assert!(error.to_string().contains("highwater controller rebuild"), "{what}: {error}");
    }
    let whole = open(&disk, 12).unwrap().state().clone();
    // A snapshot that is gone does no harm as long as all changes are there.
    disk.remove_file(Path::new("/controller/state.snapshot")).unwrap();
    assert_eq!(*open(&disk, 12).unwrap().state(), whole);
}

#[test]
fn a_second_controller_on_the_directory_is_refused() {
    let disk = SimulatedDisk::new(5);
    let first = open(&disk, 4).unwrap();
    assert!(matches!(open(&disk, 4), Err(ControllerOpenError::Store(_))));
    drop(first);
}

/// A directory whose every byte, one after the other, is another one, and whose every file ends earlier: what opens is the state that was
/// there, and everything else is refused.
#[test]
fn whatever_byte_is_another_one_the_state_is_the_same_or_refused() {
    for snapshot_changes in [6, 1_000] {
        let disk = SimulatedDisk::new(6);
        play(&disk, snapshot_changes);
        open(&disk, snapshot_changes).unwrap().close().unwrap();
        let disk = disk.crash_kill(&mut fastrand::Rng::with_seed(6));
        let state = open(&disk.fork(0), snapshot_changes).unwrap().state().clone();
        let (mut same, mut refused) = (0, 0);
        let mut judge = |what: String, copy: &SimulatedDisk| match open(copy, snapshot_changes) {
            Ok(opened) => {
                assert_eq!(*opened.state(), state, "{what}");
                same += 1;
            }
            Err(error) => {
                let text = error.to_string();
                let names_the_way = text.contains("highwater controller rebuild")
                    || matches!(
                        error,
                        ControllerOpenError::NewerFormat { .. } | ControllerOpenError::Store(_)
                    );
                assert!(names_the_way, "{what}: {text}");
                refused += 1;
            }
        };
        for path in files(&disk) {
            let bytes = disk.contents(&path).unwrap();
            // Of the log each byte would take minutes; a batch has a CRC, so that one byte stands for its neighbours.
            let step = if bytes.len() > 2_000 { 13 } else { 1 };
            for at in (0..bytes.len()).step_by(step) {
                let copy = disk.fork(1);
                copy.damage(&path, u64::try_from(at).unwrap(), &[bytes[at] ^ 0x10]).unwrap();
                judge(format!("{} byte {at} flipped", path.display()), &copy);
                let copy = disk.fork(1);
                let file = copy.open(&path, highwater_engine::disk::Open::Write).unwrap();
                file.set_size(u64::try_from(at).unwrap()).unwrap();
                drop(file);
                judge(format!("{} cut at {at}", path.display()), &copy);
            }
        }
        assert!(same > 50 && refused > 50, "{same} {refused}");
    }
}

fn files(disk: &SimulatedDisk) -> Vec<std::path::PathBuf> {
    use highwater_engine::disk::EntryKind;
    let (mut files, mut open) = (Vec::new(), vec![Path::new(DIRECTORY).to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in disk.list(&directory).unwrap() {
            let path = directory.join(&entry.name);
            match entry.kind {
                EntryKind::File => files.push(path),
                EntryKind::Directory => open.push(path),
                EntryKind::Other => {}
            }
        }
    }
    files
}

/// A directory that a program of the first format wrote is opened, and refused by that program from then on.
#[test]
fn a_state_of_the_first_format_is_raised_before_it_is_changed() {
    let disk = SimulatedDisk::new(7);
    let lines = include_str!("../../testdata/controller/changes-1.jsonl").lines();
    let changes: Vec<Change> =
        (0..).zip(lines).map(|(version, line)| Change::decode(line.as_bytes(), version).unwrap()).collect();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, _) = super::store::StateStore::open(shared, Path::new(DIRECTORY), now(0)).unwrap();
    let (count, ticket) = store.append(changes.iter().take(6), now(0)).unwrap();
    store.wait(ticket).unwrap();
    store.close().unwrap();
    let opened = open(&disk, 1_000).unwrap();
    assert_eq!((opened.state().format, opened.state().version, count), (FORMAT_VERSION, 6, 6));
    let snapshot = disk.contents(Path::new("/controller/state.snapshot")).unwrap();
    let format = format!(r#"{{"format":{FORMAT_VERSION},"#);
    assert!(snapshot[9..].starts_with(format.as_bytes()), "before anything else is written");
}
