//! One log's model, told what the writer tells. The writer is given a copy, to choose by; the judge's outlives the writer.

use std::collections::BTreeMap;

use bytes::Bytes;
use highwater_tests::recover::batches::{placed, sent, stamped};
use highwater_tests::recover::{Batch, Content, Ending, Expected, Found, Model, UnderWay};
use serde::{Deserialize, Serialize};

use crate::told::What;

/// Whether everything holds; if not, what does not.
pub(crate) type Verdict = Result<(), String>;

/// See the module's documentation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Story {
    pub(crate) model: Model,
    /// What was announced and not answered.
    pending: Option<What>,
    /// The start as it was when a checkpoint began, for each thread that makes one.
    start_noted: BTreeMap<u64, i64>,
}

impl Story {
    /// The writer said this.
    pub(crate) fn tell(&mut self, what: What) -> Verdict {
        let model = &mut self.model;
        match what {
            What::Appending { .. } | What::Replicating { .. } | What::Raising(_) | What::Retaining(_) => {
                self.pending = Some(what);
            }
            What::BeginningEpoch(epoch) => model.epoch = epoch,
            What::Cutting(to) => {
                let anew = (to <= model.start).then_some(to);
                let end = model.end_below(to).min(to);
                model.under_way = Some(UnderWay::Cut { end, anew });
                self.pending = Some(what);
            }
            What::Restarting(at) => {
                model.under_way = Some(UnderWay::Restart { at });
                self.pending = Some(what);
            }
            What::Appended { base, end, is_duplicate } => return self.appended(base, end, is_duplicate),
            What::Refused => {
                if let Some(What::Appending { content: Content { sent: Some(sent), .. }, .. }) =
                    self.pending.take()
                    && matches!(model.expect(sent), Expected::Append | Expected::Duplicate(..))
                {
                    return Err(format!(
                        "{:?} was expected, and the producer was refused",
                        model.expect(sent)
                    ));
                }
            }
            What::TooLarge => self.pending = None,
            What::Replicated(end) => {
                self.replicate();
                if self.model.end != end {
                    return Err(format!("appended to {end} instead of {}", self.model.end));
                }
            }
            What::Written(end) | What::Durable(end) if end > model.end => {
                return Err(format!("{what:?} lies above the end, {}", model.end));
            }
            What::Written(end) => model.written = model.written.max(end),
            What::Durable(end) => {
                if end > model.durable {
                    model.before_cut = None;
                }
                model.durable = model.durable.max(end);
                model.written = model.written.max(end);
            }
            What::Cut(end) => {
                let to = if let Some(What::Cutting(to)) = self.pending.take() { to } else { end };
                return model.truncated(to, end);
            }
            What::Restarted(at) => {
                self.pending = None;
                model.restart(at);
            }
            What::Started(start) => {
                let raised = if let Some(What::Raising(to)) = self.pending.take() { Some(to) } else { None };
                if start < model.start || raised.is_some_and(|to| start != model.start.max(to)) {
                    return Err(format!(
                        "the start is {start} after it was {}, {raised:?} was wanted",
                        model.start
                    ));
                }
                model.start = start;
                model.start_high = model.start_high.max(start);
            }
        }
        Ok(())
    }

    pub(crate) fn checkpointing(&mut self, hand: u64) {
        self.start_noted.insert(hand, self.model.start);
    }

    pub(crate) fn checkpointed(&mut self, hand: u64) {
        if let Some(noted) = self.start_noted.remove(&hand) {
            self.model.start_sure = self.model.start_sure.max(noted).min(self.model.start);
        }
    }

    /// The writer closed the store.
    pub(crate) fn closed(&mut self) {
        let model = &mut self.model;
        (model.written, model.durable, model.start_sure) = (model.end, model.end, model.start);
    }

    /// The writer is gone: what it was about to do may be done.
    pub(crate) fn settle(&mut self) {
        match &self.pending {
            Some(What::Appending { content, tag, epoch }) => {
                let is_new = content.sent.is_none_or(|sent| self.model.expect(sent) == Expected::Append);
                if is_new {
                    let bytes = sent(content, *tag);
                    self.model.accept(placed(content, &bytes, self.model.end, *epoch));
                }
            }
            Some(What::Replicating { .. }) => self.replicate(),
            Some(What::Raising(to)) => self.may_start_at(*to),
            Some(What::Retaining(ceiling)) => self.may_start_at(*ceiling),
            _ => {}
        }
        self.pending = None;
        self.start_noted.clear();
    }

    fn may_start_at(&mut self, to: i64) {
        let model = &mut self.model;
        model.start = model.start.max(to.min(model.end));
        model.start_high = model.start_high.max(model.start);
    }

    /// An opening found the log like this, after that ending.
    pub(crate) fn survive(&mut self, ending: Ending, found: &Found, durable: i64) -> Verdict {
        self.model.survive(ending, found)?;
        self.model.durable = durable;
        self.model.noted = 0;
        self.model.check_epochs(&found.epochs, false)
    }

    fn appended(&mut self, base: i64, end: i64, is_duplicate: bool) -> Verdict {
        let Some(What::Appending { content, tag, epoch }) = self.pending.take() else {
            return Err(format!("{base}..{end} was appended, and nobody was about to"));
        };
        let model = &mut self.model;
        let expected = content.sent.map_or(Expected::Append, |sent| model.expect(sent));
        if is_duplicate {
            return match expected {
                Expected::Duplicate(from, to) | Expected::DuplicateOrRefused(from, to)
                    if (from, to) == (base, end) =>
                {
                    Ok(())
                }
                Expected::Append
                | Expected::Duplicate(..)
                | Expected::DuplicateOrRefused(..)
                | Expected::Refused => {
                    Err(format!("{expected:?} was expected, and a duplicate at {base}..{end} was found"))
                }
            };
        }
        if expected != Expected::Append || base != model.end {
            return Err(format!("appended at {base}, expected {expected:?} at {}", model.end));
        }
        let bytes: Bytes = sent(&content, tag);
        model.epoch = epoch;
        model.accept(placed(&content, &bytes, base, epoch));
        if model.end == end { Ok(()) } else { Err(format!("appended to {end}, expected to {}", model.end)) }
    }

    fn replicate(&mut self) {
        let Some(What::Replicating { batches, tag, epoch }) = self.pending.take() else { return };
        for batch in replicated(&batches, tag, epoch, self.model.end) {
            self.model.epoch = batch.epoch;
            self.model.accept(batch);
        }
    }
}

/// The batches that a follower is given.
pub(crate) fn replicated(batches: &[(Content, i64, i32)], tag: u64, epoch: i32, end: i64) -> Vec<Batch> {
    let (mut next, mut epoch) = (end, epoch);
    let place = |(number, (content, gap, up)): (u64, &(Content, i64, i32))| {
        epoch += up;
        let batch = stamped(content, tag + number, next + gap, epoch);
        next = batch.end;
        batch
    };
    (0..).zip(batches).map(place).collect()
}
