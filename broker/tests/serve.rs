//! Brokers in this process, on real sockets and real directories, asked by a client of Kafka's protocol.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kafka;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use highwater_broker::ask::{self, ClusterStatus, Connection, NewTopic};
use highwater_broker::clock::Clock;
use highwater_broker::serve::{
    ControllerAt, ControllerHost, ControllerOptions, Form, Running, ServeError, ServeOptions, start,
};
use highwater_broker::settings::{HostPort, Settings};
use highwater_broker::supervisor::lifeline::StopOrder;
use highwater_engine::batch::{BatchBuilder, Compression, scan};
use highwater_engine::units::{NodeId, Timestamp, TopicPartition};
use highwater_replication::controller::Election;
use highwater_replication::wire::fetch::{FetchPartition, FetchRequest, FetchTopic, PartitionData};
use highwater_replication::wire::init_producer_id::InitProducerIdRequest;
use highwater_replication::wire::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use highwater_replication::wire::metadata::{MetadataRequest, MetadataRequestTopic};
use highwater_replication::wire::{ErrorCode, Records, Response};

use kafka::{answer_to, batch, client, consume, consume_from, produce, until};

fn here(port: u16) -> HostPort {
    HostPort { host: "127.0.0.1".to_owned(), port }
}

fn options(node: i32, listen: HostPort, data: &Path, controller: ControllerAt) -> ServeOptions {
    let settings =
        ["min.insync.replicas=2", "replica.lag.time.max.ms=2000", "broker.session.timeout.ms=3000"];
    ServeOptions {
        node: NodeId::new(node).unwrap(),
        listen,
        data: data.to_owned(),
        brokers: None,
        controller,
        settings: Settings::from_pairs(settings).unwrap(),
        form: Form::Json,
    }
}

fn alone(data: &Path) -> ServeOptions {
    let directory = data.with_extension("controller");
    options(1, here(0), data, ControllerAt::Own { directory })
}

fn stop(broker: Running) {
    broker.stopper().stop(StopOrder::All);
    broker.wait().expect("a clean stop");
}

fn status(address: &HostPort) -> ClusterStatus {
    ask::gather(&mut client(address)).unwrap()
}

#[test]
fn one_broker_takes_records_and_has_them_after_a_restart() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("1");
    let broker = start(alone(&data)).unwrap();
    let mut kafka = client(&broker.address);
    // A client's first question makes the topic, as with Kafka.
    let asked = MetadataRequestTopic { name: Some("made".to_owned()), ..Default::default() };
    until("the topic is made", || {
        let request = MetadataRequest { topics: Some(vec![asked.clone()]), ..Default::default() };
        let Response::Metadata(answer) = kafka.call(12, &request.into()).unwrap() else { return None };
        let topic = &answer.topics[0];
        let is_led = topic.error_code.is_none() && topic.partitions.iter().all(|p| p.leader_id == 1);
        is_led.then_some(())
    });
    let request = InitProducerIdRequest::default();
    let Response::InitProducerId(id) = kafka.call(4, &request.into()).unwrap() else { panic!() };
    assert_eq!((id.error_code, id.producer_epoch), (ErrorCode::None, 0));
    let first = batch(Some((id.producer_id, 0)), &["a", "b"]);
    until("the leader leads", || produce(&mut kafka, "made", -1, first.clone()).ok());
    assert_eq!(produce(&mut kafka, "made", -1, first.clone()), Ok(0), "a repeated batch is there once");
    assert_eq!(produce(&mut kafka, "made", 1, batch(Some((id.producer_id, 2)), &["c"])), Ok(2));
    let expected: Vec<(i64, String)> =
        [(0, "a"), (1, "b"), (2, "c")].map(|(offset, value)| (offset, value.to_owned())).into();
    assert_eq!(consume(&mut kafka, "made"), expected);
    assert!(matches!(start(alone(&data)), Err(ServeError::InUse(_))), "a second one on the same directory");
    stop(broker);
    assert!(data.join(".kafka_cleanshutdown").exists(), "a clean stop leaves its mark");
    let again = start(alone(&data)).unwrap();
    let mut kafka = client(&again.address);
    assert_eq!(
        until("the leader leads", || Some(consume(&mut kafka, "made")).filter(|r| !r.is_empty())),
        expected
    );
    let shown = status(&again.address);
    assert!(shown.partitions[0].possibly_lost_from.is_empty(), "nothing is suspected after a clean stop");
    let Response::InitProducerId(next) = kafka.call(4, &InitProducerIdRequest::default().into()).unwrap()
    else {
        panic!()
    };
    assert!(next.producer_id >= id.producer_id + 1_000, "ids are not used again after a restart");
    stop(again);
}

