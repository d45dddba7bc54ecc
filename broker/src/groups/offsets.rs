//! The offsets of one group.

use std::collections::BTreeMap;

use highwater_engine::units::{Timestamp, TopicId};

use super::coordinator::WriteId;

/// A partition by its topic's name and its number.
pub(super) type Part = (String, i32);

/// How far a group has come in a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Committed {
    /// The next offset to be read.
    pub(super) offset: i64,
    /// The leader epoch of the last record that was read, -1 for unknown.
    pub(super) leader_epoch: i32,
    pub(super) metadata: String,
    /// Of which topic of that name; `None` until those that were loaded are held against the cluster.
    pub(super) topic: Option<TopicId>,
    /// When it was committed.
    pub(super) at: Timestamp,
    /// When it is to be forgotten, where the client chose that itself.
    pub(super) expires: Option<Timestamp>,
}

/// Offsets that are committed to the log, each with the write that brought it; what was loaded came before all writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Offsets {
    committed: BTreeMap<Part, (Option<WriteId>, Committed)>,
    /// Writes that are under way.
    pub(super) pending: usize,
}

impl Offsets {
    /// As the log has it.
    pub(super) fn loaded(&mut self, part: Part, committed: Option<Committed>) {
        match committed {
            Some(committed) => {
                self.committed.insert(part, (None, committed));
            }
            None => {
                self.committed.remove(&part);
            }
        }
    }

    /// A write is committed; an answer that comes late does not undo a newer one.
    pub(super) fn written(&mut self, write: WriteId, part: Part, committed: Committed) {
        let newest = self.committed.get(&part).and_then(|(write, _)| *write);
        if newest.is_none_or(|newest| newest < write) {
            self.committed.insert(part, (Some(write), committed));
        }
    }

    /// A write that forgets an offset is committed.
    pub(super) fn forget(&mut self, write: WriteId, part: &Part) {
        if self.committed.get(part).is_some_and(|(newest, _)| newest.is_none_or(|newest| newest < write)) {
            self.committed.remove(part);
        }
    }

    pub(super) fn get(&self, topic: &str, partition: i32) -> Option<&Committed> {
        self.committed.get(&(topic.to_owned(), partition)).map(|(_, committed)| committed)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Part, &Committed)> {
        self.committed.iter().map(|(part, (_, committed))| (part, committed))
    }

    /// What was loaded is of the topics that there are now.
    pub(super) fn name_topics(&mut self, id_of: &impl Fn(&str) -> Option<TopicId>) {
        for ((name, _), (_, committed)) in &mut self.committed {
            committed.topic = committed.topic.or_else(|| id_of(name));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending == 0
    }
}
