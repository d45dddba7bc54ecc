//! The table: a row for each work, a column for everyone who does it.

use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::peer::Kind;
use crate::work::Work;

/// Everything that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Run {
    command: Vec<String>,
    rounds: u32,
    /// The processes that wanted a core, on average of the last minute, before the run.
    load: Option<String>,
    promises: Vec<(&'static str, &'static str)>,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: &'static str,
    unit: &'static str,
    figures: Vec<Figure>,
}

#[derive(Debug, Serialize)]
struct Figure {
    peer: &'static str,
    median: f64,
    /// Ours, as often as the peer's. For times the other way round, so that more is better in each row.
    ours_by_its: f64,
    #[serde(flatten)]
    goal: Option<Goal>,
    rounds: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Goal {
    /// Ours by its is to be no less.
    goal: f64,
    met: bool,
}

impl Figure {
    fn line(&self) -> String {
        let goal = match self.goal {
            Some(Goal { goal, met: true }) => format!(", as wanted (>= {goal})"),
            Some(Goal { goal, met: false }) => format!(", NOT as wanted (>= {goal})"),
            None => String::new(),
        };
        format!("  {:>12} {:>12.1}   ours by its: {:.2}{goal}", self.peer, self.median, self.ours_by_its)
    }
}

impl Run {
    pub(crate) fn new(rounds: u32) -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").ok();
        Self {
            command: std::iter::once(env!("CARGO_PKG_NAME").to_owned())
                .chain(std::env::args().skip(1))
                .collect(),
            rounds,
            load: load.and_then(|text| text.split_whitespace().next().map(ToOwned::to_owned)),
            promises: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Has everyone who can do a work do it, by turns; who begins changes from round to round.
    pub(crate) fn measure(&mut self, work: &Work, kinds: &[Kind], data: &Path) -> Result<()> {
        let able: Vec<Kind> = kinds.iter().copied().filter(|kind| (work.can)(*kind)).collect();
        let mut rounds = vec![Vec::new(); able.len()];
        for round in 0..self.rounds as usize {
            for turn in 0..able.len() {
                let at = (round + turn) % able.len();
                let room = tempfile::tempdir_in(data)?;
                let failed = || format!("{}: {}", able[at].name(), work.name);
                rounds[at].push((work.measure)(able[at], room.path()).with_context(failed)?);
            }
        }
        let medians: Vec<f64> = rounds.iter().map(|rounds| median(rounds)).collect();
        let ours = medians[0];
        let figures: Vec<Figure> = able
            .iter()
            .zip(medians)
            .zip(rounds)
            .map(|((kind, median), rounds)| {
                let ours_by_its = if work.less_is_better { median / ours } else { ours / median };
                let goal = work.goal.filter(|(peer, _)| peer == kind);
                let goal = goal.map(|(_, goal)| Goal { goal, met: ours_by_its >= goal });
                Figure { peer: kind.name(), median, ours_by_its, goal, rounds }
            })
            .collect();
        eprintln!("{}, {}", work.name, work.unit);
        for (kind, figure) in able.iter().zip(&figures) {
            eprintln!("{}", figure.line());
            if !self.promises.iter().any(|(name, _)| *name == figure.peer) {
                self.promises.push((kind.name(), kind.promises()));
            }
        }
        self.rows.push(Row { name: work.name, unit: work.unit, figures });
        Ok(())
    }

    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// For people: each figure, and ours beside the best of the others.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let _ = writeln!(text, "{}, {}", row.name, row.unit);
            for figure in &row.figures {
                let _ = writeln!(text, "{}", figure.line());
            }
        }
        for (peer, promises) in &self.promises {
            let _ = writeln!(text, "{peer}: {promises}");
        }
        text
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// Calls, and says how long it took.
pub(crate) fn timed<T>(call: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
    let begun = Instant::now();
    let done = call()?;
    Ok((done, begun.elapsed()))
}
