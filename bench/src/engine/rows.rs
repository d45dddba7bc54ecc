//! The rows of the table: ours, the limit, their ratio, what is asked.

use serde::Serialize;

use crate::error::Result;
use crate::goal::Goal;
use crate::report::{Table, figure, median};

/// Every row that was measured.
#[derive(Debug, Default, Serialize)]
pub(super) struct Rows(Vec<Row>);

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

    /// A row that was measured.
    pub(super) fn add(&mut self, asked: Asked, ours_rounds: Vec<f64>, limit_rounds: Vec<f64>) {
        let (Some(ours), Some(limit)) = (median(&ours_rounds), median(&limit_rounds)) else { return };
        let ratio = ours / limit;
        let Asked { name, unit, limit_is, goal } = asked;
        eprintln!("{name}, {unit}: {} beside {} ({limit_is})", figure(ours), figure(limit));
        let met = goal.is_met(ours, ratio);
        self.0.push(Row { name, unit, ours, limit, limit_is, ratio, goal, met, ours_rounds, limit_rounds });
    }

    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&["", "unit", "ours", "limit", "ratio", "goal", "met", "the limit is"]);
        for row in &self.0 {
            table.row(vec![
                row.name.to_owned(),
                row.unit.to_owned(),
                figure(row.ours),
                figure(row.limit),
                format!("{:.3}", row.ratio),
                row.goal.text(),
                if row.met { "yes" } else { "NO" }.to_owned(),
                row.limit_is.to_owned(),
            ]);
        }
        table.text()
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
        assert!(rows.0[0].met);
        rows.add(Asked { goal: Goal::Below(5.0), ..asked }, vec![1.0, 5.0, 9.0], vec![1.0]);
        assert!(!rows.0[1].met, "{}", rows.text());
    }
}
