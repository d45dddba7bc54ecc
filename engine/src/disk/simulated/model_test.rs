//! The losses of a simulated disk are legal: random calls against a model that remembers, byte by byte and name by name, what may be there.
//!
//! The model is dumb on purpose. For each byte it keeps the values that it has had since the last sync, for each name the files that it
//! has named. A sync leaves one. After a power loss all that is found has to be among what is remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use fastrand::Rng;

use super::{Fault, SimulatedDisk, Unsynced};
use crate::disk::{Disk, Open};

const BYTES_MAX: usize = 5 * super::PAGE_BYTES;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A set of byte values.
#[derive(Clone, Copy, Debug, Default)]
struct Values([u64; 4]);

impl Values {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    fn contains(self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & (1 << (byte % 64)) != 0
    }
}

/// What may be there of one file.
#[derive(Clone, Debug)]
struct ModelFile {
    bytes: Vec<u8>,
    /// For each byte position the values it may have; beyond the end it is zero.
    possible: Vec<Values>,
    sizes: BTreeSet<usize>,
    /// A sync has failed: later ones prove nothing, before all of it is written again.
    uncertain: bool,
}

impl ModelFile {
    fn new(bytes: Vec<u8>) -> Self {
        let mut file = Self { bytes, possible: Vec::new(), sizes: BTreeSet::new(), uncertain: false };
        file.forget();
        file
    }

    fn forget(&mut self) {
        self.possible = vec![Values::default(); BYTES_MAX];
        self.sizes = BTreeSet::new();
        let bytes = std::mem::take(&mut self.bytes);
        self.become_bytes(bytes);
    }

    fn become_bytes(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
        for (at, possible) in self.possible.iter_mut().enumerate() {
            possible.insert(self.bytes.get(at).copied().unwrap_or(0));
        }
        self.sizes.insert(self.bytes.len());
    }

    fn check(&self, found: &[u8]) -> Result<(), String> {
        let (smallest, largest) = (self.sizes.first().copied(), self.sizes.last().copied());
        if Some(found.len()) < smallest || Some(found.len()) > largest {
            return Err(format!("size {} is not in {smallest:?}..={largest:?}", found.len()));
        }
        match found.iter().zip(&self.possible).position(|(byte, possible)| !possible.contains(*byte)) {
            Some(at) => Err(format!("byte {at} is {}, not one of {:?}", found[at], self.possible[at])),
            None => Ok(()),
        }
    }
}

#[derive(Debug)]
struct Model {
    files: BTreeMap<u64, ModelFile>,
    names: BTreeMap<&'static str, u64>,
    possible: BTreeMap<&'static str, BTreeSet<Option<u64>>>,
    /// A sync has failed: later ones prove nothing, before a name changes.
    names_uncertain: bool,
}

impl Model {
    fn new() -> Self {
        let (files, names, possible) = Default::default();
        let mut model = Self { files, names, possible, names_uncertain: false };
        model.forget_names();
        model
    }

    fn forget_names(&mut self) {
        self.possible = NAMES.map(|name| (name, BTreeSet::from([self.names.get(name).copied()]))).into();
    }

    fn set_name(&mut self, name: &'static str, node: Option<u64>) {
        match node {
            Some(node) => self.names.insert(name, node),
            None => self.names.remove(name),
        };
        self.possible.entry(name).or_default().insert(node);
        self.names_uncertain = false;
    }
}

fn path(name: &str) -> PathBuf {
    Path::new("/data").join(name)
}

