//! What identifies the batches of an idempotent producer (KIP-98).

/// The id of an idempotent producer, `0 ..= i64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(i64);

impl ProducerId {
    /// The producer with this id, or `None` if it is negative.
    pub const fn new(value: i64) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The number, as batches carry it.
    pub const fn value(self) -> i64 {
        self.0
    }
}

/// The generation of a producer id, `0 ..= i16::MAX`; an older one is a zombie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerEpoch(i16);

impl ProducerEpoch {
    /// The epoch with this number, or `None` if it is negative.
    pub const fn new(value: i16) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The number, as batches carry it.
    pub const fn value(self) -> i16 {
        self.0
    }
}

/// The number of a record within its producer's epoch and partition, `0 ..= i32::MAX`; behind the greatest comes 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sequence(i32);

impl Sequence {
    /// The first sequence of an epoch.
    pub const ZERO: Self = Self(0);

    /// The sequence with this number, or `None` if it is negative.
    pub const fn new(value: i32) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The number, as batches carry it.
    pub const fn value(self) -> i32 {
        self.0
    }

    /// The sequence `count` records later; from `i32::MAX` it goes on at 0 (`DefaultRecordBatch.incrementSequence`).
    /// A negative `count` is taken as 0.
    #[must_use]
    pub const fn wrapping_add(self, count: i32) -> Self {
        Self(self.0.wrapping_add(if count < 0 { 0 } else { count }) & i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap_from_the_greatest_to_zero() {
        let last = Sequence::new(i32::MAX).unwrap();
        assert_eq!(last.wrapping_add(1), Sequence::ZERO);
        assert_eq!(Sequence(i32::MAX - 1).wrapping_add(3), Sequence(1));
        assert_eq!(Sequence(4).wrapping_add(1), Sequence(5));
    }
}
