//! Names of topics and partitions, and their ids.

use std::fmt;

/// The name of a topic and the number of one of its partitions.
///
/// The name obeys Kafka's rules (`org.apache.kafka.common.internals.Topic`): 1 to 249 of `[a-zA-Z0-9._-]`, not `.` or `..`,
/// so that `NAME-PARTITION` is always a legal directory name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    topic: std::sync::Arc<str>,
    partition: i32,
}

impl TopicPartition {
    /// The greatest length of a topic's name, in bytes.
    pub const TOPIC_BYTES_MAX: usize = 249;

    /// Checks the name and the number.
    pub fn new(topic: &str, partition: i32) -> Result<Self, InvalidName> {
        Self::check_topic(topic)?;
        if partition < 0 {
            return Err(InvalidName::NegativePartition { partition });
        }
        Ok(Self { topic: topic.into(), partition })
    }

    /// Checks the name of a topic alone.
    pub fn check_topic(topic: &str) -> Result<(), InvalidName> {
        if topic.is_empty() || topic == "." || topic == ".." {
            return Err(InvalidName::Reserved { topic: topic.to_owned() });
        }
        if topic.len() > Self::TOPIC_BYTES_MAX {
            return Err(InvalidName::TooLong { bytes: topic.len() });
        }
        match topic.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
            Some(character) => Err(InvalidName::Character { topic: topic.to_owned(), character }),
            None => Ok(()),
        }
    }

    /// Reads the name of a partition's directory, `TOPIC-PARTITION`, split at its last `-`.
    pub fn from_directory_name(name: &str) -> Result<Self, InvalidName> {
        let not_a_partition = || InvalidName::NotAPartition { name: name.to_owned() };
        let (topic, number) = name.rsplit_once('-').ok_or_else(not_a_partition)?;
        if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
            return Err(not_a_partition());
        }
        Self::new(topic, number.parse().map_err(|_| not_a_partition())?)
    }

    /// The topic's name.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The partition's number, from 0.
    pub const fn partition(&self) -> i32 {
        self.partition
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

impl fmt::Debug for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a name cannot be a topic's or a partition's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// Empty, `.` or `..`.
    #[error("a topic cannot be called {topic:?}")]
    Reserved {
        /// The name that was asked for.
        topic: String,
    },
    /// Longer than [`TopicPartition::TOPIC_BYTES_MAX`].
    #[error("the topic's name has {bytes} bytes; at most 249 are allowed")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// A character outside `[a-zA-Z0-9._-]`.
    #[error(
        "the topic's name {topic:?} contains {character:?}; only letters, digits, '.', '_' and '-' are allowed"
    )]
    Character {
        /// The name that was asked for.
        topic: String,
        /// The first character that is not allowed.
        character: char,
    },
    /// Partitions are numbered from 0.
    #[error("there is no partition {partition}")]
    NegativePartition {
        /// The number that was asked for.
        partition: i32,
    },
    /// Not of the form `TOPIC-PARTITION`.
    #[error("{name:?} is not the name of a partition's directory")]
    NotAPartition {
        /// The directory's name.
        name: String,
    },
}

/// The id of a topic: 16 random bytes, so that a topic made again under its old name is another topic (KIP-516).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId([u8; 16]);

impl TopicId {
    /// The id with these bytes, or `None` if all are zero, which Kafka uses for "no id".
    pub const fn new(bytes: [u8; 16]) -> Option<Self> {
        if u128::from_ne_bytes(bytes) == 0 { None } else { Some(Self(bytes)) }
    }

    /// An id made of random bytes, or `None` where Kafka's `Uuid.randomUuid` draws again: numbers below 100, which are reserved, and
    /// ids whose text begins with `-`, which a command line takes for an option.
    pub const fn from_random(bytes: [u8; 16]) -> Option<Self> {
        // The first digit of the text is the upper six bits of the first byte; `-` has the value 62.
        if u128::from_be_bytes(bytes) < 100 || bytes[0] >> 2 == 0b11_1110 { None } else { Some(Self(bytes)) }
    }

