//! Makes a play that fails short: lines are left out, and what is left is made smaller, as long as the same thing fails.

use super::play::{Line, Play};
use super::step::{Content, Step};
use super::trial::Violation;

/// So many plays are tried at most.
const TRIES_MAX: usize = 4_000;

/// The shortest play that was found to fail like this one, and how it fails. `None` if it does not fail.
pub fn shrink(play: &Play) -> Option<(Play, Violation)> {
    let violation = play.play_caught().err()?;
    let mut search = Search { kind: kind(&violation.what), best: play.clone(), violation, tries: 0 };
    while search.leave_out() | search.make_smaller() {}
    Some((search.best, search.violation))
}

/// What fails, without the figures.
fn kind(what: &str) -> String {
    what.lines().next().unwrap_or_default().chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

struct Search {
    kind: String,
    best: Play,
    violation: Violation,
    tries: usize,
}

impl Search {
    /// Whether it fails in the same way; then it is the best so far.
    fn try_lines(&mut self, lines: Vec<Line>) -> bool {
        if self.tries == TRIES_MAX {
            return false;
        }
        self.tries += 1;
        let play = Play { lines, ..self.best.clone() };
        match play.play_caught() {
            Err(violation) if kind(&violation.what) == self.kind => {
                (self.best, self.violation) = (play, violation);
                true
            }
            Ok(_) | Err(_) => false,
        }
    }

    /// Leaves out halves, then quarters, down to single lines. Whether anything could be left out.
    fn leave_out(&mut self) -> bool {
        let before = self.best.lines.len();
        let mut size = before.div_ceil(2);
        while size > 0 {
            // From the end, so that what a line needs is asked for after the line.
            let mut until = self.best.lines.len();
            while until > 0 {
                let from = until.saturating_sub(size);
                let mut lines = self.best.lines.clone();
                lines.drain(from..until);
                self.try_lines(lines);
                until = from;
            }
            size /= 2;
        }
        self.best.lines.len() < before
    }

    fn make_smaller(&mut self) -> bool {
        let mut is_smaller = false;
        for at in 0..self.best.lines.len() {
            for smaller in smaller(&self.best.lines[at]) {
                let mut lines = self.best.lines.clone();
                lines[at] = smaller;
                if self.try_lines(lines) {
                    is_smaller = true;
                    break;
                }
            }
        }
        is_smaller
    }
}

/// What a line could be instead, the smallest first.
fn smaller(line: &Line) -> Vec<Line> {
    match line {
        Line::Do(Step::Append(content)) => {
            contents(content).into_iter().map(|content| Line::Do(Step::Append(content))).collect()
        }
        Line::Do(Step::Replicate(batches)) if batches.len() > 1 => {
            let one = |batch: &(Content, i64, i32)| Line::Do(Step::Replicate(vec![batch.clone()]));
            let mut fewer: Vec<Line> = batches.iter().map(one).collect();
            fewer.push(Line::Do(Step::Replicate(batches[1..].to_vec())));
            fewer.push(Line::Do(Step::Replicate(batches[..batches.len() - 1].to_vec())));
            fewer
        }
        Line::Do(Step::Replicate(batches)) => {
            let Some((content, gap, up)) = batches.first() else { return Vec::new() };
            let smaller = contents(content).into_iter().map(|content| (content, *gap, *up));
            smaller.map(|batch| Line::Do(Step::Replicate(vec![batch]))).collect()
        }
        Line::Do(_)
        | Line::CrashAt(_)
        | Line::Fail(..)
        | Line::Open
        | Line::Confirm
        | Line::Completing(_)
        | Line::Kill(_)
        | Line::LosePower(..)
        | Line::OpenTwice(_) => Vec::new(),
    }
}

fn contents(content: &Content) -> Vec<Content> {
    let mut all = Vec::new();
    if content.sent.is_some() {
        all.push(Content { sent: None, ..content.clone() });
    } else if content.times.len() > 1 {
        all.push(Content { times: vec![content.times[0]], ..content.clone() });
        all.push(Content { times: content.times[..content.times.len() - 1].to_vec(), ..content.clone() });
    }
    if content.compressed {
        all.push(Content { compressed: false, ..content.clone() });
    }
    if content.value_bytes > 1 {
        all.push(Content { value_bytes: 1, ..content.clone() });
        all.push(Content { value_bytes: content.value_bytes / 2, ..content.clone() });
    }
    all
}
