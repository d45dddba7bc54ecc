//! The frame that Kafka's text checkpoints share, parsed strictly, and what can be wrong with a small file.
//!
//! Kafka itself is lenient in what it reads (several blanks, CRLF, no final newline, negative offsets, duplicates: the last wins) and
//! strict in what it writes. Here only what Kafka writes is read, so that less of a damaged file is believed.

/// Why a small file cannot be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// Larger than any such file can be.
    #[error("it has {bytes} bytes")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The medium does not give its bytes.
    #[error("it cannot be read: {error}")]
    Unreadable {
        /// The system's error, as text.
        error: String,
    },
    /// There is no such file where there should be one, or nothing is in it.
    #[error("it is empty")]
    Empty,
    /// Not UTF-8.
    #[error("it is not text")]
    NotText,
    /// The last line has no end: the file was cut.
    #[error("it ends in the middle of a line")]
    Cut,
    /// Another version than this format has.
    #[error("its version is {version:?}")]
    Version {
        /// What the file says.
        version: String,
    },
    /// The number of entries is not the one that it announces.
    #[error("it announces {announced:?} entries and has {found}")]
    Count {
        /// What the file says.
        announced: String,
        /// How many there are.
        found: usize,
    },
    /// A line that no writer makes.
    #[error("line {line} is malformed")]
    Line {
        /// Its number, from 1.
        line: usize,
    },
    /// Two entries for one partition, or an epoch that does not lie behind the one before.
    #[error("line {line} contradicts an earlier one")]
    Contradiction {
        /// Its number, from 1.
        line: usize,
    },
    /// The guard does not fit the rest.
    #[error("its guard is {stored:#010x}, the rest has {computed:#010x}")]
    Guard {
        /// What the guard says.
        stored: u32,
        /// What the rest has.
        computed: u32,
    },
    /// The guard itself is damaged.
    #[error("its guard is damaged")]
    GuardLine,
    /// Not the JSON that it should be.
    #[error("it is not the JSON of this file")]
    Json,
    /// A property is missing or has an impossible value.
    #[error("the property {name} is missing or impossible")]
    Property {
        /// The property's name.
        name: &'static str,
    },
}

/// The number of the first entry's line in the file.
pub(super) const FIRST_ENTRY_LINE: usize = 3;

/// The entries of a text checkpoint: `0`, the number of entries, the entries; one a line, each line ended.
pub(super) fn entries(bytes: &[u8]) -> Result<Vec<&str>, Damage> {
    let text = std::str::from_utf8(bytes).map_err(|_| Damage::NotText)?;
    let mut lines = text.strip_suffix('\n').ok_or(Damage::Cut)?.split('\n');
    let version = lines.next().unwrap_or_default();
    if version != "0" {
        return Err(Damage::Version { version: version.chars().take(40).collect() });
    }
    let announced = lines.next().ok_or(Damage::Cut)?;
    let entries: Vec<&str> = lines.collect();
    if number::<usize>(announced) != Some(entries.len()) {
        let announced = announced.chars().take(40).collect();
        return Err(Damage::Count { announced, found: entries.len() });
    }
    Ok(entries)
}

/// Puts the frame around entries.
pub(super) fn frame(entries: &[String]) -> String {
    let mut text = format!("0\n{}\n", entries.len());
    for entry in entries {
        text.push_str(entry);
        text.push('\n');
    }
    text
}

/// A number that is not negative, exactly as it is written: no sign, no blank, no leading zero.
pub(super) fn number<N: std::str::FromStr + std::fmt::Display>(text: &str) -> Option<N> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = text == "0" || !text.starts_with('0');
    if digits && canonical { text.parse().ok() } else { None }
}
