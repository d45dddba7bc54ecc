//! Who is measured when: one of them, then the other, then again. Both run all the time, but for the starts.

use std::path::Path;
use std::time::Duration;

use super::perf::{self, Perf};
use super::{Both, Options, Rounds, first, idle};
use crate::cluster::{Cluster, Highwater, Kafka};
use crate::error::Result;
use crate::load::{self, Acks, Shape, Window};
use crate::null_broker::NullBrokers;
use crate::report::{Latency, figure};
use crate::topic::{self, Layout, NewTopic};
use crate::{clock, proc};

/// What Highwater has by default.
const KAFKA_SETTINGS: [&str; 2] = ["default.replication.factor=3", "min.insync.replicas=2"];
const IDLE_PARTITIONS: i32 = 100;
/// What a load leaves behind is done by then.
const SETTLE: Duration = Duration::from_secs(5);

/// Both clusters, running.
#[derive(Debug)]
pub(super) struct Pair {
    highwater: Highwater,
    kafka: Kafka,
}

impl Pair {
    /// What Highwater's supervisor has told people.
    pub(super) fn said(&self) -> Vec<String> {
        self.highwater.said()
    }
}

/// The parts of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns<'a> {
    pub(super) options: &'a Options,
    pub(super) program: &'a Path,
    pub(super) data: &'a Path,
}

