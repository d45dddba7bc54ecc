//! Which records are shown, and as what.

use std::io::{self, Write};

use highwater_engine::units::Timestamp;
use serde_json::{Map, Value, json};

use super::records::Shown;
use super::{Cat, CatError};

pub(super) struct Printer<'a> {
    what: &'a Cat,
    out: &'a mut dyn Write,
    /// How many more are shown.
    left: Option<u64>,
    /// Whether a record was there that is not too old.
    has_begun: bool,
}

impl<'a> Printer<'a> {
    pub(super) fn new(what: &'a Cat, out: &'a mut dyn Write) -> Self {
        Self { what, out, left: what.count, has_begun: what.since.is_none() }
    }

    /// Whether nothing more is wanted.
    pub(super) fn is_done(&self) -> bool {
        self.left == Some(0)
    }

    pub(super) fn flush(&mut self) -> Result<(), CatError> {
        self.out.flush().map_err(CatError::Write)
    }

    pub(super) fn put(&mut self, record: Shown<'_>) -> Result<(), CatError> {
        self.has_begun = self.has_begun || record.timestamp >= self.what.since;
        if self.is_done() || !self.has_begun || !self.is_wanted(&record) {
            return Ok(());
        }
        self.left = self.left.map(|left| left - 1);
        let written = if self.what.json { self.put_json(&record) } else { self.put_line(&record) };
        written.map_err(CatError::Write)
    }

    fn is_wanted(&self, record: &Shown<'_>) -> bool {
        let Cat { from, key, contains, .. } = self.what;
        let has_key = |key: &String| record.key == Some(key.as_bytes());
        let has_text = |text: &String| record.value.is_some_and(|value| occurs(text.as_bytes(), value));
        from.is_none_or(|from| record.offset >= from)
            && key.as_ref().is_none_or(has_key)
            && contains.as_ref().is_none_or(has_text)
    }

    /// Offset, timestamp, key and value with tabs between them. What is not there is `-`; what is no text is escaped, so that a record is a line.
    fn put_line(&mut self, record: &Shown<'_>) -> io::Result<()> {
        write!(self.out, "{}\t{}\t", record.offset, millis(record.timestamp))?;
        put_bytes(self.out, record.key)?;
        self.out.write_all(b"\t")?;
        put_bytes(self.out, record.value)?;
        self.out.write_all(b"\n")
    }

    fn put_json(&mut self, record: &Shown<'_>) -> io::Result<()> {
        let mut fields = Map::new();
        fields.insert("offset".to_owned(), json!(record.offset.value()));
        fields.insert("timestamp".to_owned(), json!(millis(record.timestamp)));
        insert_bytes(&mut fields, "key", record.key);
        insert_bytes(&mut fields, "value", record.value);
        if let Some(headers) = record.headers {
            let headers = headers.iter().map(|(key, value)| {
                let mut header = Map::new();
                insert_bytes(&mut header, "key", Some(key));
                insert_bytes(&mut header, "value", value);
                Value::Object(header)
            });
            fields.insert("headers".to_owned(), headers.collect());
        }
        serde_json::to_writer(&mut *self.out, &fields)?;
        self.out.write_all(b"\n")
    }
}

fn millis(timestamp: Option<Timestamp>) -> i64 {
    timestamp.map_or(-1, Timestamp::millis)
}

fn occurs(text: &[u8], value: &[u8]) -> bool {
    text.is_empty() || value.windows(text.len()).any(|window| window == text)
}

/// Text as it is, all but what would end the column or the line; other bytes as `\xff`.
fn put_bytes(out: &mut dyn Write, bytes: Option<&[u8]>) -> io::Result<()> {
    let Some(bytes) = bytes else { return out.write_all(b"-") };
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            if letter.is_control() || letter == '\\' {
                write!(out, "{}", letter.escape_default())?;
            } else {
                write!(out, "{letter}")?;
            }
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Text under the name; what is none in hex, under the name with `_hex`; null if there is nothing.
fn insert_bytes(fields: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    let text = bytes.map(std::str::from_utf8);
    match (text, bytes) {
        (Some(Err(_)), Some(bytes)) => fields.insert(format!("{name}_hex"), crate::tools::hex(bytes).into()),
        (Some(Ok(text)), _) => fields.insert(name.to_owned(), text.into()),
        _ => fields.insert(name.to_owned(), Value::Null),
    };
}
