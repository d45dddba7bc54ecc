//! Bytes change at rest: under a log that is open, or while nobody looks.
//!
//! What may be struck is bounded, so that only a fault of ours can lose a record: the batch lies below the recovery point that is written
//! down, so that no crash explains what is wrong with it, and somebody else has everything that is committed, synced and not struck.

use std::path::{Path, PathBuf};

use highwater_engine::checkpoint::RECOVERY_POINTS;
use highwater_engine::disk::{Disk, Open};
use highwater_engine::units::{NodeId, TopicPartition};

use super::World;
use super::host::DIRECTORY;

/// Bytes of a batch in front of what its length counts.
const PREFIX_BYTES: u64 = 12;

impl World {
    /// Changes some bit of the batch that begins at this offset, in the file of a node.
    pub fn rot(&mut self, node: NodeId, partition: &TopicPartition, base: i64) {
        let (_, _, size) = self.place_of(node, partition, base).expect("who is struck has the batch");
        let byte = self.chance.u64(..size);
        self.rot_byte(node, partition, base, byte);
    }

    /// Changes some bit of this byte of the batch that begins at this offset, in the file of a node.
    pub fn rot_byte(&mut self, node: NodeId, partition: &TopicPartition, base: i64, byte: u64) {
        let (path, position, _) = self.place_of(node, partition, base).expect("who is struck has the batch");
        let at = position + byte;
        let was = self.node(node).disk.contents(&path).ok();
        let was = was.and_then(|bytes| bytes.get(usize::try_from(at).ok()?).copied()).unwrap_or_default();
        let changed = was ^ (1 << self.chance.u8(..8));
        self.note(format!("a bit of {partition} on {node} changes: byte {byte} of the batch at {base}"));
        self.count("bits changed at rest");
        self.ghost.struck(node, partition, base);
        let damaged = self.node(node).disk.damage(&path, at, &[changed]);
        assert!(damaged.is_ok(), "{} of {node} is not there: {damaged:?}", path.display());
    }

    /// The segments of a log in the files of a node, by their names, and the size of each.
    pub fn segments(&self, node: NodeId, partition: &TopicPartition) -> Vec<(String, usize)> {
        let disk = &self.node(node).disk;
        let directory = Path::new(DIRECTORY).join(partition.to_string());
        let names = disk.fork(0).list(&directory).unwrap_or_default().into_iter().map(|entry| entry.name);
        names
            .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "log"))
            .map(|name| {
                let size = disk.contents(&directory.join(&name)).map_or(0, |bytes| bytes.len());
                (format!("{partition}/{name}"), size)
            })
            .collect()
    }

    /// The files of a node that is down were damaged: nothing of its log is promised, and what it holds is told when it can be read.
    pub fn note_damage(&mut self, node: NodeId, partition: &TopicPartition, what: &str) {
        self.note(format!("{partition} on {node}: {what}"));
        self.ghost.damaged(node, partition);
    }

    /// Takes a file of a node that is down away.
    pub fn remove_file(&mut self, node: NodeId, file: &str) {
        self.note(format!("{file} of {node} is taken away"));
        let removed = self.node(node).disk.remove_file(&Path::new(DIRECTORY).join(file));
        assert!(removed.is_ok(), "{file} of {node}: {removed:?}");
    }

    /// Makes a file of a node that is down as long as this.
    pub fn set_file_size(&mut self, node: NodeId, file: &str, size: u64) {
        self.note(format!("{file} of {node} has {size} bytes now"));
        let opened = self.node(node).disk.open(&Path::new(DIRECTORY).join(file), Open::Write);
        let set = opened.and_then(|file| file.set_size(size).and_then(|()| file.sync()));
        assert!(set.is_ok(), "{file} of {node}: {set:?}");
    }

    /// Strikes some batch of a node that may be struck, if there is one.
    pub(super) fn rot_somewhere(&mut self, node: NodeId) {
        let points = self.offsets_in(node, RECOVERY_POINTS);
        let mut candidates = Vec::new();
        for (partition, point) in points {
            let bases = self.ghost.may_be_struck(node, &partition, point.value());
            candidates.extend(bases.into_iter().map(|base| (partition.clone(), base)));
        }
        candidates.retain(|(partition, base)| self.place_of(node, partition, *base).is_some());
        if !candidates.is_empty() {
            let (partition, base) = candidates.swap_remove(self.chance.usize(..candidates.len()));
            self.rot(node, &partition, base);
        }
    }

    /// Reads all logs to their ends, as far as their processes run. Whether all of it is there; what is not is examined by and by.
    pub fn all_logs_can_be_read(&mut self) -> bool {
        let mut all = true;
        for node in self.options.nodes.clone() {
            if let Some(process) = self.nodes.get(&node).and_then(super::host::Node::process) {
                all &= self.ghost.reads_all(node, &process.shard);
            }
            self.wake(node);
        }
        all
    }

    /// The file of a batch, where it begins there, and its size.
    fn place_of(&self, node: NodeId, partition: &TopicPartition, base: i64) -> Option<(PathBuf, u64, u64)> {
        let disk = &self.node(node).disk;
        let directory = Path::new(DIRECTORY).join(partition.to_string());
        let mut files: Vec<PathBuf> =
            disk.fork(0).list(&directory).ok()?.iter().map(|entry| directory.join(&entry.name)).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        files.iter().find_map(|path| {
            let bytes = disk.contents(path).ok()?;
            let mut at = 0_usize;
            loop {
                let begins = i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
                let length = u32::from_be_bytes(bytes.get(at + 8..at + 12)?.try_into().ok()?);
                let size = PREFIX_BYTES + u64::from(length);
                if begins == base && length > 0 {
                    return Some((path.clone(), at as u64, size));
                }
                at = at.checked_add(usize::try_from(size).ok()?)?;
            }
        })
    }
}