    /// The bytes, as Kafka's messages carry them.
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }

    /// Reads Kafka's text form: 22 characters of URL-safe base64 without padding.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bits = 0u128;
        let digits = text.as_bytes();
        if digits.len() != 22 {
            return None;
        }
        for (at, digit) in digits.iter().enumerate() {
            let value = BASE64.iter().position(|b| b == digit)?;
            // The last digit carries the remaining 2 bits, in its upper end.
            if at == 21 {
                if value & 15 != 0 {
                    return None;
                }
                bits = (bits << 2) | (value as u128 >> 4);
            } else {
                bits = (bits << 6) | value as u128;
            }
        }
        Self::new(bits.to_be_bytes())
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        for at in 0..22 {
            let six = if at == 21 { (bits << 4) & 63 } else { (bits >> (122 - 6 * at)) & 63 };
            let digit = BASE64.get(usize::try_from(six).unwrap_or_default()).copied().unwrap_or(b'A');
            fmt::Write::write_char(f, char::from(digit))?;
        }
        Ok(())
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for TopicId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for TopicId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: String = serde::Deserialize::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a topic id"))
    }
}

impl serde::Serialize for TopicPartition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for TopicPartition {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text: String = serde::Deserialize::deserialize(deserializer)?;
        Self::from_directory_name(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_split_at_the_last_dash() {
        let name = TopicPartition::from_directory_name("my-topic-7").unwrap();
        assert_eq!((name.topic(), name.partition()), ("my-topic", 7));
        assert_eq!(name.to_string(), "my-topic-7");
        for bad in ["topic", "topic-", "-1", "topic-x", "topic--1x", "a b-0", "topic-99999999999"] {
            assert!(TopicPartition::from_directory_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_and_ids_are_text_in_json() {
        let name = TopicPartition::new("a-b", 3).unwrap();
        assert_eq!(serde_json::to_string(&name).unwrap(), "\"a-b-3\"");
        assert_eq!(serde_json::from_str::<TopicPartition>("\"a-b-3\"").unwrap(), name);
        assert!(serde_json::from_str::<TopicPartition>("\"a-b\"").is_err());
        let id = TopicId::new([7; 16]).unwrap();
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(serde_json::from_str::<TopicId>(&text).unwrap(), id);
        assert!(serde_json::from_str::<TopicId>("\"AAAAAAAAAAAAAAAAAAAAAA\"").is_err());
    }

    #[test]
    fn topic_names_follow_kafka() {
        assert!(TopicPartition::check_topic(&"x".repeat(249)).is_ok());
        assert!(TopicPartition::check_topic(&"x".repeat(250)).is_err());
        for bad in ["", ".", "..", "a/b", "a\0", "ä"] {
            assert!(TopicPartition::check_topic(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn random_ids_have_a_text_that_a_command_line_takes() {
        for first in 0..=u8::MAX {
            let mut bytes = [0xff; 16];
            bytes[0] = first;
            let text = TopicId::new(bytes).unwrap().to_string();
            assert_eq!(TopicId::from_random(bytes).is_none(), text.starts_with('-'), "{text}");
        }
        let numbered = |number: u128| TopicId::from_random(number.to_be_bytes());
        assert!(numbered(99).is_none() && numbered(100).is_some());
    }

    #[test]
    fn topic_ids_have_kafkas_text() {
        let id = TopicId::new([0xff, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]).unwrap();
        let text = id.to_string();
        assert_eq!(text, "_wABAgMEBQYHCAkKCwwNDg");
        assert_eq!(TopicId::parse(&text), Some(id));
        assert_eq!(TopicId::parse("AAAAAAAAAAAAAAAAAAAAAA"), None);
        assert_eq!(TopicId::parse("short"), None);
    }
}
