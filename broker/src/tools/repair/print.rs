//! What is damaged and what is given up, as lines for people or as JSON.

use std::io::{self, Write};
use std::path::Path;

use highwater_engine::segment::DamagedRange;
use highwater_engine::units::TopicPartition;
use serde_json::{Value, json};

use super::Range;
use crate::tools::dump::Format;

pub(super) struct Printer<'a> {
    format: Format,
    out: &'a mut dyn Write,
}

impl<'a> Printer<'a> {
    pub(super) fn new(format: Format, out: &'a mut dyn Write) -> Self {
        Self { format, out }
    }

    /// A damaged range, and whose records it touches.
    pub(super) fn damaged(
        &mut self,
        name: &TopicPartition,
        range: &DamagedRange,
        touched: &[String],
    ) -> io::Result<()> {
        let (offsets, (from, until)) = (range.offsets, range.bytes);
        let count = offsets.end().distance_from(offsets.start()).unwrap_or_default();
        let (first, end) = (offsets.start(), offsets.end());
        if self.format == Format::Json {
            return self.object(&json!({
                "log": name.to_string(),
                "from": first.value(),
                "until": end.value(),
                "segment": range.segment.value(),
                "position": from,
                "bytes": until - from,
                "can_be_given_up": !offsets.is_empty(),
                "touched": touched,
            }));
        }
        writeln!(
            self.out,
            "{name}: offsets {first}..{end}, up to {count} records in {} bytes, at byte {from} of segment {}",
            until - from,
            range.segment
        )?;
        if offsets.is_empty() {
            writeln!(
                self.out,
                "  the bytes have no offsets of their own, so that there is nothing to give up"
            )?;
        }
        touched.iter().try_for_each(|line| writeln!(self.out, "  {line}"))
    }

    pub(super) fn nothing_damaged(&mut self) -> io::Result<()> {
        match self.format {
            Format::People => writeln!(self.out, "nothing is damaged"),
            Format::Json => self.end(0),
        }
    }

    /// Nothing was to be given up; how it is said that something is.
    pub(super) fn not_given_up(&mut self, ranges: &[Range], left: usize) -> io::Result<()> {
        if self.format == Format::Json {
            return self.end(left);
        }
        writeln!(
            self.out,
            "nothing is changed; what no replica has any more is given up by --give-up, once for each range:"
        )?;
        ranges.iter().try_for_each(|range| writeln!(self.out, "  --give-up {range}"))
    }

    pub(super) fn given_up(&mut self, range: &Range, kept: Option<&Path>) -> io::Result<()> {
        if self.format == Format::Json {
            return self.object(&json!({
                "log": range.log.to_string(),
                "from": range.offsets.start().value(),
                "until": range.offsets.end().value(),
                "given_up": true,
                "kept": kept,
            }));
        }
        writeln!(self.out, "{range} is given up")?;
        match kept {
            Some(kept) => writeln!(self.out, "  its bytes are kept in {}", kept.display()),
            None => Ok(()),
        }
    }

    /// How many damaged ranges are left.
    pub(super) fn end(&mut self, left: usize) -> io::Result<()> {
        match self.format {
            Format::People => Ok(()),
            Format::Json => self.object(&json!({ "damaged": left })),
        }
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn object(&mut self, object: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, object)?;
        self.out.write_all(b"\n")
    }
}
