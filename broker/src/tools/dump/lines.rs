//! One line for each thing in a file, as JSON for programs or as words for people. Knows no format of files.

use std::io::{self, Write};

use serde_json::{Map, Value};

/// The fields of one line.
pub(super) type Fields = Map<String, Value>;

/// For whom the lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// `name value` pairs, and a heading for each file.
    People,
}

/// Where lines go.
pub(super) struct Lines<'a> {
    out: &'a mut dyn Write,
    format: Format,
    file: Option<String>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(out: &'a mut dyn Write, format: Format) -> Self {
        Self { out, format, file: None }
    }

    /// What follows is in this file: named on each line for programs, once for people.
    pub(super) fn in_file(&mut self, name: String) -> io::Result<()> {
        if self.format == Format::People {
            writeln!(self.out, "{name}:")?;
        }
        self.file = Some(name);
        Ok(())
    }

    pub(super) fn put(&mut self, mut fields: Fields) -> io::Result<()> {
        match self.format {
            Format::Json => {
                if let Some(file) = &self.file {
                    fields.insert("file".to_owned(), Value::from(file.as_str()));
                }
                serde_json::to_writer(&mut *self.out, &fields)?;
                self.out.write_all(b"\n")
            }
            Format::People => {
                let records = fields.remove("records");
                writeln!(self.out, "  {}", words(&fields))?;
                for record in records.iter().filter_map(Value::as_array).flatten() {
                    if let Value::Object(record) = record {
                        writeln!(self.out, "    {}", words(record))?;
                    }
                }
                Ok(())
            }
        }
    }
}

fn words(fields: &Fields) -> String {
    let word = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name} {text}"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            format!("{name} {value}")
        }
    };
    fields.iter().map(word).collect::<Vec<_>>().join("  ")
}

/// Fields from pairs.
pub(super) fn fields<const N: usize>(pairs: [(&str, Value); N]) -> Fields {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Bytes in hex; null if there are none.
pub(super) fn hex(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| Value::String(crate::tools::hex(bytes)))
}

/// How many bytes; -1 if there are none.
pub(super) fn size(bytes: Option<&[u8]>) -> Value {
    Value::from(bytes.map_or(-1, |bytes| i64::try_from(bytes.len()).unwrap_or(i64::MAX)))
}