#[test]
fn a_bad_client_costs_itself_the_connection() {
    let root = tempfile::tempdir().unwrap();
    let broker = start(alone(&root.path().join("1"))).unwrap();
    let mut kafka = client(&broker.address);
    ask::create_topic(&mut kafka, &NewTopic { name: "t".to_owned(), ..Default::default() }).unwrap();
    let metadata_cut_short = [0, 0, 0, 12, 0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff];
    let unknown_version = [0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff];
    let produce_cut_short = [0, 0, 0, 12, 0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 0xff];
    for bytes in [&metadata_cut_short[..], &unknown_version, &produce_cut_short, b"\x7f\xff\xff\xff"] {
        let mut bad = TcpStream::connect((broker.address.host.as_str(), broker.address.port)).unwrap();
        bad.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        bad.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let read = bad.read_to_end(&mut answer);
        assert!(
            answer.is_empty()
                && !matches!(&read, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock),
            "{bytes:?}: {read:?}"
        );
    }
    assert_eq!(until("the leader leads", || produce(&mut kafka, "t", -1, batch(None, &["x"])).ok()), 0);
    stop(broker);
}

#[test]
fn a_broker_that_listens_everywhere_has_to_say_where_it_is_reached() {
    let root = tempfile::tempdir().unwrap();
    let everywhere = |settings: &[&str]| {
        let mut options = alone(&root.path().join("1"));
        options.listen = HostPort { host: "0.0.0.0".to_owned(), port: 0 };
        options.settings = Settings::from_pairs(settings).unwrap();
        start(options)
    };
    let refusal = everywhere(&["insecure=true"]).unwrap_err().to_string();
    assert!(refusal.contains("say where they reach this broker"), "{refusal}");
    stop(everywhere(&["insecure=true", "advertised.listeners=127.0.0.1:9"]).unwrap());
}

struct Three {
    controller: ControllerHost,
    root: tempfile::TempDir,
}

impl Three {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let options = ControllerOptions {
            directory: root.path().join("controller"),
            listen: here(0),
            brokers: Some(3),
            data_directories: Vec::new(),
            settings: Settings::from_pairs(["broker.session.timeout.ms=3000"]).unwrap(),
        };
        let controller = ControllerHost::start(options, Clock::start(), |_| {}).unwrap();
        Self { controller, root }
    }

    fn broker(&self, node: i32, listen: HostPort) -> Running {
        let data = self.root.path().join(node.to_string());
        let at = ControllerAt::At(self.controller.address().clone());
        start(options(node, listen, &data, at)).unwrap()
    }
}

fn isr(status: &ClusterStatus) -> Option<BTreeSet<i32>> {
    Some(status.partitions.first()?.isr.iter().copied().collect())
}

#[test]
fn three_brokers_hand_over_go_on_and_are_whole_again() {
    let cluster = Three::new();
    let mut brokers: Vec<Option<Running>> = (1..=3).map(|node| Some(cluster.broker(node, here(0)))).collect();
    let addresses: Vec<HostPort> = brokers.iter().flatten().map(|broker| broker.address.clone()).collect();
    let topic = NewTopic { name: "t".to_owned(), ..Default::default() };
    assert_eq!(ask::create_topic(&mut client(&addresses[0]), &topic).unwrap(), (1, 3));
    let leader = |from: &HostPort| status(from).partitions.first().and_then(|partition| partition.leader);
    let first = until("somebody leads", || leader(&addresses[0]));
    let at = |node: i32| &addresses[usize::try_from(node - 1).unwrap()];
    let mut kafka = client(at(first));
    until("all are in sync", || produce(&mut kafka, "t", -1, batch(None, &["one"])).ok());
    produce(&mut kafka, "t", -1, batch(None, &["two"])).unwrap();

    let stopped = brokers[usize::try_from(first - 1).unwrap()].take().unwrap();
    stopped.stopper().stop(StopOrder::HandOver);
    stopped.wait().unwrap();
    let other = if first == 1 { 2 } else { 1 };
    let second = until("another leads", || leader(at(other)).filter(|leader| *leader != first));
    let mut kafka = client(at(second));
    until("two are enough", || produce(&mut kafka, "t", -1, batch(None, &["three"])).ok());

    let back = cluster.broker(first, at(first).clone());
    brokers[usize::try_from(first - 1).unwrap()] = Some(back);
    let all = BTreeSet::from([1, 2, 3]);
    until("all are in sync again", || isr(&status(at(second))).filter(|isr| *isr == all));
    let to = Election::To(NodeId::new(first).unwrap());
    ask::elect(&mut client(at(other)), TopicPartition::new("t", 0).unwrap(), to).unwrap();
    until("it leads again", || leader(at(other)).filter(|leader| *leader == first));
    let mut kafka = client(at(first));
    let values: Vec<String> = until("its records are seen", || {
        let records = consume(&mut kafka, "t");
        (records.len() >= 3).then(|| records.into_iter().map(|(_, value)| value).collect())
    });
    assert_eq!(values, ["one", "two", "three"]);
    let shown = status(at(other));
    assert_eq!(shown.partitions[0].log_end, Some(3));
    assert!(shown.partitions[0].out_of_sync.is_empty());
    for broker in brokers.into_iter().flatten() {
        stop(broker);
    }
    let logs: BTreeSet<Vec<u8>> = (1..=3)
        .map(|node: i32| {
            std::fs::read(cluster.root.path().join(node.to_string()).join("t-0/00000000000000000000.log"))
                .unwrap()
        })
        .collect();
    assert_eq!(logs.len(), 1, "the same bytes on all three");
    cluster.controller.stop();
}

