//! What one simulated file holds: the bytes that the page cache shows, those that are on the medium, and what lies between.
//!
//! Between two syncs the system may write any page back at any time. So every version of a page since the last sync is remembered, and a
//! power loss picks one of them for each page on its own, and one of the sizes that the file has had.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;

use super::counters::SimulatedCounters;
use super::loss::{Decision, Fate, Unit, UnitKind, next};
use super::state::Reached;
use super::{Tear, Unsynced};

/// Bytes in a page.
pub const PAGE_BYTES: usize = 4096;
const PAGE: u64 = PAGE_BYTES as u64;
const SECTOR_BYTES: usize = 512;

/// Versions of one page that are remembered while no sync is in flight; more of them make no new kind of loss.
const VERSIONS_MAX: usize = 4;

type Page = Arc<[u8; PAGE_BYTES]>;

/// A page after a change; `None` is a page that reads as zeros.
#[derive(Clone, Debug)]
struct Version {
    step: u64,
    page: Option<Page>,
}

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Body {
    size: u64,
    pages: BTreeMap<u64, Page>,
    durable_size: u64,
    durable_pages: BTreeMap<u64, Page>,
    /// Versions of pages since the last sync, oldest first.
    unsynced_pages: BTreeMap<u64, Vec<Version>>,
    /// Sizes since the last sync, with the step that made them, oldest first.
    unsynced_sizes: Vec<(u64, u64)>,
    /// Room is reserved up to here.
    pub(super) reserved_end: u64,
    /// While there are any, no version may be forgotten.
    pub(super) syncs_in_flight: u32,
    pub(super) modified_ms: i64,
}

