//! Settings: with Kafka's names where Kafka has them. What was asked for is checked when it is set; whoever reads one later gets a value.
//!
//! A setting is known by its constant (`settings::SEGMENT_BYTES`), which also carries its type, so that there is nothing to look up by name
//! and nothing that can be missing. Refuses to know who uses them.

use std::collections::BTreeMap;
use std::fmt::Debug;

mod kind;
mod show;
mod table;

pub use kind::{Choice, Flag, HostPort, Integer, Kind, Listener};
pub use show::table_for_people;
pub use table::*;

/// One setting: its names, its kind and what people should know about it.
#[derive(Clone, Copy, Debug)]
pub struct Setting<K> {
    /// The broker's name for it.
    pub name: &'static str,
    /// A topic's name for it, if a topic can have its own value.
    pub topic: Option<&'static str>,
    kind: K,
    unit: &'static str,
    default: &'static str,
    meaning: &'static str,
}

/// A setting of any kind, as people and Kafka's `DescribeConfigs` see it.
pub trait AnySetting: Debug + Send + Sync {
    /// The broker's name for it.
    fn name(&self) -> &'static str;
    /// A topic's name for it, if a topic can have its own value.
    fn topic(&self) -> Option<&'static str>;
    /// What it means, in a sentence.
    fn meaning(&self) -> &'static str;
    /// What it counts; empty for words.
    fn unit(&self) -> &'static str;
    /// Its value when nobody says anything.
    fn default(&self) -> &'static str;
    /// What it allows, in words.
    fn allowed(&self) -> String;
    /// Whether the text is a value of it.
    fn accepts(&self, text: &str) -> bool;
}

impl<K: Kind> AnySetting for Setting<K> {
    fn name(&self) -> &'static str {
        self.name
    }
    fn topic(&self) -> Option<&'static str> {
        self.topic
    }
    fn meaning(&self) -> &'static str {
        self.meaning
    }
    fn unit(&self) -> &'static str {
        self.unit
    }
    fn default(&self) -> &'static str {
        self.default
    }
    fn allowed(&self) -> String {
        self.kind.allowed()
    }
    fn accepts(&self, text: &str) -> bool {
        self.kind.parse(text).is_some()
    }
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Not of the form `key=value`.
    #[error("{text:?} is not of the form key=value")]
    NotAPair {
        /// What was given.
        text: String,
    },
    /// There is no such setting.
    #[error("there is no setting {key:?}; {}`highwater config` lists them all", did_you_mean(.key, .nearest))]
    Unknown {
        /// The name that was given.
        key: String,
        /// The known name that looks most like it.
        nearest: &'static str,
    },
    /// The broker has it, but a topic cannot have its own.
    #[error("{key} is a setting of the broker; a topic cannot have its own")]
    NotOfATopic {
        /// The name that was given.
        key: &'static str,
    },
    /// The value is not one that it allows.
    #[error("{key}={value}: allowed is {allowed}")]
    NotAllowed {
        /// The setting, by the name that was given.
        key: String,
        /// The value that was given.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// Each is right, together they are not.
    #[error(
        "durability=fsync needs truncation=leader-epoch: cutting at the high watermark would take back what was promised"
    )]
    FsyncCutsAtHighWatermark,
}

/// What was set, over the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// By the broker's name. Only texts that their settings accept.
    set: BTreeMap<&'static str, String>,
}

impl Settings {
    /// Reads `key=value` pairs; a later one wins. Topics' names are taken too, for the default of all topics.
    pub fn from_pairs<I, T>(pairs: I) -> Result<Self, SettingError>
    where
        I: IntoIterator<Item = T>,
        T: AsRef<str>,
    {
        let mut settings = Self::default();
        for pair in pairs {
            let text = pair.as_ref();
            let (key, value) =
                text.split_once('=').ok_or_else(|| SettingError::NotAPair { text: text.to_owned() })?;
            settings.set(key.trim(), value.trim())?;
        }
        settings.check_together()?;
        Ok(settings)
    }