/// The log of a partition with transactions, as a Kafka wrote it, all in the first leader epoch: it lies outside of the CRC.
fn transactions_of_kafka() -> Vec<u8> {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/testdata/kafka-dirs/clean-1.tar.gz");
    let unpacked = tempfile::tempdir().unwrap();
    let tar =
        std::process::Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(unpacked.path()).status();
    assert!(tar.unwrap().success());
    let path = unpacked.path().join("transactions-0/00000000000000000000.log");
    let mut bytes = std::fs::read(path).unwrap();
    let positions: Vec<u64> = scan(&bytes, 0).map(|batch| batch.unwrap().0).collect();
    for position in positions {
        let at = usize::try_from(position).unwrap();
        bytes[at + 12..at + 16].fill(0);
    }
    bytes
}

/// A log takes the place of the empty one of a topic.
fn put_in_place(data: &Path, topic: &str, base: i64, log: &[u8]) {
    let partition = data.join(format!("{topic}-0"));
    for entry in std::fs::read_dir(&partition).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("partition.metadata") {
            std::fs::remove_file(path).unwrap();
        }
    }
    std::fs::write(partition.join(format!("{base:020}.log")), log).unwrap();
    for name in [".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"] {
        std::fs::remove_file(data.join(name)).unwrap();
    }
}

fn fetch(broker: &mut Connection, topic: &str, isolation_level: i8) -> PartitionData {
    let partitions = vec![FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() }];
    let topics = vec![FetchTopic { topic: topic.to_owned(), partitions, ..Default::default() }];
    let request =
        FetchRequest { isolation_level, max_wait_ms: 100, min_bytes: 1, topics, ..Default::default() };
    let Response::Fetch(mut response) = broker.call(11, &request.into()).unwrap() else {
        panic!("not Fetch")
    };
    response.responses[0].partitions.remove(0)
}

fn latest(broker: &mut Connection, topic: &str, isolation_level: i8) -> i64 {
    list(broker, topic, isolation_level, -1)
}

fn list(broker: &mut Connection, topic: &str, isolation_level: i8, timestamp: i64) -> i64 {
    let partitions = vec![ListOffsetsPartition { timestamp, ..Default::default() }];
    let topics = vec![ListOffsetsTopic { name: topic.to_owned(), partitions }];
    let request = ListOffsetsRequest { replica_id: -1, isolation_level, topics, ..Default::default() };
    let Response::ListOffsets(answer) = broker.call(7, &request.into()).unwrap() else {
        panic!("no offsets")
    };
    answer.topics[0].partitions[0].offset
}

#[test]
fn a_reader_of_committed_records_gets_what_a_kafka_would_give_it() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("1");
    let broker = start(alone(&data)).unwrap();
    let mut kafka = client(&broker.address);
    ask::create_topic(&mut kafka, &NewTopic { name: "transactions".to_owned(), ..Default::default() })
        .unwrap();
    until("the leader leads", || (latest(&mut kafka, "transactions", 0) == 0).then_some(()));
    stop(broker);
    put_in_place(&data, "transactions", 0, &transactions_of_kafka());
    let again = start(alone(&data)).unwrap();
    let mut kafka = client(&again.address);
    until("the leader leads", || (latest(&mut kafka, "transactions", 0) == 33).then_some(()));
    assert_eq!(latest(&mut kafka, "transactions", 1), 28, "a transaction is open from there on");
    let end_of = |data: &PartitionData| {
        let bytes = data.records.clone().map(Records::into_bytes).unwrap_or_default();
        scan(&bytes, 0).map(|batch| batch.unwrap().1.header().next_offset().value()).last()
    };
    let all = fetch(&mut kafka, "transactions", 0);
    assert_eq!((end_of(&all), all.high_watermark, all.last_stable_offset), (Some(33), 33, 28));
    assert!(all.aborted_transactions.is_none());
    let committed = fetch(&mut kafka, "transactions", 1);
    assert_eq!(
        (end_of(&committed), committed.high_watermark, committed.last_stable_offset),
        (Some(28), 33, 28)
    );
    let aborted = committed.aborted_transactions.unwrap_or_default();
    let aborted: Vec<_> = aborted.iter().map(|one| (one.producer_id, one.first_offset)).collect();
    assert_eq!(aborted, [(1001, 5), (1001, 15), (1001, 20)]);
    stop(again);
}

