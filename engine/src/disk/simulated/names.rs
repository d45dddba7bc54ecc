//! Names of a simulated disk: what directories show, what is certain, and the changes between.
//!
//! Each change of names (a creation, a removal, a rename with its two names) is a whole: a power loss keeps it or undoes it, independently of
//! other changes, until one of its directories is synced. After a sync that failed a change is in the directory's memory and perhaps not on
//! the medium, as the pages of a file are, and stays so until something else changes in that directory and is synced.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::body::Body;
use super::counters::SimulatedCounters;
use super::loss::{Decision, Unit, UnitKind};
use super::state::Reached;

/// Number of a file or directory; never used again.
pub(super) type NodeId = u64;

/// The directory that is always there.
pub(super) const ROOT: NodeId = 1;

/// A file or a directory. Shared between forks until one of them changes it.
#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Arc<Body>),
    Directory(Arc<Directory>),
}

/// The names in one directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    names: BTreeMap<String, NodeId>,
    durable: BTreeMap<String, NodeId>,
}

/// A change of names that is not certain yet.
#[derive(Clone, Debug)]
struct Change {
    parts: Vec<Part>,
}

impl Change {
    /// What a rename moves.
    fn moved(&self) -> Option<NodeId> {
        if self.parts.len() > 1 { self.parts.iter().find_map(|part| part.node) } else { None }
    }
}

#[derive(Clone, Debug)]
struct Part {
    directory: NodeId,
    name: String,
    node: Option<NodeId>,
}

/// All files and directories.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: BTreeMap<NodeId, Node>,
    next: NodeId,
    unsynced: Vec<Change>,
    /// Changes that a failed sync has left behind: shown, and on their way to the medium no more.
    abandoned: Vec<Change>,
}

impl Tree {
    pub(super) fn new() -> Self {
        let nodes = BTreeMap::from([(ROOT, Node::Directory(Arc::default()))]);
        Self { nodes, next: ROOT + 1, unsynced: Vec::new(), abandoned: Vec::new() }
    }

