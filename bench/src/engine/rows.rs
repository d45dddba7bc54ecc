//! The rows of the table: ours, the limit, their ratio, what is asked.

use std::fmt::Write as _;

use serde::Serialize;

use crate::error::{BenchError, Result};
use crate::goal::Goal;
use crate::report::{Table, figure, median};

/// Every row that was measured, or should have been.
#[derive(Debug, Default, Serialize)]
pub(super) struct Rows(Vec<Line>);

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Line {
    Measured(Row),
    Failed(Failed),
}

/// What cannot be measured here.
#[derive(Debug, Serialize)]
struct Failed {
    name: &'static str,
    unit: &'static str,
    error: String,
    goal: Goal,
    met: bool,
}

/// Another figure of the same run, which says what the limit leaves out.
#[derive(Debug, Serialize)]
struct Floor {
    figure: f64,
    is: &'static str,
    /// Ours to it.
    ratio: f64,
    rounds: Vec<f64>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    /// Medians.
    ours: f64,
    limit: f64,
    /// What the limit is.
    limit_is: &'static str,
    ratio: f64,
    goal: Goal,
    met: bool,
    /// What cannot be avoided by whoever does it this way; the limit does it another way.
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<Floor>,
    /// Each round's.
    ours_rounds: Vec<f64>,
    limit_rounds: Vec<f64>,
}

/// What a row is called, beside what it is measured and what is asked of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) limit_is: &'static str,
    pub(super) goal: Goal,
}

impl Rows {
    /// Measures both by turns; who is first changes from round to round.
    pub(super) fn measure(
        &mut self,
        rounds: u32,
        asked: Asked,
        mut ours: impl FnMut() -> Result<f64>,
        mut limit: impl FnMut() -> Result<f64>,
    ) -> Result<()> {
        let (mut ours_rounds, mut limit_rounds) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            if round % 2 == 0 {
                ours_rounds.push(ours()?);
                limit_rounds.push(limit()?);
            } else {
                limit_rounds.push(limit()?);
                ours_rounds.push(ours()?);
            }
        }
        self.add(asked, ours_rounds, limit_rounds);
        Ok(())
    }

    /// As [`Rows::measure`], with another figure that is measured between the two.
    pub(super) fn measure_above(
        &mut self,
        rounds: u32,
        asked: Asked,
        floor_is: &'static str,
        ours: impl FnMut() -> Result<f64>,
        mut limit: impl FnMut() -> Result<f64>,
        mut floor: impl FnMut() -> Result<f64>,
    ) -> Result<()> {
        let mut rounds_of_floor = Vec::new();
        let limit = || {
            rounds_of_floor.push(floor()?);
            limit()
        };
        self.measure(rounds, asked, ours, limit)?;
        if let (Some(Line::Measured(row)), Some(figure)) = (self.0.last_mut(), median(&rounds_of_floor)) {
            row.floor =
                Some(Floor { figure, is: floor_is, ratio: row.ours / figure, rounds: rounds_of_floor });
        }
        Ok(())
    }

    /// A row that cannot be measured here, and why. It does not count as met.
    pub(super) fn cannot(&mut self, asked: Asked, error: &BenchError) {
        let Asked { name, unit, goal, .. } = asked;
        eprintln!("{name}: {error}");
        self.0.push(Line::Failed(Failed { name, unit, error: error.to_string(), goal, met: false }));
    }

    /// A row that was measured.
    pub(super) fn add(&mut self, asked: Asked, ours_rounds: Vec<f64>, limit_rounds: Vec<f64>) {
        let (Some(ours), Some(limit)) = (median(&ours_rounds), median(&limit_rounds)) else { return };
        let ratio = ours / limit;
        let Asked { name, unit, limit_is, goal } = asked;
        eprintln!("{name}, {unit}: {} beside {} ({limit_is})", figure(ours), figure(limit));
        let met = goal.is_met(ours, ratio);
        let row = Row {
            name,
            unit,
            ours,
            limit,
            limit_is,
            ratio,
            goal,
            met,
            floor: None,
            ours_rounds,
            limit_rounds,
        };
        self.0.push(Line::Measured(row));
    }

    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&["", "unit", "ours", "limit", "ratio", "goal", "met", "the limit is"]);
        for line in &self.0 {
            table.row(match line {
                Line::Measured(row) => vec![
                    row.name.to_owned(),
                    row.unit.to_owned(),
                    figure(row.ours),
                    figure(row.limit),
                    format!("{:.3}", row.ratio),
                    row.goal.text(),
                    if row.met { "yes" } else { "NO" }.to_owned(),
                    row.limit_is.to_owned(),
                ],
                Line::Failed(Failed { name, unit, error, goal, .. }) => {
                    let none = String::new;
                    let (name, unit) = ((*name).to_owned(), (*unit).to_owned());
                    vec![name, unit, none(), none(), none(), goal.text(), "NO".to_owned(), error.clone()]
                }
            });
        }
        let mut text = table.text();
        for line in &self.0 {
            if let Line::Measured(Row { name, floor: Some(floor), .. }) = line {
                let Floor { figure: at, is, ratio, .. } = floor;
                let _infallible = writeln!(text, "{name}: {ratio:.3} of {} ({is})", figure(*at));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_judged_and_both_are_measured_by_turns() {
        let mut rows = Rows::default();
        let order = std::cell::RefCell::new(String::new());
        let asked =
            Asked { name: "append", unit: "MB/s", limit_is: "write(2)", goal: Goal::RatioAtLeast(0.9) };
        let take = |who, value| {
            order.borrow_mut().push(who);
            Ok(value)
        };
        rows.measure(3, asked, || take('o', 90.0), || take('l', 100.0)).unwrap();
        assert_eq!(*order.borrow(), "ollool");
        rows.add(Asked { goal: Goal::Below(5.0), ..asked }, vec![1.0, 5.0, 9.0], vec![1.0]);
        rows.cannot(asked, &BenchError::Engine("no counters".to_owned()));
        let met = |line: &Line| match line {
            Line::Measured(row) => row.met,
            Line::Failed(failed) => failed.met,
        };
        assert_eq!(rows.0.iter().map(met).collect::<Vec<_>>(), [true, false, false], "{}", rows.text());
        assert!(rows.text().contains("no counters"));
    }

    #[test]
    fn a_floor_stands_beside_the_limit() {
        let mut rows = Rows::default();
        let asked = Asked { name: "scan", unit: "MB/s", limit_is: "mmap", goal: Goal::RatioAtLeast(0.8) };
        rows.measure_above(3, asked, "pread", || Ok(60.0), || Ok(100.0), || Ok(75.0)).unwrap();
        let Line::Measured(row) = &rows.0[0] else { panic!("it was measured") };
        assert!(!row.met, "the limit is what is asked for");
        assert!(rows.text().contains("0.800 of"), "{}", rows.text());
    }
}
