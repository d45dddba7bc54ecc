//! What was found, as lines for people or as JSON, and the sum of it.

use std::io::{self, Write};
use std::path::Path;

use highwater_engine::store::{FileVerified, Finding, LogVerified};
use serde_json::{Map, Value, json};

use super::Verdict;

pub(super) struct Printer<'a> {
    json: bool,
    out: &'a mut dyn Write,
    logs: usize,
    segments: usize,
    bytes: u64,
    batches: u64,
    findings: usize,
}

impl<'a> Printer<'a> {
    pub(super) fn new(json: bool, out: &'a mut dyn Write) -> Self {
        Self { json, out, logs: 0, segments: 0, bytes: 0, batches: 0, findings: 0 }
    }

    pub(super) fn log(&mut self, log: &LogVerified) -> io::Result<()> {
        self.findings(&log.findings)?;
        (self.logs, self.segments) = (self.logs + 1, self.segments + log.segments);
        (self.bytes, self.batches) = (self.bytes + log.bytes, self.batches + log.batches);
        if !self.json {
            return Ok(());
        }
        self.object(&json!({
            "log": log.name.to_string(),
            "start": log.start.value(),
            "end": log.end.value(),
            "segments": log.segments,
            "bytes": log.bytes,
            "batches": log.batches,
            "findings": log.findings.len(),
        }))
    }

    pub(super) fn file(&mut self, path: &Path, file: &FileVerified) -> io::Result<()> {
        self.findings(&file.findings)?;
        self.bytes += file.bytes;
        if self.json {
            let (bytes, entries) = (file.bytes, file.entries);
            return self.object(&json!({ "file": path, "bytes": bytes, "entries": entries }));
        }
        writeln!(self.out, "{}: {} bytes, {} entries", path.display(), file.bytes, file.entries)
    }

    pub(super) fn findings(&mut self, findings: &[Finding]) -> io::Result<()> {
        self.findings += findings.len();
        for finding in findings {
            if self.json {
                self.object(&object(finding))?;
            } else {
                writeln!(self.out, "{finding}")?;
            }
        }
        self.out.flush()
    }

    /// The sum of everything.
    pub(super) fn finish(mut self) -> io::Result<Verdict> {
        let Self { logs, segments, bytes, batches, findings, .. } = self;
        if self.json {
            self.object(&json!({
                "logs": logs, "segments": segments, "bytes": bytes, "batches": batches, "found": findings,
            }))?;
        } else {
            if logs > 0 {
                writeln!(
                    self.out,
                    "{logs} logs, {segments} segments, {batches} batches, {bytes} bytes read"
                )?;
            }
            match findings {
                0 => writeln!(self.out, "nothing found")?,
                count => writeln!(self.out, "{count} found")?,
            }
        }
        self.out.flush()?;
        Ok(if findings == 0 { Verdict::Whole } else { Verdict::Found })
    }

    fn object(&mut self, object: &Value) -> io::Result<()> {
        serde_json::to_writer(&mut *self.out, object)?;
        self.out.write_all(b"\n")
    }
}

fn object(finding: &Finding) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| object.insert(name.to_owned(), value);
    put("fault", finding.fault.kind().into());
    put("log", finding.log.as_ref().map(ToString::to_string).into());
    put("file", finding.path.display().to_string().into());
    put("position", finding.position.into());
    put("from", finding.offsets.map(|offsets| offsets.start().value()).into());
    put("until", finding.offsets.map(|offsets| offsets.end().value()).into());
    let (expected, found) = finding.fault.expected_and_found().unzip();
    put("expected", expected.into());
    put("found", found.into());
    put("text", finding.to_string().into());
    Value::Object(object)
}