impl Body {
    pub(super) fn new(modified_ms: i64) -> Self {
        Self { modified_ms, ..Self::default() }
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of the medium that the file occupies or has reserved.
    pub(super) fn allocated(&self) -> u64 {
        self.size.max(self.reserved_end).next_multiple_of(PAGE)
    }

    pub(super) fn read(&self, buffer: &mut [u8], position: u64) -> usize {
        read(&self.pages, self.size, buffer, position)
    }

    /// What would be there if all that is unsynced were lost.
    pub(super) fn durable_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize_of(self.durable_size)];
        read(&self.durable_pages, self.durable_size, &mut bytes, 0);
        bytes
    }

    pub(super) fn write(&mut self, step: u64, position: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = position + done as u64;
            let (index, inside) = (at / PAGE, usize_of(at % PAGE));
            let count = (PAGE_BYTES - inside).min(bytes.len() - done);
            let mut page = self.pages.get(&index).map_or([0; PAGE_BYTES], |page| **page);
            page[inside..inside + count].copy_from_slice(&bytes[done..done + count]);
            self.put(step, index, Some(Arc::new(page)));
            done += count;
        }
        let end = position + bytes.len() as u64;
        if !bytes.is_empty() && end >= self.size {
            self.put_size(step, end);
        }
    }

    /// A size that is set, or reached by a write, is on its way to the medium, unless that has it: also where it is the one that a sync
    /// which failed has left behind.
    fn put_size(&mut self, step: u64, size: u64) {
        self.size = size;
        let newest = self.unsynced_sizes.last().map_or(self.durable_size, |(_, size)| *size);
        if newest != size {
            self.unsynced_sizes.push((step, size));
        }
    }

    pub(super) fn set_size(&mut self, step: u64, size: u64) {
        if size < self.size {
            let cut: Vec<u64> = self.pages.range(size / PAGE..).map(|(index, _)| *index).collect();
            for index in cut {
                let kept = self.pages.get(&index).and_then(|page| cut_page(page, index, size));
                self.put(step, index, kept);
            }
        }
        self.put_size(step, size);
        self.reserved_end = 0;
    }

    fn put(&mut self, step: u64, index: u64, page: Option<Page>) {
        match &page {
            Some(page) => self.pages.insert(index, Arc::clone(page)),
            None => self.pages.remove(&index),
        };
        let versions = self.unsynced_pages.entry(index).or_default();
        versions.push(Version { step, page });
        if versions.len() > VERSIONS_MAX && self.syncs_in_flight == 0 {
            // The newest is what a sync has to make certain; of the others it does not matter which one goes.
            versions.remove(usize_of(step % (VERSIONS_MAX as u64)));
        }
    }

    /// A good sync: all that was changed up to and with `step` is on the medium.
    pub(super) fn commit(&mut self, step: u64) {
        let durable_pages = &mut self.durable_pages;
        self.unsynced_pages.retain(|index, versions| {
            let later = versions.partition_point(|version| version.step <= step);
            if let Some(version) = versions.drain(..later).next_back() {
                put_durable(durable_pages, *index, version.page);
            }
            !versions.is_empty()
        });
        let later = self.unsynced_sizes.partition_point(|(at, _)| *at <= step);
        let newest = self.unsynced_sizes.drain(..later).next_back();
        if let Some((_, size)) = newest {
            self.set_durable_size(size);
        }
    }

    /// What lies behind the size is gone with it.
    fn set_durable_size(&mut self, size: u64) {
        self.durable_size = size;
        cut_pages(&mut self.durable_pages, size);
    }

    /// A failed sync, as Linux does it: each page may have got there or not, all count as clean from now on, and a later sync
    /// does not bring them. The page cache goes on showing them. What is written again is dirty again.
    pub(super) fn abandon(&mut self, reached: &mut Reached<'_>) {
        self.abandon_pages(reached);
        if let Some((_, size)) = std::mem::take(&mut self.unsynced_sizes).pop().filter(|_| reached.has_one())
        {
            self.set_durable_size(size);
        }
    }

    /// As [`Body::abandon`], where nobody is told; sizes are not in the page cache.
    pub(super) fn abandon_pages(&mut self, reached: &mut Reached<'_>) {
        for (index, mut versions) in std::mem::take(&mut self.unsynced_pages) {
            if let Some(version) = versions.pop().filter(|_| reached.has_one()) {
                put_durable(&mut self.durable_pages, index, version.page);
            }
        }
    }

    /// When a page was changed last that is not synced.
    pub(super) fn newest_unsynced_page(&self) -> Option<u64> {
        self.unsynced_pages.values().flatten().map(|version| version.step).max()
    }

    /// Changes bytes on the medium and in memory alike, behind everybody's back.
    pub(super) fn damage(&mut self, position: u64, bytes: &[u8]) {
        let mut changed = self.clone();
        changed.write(0, position, bytes);
        for index in position / PAGE..=(position + bytes.len() as u64).saturating_sub(1) / PAGE {
            if let Some(page) = changed.pages.get(&index) {
                self.pages.insert(index, Arc::clone(page));
                self.durable_pages.insert(index, Arc::clone(page));
            }
        }
    }

    /// Decides what is left when the power goes.
    pub(super) fn lose_power(&mut self, decision: &mut Decision<'_>, counters: &mut SimulatedCounters) {
        if self.is_certain() && matches!(decision, Decision::Given { .. }) {
            self.forget_requests();
            return;
        }
        let kept_percent = decision.mood([5, 50, 95]);
        let size = match decision {
            Decision::Chance { unsynced: Unsynced::Lost, .. } => self.durable_size,
            Decision::Chance { unsynced: Unsynced::Kept, .. } => self.newest_size(),
            Decision::Chance { unsynced: Unsynced::Chosen, rng, .. } => self.choose_size(kept_percent, rng),
            Decision::Given { .. } if self.unsynced_sizes.is_empty() => self.durable_size,
            Decision::Given { fates } => {
                let sizes = self.possible_sizes();
                match next(fates) {
                    Fate::Older(number) => sizes.get(number).copied().unwrap_or(self.newest_size()),
                    Fate::Kept | Fate::Torn(_) => self.newest_size(),
                }
            }
        };
        let mut pages = self.durable_pages.clone();
        let (mut kept_until, mut lost_from) = (0, u64::MAX);
        for (index, versions) in std::mem::take(&mut self.unsynced_pages) {
            let Some(newest) = versions.last() else { continue };
            let older = self.durable_pages.get(&index).cloned();
            let choice = match decision {
                Decision::Chance { unsynced, tear, rng } => {
                    choose_page(older, &versions, *unsynced, *tear, kept_percent, rng)
                }
                Decision::Given { fates } => page_as(older, &versions, next(fates)),
            };
            match choice.kept {
                Kept::Newest => kept_until = kept_until.max(newest.step),
                Kept::Mixture => counters.torn_pages += 1,
                Kept::Older => {
                    lost_from = lost_from.min(newest.step);
                    if index * PAGE < size && newest.page.is_some() {
                        count_lost_page(counters, choice.page.is_none(), index * PAGE >= self.durable_size);
                    }
                }
            }
            put_durable(&mut pages, index, choice.page);
        }
        counters.reorderings += u64::from(lost_from < kept_until);
        counters.lost_sizes += u64::from(size < self.size);
        counters.undone_cuts += u64::from(size > self.size);
        cut_pages(&mut pages, size);
        self.unsynced_sizes.clear();
        self.forget_requests();
        (self.size, self.durable_size) = (size, size);
        self.pages.clone_from(&pages);
        self.durable_pages = pages;
    }

    fn newest_size(&self) -> u64 {
        self.unsynced_sizes.last().map_or(self.durable_size, |(_, size)| *size)
    }

    /// Whether what is shown is what is on the medium, and nothing is on its way there.
    fn is_certain(&self) -> bool {
        let shown = || self.pages.len() == self.durable_pages.len() && self.size == self.durable_size;
        let same = |((at, page), (other, durable)): ((&u64, &Page), (&u64, &Page))| {
            at == other && Arc::ptr_eq(page, durable)
        };
        self.unsynced_pages.is_empty()
            && self.unsynced_sizes.is_empty()
            && shown()
            && self.pages.iter().zip(&self.durable_pages).all(same)
    }

    fn forget_requests(&mut self) {
        self.syncs_in_flight = 0;
        self.reserved_end = 0;
    }

    /// The sizes that a power loss may leave, the certain one first and the newest last; between them the ends of pages, where write-back
    /// was on its way.
    fn possible_sizes(&self) -> Vec<u64> {
        let mut sizes = vec![self.durable_size];
        sizes.extend(self.unsynced_sizes.iter().map(|(_, size)| *size));
        let smallest = sizes.iter().copied().min().unwrap_or(0);
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let newest = sizes.pop();
        sizes.extend((smallest / PAGE + 1..=largest / PAGE).map(|page| page * PAGE));
        sizes.extend(newest);
        sizes
    }

    /// What a power loss decides on of this file, in the order in which it does.
    pub(super) fn units(&self, path: &Path, units: &mut Vec<Unit>) {
        let mut add = |kind, step, choices| {
            units.push(Unit { kind, path: path.to_owned(), step, choices });
        };
        if let Some((step, _)) = self.unsynced_sizes.last() {
            add(UnitKind::Size, *step, self.possible_sizes().len());
        }
        for (index, versions) in &self.unsynced_pages {
            if let Some(newest) = versions.last() {
                add(UnitKind::Page(*index), newest.step, versions.len() + 1);
            }
        }
    }

    /// See [`super::names::Tree::digest`].
    pub(super) fn digest(&self, into: &mut impl Hasher) {
        let add = |pages: &BTreeMap<u64, Page>, into: &mut _| {
            for (index, page) in pages {
                index.hash(into);
                page.hash(into);
            }
        };
        (self.size, self.durable_size).hash(into);
        add(&self.pages, into);
        if self.is_certain() {
            return;
        }
        add(&self.durable_pages, into);
        for (index, versions) in &self.unsynced_pages {
            for version in versions {
                (index, &version.page).hash(into);
            }
        }
        for (_, size) in &self.unsynced_sizes {
            size.hash(into);
        }
    }

    /// One of the sizes that the file has had, or the end of a page between them, where write-back was on its way.
    fn choose_size(&self, kept_percent: u32, rng: &mut Rng) -> u64 {
        let Some((_, newest)) = self.unsynced_sizes.last() else { return self.durable_size };
        if rng.u32(..100) < kept_percent {
            return *newest;
        }
        let mut sizes: Vec<u64> = self.unsynced_sizes.iter().map(|(_, size)| *size).collect();
        sizes.push(self.durable_size);
        let smallest = sizes.iter().copied().min().unwrap_or(0);
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let (first, last) = (smallest / PAGE + 1, largest / PAGE);
        if first <= last && rng.bool() {
            return rng.u64(first..=last) * PAGE;
        }
        sizes[rng.usize(..sizes.len())]
    }
}

