//! The generator against the null brokers: what is sent, acknowledged and measured is the same number.

use std::time::Duration;

use crate::clock;
use crate::load::{self, Acks, Lane, Shape, Window, at_rate, flat_out, one_by_one};
use crate::null_broker::NullBrokers;

const SHAPE: Shape = Shape { record_bytes: 200, batch_bytes: 16 << 10, in_flight: 3 };

fn window(milliseconds: u64) -> Window {
    let start = clock::now();
    Window { start, counted_from: start, end: start + Duration::from_millis(milliseconds) }
}

fn lanes(brokers: &NullBrokers, acks: Acks) -> Vec<Lane> {
    load::open_lanes(&brokers.layout(), 1, acks, &SHAPE).unwrap()
}

fn sent_and_acknowledged(lanes: &[Lane]) -> (u64, u64) {
    let ledgers: Vec<_> = lanes.iter().flat_map(Lane::ledgers).collect();
    let acknowledged =
        ledgers.iter().flat_map(|ledger| &ledger.acknowledged).map(|part| u64::from(part.count));
    (ledgers.iter().map(|ledger| ledger.sent).sum(), acknowledged.sum())
}

#[test]
fn flat_out_counts_what_was_acknowledged() {
    let brokers = NullBrokers::start(6).unwrap();
    let mut lanes = lanes(&brokers, Acks::All);
    assert_eq!(lanes.iter().map(Lane::partitions).collect::<Vec<_>>(), [2, 2, 2]);
    let throughput = flat_out(&mut lanes, window(100), SHAPE.in_flight).unwrap();
    let (sent, acknowledged) = sent_and_acknowledged(&lanes);
    assert_eq!(sent, acknowledged);
    assert!(throughput.records > 0 && throughput.records <= acknowledged);
    assert_eq!(throughput.latencies.len(), throughput.records);
}

#[test]
fn without_acknowledgements_everything_up_to_the_last_record_counts() {
    let brokers = NullBrokers::start(4).unwrap();
    let mut lanes = lanes(&brokers, Acks::None);
    for _again in 0..2 {
        let (before, _) = sent_and_acknowledged(&lanes);
        let throughput = flat_out(&mut lanes, window(50), SHAPE.in_flight).unwrap();
        let (sent, _) = sent_and_acknowledged(&lanes);
        assert_eq!(throughput.records, sent - before);
        assert!(throughput.latencies.is_empty());
    }
    // Only what was waited for at the end of each run.
    assert_eq!(sent_and_acknowledged(&lanes).1, 8);
}

#[test]
fn at_a_rate_each_scheduled_record_is_measured_once() {
    let brokers = NullBrokers::start(5).unwrap();
    let mut lanes = lanes(&brokers, Acks::Leader);
    let latencies = at_rate(&mut lanes, window(200), 3_000, SHAPE.in_flight).unwrap();
    // 600 in 200 ms; the lanes begin a little after one another.
    assert!((595..=605).contains(&latencies.len()), "{}", latencies.len());
    let (sent, acknowledged) = sent_and_acknowledged(&lanes);
    assert_eq!(sent, acknowledged);
    assert!((0..=8).contains(&(sent - latencies.len())), "{sent} sent, {} measured", latencies.len());
}

#[test]
fn one_by_one_measures_each_record() {
    let brokers = NullBrokers::start(1).unwrap();
    let mut lanes = lanes(&brokers, Acks::All);
    let latencies = one_by_one(&mut lanes[0], window(50)).unwrap();
    let (sent, _) = sent_and_acknowledged(&lanes);
    assert!((1..=sent).contains(&latencies.len()));
}
