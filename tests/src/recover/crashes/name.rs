//! The name of a state: in which scene, at which call the crash came, what it left, and the same for each crash of a recovery. It is printed
//! when something is wrong, and makes the state again.
//!
//! `roll:0@57.undone.power(k,0,t0f)@71.done.kill`: in the scene `roll` with seed 0 the power is lost at call 57, of which nothing happens; of
//! what is not synced the first thing is kept, the second is lost, of the third, a page, four sectors get there; recovery is killed behind
//! its call 71.

use std::fmt;
use std::str::FromStr;

use highwater_engine::disk::simulated::{Fate, Interruption};

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateName {
    /// The scene.
    pub scene: String,
    /// Its seed.
    pub seed: u64,
    /// The crashes: of the scene, and of one recovery after the other.
    pub points: Vec<Point>,
}

/// One crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// The call of the disk in which it comes.
    pub call: u64,
    /// What becomes of that.
    pub interruption: Interruption,
    /// What the crash leaves.
    pub crash: Crash,
}

/// What a crash leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Everything.
    Kill,
    /// What these fates say of each thing that is not synced.
    Power(Vec<Fate>),
}

/// A text that is not the name of a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{part}' is no part of the name of a state")]
pub struct StateNameError {
    /// What could not be read.
    pub part: String,
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scene, self.seed)?;
        self.points.iter().try_for_each(|point| write!(f, "@{point}"))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.call)?;
        match self.interruption {
            Interruption::Chosen => write!(f, "chosen.")?,
            Interruption::Undone => write!(f, "undone.")?,
            Interruption::Part(bytes) => write!(f, "part{bytes}.")?,
            Interruption::Done => write!(f, "done.")?,
        }
        let Crash::Power(fates) = &self.crash else { return write!(f, "kill") };
        write!(f, "power(")?;
        for (number, fate) in fates.iter().enumerate() {
            let comma = if number > 0 { "," } else { "" };
            match fate {
                Fate::Kept => write!(f, "{comma}k")?,
                Fate::Older(state) => write!(f, "{comma}{state}")?,
                Fate::Torn(sectors) => write!(f, "{comma}t{sectors:02x}")?,
            }
        }
        write!(f, ")")
    }
}

impl FromStr for StateName {
    type Err = StateNameError;

    fn from_str(text: &str) -> Result<Self, StateNameError> {
        let mut parts = text.split('@');
        let head = parts.next().unwrap_or_default();
        let bad = || StateNameError { part: head.to_owned() };
        let (scene, seed) = head.split_once(':').ok_or_else(bad)?;
        let seed = seed.parse().map_err(|_| bad())?;
        let points = parts.map(point).collect::<Result<_, _>>()?;
        Ok(Self { scene: scene.to_owned(), seed, points })
    }
}

fn point(text: &str) -> Result<Point, StateNameError> {
    let bad = || StateNameError { part: text.to_owned() };
    let mut parts = text.splitn(3, '.');
    let mut part = || parts.next().ok_or_else(bad);
    let call = part()?.parse().map_err(|_| bad())?;
    let interruption = match part()? {
        "chosen" => Interruption::Chosen,
        "undone" => Interruption::Undone,
        "done" => Interruption::Done,
        other => {
            let bytes = other.strip_prefix("part").and_then(|bytes| bytes.parse().ok());
            Interruption::Part(bytes.ok_or_else(bad)?)
        }
    };
    let crash = match part()? {
        "kill" => Crash::Kill,
        other => {
            let fates =
                other.strip_prefix("power(").and_then(|rest| rest.strip_suffix(')')).ok_or_else(bad)?;
            let fates = fates.split(',').filter(|fate| !fate.is_empty()).map(fate);
            Crash::Power(fates.collect::<Option<_>>().ok_or_else(bad)?)
        }
    };
    Ok(Point { call, interruption, crash })
}

fn fate(text: &str) -> Option<Fate> {
    if text == "k" {
        return Some(Fate::Kept);
    }
    match text.strip_prefix('t') {
        Some(sectors) => u8::from_str_radix(sectors, 16).ok().map(Fate::Torn),
        None => text.parse().ok().map(Fate::Older),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written() {
        let text = "append of large batches:7@57.undone.power(k,0,t0f)@71.part512.kill@80.done.power()";
        let name: StateName = text.parse().unwrap();
        assert_eq!(name.to_string(), text);
        assert_eq!(name.points[0].crash, Crash::Power(vec![Fate::Kept, Fate::Older(0), Fate::Torn(0x0f)]));
        for bad in
            ["append", "append:x", "append:1@57", "append:1@57.undone.power(q)", "append:1@5.partx.kill"]
        {
            assert!(bad.parse::<StateName>().is_err(), "{bad}");
        }
    }
}