    /// Sets one, by the broker's or a topic's name.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SettingError> {
        let setting = ALL.iter().find(|s| s.name() == key || s.topic() == Some(key));
        let setting =
            *setting.ok_or_else(|| SettingError::Unknown { key: key.to_owned(), nearest: nearest(key) })?;
        self.put(setting, key, value)
    }

    /// These settings with a topic's own values over them.
    pub fn with_topic<'a, I>(&self, own: I) -> Result<Self, SettingError>
    where
        I: IntoIterator<Item = (&'a str, &'a str)>,
    {
        let mut settings = self.clone();
        for (key, value) in own {
            let Some(setting) = ALL.iter().find(|s| s.topic() == Some(key)) else {
                return Err(match ALL.iter().find(|s| s.name() == key) {
                    Some(setting) => SettingError::NotOfATopic { key: setting.name() },
                    None => SettingError::Unknown { key: key.to_owned(), nearest: nearest(key) },
                });
            };
            settings.put(*setting, key, value)?;
        }
        settings.check_together()?;
        Ok(settings)
    }

    /// The value of a setting.
    pub fn value<K: Kind>(&self, setting: &Setting<K>) -> K::Value {
        let text = self.set.get(setting.name).map_or(setting.default, String::as_str);
        match setting.kind.parse(text) {
            Some(value) => value,
            None => {
                unreachable!("{}={text} was accepted, or is the default, and is not allowed", setting.name)
            }
        }
    }

    /// The text of a setting: what was set, else the default.
    pub fn text(&self, setting: &dyn AnySetting) -> &str {
        self.set.get(setting.name()).map_or(setting.default(), String::as_str)
    }

    /// Whether it was set, as opposed to left at its default.
    pub fn is_set(&self, setting: &dyn AnySetting) -> bool {
        self.set.contains_key(setting.name())
    }

    /// What was set, as `key=value`, in the order of the keys.
    pub fn pairs(&self) -> impl Iterator<Item = String> + '_ {
        self.set.iter().map(|(key, value)| format!("{key}={value}"))
    }

    /// A number of milliseconds.
    pub fn duration_ms(&self, setting: &Setting<Integer>) -> std::time::Duration {
        std::time::Duration::from_millis(u64::try_from(self.value(setting)).unwrap_or(0))
    }

    /// A number of bytes, or of things, as an index counts them. Only for settings that are not negative.
    pub fn count(&self, setting: &Setting<Integer>) -> usize {
        usize::try_from(self.value(setting)).unwrap_or(usize::MAX)
    }

    /// The replication factor of a topic that does not say it, and the minimum of in-sync replicas that goes with a factor.
    pub fn replication(&self, asked: Option<usize>, brokers_configured: usize) -> Replication {
        let default = self.count(&DEFAULT_REPLICATION_FACTOR).min(brokers_configured.max(1));
        let factor = asked.unwrap_or(default);
        Replication { factor, min_insync: self.count(&MIN_INSYNC_REPLICAS).min(factor.max(1)) }
    }

    fn put(&mut self, setting: &'static dyn AnySetting, key: &str, value: &str) -> Result<(), SettingError> {
        if !setting.accepts(value) {
            return Err(SettingError::NotAllowed {
                key: key.to_owned(),
                value: value.to_owned(),
                allowed: setting.allowed(),
            });
        }
        self.set.insert(setting.name(), value.to_owned());
        Ok(())
    }

    fn check_together(&self) -> Result<(), SettingError> {
        if self.value(&DURABILITY) == Durability::Fsync
            && self.value(&TRUNCATION) == Truncation::HighWatermark
        {
            return Err(SettingError::FsyncCutsAtHighWatermark);
        }
        Ok(())
    }
}

/// How many replicas a topic has, and how many of them have to be in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replication {
    /// Replicas.
    pub factor: usize,
    /// In-sync replicas without which `acks=all` is refused.
    pub min_insync: usize,
}

/// What looks like nothing is not guessed at.
fn did_you_mean(key: &str, nearest: &str) -> String {
    if 2 * edits(key, nearest) <= nearest.len() { format!("did you mean {nearest}? ") } else { String::new() }
}

/// The known name that looks most like this one.
fn nearest(key: &str) -> &'static str {
    let names = ALL.iter().flat_map(|s| std::iter::once(s.name()).chain(s.topic()));
    names.min_by_key(|name| edits(key, name)).unwrap_or("listeners")
}

/// How many letters have to be changed, put in or left out to make one of the other (Levenshtein).
fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, letter) in from.chars().take(200).enumerate() {
        let mut diagonal = above;
        let mut left = above + 1;
        let mut next = vec![left];
        for (cell, other) in row.iter().skip(1).zip(&to) {
            left = (diagonal + usize::from(letter != *other)).min(*cell + 1).min(left + 1);
            diagonal = *cell;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod settings_test;