/// Which version of a page a power loss left.
enum Kept {
    Newest,
    Older,
    Mixture,
}

struct Choice {
    page: Option<Page>,
    kept: Kept,
}

fn choose_page(
    durable: Option<Page>,
    versions: &[Version],
    unsynced: Unsynced,
    tear: Tear,
    kept_percent: u32,
    rng: &mut Rng,
) -> Choice {
    let newest = versions.last().and_then(|version| version.page.clone());
    let keep = match unsynced {
        Unsynced::Lost => return Choice { page: durable, kept: Kept::Older },
        Unsynced::Kept => true,
        Unsynced::Chosen => rng.u32(..100) < kept_percent,
    };
    if keep {
        return Choice { page: newest, kept: Kept::Newest };
    }
    let older = match rng.usize(..versions.len()) {
        0 => durable,
        number => versions[number - 1].page.clone(),
    };
    if tear == Tear::Sectors && rng.u8(..4) == 0 {
        let mixed = mix(older.as_ref(), newest.as_ref(), rng);
        let is_either = [&older, &newest].into_iter().any(|page| bytes_of(page.as_ref()) == mixed);
        if !is_either {
            return Choice { page: Some(Arc::new(mixed)), kept: Kept::Mixture };
        }
    }
    Choice { page: older, kept: Kept::Older }
}

