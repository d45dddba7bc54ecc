//! The same steps where nothing fails, on every disk there is: what holds in simulation holds on a file system.

use std::path::Path;
use std::sync::Arc;

use highwater_engine::disk::{
    Disk, IoMode, Patience, PosixDisk, QueueCounters, SimulatedDisk, SyncThread, UringDisk, Wait,
};
use highwater_engine::log::{Log, Permit, Step as Rung};
use highwater_engine::store::{Opened, Store, StoreConfig};
use highwater_engine::units::{LeaderEpoch, Now, TopicPartition};

use super::batches::{check, sent};
use super::{Choices, Content, Setting, Step, Trial};

fn disks() -> Vec<(&'static str, Arc<dyn Disk>)> {
    let ring = |mode| Arc::new(UringDisk::new(mode).expect("this machine gives rings"));
    vec![
        ("simulated", Arc::new(SimulatedDisk::new(1))),
        ("posix", Arc::new(PosixDisk::new(SyncThread::WhenNeeded))),
        ("ring, automatic", ring(IoMode::Auto)),
        ("ring, always", ring(IoMode::Uring)),
    ]
}

#[test]
fn a_log_is_the_model_on_every_disk() {
    for (name, disk) in disks() {
        for seed in 0..4 {
            let root = tempfile::tempdir().unwrap();
            let directory = if name == "simulated" {
                Path::new("/").join(seed.to_string())
            } else {
                root.path().join("data")
            };
            let mut choices = Choices::seeded(seed);
            let mut trial = Trial::on(Arc::clone(&disk), &directory, Setting::default());
            let mut run = || {
                trial.open()?;
                for _ in 0..120 {
                    let step = Step::draw(&mut choices, trial.model(), trial.time_ms());
                    trial.apply(&step)?;
                }
                trial.apply(&Step::Reopen)
            };
            if let Err(violation) = run() {
                panic!("{name}, seed {seed}\n{violation}");
            }
        }
    }
}

fn three_logs(disk: Arc<dyn Disk>, root: &Path) -> (Store, Vec<Log>) {
    let opened = Store::open(disk, &root.join("data"), StoreConfig::default(), Now::default());
    let Opened { store, .. } = opened.unwrap();
    let make = |number| {
        let name = TopicPartition::new("t", number).unwrap();
        store.create_log(&name, None, Setting::default().log, Now::default()).unwrap()
    };
    let logs = (0..3).map(make).collect();
    (store, logs)
}

fn append(log: &Log, tag: u64) -> highwater_engine::log::Appended {
    let batch = check(&sent(&Content::plain(2, 100, 1), tag));
    log.append(Permit::new(LeaderEpoch::ZERO), batch, Now::default()).unwrap()
}

/// What went which way since `before`.
fn since(store: &Store, before: QueueCounters) -> [u64; 4] {
    let now = store.counters();
    [
        now.writes_inline - before.writes_inline,
        now.writes_ring - before.writes_ring,
        now.syncs_inline - before.syncs_inline,
        now.syncs_ring - before.syncs_ring,
    ]
}

#[test]
fn the_ring_carries_what_fans_out_and_nothing_else() {
    let root = tempfile::tempdir().unwrap();
    let disk = Arc::new(UringDisk::new(IoMode::Auto).expect("this machine gives rings"));
    let (store, logs) = three_logs(disk, root.path());
    let finish = |wait| while store.turn(wait, Patience::MustNotBlock).in_flight > 0 {};

    // One durable writer: both steps in its own thread.
    let before = store.counters();
    let ticket = append(&logs[0], 1).ticket;
    store.wait(ticket, Rung::Durable).unwrap();
    assert_eq!(since(&store, before), [1, 0, 1, 0], "a lone write and a lone waiter's sync are done inline");

    // An event loop writes to one log and must not wait for its sync.
    let before = store.counters();
    append(&logs[0], 2);
    store.want_durable(&logs[0]);
    finish(Wait::ForOne);
    assert_eq!(since(&store, before), [1, 0, 0, 1], "a lone write inline, the sync through the ring");
    assert_eq!(logs[0].durable(), logs[0].accepted());

    // Three logs at once: their writes inline, then their syncs in one submission.
    let before = store.counters();
    for (log, tag) in logs.iter().zip(3..) {
        append(log, tag);
        store.want_durable(log);
    }
    finish(Wait::ForOne);
    assert_eq!(since(&store, before), [3, 0, 0, 3], "syncs of several logs go through the ring");
    assert!(logs.iter().all(|log| log.durable() == log.accepted()));
    store.close(serde_json::Map::new(), None).unwrap();
}
