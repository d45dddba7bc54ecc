//! Directories that no state can be made of are refused by name, and nothing is changed.

use highwater_engine::checkpoint::{META_PROPERTIES, MetaProperties, write_properties};
use highwater_engine::units::NodeId;

use super::*;
use crate::clock::Clock;

fn run(what: &Rebuild) -> Result<String, RebuildFailure> {
    let mut out = Vec::new();
    rebuild_controller(what, Clock::start().now(), 3, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

fn home(directory: &Path, node: i32) {
    std::fs::create_dir_all(directory).unwrap();
    let properties = MetaProperties {
        node: NodeId::new(node).unwrap(),
        cluster: "a-cluster".to_owned(),
        directory: None,
        others: BTreeMap::new(),
    };
    let disk = PosixDisk::new(SyncThread::Never);
    write_properties(&disk, &directory.join(META_PROPERTIES), &properties).unwrap();
}

#[test]
fn whoever_runs_is_left_alone_and_what_is_there_stays() {
    let root = tempfile::tempdir().unwrap();
    let (controller, data) = (root.path().join("controller"), root.path().join("1"));
    let what = Rebuild { controller: controller.clone(), brokers: vec![data.clone()], ..Rebuild::default() };
    assert!(matches!(run(&what), Err(RebuildFailure::Look(LookError::NoBroker { .. }))));
    home(&data, 1);
    let held = PosixDisk::new(SyncThread::Never).lock(&data).unwrap();
    let error = run(&what).unwrap_err().to_string();
    assert!(error.contains("stop the whole cluster first"), "{error}");
    drop(held);
    assert!(run(&what).unwrap().contains("nothing was changed; --execute does it\n"));
    assert!(!controller.exists());
    let unknown = Rebuild { topics: BTreeMap::from([("t".to_owned(), BTreeMap::new())]), ..what.clone() };
    assert!(matches!(run(&unknown), Err(RebuildFailure::NoSuchTopic { .. })));
    let execute = Rebuild { execute: true, ..what };
    assert!(run(&execute).unwrap().ends_with("done; start the cluster, with all of these brokers\n"));
    assert!(matches!(run(&execute), Err(RebuildFailure::InTheWay { .. })));
}
