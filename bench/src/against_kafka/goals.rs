//! Each figure of both, what is asked of Highwater's, and whether it is so.

use serde::Serialize;

use super::Rounds;
use crate::goal::Goal;
use crate::report::{Table, figure, median};

#[derive(Debug, Serialize)]
pub(super) struct Goals(Vec<Row>);

/// Medians.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    highwater: f64,
    kafka: f64,
    /// Highwater's divided by Kafka's.
    ratio: f64,
    /// The tool's own limit, where it was measured.
    floor: Option<f64>,
    goal: Goal,
    met: bool,
}

impl Goals {
    pub(super) fn of(rounds: &Rounds) -> Self {
        let numbers = |values: &[f64]| median(values);
        let perf = |perfs: &[super::perf::Perf]| {
            median(&perfs.iter().map(|perf| perf.mb_per_second).collect::<Vec<_>>())
        };
        let p50 = |latencies: &[super::report::Latency]| {
            median(&latencies.iter().map(|latency| latency.p50_us).collect::<Vec<_>>())
        };
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let mib = |bytes: &[u64]| {
            median(&bytes.iter().map(|bytes| *bytes as f64 / 1_048_576.0).collect::<Vec<_>>())
        };
        let r = rounds;
        let mut goals = Self(Vec::new());
        let (ours, theirs) = (perf(&r.producer_perf.highwater), perf(&r.producer_perf.kafka));
        let floor = perf(&r.producer_perf_null);
        goals.add("producer-perf, acks=all, MB/s", ours, theirs, Goal::RatioAtLeast(1.5), floor);
        let (ours, theirs) = (mib(&r.anonymous_bytes.highwater), mib(&r.anonymous_bytes.kafka));
        goals.add(
            "resident anonymous memory, all processes, MiB",
            ours,
            theirs,
            Goal::RatioAtMost(0.1),
            None,
        );
        let first = &r.first_acknowledged_seconds;
        let (ours, theirs) = (numbers(&first.highwater), numbers(&first.kafka));
        goals.add("first acknowledged record after the command, s", ours, theirs, Goal::AtMost(2.0), None);
        let (ours, theirs) = (p50(&r.one_by_one.highwater), p50(&r.one_by_one.kafka));
        goals.add("one record at a time, acks=all, p50 µs", ours, theirs, Goal::AtMost(250.0), None);
        let idle = &r.idle_core_percent;
        let (ours, theirs) = (numbers(&idle.highwater), numbers(&idle.kafka));
        goals.add("idle, 100 partitions and a consumer, % of a core", ours, theirs, Goal::Below(1.0), None);
        goals
    }

    /// A row, if both were measured.
    fn add(
        &mut self,
        what: &'static str,
        ours: Option<f64>,
        theirs: Option<f64>,
        goal: Goal,
        floor: Option<f64>,
    ) {
        let (Some(highwater), Some(kafka)) = (ours, theirs) else { return };
        let ratio = highwater / kafka;
        self.0.push(Row { what, highwater, kafka, ratio, floor, goal, met: goal.is_met(highwater, ratio) });
    }

    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&["", "Highwater", "Kafka", "ratio", "null", "goal", "met"]);
        for row in &self.0 {
            table.row(vec![
                row.what.to_owned(),
                figure(row.highwater),
                figure(row.kafka),
                format!("{:.3}", row.ratio),
                row.floor.map_or_else(|| "-".to_owned(), figure),
                row.goal.text(),
                if row.met { "yes" } else { "NO" }.to_owned(),
            ]);
        }
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::against_kafka::Both;

    #[test]
    fn medians_are_judged() {
        let first = Both { highwater: vec![9.0, 1.9, 1.0], kafka: vec![9.5, 9.0, 10.0] };
        let idle = Both { highwater: vec![1.0], kafka: vec![8.0] };
        let bytes = Both { highwater: vec![300 << 20], kafka: vec![3600 << 20] };
        let rounds = Rounds {
            first_acknowledged_seconds: first,
            idle_core_percent: idle,
            anonymous_bytes: bytes,
            ..Rounds::default()
        };
        let goals = Goals::of(&rounds);
        let judged: Vec<_> = goals.0.iter().map(|row| (row.highwater, row.met)).collect();
        assert_eq!(judged, [(300.0, true), (1.9, true), (1.0, false)]);
        assert!(goals.text().contains("NO"), "{}", goals.text());
    }
}
