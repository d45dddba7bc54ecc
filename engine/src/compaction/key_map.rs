//! Which offset of a key is the newest one, in memory that is fixed when the round begins, whatever the number of keys.
//!
//! ```text
//! slot: fingerprint, 16 bytes | offset + 1, 8 bytes (0: free)      open addressing, the next free slot behind a key's own
//! ```
//! A map that is full takes no new key: the round ends in front of it and the next one goes on there. Source: `SkimpyOffsetMap`.

use super::hash::{Fingerprint, Secret, fingerprint};
use crate::units::Offset;

/// What a key takes, in bytes.
const SLOT_BYTES: usize = 24;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    key: Fingerprint,
    /// One more than the offset; 0 in a free slot.
    behind: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct KeyMap {
    secret: Secret,
    slots: Vec<Slot>,
    keys: usize,
    /// Nine slots of ten: behind that a search takes long.
    keys_max: usize,
}

/// The map has no room for another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl KeyMap {
    /// A map of at most `bytes_max`, and no larger than `keys` keys need.
    pub(crate) fn new(bytes_max: usize, keys: u64, secret: Secret) -> Self {
        let slots_max = (bytes_max / SLOT_BYTES).max(2);
        let needed = keys.saturating_mul(10) / 9 + 2;
        let slots = usize::try_from(needed).map_or(slots_max, |needed| needed.min(slots_max));
        let keys_max = (slots / 10 * 9 + slots % 10 * 9 / 10).clamp(1, slots - 1);
        Self { secret, slots: vec![Slot::default(); slots], keys: 0, keys_max }
    }

    /// What it takes, in bytes.
    pub(crate) const fn bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }

    /// Keys in it.
    pub(crate) const fn keys(&self) -> usize {
        self.keys
    }

    /// This is the newest offset of a key so far.
    pub(crate) fn put(&mut self, key: &[u8], offset: Offset) -> Result<(), Full> {
        let key = fingerprint(self.secret, key);
        let has_room = self.keys < self.keys_max;
        let at = self.place(key);
        let Some(slot) = self.slots.get_mut(at) else { return Err(Full) };
        if slot.behind == 0 {
            if !has_room {
                return Err(Full);
            }
            self.keys += 1;
        }
        *slot = Slot { key, behind: offset.value().unsigned_abs() + 1 };
        Ok(())
    }

    /// The newest offset of a key.
    pub(crate) fn newest(&self, key: &[u8]) -> Option<Offset> {
        let slot = self.slots.get(self.place(fingerprint(self.secret, key)))?;
        Offset::new(i64::try_from(slot.behind.checked_sub(1)?).ok()?)
    }

    /// The slot of a key, or the free one that it would take. There is always a free one.
    fn place(&self, key: Fingerprint) -> usize {
        let slots = self.slots.len();
        let mut at = usize::try_from(key[0] % slots as u64).unwrap_or_default();
        while self.slots.get(at).is_some_and(|slot| slot.behind != 0 && slot.key != key) {
            at = (at + 1) % slots;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> Offset {
        Offset::new(offset).unwrap()
    }

    #[test]
    fn it_is_never_larger_than_allowed_and_full_for_new_keys_alone() {
        let mut map = KeyMap::new(24 * 100, u64::MAX, [1, 2]);
        assert_eq!(map.bytes(), 2400);
        for key in 0..90_i64 {
            assert_eq!(map.put(&key.to_be_bytes(), at(key)), Ok(()));
        }
        assert_eq!(map.put(b"another", at(90)), Err(Full));
        assert_eq!(map.put(&5_i64.to_be_bytes(), at(91)), Ok(()), "one that is known");
        for key in 0..90_i64 {
            let newest = if key == 5 { 91 } else { key };
            assert_eq!(map.newest(&key.to_be_bytes()), Some(at(newest)));
        }
        assert_eq!((map.newest(b"another"), map.keys()), (None, 90));
        assert_eq!(KeyMap::new(128 << 20, 9, [1, 2]).bytes(), 24 * 12, "few keys need little");
        let mut least = KeyMap::new(0, u64::MAX, [1, 2]);
        assert_eq!((least.put(b"a", at(0)), least.put(b"b", at(1))), (Ok(()), Err(Full)));
    }
}