/// One record for each age, in milliseconds.
fn aged(ages: &[i64]) -> bytes::Bytes {
    let now = Clock::start().now().wall.millis();
    let mut builder = BatchBuilder::new(Compression::None);
    for age in ages {
        builder.push(Some(Timestamp::from_millis(now - age)), Some(b"k"), Some(b"v"), &[]).unwrap();
    }
    builder.finish().unwrap()
}

#[test]
fn what_a_topic_asks_of_batches_holds_for_it_and_refused_records_are_named() {
    let root = tempfile::tempdir().unwrap();
    let broker = start(alone(&root.path().join("1"))).unwrap();
    let mut kafka = client(&broker.address);
    let settings = [
        ("past", "message.timestamp.before.max.ms", "60000"),
        ("ahead", "message.timestamp.after.max.ms", "60000"),
        ("small", "max.message.bytes", "100"),
        ("stamped", "message.timestamp.type", "LogAppendTime"),
    ];
    for (topic, key, value) in settings {
        let configs = vec![(key.to_owned(), value.to_owned())];
        let topic = NewTopic { name: topic.to_owned(), configs, ..Default::default() };
        ask::create_topic(&mut kafka, &topic).unwrap();
    }
    let hour = 3_600_000;
    let whole: &[i32] = &[];
    let cases = [
        ("past", vec![0, hour, 0, -hour / 2, hour], ErrorCode::InvalidTimestamp, &[1, 4][..]),
        ("ahead", vec![hour, -hour / 2], ErrorCode::InvalidTimestamp, &[1]),
        ("small", vec![0; 10], ErrorCode::MessageTooLarge, whole),
        ("past", vec![0], ErrorCode::None, whole),
        ("ahead", vec![10 * hour], ErrorCode::None, whole),
        ("small", vec![-hour / 2], ErrorCode::None, whole),
        ("stamped", vec![-10 * hour, 10 * hour], ErrorCode::None, whole),
    ];
    for (topic, ages, error, named) in cases {
        until("the leader leads", || (latest(&mut kafka, topic, 0) >= 0).then_some(()));
        let answer = answer_to(&mut kafka, topic, -1, aged(&ages));
        let records: Vec<i32> = answer.record_errors.iter().map(|one| one.batch_index).collect();
        assert_eq!((answer.error_code, &records[..]), (error, named), "{topic}: {ages:?}");
        assert_eq!(answer.log_append_time_ms >= 0, topic == "stamped", "{topic}");
        assert_eq!(answer.log_start_offset, 0, "{topic}");
    }
    stop(broker);
}

#[test]
fn a_log_ends_with_the_greatest_offset_and_its_clients_are_told() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("1");
    let broker = start(alone(&data)).unwrap();
    let mut kafka = client(&broker.address);
    ask::create_topic(&mut kafka, &NewTopic { name: "far".to_owned(), ..Default::default() }).unwrap();
    until("the leader leads", || (latest(&mut kafka, "far", 0) == 0).then_some(()));
    stop(broker);
    let first = i64::MAX - 6;
    put_in_place(&data, "far", first, &[]);
    let again = start(alone(&data)).unwrap();
    let mut kafka = client(&again.address);
    until("the leader leads", || (latest(&mut kafka, "far", 0) == first).then_some(()));
    assert_eq!(produce(&mut kafka, "far", -1, aged(&[2, 1])), Ok(first));
    assert_eq!(produce(&mut kafka, "far", -1, aged(&[2, 1, 0, 0, 0])), Err(ErrorCode::UnknownServerError));
    assert_eq!(produce(&mut kafka, "far", -1, aged(&[9, 0, 0])), Ok(first + 2), "what there is room for");
    assert_eq!(latest(&mut kafka, "far", 0), first + 5);
    assert_eq!((list(&mut kafka, "far", 0, -2), list(&mut kafka, "far", 0, 0)), (first, first));
    assert_eq!(list(&mut kafka, "far", 0, -3), first + 3);
    assert_eq!(consume_from(&mut kafka, "far", first).len(), 5);
    assert_eq!(produce(&mut kafka, "far", -1, aged(&[0, 0])), Err(ErrorCode::UnknownServerError));
    stop(again);
}