/// The page as somebody has decided.
fn page_as(durable: Option<Page>, versions: &[Version], fate: Fate) -> Choice {
    let newest = versions.last().and_then(|version| version.page.clone());
    let number = match fate {
        Fate::Torn(sectors) => {
            let mut page = bytes_of(durable.as_ref());
            let newer = bytes_of(newest.as_ref());
            for (at, to) in page.chunks_mut(SECTOR_BYTES).enumerate().filter(|(at, _)| sectors >> at & 1 == 1)
            {
                to.copy_from_slice(&newer[at * SECTOR_BYTES..][..SECTOR_BYTES]);
            }
            let is_older = page == bytes_of(durable.as_ref());
            if page != newer && !is_older {
                return Choice { page: Some(Arc::new(page)), kept: Kept::Mixture };
            }
            if is_older { 0 } else { versions.len() }
        }
        Fate::Older(number) => number,
        Fate::Kept => versions.len(),
    };
    match number.checked_sub(1) {
        None => Choice { page: durable, kept: Kept::Older },
        Some(version) if version + 1 < versions.len() => {
            Choice { page: versions[version].page.clone(), kept: Kept::Older }
        }
        Some(_) => Choice { page: newest, kept: Kept::Newest },
    }
}

/// A page whose sectors come from two versions of it.
fn mix(older: Option<&Page>, newer: Option<&Page>, rng: &mut Rng) -> [u8; PAGE_BYTES] {
    let (mut page, newer) = (bytes_of(older), bytes_of(newer));
    for (to, from) in page.chunks_mut(SECTOR_BYTES).zip(newer.chunks(SECTOR_BYTES)) {
        if rng.bool() {
            to.copy_from_slice(from);
        }
    }
    page
}

fn bytes_of(page: Option<&Page>) -> [u8; PAGE_BYTES] {
    page.map_or([0; PAGE_BYTES], |page| **page)
}

fn count_lost_page(counters: &mut SimulatedCounters, zeros: bool, behind_durable_end: bool) {
    counters.stale_pages += u64::from(!zeros);
    counters.holes += u64::from(zeros);
    counters.sizes_before_data += u64::from(zeros && behind_durable_end);
}

fn put_durable(pages: &mut BTreeMap<u64, Page>, index: u64, page: Option<Page>) {
    match page {
        Some(page) => pages.insert(index, page),
        None => pages.remove(&index),
    };
}

/// Cuts pages at `size`.
fn cut_pages(pages: &mut BTreeMap<u64, Page>, size: u64) {
    let beyond: Vec<u64> = pages.range(size / PAGE..).map(|(index, _)| *index).collect();
    for index in beyond {
        let left = pages.get(&index).and_then(|page| cut_page(page, index, size));
        put_durable(pages, index, left);
    }
}

/// What a cut at `size` leaves of a page.
fn cut_page(page: &Page, index: u64, size: u64) -> Option<Page> {
    let left = usize_of(size.saturating_sub(index * PAGE).min(PAGE));
    if left == 0 {
        return None;
    }
    let mut bytes = **page;
    bytes[left..].fill(0);
    Some(Arc::new(bytes))
}

fn read(pages: &BTreeMap<u64, Page>, size: u64, buffer: &mut [u8], position: u64) -> usize {
    let count = usize_of(size.saturating_sub(position).min(buffer.len() as u64));
    let mut done = 0;
    while done < count {
        let at = position + done as u64;
        let inside = usize_of(at % PAGE);
        let part = (PAGE_BYTES - inside).min(count - done);
        match pages.get(&(at / PAGE)) {
            Some(page) => buffer[done..done + part].copy_from_slice(&page[inside..inside + part]),
            None => buffer[done..done + part].fill(0),
        }
        done += part;
    }
    count
}

/// Sizes in a simulated disk are those of things in memory.
pub(super) fn usize_of(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a simulated file fits into memory")
}
