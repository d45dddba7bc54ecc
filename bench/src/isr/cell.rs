//! One cell of the matrix: a topic of its own, measured three ways, read back, deleted.

use std::net::SocketAddr;

use serde::Serialize;

use super::options::{Durability, Options};
use super::progress::Progress;
use crate::error::{BenchError, Result};
use crate::load::{self, Acks, Lane, Window, at_rate, flat_out, one_by_one};
use crate::null_broker::NullBrokers;
use crate::report::{Carried, Latency};
use crate::topic::{self, Layout, NewTopic};
use crate::verify::{self, Found};

/// What is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Planned {
    pub(super) isr: i16,
    pub(super) acks: Acks,
    pub(super) durability: Durability,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub(super) struct Cell {
    #[serde(flatten)]
    pub(super) planned: Planned,
    pub(super) cluster: Measured,
    /// The same load against brokers that answer at once.
    pub(super) null: Measured,
    pub(super) found: Found,
}

/// Three measurements of one load. Latencies need acknowledgements.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) flat_out: Carried,
    pub(super) at_rate: Option<Latency>,
    pub(super) one_by_one: Option<Latency>,
}

/// Where cells are measured.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) bootstrap: SocketAddr,
    pub(super) nulls: &'a NullBrokers,
}

/// A measurement of the cluster and the one of the null brokers.
type Both<T> = (T, T);

impl Bench<'_> {
    /// Measures a cell; an error if an acknowledged record is not there afterwards, or twice. Its topic is deleted in any case.
    pub(super) fn measure(&self, planned: Planned, progress: &mut Progress) -> Result<Cell> {
        let Planned { isr, acks, durability } = planned;
        let name = format!("bench-isr-{isr}-acks-{}-{}", acks.name(), durability.name());
        progress.say(&name, "making its topic");
        let layout = topic::create(self.bootstrap, &self.new_topic(&name, planned))?;
        let measured = self.measure_topic(planned, &layout, progress);
        let deleted = topic::delete(self.bootstrap, &name);
        let cell = measured?;
        deleted?;
        Ok(cell)
    }

    fn measure_topic(&self, planned: Planned, layout: &Layout, progress: &mut Progress) -> Result<Cell> {
        let shape = self.options.shape();
        let (name, acks) = (&layout.topic, planned.acks);
        let run = fastrand::u64(..);
        let mut lanes = load::open_lanes(layout, run, acks, &shape)?;
        let mut nulls = load::open_lanes(&self.nulls.layout(), run, acks, &shape)?;

        progress.say(name, "as fast as it goes");
        let carried = self.flat_out(&mut lanes, &mut nulls)?;
        let (mut rated, mut single) = ((None, None), (None, None));
        if acks != Acks::None {
            progress.say(name, &format!("{} records a second", self.options.rate));
            rated = self.at_rate(&mut lanes, &mut nulls)?;
            progress.say(name, "one record at a time");
            single = self.one_by_one(&mut lanes, &mut nulls)?;
        }
        progress.say(name, "reading everything back");
        let found = self.read_back(layout, run, &lanes, planned.isr)?;
        let cluster = Measured { flat_out: carried.0, at_rate: rated.0, one_by_one: single.0 };
        let null = Measured { flat_out: carried.1, at_rate: rated.1, one_by_one: single.1 };
        Ok(Cell { planned, cluster, null, found })
    }

    fn new_topic(&self, name: &str, planned: Planned) -> NewTopic {
        let mut configs = vec![
            ("min.insync.replicas", planned.isr.to_string()),
            // Deleted topics give their space back soon.
            ("file.delete.delay.ms", "1000".to_owned()),
        ];
        // A Kafka does not know the setting; its default is this.
        if planned.durability != Durability::Written {
            configs.push(("durability", planned.durability.name().to_owned()));
        }
        let partitions = i32::from(self.options.partitions);
        NewTopic { name: name.to_owned(), partitions, replicas: planned.isr, configs }
    }

    fn flat_out(&self, lanes: &mut [Lane], nulls: &mut [Lane]) -> Result<Both<Carried>> {
        let shape = self.options.shape();
        let measured = self.options.measured();
        let cluster = flat_out(lanes, Window::of(measured), shape.in_flight)?;
        let null = flat_out(nulls, Window::of(Options::measured_null(measured)), shape.in_flight)?;
        Ok((Carried::of(&cluster, shape.record_bytes), Carried::of(&null, shape.record_bytes)))
    }

    fn at_rate(&self, lanes: &mut [Lane], nulls: &mut [Lane]) -> Result<Both<Option<Latency>>> {
        let Options { rate, .. } = *self.options;
        let in_flight = self.options.shape().in_flight;
        let measured = self.options.measured();
        let cluster = at_rate(lanes, Window::of(measured), rate, in_flight)?;
        let null = at_rate(nulls, Window::of(Options::measured_null(measured)), rate, in_flight)?;
        Ok((Some(Latency::of(&cluster)), Some(Latency::of(&null))))
    }

    fn one_by_one(&self, lanes: &mut [Lane], nulls: &mut [Lane]) -> Result<Both<Option<Latency>>> {
        let measured = self.options.measured_one_by_one();
        let (Some(lane), Some(null)) = (lanes.first_mut(), nulls.first_mut()) else {
            return Ok((None, None));
        };
        let cluster = one_by_one(lane, Window::of(measured))?;
        let null = one_by_one(null, Window::of(Options::measured_null(measured)))?;
        Ok((Some(Latency::of(&cluster)), Some(Latency::of(&null))))
    }

    /// Reads the log, and makes sure that the ISR was what it was said to be up to the end.
    fn read_back(&self, layout: &Layout, run: u64, lanes: &[Lane], isr: i16) -> Result<Found> {
        let ledgers: Vec<_> = lanes.iter().flat_map(Lane::ledgers).collect();
        let after = topic::find(self.bootstrap, &layout.topic, false)?;
        if after.isr_min < usize::from(isr.unsigned_abs()) {
            let why = format!("its ISR shrank to {} during the run", after.isr_min);
            return Err(BenchError::LogWrong { topic: layout.topic.clone(), why });
        }
        verify::verify(&after, run, &ledgers)
    }
}