    pub(super) fn file(&self, node: NodeId) -> io::Result<&Body> {
        match self.nodes.get(&node) {
            Some(Node::File(body)) => Ok(body),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn file_mut(&mut self, node: NodeId) -> io::Result<&mut Body> {
        match self.nodes.get_mut(&node) {
            Some(Node::File(body)) => Ok(Arc::make_mut(body)),
            Some(Node::Directory(_)) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn directory(&self, node: NodeId) -> io::Result<&Directory> {
        match self.nodes.get(&node) {
            Some(Node::Directory(directory)) => Ok(directory),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn directory_mut(&mut self, node: NodeId) -> Option<&mut Directory> {
        match self.nodes.get_mut(&node) {
            Some(Node::Directory(directory)) => Some(Arc::make_mut(directory)),
            Some(Node::File(_)) | None => None,
        }
    }

    /// The names in a directory, with whether each names a directory.
    pub(super) fn list(&self, node: NodeId) -> io::Result<Vec<(String, bool)>> {
        let names = &self.directory(node)?.names;
        Ok(names.iter().map(|(name, node)| (name.clone(), self.is_directory(*node))).collect())
    }

    pub(super) fn is_directory(&self, node: NodeId) -> bool {
        matches!(self.nodes.get(&node), Some(Node::Directory(_)))
    }

    /// What a path names.
    pub(super) fn find(&self, path: &Path) -> io::Result<NodeId> {
        let mut node = ROOT;
        for name in names_of(path)? {
            node = self.child(node, &name)?.ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// The directory that a path is in, and its last name.
    pub(super) fn find_parent(&self, path: &Path) -> io::Result<(NodeId, String)> {
        let mut names = names_of(path)?;
        let last = names.pop().ok_or(io::ErrorKind::InvalidInput)?;
        let mut node = ROOT;
        for name in names {
            node = self.child(node, &name)?.ok_or(io::ErrorKind::NotFound)?;
        }
        self.directory(node)?;
        Ok((node, last))
    }

    pub(super) fn child(&self, directory: NodeId, name: &str) -> io::Result<Option<NodeId>> {
        Ok(self.directory(directory)?.names.get(name).copied())
    }

    fn add(&mut self, node: Node) -> NodeId {
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        id
    }

    pub(super) fn create_file(&mut self, directory: NodeId, name: &str, modified_ms: i64) -> NodeId {
        let node = self.add(Node::File(Arc::new(Body::new(modified_ms))));
        self.change(vec![Part { directory, name: name.to_owned(), node: Some(node) }]);
        node
    }

    pub(super) fn create_directories(&mut self, path: &Path) -> io::Result<()> {
        let mut directory = ROOT;
        for name in names_of(path)? {
            if let Some(node) = self.child(directory, &name)? {
                directory = node;
                continue;
            }
            let node = self.add(Node::Directory(Arc::default()));
            self.change(vec![Part { directory, name, node: Some(node) }]);
            directory = node;
        }
        match self.nodes.get(&directory) {
            Some(Node::Directory(_)) => Ok(()),
            _ => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let (from_directory, from_name) = self.find_parent(from)?;
        let (to_directory, to_name) = self.find_parent(to)?;
        let node = self.child(from_directory, &from_name)?.ok_or(io::ErrorKind::NotFound)?;
        let target = self.child(to_directory, &to_name)?;
        if target == Some(node) {
            return Ok(());
        }
        if self.is_directory(node) && names_of(to)?.starts_with(&names_of(from)?) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some(target) = target {
            match (self.is_directory(node), self.is_directory(target)) {
                (true, false) => return Err(io::ErrorKind::NotADirectory.into()),
                (false, true) => return Err(io::ErrorKind::IsADirectory.into()),
                (true, true) if !self.directory(target)?.names.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                (true, true) | (false, false) => {}
            }
        }
        self.change(vec![
            Part { directory: from_directory, name: from_name, node: None },
            Part { directory: to_directory, name: to_name, node: Some(node) },
        ]);
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let (directory, name) = self.find_parent(path)?;
        let node = self.child(directory, &name)?.ok_or(io::ErrorKind::NotFound)?;
        self.file(node)?;
        self.change(vec![Part { directory, name, node: None }]);
        Ok(())
    }

    /// Removes what is in a directory, name by name, and the directory last; stops after `steps_max` names, as a crash does.
    pub(super) fn remove_directory(&mut self, path: &Path, mut steps_max: usize) -> io::Result<()> {
        let (directory, name) = self.find_parent(path)?;
        let node = self.child(directory, &name)?.ok_or(io::ErrorKind::NotFound)?;
        let mut doomed = Vec::new();
        self.gather(node, &mut doomed)?;
        doomed.push((directory, name));
        for (directory, name) in doomed {
            if steps_max == 0 {
                return Ok(());
            }
            steps_max -= 1;
            self.change(vec![Part { directory, name, node: None }]);
        }
        Ok(())
    }

    fn gather(&self, directory: NodeId, doomed: &mut Vec<(NodeId, String)>) -> io::Result<()> {
        for (name, node) in &self.directory(directory)?.names {
            if self.is_directory(*node) {
                self.gather(*node, doomed)?;
            }
            doomed.push((directory, name.clone()));
        }
        Ok(())
    }

    fn change(&mut self, parts: Vec<Part>) {
        for part in &parts {
            if let Some(directory) = self.directory_mut(part.directory) {
                put(&mut directory.names, part);
            }
            // A directory that changes is written as a whole.
            let again = take_of(&mut self.abandoned, part.directory);
            self.unsynced.extend(again);
        }
        self.unsynced.push(Change { parts });
    }

    pub(super) fn sync_directory(&mut self, node: NodeId) -> io::Result<()> {
        self.directory(node)?;
        let certain = take_of(&mut self.unsynced, node);
        self.make_certain(&certain);
        Ok(())
    }

    /// A sync of a directory that failed: the first changes got there, the others are left behind.
    pub(super) fn abandon(&mut self, node: NodeId, reached: &mut Reached<'_>) {
        let mut changes = take_of(&mut self.unsynced, node);
        let left = changes.split_off(reached.how_many_of(changes.len()));
        self.make_certain(&changes);
        self.abandoned.extend(left);
    }

    fn make_certain(&mut self, changes: &[Change]) {
        for part in changes.iter().flat_map(|change| &change.parts) {
            if let Some(directory) = self.directory_mut(part.directory) {
                put(&mut directory.durable, part);
            }
        }
    }

    /// Decides which names are left when the power goes.
    pub(super) fn lose_power(&mut self, decision: &mut Decision<'_>, counters: &mut SimulatedCounters) {
        let kept_percent = decision.mood([10, 50, 90]);
        self.abandoned.clear();
        let mut changes = std::mem::take(&mut self.unsynced);
        // A file moves on from where it is: a rename is undone with the rename before it, or the file would have two names.
        let mut held_back = BTreeSet::new();
        changes.retain(|change| {
            let moved = change.moved();
            let is_free = || moved.is_none_or(|node| !held_back.contains(&node));
            let is_kept = decision.keeps_name(kept_percent, is_free);
            if !is_kept {
                held_back.extend(moved);
            }
            is_kept
        });
        self.make_certain(&changes);
        for node in self.nodes.values_mut() {
            let Node::Directory(directory) = node else { continue };
            let Directory { names, durable } = Arc::make_mut(directory);
            let lost = names.iter().filter(|(name, node)| durable.get(*name) != Some(node)).count();
            let resurrected = durable.keys().filter(|name| !names.contains_key(*name)).count();
            counters.lost_names += lost as u64;
            counters.resurrected_names += resurrected as u64;
            names.clone_from(durable);
        }
    }

    /// What a power loss decides on of the names.
    pub(super) fn units(&self, units: &mut Vec<Unit>) {
        let paths = self.paths();
        units.extend(self.unsynced.iter().zip(0..).map(|(change, step)| {
            let part = change.parts.last();
            let directory = part.and_then(|part| paths.get(&part.directory)).cloned().unwrap_or_default();
            let path = directory.join(part.map_or("", |part| &part.name));
            Unit { kind: UnitKind::Name, path, step, choices: 2 }
        }));
    }

    /// All files, in the order of [`Tree::files_mut`], with a name that they have, if they have one.
    pub(super) fn files(&self) -> impl Iterator<Item = (PathBuf, &Body)> {
        let paths = self.paths();
        self.nodes.iter().filter_map(move |(id, node)| match node {
            Node::File(body) => Some((paths.get(id).cloned().unwrap_or_default(), &**body)),
            Node::Directory(_) => None,
        })
    }

    /// A path for each node: as it is shown, or where a power loss may bring it back.
    fn paths(&self) -> BTreeMap<NodeId, PathBuf> {
        let mut paths = BTreeMap::from([(ROOT, PathBuf::from("/"))]);
        let mut todo = vec![ROOT];
        while let Some(id) = todo.pop() {
            let Some(Node::Directory(directory)) = self.nodes.get(&id) else { continue };
            let path = paths[&id].clone();
            for (name, child) in directory.names.iter().chain(&directory.durable) {
                if let Entry::Vacant(free) = paths.entry(*child) {
                    free.insert(path.join(name));
                    todo.push(*child);
                }
            }
        }
        paths
    }

    /// Tells the same of trees that no call can tell apart, now and after any crash.
    pub(super) fn digest(&self, into: &mut impl Hasher) {
        for (id, node) in &self.nodes {
            id.hash(into);
            match node {
                Node::File(body) => body.digest(into),
                Node::Directory(directory) => {
                    directory.names.hash(into);
                    directory.durable.hash(into);
                }
            }
        }
        for change in self.unsynced.iter().chain(&self.abandoned) {
            for part in &change.parts {
                (part.directory, &part.name, part.node).hash(into);
            }
        }
        self.abandoned.len().hash(into);
    }

    /// All files, to be changed one by one.
    pub(super) fn files_mut(&mut self) -> impl Iterator<Item = &mut Body> {
        self.nodes.values_mut().filter_map(|node| match node {
            Node::File(body) => Some(Arc::make_mut(body)),
            Node::Directory(_) => None,
        })
    }

    /// For a copy of the tree that takes no operations in flight with it.
    pub(super) fn forget_syncs_in_flight(&mut self) {
        for node in self.nodes.values_mut() {
            if let Node::File(body) = node
                && body.syncs_in_flight > 0
            {
                Arc::make_mut(body).syncs_in_flight = 0;
            }
        }
    }

    /// Bytes taken by the files that have a name or are held open.
    pub(super) fn allocated(&self, is_open: impl Fn(NodeId) -> bool) -> u64 {
        let named = self.reachable(BTreeSet::from([ROOT]), |directory| vec![&directory.names]);
        let files = self.nodes.iter().filter(|(node, _)| named.contains(node) || is_open(**node));
        files
            .map(|(_, node)| match node {
                Node::File(body) => body.allocated(),
                Node::Directory(_) => 0,
            })
            .sum()
    }

    fn reachable<'a>(
        &'a self,
        mut found: BTreeSet<NodeId>,
        names: impl Fn(&'a Directory) -> Vec<&'a BTreeMap<String, NodeId>>,
    ) -> BTreeSet<NodeId> {
        let mut todo: Vec<NodeId> = found.iter().copied().collect();
        while let Some(node) = todo.pop() {
            let Some(Node::Directory(directory)) = self.nodes.get(&node) else { continue };
            for child in names(directory).into_iter().flat_map(BTreeMap::values) {
                if found.insert(*child) {
                    todo.push(*child);
                }
            }
        }
        found
    }

    /// Forgets what can never be seen again: nodes without a name, certain or not, that nobody holds open.
    pub(super) fn forget_unreachable(&mut self, is_open: impl Fn(NodeId) -> bool) {
        let changes = self.unsynced.iter().chain(&self.abandoned);
        let waiting = changes.flat_map(|change| &change.parts).filter_map(|part| part.node);
        let roots = waiting.chain([ROOT]).collect();
        let seen = self.reachable(roots, |directory| vec![&directory.names, &directory.durable]);
        self.nodes.retain(|node, _| seen.contains(node) || is_open(*node));
        let nodes = &self.nodes;
        for changes in [&mut self.unsynced, &mut self.abandoned] {
            changes.retain(|change| change.parts.iter().any(|part| nodes.contains_key(&part.directory)));
        }
    }
}

/// Takes the changes of a directory out.
fn take_of(changes: &mut Vec<Change>, node: NodeId) -> Vec<Change> {
    let is_of = |change: &Change| change.parts.iter().any(|part| part.directory == node);
    let (taken, left) = std::mem::take(changes).into_iter().partition(is_of);
    *changes = left;
    taken
}

fn put(names: &mut BTreeMap<String, NodeId>, part: &Part) {
    match part.node {
        Some(node) => names.insert(part.name.clone(), node),
        None => names.remove(&part.name),
    };
}

/// The names along a path, from the root. A relative path starts there too.
fn names_of(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => {
                names.push(name.to_str().ok_or(io::ErrorKind::InvalidFilename)?.to_owned());
            }
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(names)
}
