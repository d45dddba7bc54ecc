//! What happened, in words, for whoever has to understand a failure; and how often, so that a test can insist on the rare.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

use super::agenda::Moment;

/// Steps that a failure prints.
const STEPS: usize = 60;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Chronicle {
    steps: VecDeque<(Moment, String)>,
    counts: BTreeMap<&'static str, u64>,
    /// Everything is printed as it happens.
    aloud: bool,
}

impl Chronicle {
    pub(crate) fn new(aloud: bool) -> Self {
        Self { aloud, ..Self::default() }
    }

    pub(crate) fn note(&mut self, at: Moment, words: String) {
        if self.aloud {
            eprintln!("{:>12.6}s  {words}", at.since_start().as_secs_f64());
        }
        if self.steps.len() == STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back((at, words));
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    pub(crate) fn last_steps(&self) -> String {
        let mut text = String::new();
        for (at, words) in &self.steps {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{:>12.6}s  {words}", at.since_start().as_secs_f64());
        }
        text
    }
}
