//! A compacted topic: each replica compacts alone, and all of them have the same of every key in the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use highwater_engine::batch::{DecompressLimits, scan};
use highwater_engine::log::Cleanup;
use highwater_engine::store::{ReadOnlyStore, Store, StoreConfig};
use highwater_engine::units::{NodeId, Now, TopicPartition};
use highwater_replication::shard::Shard;
use highwater_replication::wire::ErrorCode;

use crate::cluster::{Cluster, config, open_with, posix};

const TOPIC: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0"), ("segment.bytes", "400")];

/// Three brokers that look for something to compact every second, and read and write so many bytes of it in one.
fn cluster(path: &Path, bytes_per_second: Option<u64>) -> Cluster {
    let mut cluster = Cluster::new(path);
    let now = cluster.now;
    for id in cluster.shards.keys().copied().collect::<Vec<_>>() {
        drop(cluster.shards.remove(&id));
        cluster.shards.insert(id, shard(path, id, bytes_per_second, now));
    }
    cluster.run(50);
    cluster.create_topic_with("topic", &TOPIC);
    cluster.run(1500);
    cluster
}

fn shard(path: &Path, id: NodeId, bytes_per_second: Option<u64>, now: Now) -> Shard {
    let mut config = config(id.value());
    config.compaction_interval = Duration::from_secs(1);
    config.compaction_bytes_per_second = bytes_per_second;
    open_with(posix(), path, config, now)
}

/// What is in the files of a log: offsets, and the newest value of each key.
fn contents(store: &Store, name: &TopicPartition) -> (Vec<i64>, BTreeMap<String, String>) {
    let mut config = StoreConfig::default();
    config.log.cleanup = Cleanup::Compact;
    let seen = ReadOnlyStore::open(store.disk(), store.directory(), config).unwrap().log(name).unwrap();
    let (mut offsets, mut state, mut from) = (Vec::new(), BTreeMap::new(), seen.start());
    while let Some(records) = seen.read(from, 1 << 20).unwrap() {
        for part in &records.parts {
            for batch in scan(part, 0) {
                let (_, batch) = batch.unwrap();
                let mut scratch = Vec::new();
                for record in batch.records(&DecompressLimits::default(), &mut scratch).unwrap() {
                    let record = record.unwrap();
                    offsets.push(record.offset.value());
                    let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                    match record.value {
                        Some(value) => state.insert(key, String::from_utf8(value.to_vec()).unwrap()),
                        None => state.remove(&key),
                    };
                }
            }
        }
        from = records.end;
    }
    (offsets, state)
}

fn compacted(cluster: &Cluster, id: NodeId) -> usize {
    let begin = format!("{id}: Compacted");
    cluster.log.iter().filter(|line| line.starts_with(&begin)).count()
}

#[test]
fn s50_replicas_compact_alone_and_one_that_was_away_has_the_same_of_every_key_in_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = cluster(directory.path(), None);
    let name = TopicPartition::new("topic", 0).unwrap();
    assert_eq!(cluster.produce(&name, "no key").0, ErrorCode::InvalidRecord);
    let write = |cluster: &mut Cluster, records: &[(Option<&str>, Option<&str>)]| {
        let (error, _) = cluster.produce_records(&name, records);
        assert_eq!(error, ErrorCode::None, "{:#?}", cluster.log);
    };
    for value in ["1", "2", "3", "4"] {
        write(
            &mut cluster,
            &[("a", value), ("b", value), ("c", value)].map(|(key, value)| (Some(key), Some(value))),
        );
        write(&mut cluster, &[("b", value), ("a", value)].map(|(key, value)| (Some(key), Some(value))));
    }
    cluster.run(3000);
    let away = *cluster.shards.keys().find(|id| **id != cluster.leader(&name)).unwrap();
    for id in cluster.shards.keys() {
        assert!(compacted(&cluster, *id) > 0, "{id}: {:#?}", cluster.log);
    }
    drop(cluster.shards.remove(&away));
    cluster.lanes.clear();
    // Until it is fenced it holds the high watermark back.
    cluster.run(12_000);
    write(&mut cluster, &[(Some("a"), None), (Some("d"), Some("0"))]);
    for value in ["5", "6", "7"] {
        write(
            &mut cluster,
            &[("b", value), ("d", value), ("b", value)].map(|(key, value)| (Some(key), Some(value))),
        );
        write(&mut cluster, &[("d", value), ("b", value)].map(|(key, value)| (Some(key), Some(value))));
    }
    cluster.run(3000);
    let last: BTreeMap<String, String> =
        [("b", "7"), ("c", "4"), ("d", "7")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let now = cluster.now;
    cluster.lanes.clear();
    cluster.shards.insert(away, shard(directory.path(), away, None, now));
    cluster.run(6000);
    let isr = cluster.controller.state().partition(&name).unwrap().isr.clone();
    assert_eq!(isr.len(), 3, "{:#?}", cluster.log);
    for (id, shard) in &cluster.shards {
        let (offsets, state) = contents(shard.store(), &name);
        assert_eq!(state, last, "{id}");
        assert!(offsets.len() < 20, "{id} has {offsets:?}");
        assert_eq!(shard.store().log(&name).unwrap().written().value(), 37, "{id}");
    }
}

#[test]
fn compaction_reads_and_writes_no_more_in_a_second_than_it_may() {
    const RATE: u64 = 500;
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = cluster(directory.path(), Some(RATE));
    let name = TopicPartition::new("topic", 0).unwrap();
    for value in ["1", "2", "3", "4", "5"] {
        let (error, _) = cluster.produce_records(&name, &[(Some("key"), Some(value)); 6]);
        assert_eq!(error, ErrorCode::None);
    }
    let leader = cluster.leader(&name);
    let bytes = cluster.shards[&leader].store().log(&name).unwrap().size_bytes();
    let begin = (cluster.now, compacted(&cluster, leader));
    // What is sealed is read twice at least.
    let seconds = bytes / RATE;
    cluster.run(seconds * 1000);
    let rounds = compacted(&cluster, leader) - begin.1;
    assert!(
        rounds <= 2,
        "{bytes} bytes, {seconds} s: {rounds} rounds since {:?}, {:#?}",
        begin.0,
        cluster.log
    );
    cluster.run(8 * seconds * 1000);
    let (offsets, state) = contents(cluster.shards[&leader].store(), &name);
    // Of what is sealed one record, and the two batches of the segment that is being written.
    assert_eq!((offsets.len(), state.len()), (13, 1), "{offsets:?}");
}
