//! Messages as JSON, in the form of Kafka's own generated converters. For tests and for tools that show what is on the wire.
//!
//! A field that the version lacks is left out, and so is a tagged field that has its default; bytes are base64. It refuses to read
//! JSON: messages come from frames.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use highwater_engine::units::TopicId;
use serde_json::Value;

use super::error_code::ErrorCode;
use super::records::Records;

/// What can be shown as JSON in one version of a message.
pub trait ToJson {
    /// The JSON that Kafka's converter gives for this version.
    fn to_json(&self, version: i16) -> Value;
}

macro_rules! plain {
    ($($type:ty),+) => { $(
        impl ToJson for $type {
            fn to_json(&self, _: i16) -> Value {
                Value::from(self.clone())
            }
        }
    )+ };
}

plain!(bool, i8, i16, i32, i64, String);

impl ToJson for ErrorCode {
    fn to_json(&self, _: i16) -> Value {
        Value::from(self.code())
    }
}

impl ToJson for [u8; 16] {
    fn to_json(&self, _: i16) -> Value {
        Value::from(URL_SAFE_NO_PAD.encode(self))
    }
}

impl ToJson for Option<TopicId> {
    fn to_json(&self, version: i16) -> Value {
        self.map_or([0; 16], TopicId::bytes).to_json(version)
    }
}

impl ToJson for Bytes {
    fn to_json(&self, _: i16) -> Value {
        Value::from(STANDARD.encode(self))
    }
}

impl ToJson for Records {
    fn to_json(&self, version: i16) -> Value {
        self.clone().into_bytes().to_json(version)
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self, version: i16) -> Value {
        self.iter().map(|element| element.to_json(version)).collect()
    }
}

macro_rules! nullable {
    ($([$($generic:tt)*] $type:ty),+) => { $(
        impl $($generic)* ToJson for Option<$type> {
            fn to_json(&self, version: i16) -> Value {
                self.as_ref().map_or(Value::Null, |value| value.to_json(version))
            }
        }
    )+ };
}

nullable!([] String, [] Bytes, [] Records, [<T: ToJson>] Vec<T>);

/// `replica_id` as `replicaId`.
pub(super) fn camel_case(snake: &str) -> String {
    let mut name = String::with_capacity(snake.len());
    for (at, word) in snake.split('_').enumerate() {
        let mut characters = word.chars();
        match characters.next() {
            Some(first) if at > 0 => name.extend(first.to_uppercase()),
            first => name.extend(first),
        }
        name.push_str(characters.as_str());
    }
    name
}
