//! Where a trial's choices come from: a seed, or the bytes of a fuzzer. Knows nothing of what is chosen.

use fastrand::Rng;

/// A source of choices.
#[derive(Debug)]
pub enum Choices {
    /// Endless, and the same for the same seed.
    Seeded(Rng),
    /// One or more bytes a choice; behind the last byte every choice is 0.
    Bytes {
        /// The bytes.
        bytes: Vec<u8>,
        /// How many are used up.
        at: usize,
    },
}

impl Choices {
    /// Choices that follow from a seed.
    pub fn seeded(seed: u64) -> Self {
        Self::Seeded(Rng::with_seed(seed))
    }

    /// Choices that a fuzzer makes.
    pub fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes { bytes: bytes.to_vec(), at: 0 }
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: i64) -> i64 {
        if bound <= 1 {
            return 0;
        }
        match self {
            Self::Seeded(rng) => rng.i64(0..bound),
            Self::Bytes { bytes, at } => {
                let width = if bound <= 0x100 {
                    1
                } else if bound <= 0x1_0000 {
                    2
                } else {
                    4
                };
                let mut number = 0;
                for _ in 0..width {
                    number = (number << 8) | i64::from(bytes.get(*at).copied().unwrap_or(0));
                    *at += 1;
                }
                number % bound
            }
        }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below(high - low + 1)
    }

    /// Whether a thing happens that happens once in `count` times.
    pub fn once_in(&mut self, count: i64) -> bool {
        self.below(count) == count - 1
    }

    /// Whether nothing is left to choose by.
    pub fn are_used_up(&self) -> bool {
        match self {
            Self::Seeded(_) => false,
            Self::Bytes { bytes, at } => *at >= bytes.len(),
        }
    }

    /// A generator for what the disk decides, from the same source.
    pub fn generator(&mut self) -> Rng {
        let seed = self.below(1 << 31).unsigned_abs();
        Rng::with_seed(seed)
    }
}
