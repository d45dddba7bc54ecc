//! `meta.properties`: which node of which cluster a data directory belongs to, in Java's properties format.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

use super::file::{Certainty, Reading, read_decoded, replace_file};
use super::text::{Damage, number};
use crate::disk::Disk;
use crate::units::{NodeId, TopicId};

/// The file's name, in the data directory.
pub const META_PROPERTIES: &str = "meta.properties";

/// What `meta.properties` says, version 1 (version 0 belongs to the time of `ZooKeeper` and names no cluster for certain).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// Whose directory it is.
    pub node: NodeId,
    /// The cluster's id.
    pub cluster: String,
    /// The directory's own id, 16 random bytes.
    pub directory: Option<TopicId>,
    /// Everything else, kept as it is.
    pub others: BTreeMap<String, String>,
}

/// Reads `meta.properties`. A missing one means that the directory belongs to nobody yet; an empty one is damaged.
pub fn read_properties(disk: &dyn Disk, path: &Path) -> io::Result<Reading<MetaProperties>> {
    read_decoded(disk, path, decode_properties)
}

/// Replaces `meta.properties`. A crash leaves the old or the new one.
pub fn write_properties(disk: &dyn Disk, path: &Path, properties: &MetaProperties) -> io::Result<()> {
    replace_file(disk, path, encode_properties(properties).as_bytes(), Certainty::Durable)
}

/// The text of `meta.properties`.
pub fn encode_properties(properties: &MetaProperties) -> String {
    let mut all = properties.others.clone();
    all.insert("version".to_owned(), "1".to_owned());
    all.insert("node.id".to_owned(), properties.node.to_string());
    all.insert("cluster.id".to_owned(), properties.cluster.clone());
    if let Some(directory) = properties.directory {
        all.insert("directory.id".to_owned(), directory.to_string());
    }
    let mut text = "#\n".to_owned();
    for (key, value) in all {
        escape(&mut text, &key);
        text.push('=');
        escape(&mut text, &value);
        text.push('\n');
    }
    text
}

/// Reads the text of `meta.properties`.
pub fn decode_properties(bytes: &[u8]) -> Reading<MetaProperties> {
    Reading::from_result(decode(bytes), false)
}

fn decode(bytes: &[u8]) -> Result<MetaProperties, Damage> {
    let text = std::str::from_utf8(bytes).map_err(|_| Damage::NotText)?;
    if text.is_empty() {
        return Err(Damage::Empty);
    }
    let text = text.strip_suffix('\n').ok_or(Damage::Cut)?;
    let mut all = BTreeMap::new();
    for (at, line) in text.split('\n').enumerate() {
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let (key, value) = property(line).ok_or(Damage::Line { line: at + 1 })?;
        if all.insert(key, value).is_some() {
            return Err(Damage::Contradiction { line: at + 1 });
        }
    }
    let version = all.remove("version").ok_or(Damage::Property { name: "version" })?;
    if version != "1" {
        return Err(Damage::Version { version });
    }
    let node = all.remove("node.id").and_then(|id| NodeId::new(number(&id)?));
    let directory = match all.remove("directory.id") {
        Some(id) => Some(TopicId::parse(&id).ok_or(Damage::Property { name: "directory.id" })?),
        None => None,
    };
    Ok(MetaProperties {
        node: node.ok_or(Damage::Property { name: "node.id" })?,
        cluster: all
            .remove("cluster.id")
            .filter(|id| !id.is_empty())
            .ok_or(Damage::Property { name: "cluster.id" })?,
        directory,
        others: all,
    })
}

/// Splits `key=value` at the first `=` that is not escaped, and takes the escapes away.
fn property(line: &str) -> Option<(String, String)> {
    let mut escaped = false;
    let split = line.char_indices().find(|(_, character)| {
        let splits = *character == '=' && !escaped;
        escaped = *character == '\\' && !escaped;
        splits
    })?;
    let (key, value) = line.split_at(split.0);
    let key = unescape(key)?;
    if key.is_empty() { None } else { Some((key, unescape(value.strip_prefix('=')?)?)) }
}

fn unescape(text: &str) -> Option<String> {
    // Java escapes UTF-16 units, so characters beyond them come as two.
    let mut units = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let plain = match (character, if character == '\\' { Some(characters.next()?) } else { None }) {
            (_, Some('u')) => {
                let digits: String = characters.by_ref().take(4).collect();
                let hexadecimal = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                units.push(u16::from_str_radix(&digits, 16).ok().filter(|_| hexadecimal)?);
                continue;
            }
            (_, Some('t')) => '\t',
            (_, Some('n')) => '\n',
            (_, Some('r')) => '\r',
            (_, Some('f')) => '\u{c}',
            (plain, None) | (_, Some(plain)) => plain,
        };
        units.extend(plain.encode_utf16(&mut [0; 2]).iter());
    }
    String::from_utf16(&units).ok()
}

fn escape(text: &mut String, plain: &str) {
    for character in plain.chars() {
        match character {
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\u{c}' => text.push_str("\\f"),
            '\\' | '=' | ':' | '#' | '!' | ' ' => text.extend(['\\', character]),
            ' '..='~' => text.push(character),
            other => {
                let mut units = [0; 2];
                for unit in other.encode_utf16(&mut units) {
                    let written = write!(text, "\\u{unit:04X}");
                    debug_assert!(written.is_ok(), "a string takes everything");
                }
            }
        }
    }
}
