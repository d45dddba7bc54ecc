//! Listens to the writers of one directory, life after life, and says what does not hold.

use highwater_tests::recover::Ending;

use crate::place::Counted;
use crate::story::{Story, Verdict};
use crate::told::{LogFound, Told};
use crate::writer::LOGS;

/// Whether a boot can be told from another where the directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boots {
    /// A local file system.
    Told,
    /// FUSE: every stop without a mark is a crash of the machine.
    Unknown,
}

/// What was seen, over all trials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) lives: u64,
    pub(crate) kills: u64,
    pub(crate) cuts: u64,
    pub(crate) clean_stops: u64,
    pub(crate) crashed_openings: u64,
    pub(crate) suspects: u64,
    pub(crate) appends: u64,
    pub(crate) duplicates: u64,
    pub(crate) truncations: u64,
    pub(crate) raised_starts: u64,
    pub(crate) checkpoints: u64,
    pub(crate) durable: u64,
    pub(crate) offsets_lost: u64,
}

/// How far a writer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// It has not opened its store, or has closed it.
    Start,
    Opening,
    Work,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Judge {
    boots: Boots,
    pub(crate) stories: Vec<Story>,
    /// How the last life that was open ended.
    pub(crate) ending: Ending,
    is_made: [bool; LOGS],
    is_confirmed: bool,
    /// Whether there may be a mark of a clean stop although the stop was not told, or none although it was.
    is_mark_uncertain: bool,
    writer: At,
    pub(crate) seen: Seen,
}

impl Judge {
    pub(crate) fn new(boots: Boots) -> Self {
        Self {
            boots,
            stories: vec![Story::default(); LOGS],
            ending: Ending::Kill,
            is_made: [false; LOGS],
            is_confirmed: false,
            is_mark_uncertain: false,
            writer: At::Start,
            seen: Seen::default(),
        }
    }

    /// A writer said this.
    pub(crate) fn hear(&mut self, told: Told) -> Verdict {
        match told {
            Told::Opening => self.writer = At::Opening,
            Told::Opened { is_clean, is_same_machine, logs } => {
                self.opened(is_clean, is_same_machine, &logs)?;
            }
            Told::Confirmed => self.is_confirmed = true,
            Told::Made(log) => self.is_made[log] = true,
            Told::Of(log, what) => {
                self.count(&what);
                self.stories[log].tell(what).map_err(|wrong| format!("log {log}: {wrong}"))?;
            }
            Told::Checkpointing(hand) => {
                self.stories.iter_mut().for_each(|story| story.checkpointing(hand));
            }
            Told::Checkpointed(hand) => {
                self.seen.checkpoints += 1;
                self.stories.iter_mut().for_each(|story| story.checkpointed(hand));
            }
            Told::Closing => self.is_mark_uncertain = true,
            Told::Closed => {
                self.stories.iter_mut().for_each(Story::closed);
                (self.ending, self.is_mark_uncertain, self.writer) = (Ending::Clean, false, At::Start);
                self.seen.clean_stops += 1;
            }
            Told::Failed(what) => return Err(format!("a call failed: {what}")),
            Told::Wrong(what) => return Err(format!("the writer saw it: {what}")),
        }
        Ok(())
    }

    /// The writer is gone, and perhaps the machine.
    pub(crate) fn ended(&mut self, ending: Ending) {
        self.seen.lives += 1;
        self.stories.iter_mut().for_each(Story::settle);
        if self.writer == At::Work {
            self.ending = ending;
        } else {
            let must_recover = self.ending != Ending::Clean || self.is_mark_uncertain;
            self.seen.crashed_openings += u64::from(self.writer == At::Opening && must_recover);
            // It never got as far as changing a log, or it had closed it.
            self.is_mark_uncertain |= self.ending == Ending::Clean && ending != Ending::Clean;
            if self.ending == Ending::Kill && ending == Ending::Power {
                self.ending = Ending::Power;
            }
        }
        self.writer = At::Start;
    }

    fn opened(&mut self, is_clean: bool, is_same: bool, logs: &[LogFound]) -> Verdict {
        if is_clean != (self.ending == Ending::Clean) && !self.is_mark_uncertain {
            return Err(format!("after {:?} the stop is said to be clean: {is_clean}", self.ending));
        }
        if self.boots == Boots::Unknown && is_same {
            return Err("nobody can know that this is the same boot".to_owned());
        }
        if self.boots == Boots::Told && self.is_confirmed && !is_same {
            return Err("the machine is the same, and is not known again".to_owned());
        }
        for log in 0..LOGS {
            if self.is_made[log] && logs.iter().all(|found| found.log != log) {
                return Err(format!("log {log} is gone"));
            }
        }
        for found in logs {
            let judged = self.opened_log(found, !is_clean && !is_same);
            judged.map_err(|wrong| {
                let (log, plan) = (found.log, &found.plan);
                format!("log {log} after {:?}: {wrong}\n{plan}", self.ending)
            })?;
        }
        (self.ending, self.is_mark_uncertain, self.writer) = (Ending::Kill, false, At::Work);
        Ok(())
    }

    fn opened_log(&mut self, found: &LogFound, must_suspect: bool) -> Verdict {
        self.is_made[found.log] = true;
        let story = &mut self.stories[found.log];
        let began_anew = story.model.may_begin_anew();
        let end = story.model.end;
        story.survive(self.ending, &found.found, found.durable)?;
        self.seen.offsets_lost += (end - found.found.end).max(0).unsigned_abs();
        self.seen.suspects += u64::from(found.is_suspect);
        if found.is_damaged {
            return Err("a crash was taken for damage".to_owned());
        }
        if found.is_suspect != must_suspect && !(found.is_suspect && began_anew) {
            return Err(format!("suspect is {} instead of {must_suspect}", found.is_suspect));
        }
        Ok(())
    }

    fn count(&mut self, what: &crate::told::What) {
        use crate::told::What;
        let seen = &mut self.seen;
        match what {
            What::Appended { is_duplicate, .. } => {
                seen.appends += 1;
                seen.duplicates += u64::from(*is_duplicate);
            }
            What::Replicated(_) => seen.appends += 1,
            What::Durable(_) => seen.durable += 1,
            What::Cut(_) | What::Restarted(_) => seen.truncations += 1,
            What::Started(_) => seen.raised_starts += 1,
            What::Appending { .. }
            | What::Refused
            | What::TooLarge
            | What::Replicating { .. }
            | What::Written(_)
            | What::BeginningEpoch(_)
            | What::Cutting(_)
            | What::Restarting(_)
            | What::Raising(_)
            | What::Retaining(_) => {}
        }
    }
}

impl Seen {
    /// By kind.
    pub(crate) fn counted(&self) -> Counted {
        Counted(vec![
            ("lives", self.lives),
            ("kills", self.kills),
            ("clean stops", self.clean_stops),
            ("crashes while opening", self.crashed_openings),
            ("appends", self.appends),
            ("duplicates", self.duplicates),
            ("cuts of logs", self.truncations),
            ("starts raised", self.raised_starts),
            ("checkpoints", self.checkpoints),
            ("durable", self.durable),
        ])
    }

    /// What only a loss of power brings.
    pub(crate) fn counted_with_power(&self) -> Counted {
        let mut counted = self.counted();
        let lost =
            [("power losses", self.cuts), ("suspects", self.suspects), ("offsets lost", self.offsets_lost)];
        counted.0.extend(lost);
        counted
    }
}