impl Turns<'_> {
    fn start_highwater(&self, name: &str) -> Result<Highwater> {
        Highwater::start(self.program, &self.data.join(format!("highwater-{name}")), &self.options.settings)
    }

    fn start_kafka(&self, name: &str) -> Result<Kafka> {
        let directory = self.data.join(format!("kafka-{name}"));
        Kafka::start(&directory, &self.options.kafka_heap, &KAFKA_SETTINGS)
    }

    /// Both clusters, when all brokers answer.
    pub(super) fn start(&self) -> Result<Pair> {
        eprintln!("starting both");
        let mut pair = Pair { highwater: self.start_highwater("only")?, kafka: self.start_kafka("only")? };
        pair.highwater.wait_until_ready()?;
        pair.kafka.wait_until_ready()?;
        Ok(pair)
    }

    /// Starts each on an empty directory in each round; those of the last round are kept.
    pub(super) fn first_acknowledged(&self, seconds: &mut Both<f64>) -> Result<Pair> {
        let mut last = None;
        for round in 0..self.options.rounds {
            drop(last.take());
            let name = round.to_string();
            let given = clock::now();
            let mut highwater = self.start_highwater(&name)?;
            seconds.highwater.push(first::acknowledged(&mut highwater, given)?.as_secs_f64());
            highwater.wait_until_ready()?;
            let given = clock::now();
            let mut kafka = self.start_kafka(&name)?;
            seconds.kafka.push(first::acknowledged(&mut kafka, given)?.as_secs_f64());
            kafka.wait_until_ready()?;
            say_round("first acknowledged record, s", round, seconds, |seconds| *seconds);
            last = Some(Pair { highwater, kafka });
        }
        last.map_or_else(|| self.start(), Ok)
    }

    /// producer-perf against each; a round before those that count warms up what is compiled as it runs.
    pub(super) fn throughput(&self, pair: &mut Pair, rounds: &mut Rounds) -> Result<()> {
        let nulls = NullBrokers::start(usize::from(self.options.partitions))?;
        for round in 0..=self.options.rounds {
            let name = format!("perf-{round}");
            let highwater = self.perf(&mut pair.highwater, &name)?;
            let kafka = self.perf(&mut pair.kafka, &name)?;
            let null = perf::run(&nulls.bootstrap(), &name, self.options.records, self.options.record_bytes)?;
            if round == 0 {
                continue;
            }
            rounds.producer_perf.highwater.push(highwater);
            rounds.producer_perf.kafka.push(kafka);
            rounds.producer_perf_null.push(null);
            say_round("producer-perf, MB/s", round - 1, &rounds.producer_perf, |perf| perf.mb_per_second);
        }
        Ok(())
    }

    fn perf(&self, cluster: &mut impl Cluster, topic: &str) -> Result<Perf> {
        create(cluster, topic, i32::from(self.options.partitions))?;
        let perf =
            perf::run(&cluster.bootstrap_all(), topic, self.options.records, self.options.record_bytes)?;
        cluster.check()?;
        topic::delete(cluster.bootstrap(), topic)?;
        Ok(perf)
    }

    /// One record at a time, with the bench's own client.
    pub(super) fn one_by_one(&self, pair: &Pair, latencies: &mut Both<Latency>) -> Result<()> {
        let (ours, theirs) = (create(&pair.highwater, "one", 1)?, create(&pair.kafka, "one", 1)?);
        for round in 0..self.options.rounds {
            latencies.highwater.push(self.one_round(&ours)?);
            latencies.kafka.push(self.one_round(&theirs)?);
            say_round("one record at a time, p50 µs", round, latencies, |latency| latency.p50_us);
        }
        Ok(())
    }

    fn one_round(&self, layout: &Layout) -> Result<Latency> {
        let record_bytes = usize::try_from(self.options.record_bytes).unwrap_or(usize::MAX);
        let shape = Shape { record_bytes, batch_bytes: record_bytes, in_flight: 1 };
        let mut lanes = load::open_lanes(layout, fastrand::u64(..), Acks::All, &shape)?;
        let mut all = load::no_latencies();
        if let Some(lane) = lanes.first_mut() {
            all = load::one_by_one(lane, Window::of(Duration::from_secs(self.options.seconds)))?;
        }
        Ok(Latency::of(&all))
    }

    /// What all processes of each hold after all that.
    pub(super) fn memory(pair: &Pair, bytes: &mut Both<u64>) -> Result<()> {
        let all = |cluster: &dyn Cluster| -> Result<u64> {
            cluster.processes()?.into_iter().map(proc::anonymous_bytes).sum()
        };
        bytes.highwater.push(all(&pair.highwater)?);
        bytes.kafka.push(all(&pair.kafka)?);
        Ok(())
    }

    /// Both are idle over the same time, each with its consumer.
    pub(super) fn idle(pair: &Pair, watched: Duration, percent: &mut Both<f64>) -> Result<()> {
        let ours = create(&pair.highwater, "idle", IDLE_PARTITIONS)?;
        let theirs = create(&pair.kafka, "idle", IDLE_PARTITIONS)?;
        let consumers = [idle::Consumer::start(&ours)?, idle::Consumer::start(&theirs)?];
        clock::sleep_until(clock::now() + SETTLE);
        eprintln!("watching idle brokers for {} s", watched.as_secs());
        let processes = [pair.highwater.processes()?, pair.kafka.processes()?];
        let [highwater, kafka] = idle::core_percents(&processes, watched)?;
        consumers.iter().try_for_each(idle::Consumer::check)?;
        percent.highwater.push(highwater);
        percent.kafka.push(kafka);
        Ok(())
    }
}

fn create(cluster: &(impl Cluster + ?Sized), name: &str, partitions: i32) -> Result<Layout> {
    let configs = vec![("min.insync.replicas", "2".to_owned()), ("file.delete.delay.ms", "1000".to_owned())];
    topic::create(cluster.bootstrap(), &NewTopic { name: name.to_owned(), partitions, replicas: 3, configs })
}

fn say_round<T>(what: &str, round: u32, both: &Both<T>, value: impl Fn(&T) -> f64) {
    let last = |values: &[T]| values.last().map_or_else(String::new, |last| figure(value(last)));
    let (ours, theirs) = (last(&both.highwater), last(&both.kafka));
    eprintln!("{what}, round {}: Highwater {ours}, Kafka {theirs}", round + 1);
}