/// One random call, on the disk and in the model.
fn step(disk: &SimulatedDisk, model: &mut Model, rng: &mut Rng) {
    let name = NAMES[rng.usize(..NAMES.len())];
    let call = rng.u8(..20);
    if call == 0 {
        if rng.u8(..4) == 0 {
            disk.fail_call(disk.next_call(), Fault::Io);
            disk.sync_directory(Path::new("/data")).unwrap_err();
            model.names_uncertain = true;
            return;
        }
        disk.sync_directory(Path::new("/data")).unwrap();
        if !model.names_uncertain {
            model.forget_names();
        }
        return;
    }
    let Some(node) = model.names.get(name).copied() else {
        let node = disk.open(&path(name), Open::Create).unwrap().identity().unwrap().inode;
        assert!(model.files.insert(node, ModelFile::new(Vec::new())).is_none());
        return model.set_name(name, Some(node));
    };
    let file = disk.open(&path(name), Open::Write).unwrap();
    let kept = model.files.get_mut(&node).unwrap();
    assert_eq!(file.identity().unwrap().inode, node);
    match call {
        1 => {
            disk.remove_file(&path(name)).unwrap();
            model.set_name(name, None);
        }
        2 => {
            let to = NAMES[rng.usize(..NAMES.len())];
            disk.rename(&path(name), &path(to)).unwrap();
            if to != name {
                model.set_name(name, None);
                model.set_name(to, Some(node));
            }
        }
        3..=6 => {
            if kept.uncertain && rng.bool() {
                file.write_all_at(&kept.bytes, 0).unwrap();
                file.set_size(kept.bytes.len() as u64).unwrap();
                kept.uncertain = false;
            }
            file.sync().unwrap();
            if !kept.uncertain {
                kept.forget();
            }
        }
        7 => {
            disk.fail_call(disk.next_call(), Fault::Io);
            file.sync().unwrap_err();
            kept.uncertain = true;
        }
        8..=10 => {
            let size = rng.usize(..BYTES_MAX);
            file.set_size(size as u64).unwrap();
            let mut bytes = kept.bytes.clone();
            bytes.resize(size, 0);
            kept.become_bytes(bytes);
        }
        _ => {
            let position = if rng.bool() { kept.bytes.len() } else { rng.usize(..BYTES_MAX) };
            let bytes = vec![rng.u8(1..); rng.usize(..=(BYTES_MAX - position).min(9_000))];
            file.write_all_at(&bytes, position as u64).unwrap();
            let mut all = kept.bytes.clone();
            if !bytes.is_empty() {
                all.resize(all.len().max(position + bytes.len()), 0);
                all[position..position + bytes.len()].copy_from_slice(&bytes);
            }
            kept.become_bytes(all);
        }
    }
}

/// Compares what a power loss left with what it may leave, and takes it over.
fn check_after_power_loss(disk: &SimulatedDisk, model: &mut Model, seed: u64) {
    for name in NAMES {
        let node = disk.open(&path(name), Open::Read).ok().map(|file| file.identity().unwrap().inode);
        let possible = &model.possible[name];
        assert!(possible.contains(&node), "seed {seed}: {name} names {node:?}, not one of {possible:?}");
        model.set_name(name, node);
        let Some(node) = node else { continue };
        let found = disk.contents(&path(name)).unwrap();
        let why = model.files[&node].check(&found);
        assert!(why.is_ok(), "seed {seed}: {name}: {}", why.unwrap_err());
    }
    let named: BTreeSet<u64> = model.names.values().copied().collect();
    assert_eq!(named.len(), model.names.len(), "seed {seed}: one file under two names, {:?}", model.names);
    model.forget_names();
    model.names_uncertain = false;
    let survivors: BTreeMap<u64, &str> = model.names.iter().map(|(name, node)| (*node, *name)).collect();
    model.files.retain(|node, _| survivors.contains_key(node));
    for (node, name) in survivors {
        model.files.insert(node, ModelFile::new(disk.contents(&path(name)).unwrap()));
    }
}

fn check_after_kill(disk: &SimulatedDisk, model: &Model, seed: u64) {
    for name in NAMES {
        let found = disk.contents(&path(name)).ok();
        let wanted = model.names.get(name).map(|node| &model.files[node].bytes);
        assert!(found.as_ref() == wanted, "seed {seed}: a kill changed {name}");
    }
}

fn run(seed: u64) -> super::SimulatedCounters {
    let mut rng = Rng::with_seed(seed);
    let mut disk = SimulatedDisk::new(seed);
    disk.create_directory(Path::new("/data")).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    let mut model = Model::new();
    for _ in 0..8 {
        for _ in 0..rng.usize(1..30) {
            step(&disk, &mut model, &mut rng);
        }
        if rng.u8(..4) == 0 {
            disk = disk.crash_kill(&mut rng);
            check_after_kill(&disk, &model, seed);
        } else {
            let unsynced =
                [Unsynced::Lost, Unsynced::Kept, Unsynced::Chosen, Unsynced::Chosen][rng.usize(..4)];
            disk = disk.crash_power(unsynced, &mut rng);
            check_after_power_loss(&disk, &mut model, seed);
        }
    }
    disk.counters()
}

#[test]
fn losses_are_legal() {
    if let Some(seed) = std::env::var("HIGHWATER_SEED").ok().and_then(|seed| seed.parse().ok()) {
        run(seed);
        return;
    }
    let (mut holes, mut stale) = (0, 0);
    for seed in 0..200 {
        let counters = run(seed);
        holes += counters.holes;
        stale += counters.stale_pages + counters.undone_cuts + counters.resurrected_names;
    }
    assert!(holes > 0 && stale > 0, "the disk lost something to check: {holes} {stale}");
}
