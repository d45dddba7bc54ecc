//! The matrix for people.

use super::cell::{Cell, Planned};
use super::options::Options;
use crate::report::{Latency, Table, figure, milliseconds};

const NONE: &str = "-";

/// All cells, with a line that explains the columns.
pub(super) fn of(cells: &[Cell], options: &Options) -> String {
    let mut table = Table::new(&[
        "ISR",
        "acks",
        "durability",
        "MB/s",
        "records/s",
        "null MB/s",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "null p99 ms",
        "one p50 µs",
        "null one µs",
        "found",
    ]);
    for cell in cells {
        table.row(row(cell));
    }
    let shape = options.shape();
    format!(
        "{}\n\
         {} bytes a record, {} partitions. MB/s, records/s: as much as is acknowledged, batches of {} bytes, {} requests in flight \
         a connection; a MB is 1,048,576 bytes. p50, p99, p99.9: at {} records/s, from the time at which a record should have been \
         sent. one: a record at a time. null: the same load against brokers that answer at once. found: records that were read back, \
         every acknowledged one among them, once.\n",
        table.text(),
        shape.record_bytes,
        options.partitions,
        shape.batch_bytes,
        shape.in_flight,
        options.rate,
    )
}

/// One cell in a line.
pub(super) fn line(cell: &Cell) -> String {
    let carried = &cell.cluster.flat_out;
    let mut parts =
        vec![format!("{} MB/s, {:.0} records/s", figure(carried.mb_per_second), carried.records_per_second)];
    if let Some(latency) = &cell.cluster.at_rate {
        let [p50, p99, most] = [latency.p50_us, latency.p99_us, latency.p99_9_us].map(milliseconds);
        parts.push(format!("p50 {p50} ms, p99 {p99}, p99.9 {most}"));
    }
    if let Some(latency) = &cell.cluster.one_by_one {
        parts.push(format!("one at a time {:.0} µs", latency.p50_us));
    }
    parts.join("; ")
}

fn row(cell: &Cell) -> Vec<String> {
    let Planned { isr, acks, durability } = cell.planned;
    let (cluster, null) = (&cell.cluster, &cell.null);
    let in_ms = |latency: &Option<Latency>, of: fn(&Latency) -> f64| {
        latency.as_ref().map_or_else(|| NONE.to_owned(), |latency| milliseconds(of(latency)))
    };
    let p50_us = |latency: &Option<Latency>| {
        latency.as_ref().map_or_else(|| NONE.to_owned(), |latency| format!("{:.0}", latency.p50_us))
    };
    vec![
        isr.to_string(),
        acks.name().to_owned(),
        durability.name().to_owned(),
        figure(cluster.flat_out.mb_per_second),
        format!("{:.0}", cluster.flat_out.records_per_second),
        figure(null.flat_out.mb_per_second),
        in_ms(&cluster.at_rate, |latency| latency.p50_us),
        in_ms(&cluster.at_rate, |latency| latency.p99_us),
        in_ms(&cluster.at_rate, |latency| latency.p99_9_us),
        in_ms(&null.at_rate, |latency| latency.p99_us),
        p50_us(&cluster.one_by_one),
        p50_us(&null.one_by_one),
        cell.found.records.to_string(),
    ]
}
