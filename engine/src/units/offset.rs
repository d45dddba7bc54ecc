//! Offsets and half-open ranges of them; all arithmetic is checked.

use std::fmt;

/// The position of a record in a log: `0 ..= i64::MAX`.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "i64")]
pub struct Offset(i64);

impl Offset {
    /// The first offset that a log can have.
    pub const ZERO: Self = Self(0);
    /// The greatest offset that the formats can express.
    pub const MAX: Self = Self(i64::MAX);

    /// The offset with this number, or `None` if it is negative.
    pub const fn new(value: i64) -> Option<Self> {
        if value < 0 { None } else { Some(Self(value)) }
    }

    /// The number, as Kafka's files and messages write it.
    pub const fn value(self) -> i64 {
        self.0
    }

    /// This offset and `count` more, or `None` beyond [`Offset::MAX`].
    pub const fn checked_add(self, count: i64) -> Option<Self> {
        match self.0.checked_add(count) {
            Some(sum) => Self::new(sum),
            None => None,
        }
    }

    /// The offset behind this one, or `None` at [`Offset::MAX`].
    pub const fn next(self) -> Option<Self> {
        self.checked_add(1)
    }

    /// How many offsets lie between `earlier` and this one; `None` if `earlier` is the later one.
    pub const fn distance_from(self, earlier: Self) -> Option<i64> {
        if earlier.0 > self.0 { None } else { Some(self.0 - earlier.0) }
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// The offsets from `start` up to, and without, `end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
pub struct OffsetRange {
    start: Offset,
    end: Offset,
}

impl OffsetRange {
    /// The range `start..end`, or `None` if `end` lies before `start`.
    pub const fn new(start: Offset, end: Offset) -> Option<Self> {
        if end.0 < start.0 { None } else { Some(Self { start, end }) }
    }

    /// The first offset of the range, if it is not empty.
    pub const fn start(self) -> Offset {
        self.start
    }

    /// The first offset behind the range.
    pub const fn end(self) -> Offset {
        self.end
    }

    /// Whether no offset is in the range.
    pub const fn is_empty(self) -> bool {
        self.start.0 == self.end.0
    }

    /// Whether the offset is in the range.
    pub const fn contains(self, offset: Offset) -> bool {
        self.start.0 <= offset.0 && offset.0 < self.end.0
    }
}

impl fmt::Display for OffsetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl fmt::Debug for OffsetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}..{}", self.start, self.end)
    }
}

impl TryFrom<i64> for Offset {
    type Error = super::Negative;

    fn try_from(value: i64) -> Result<Self, super::Negative> {
        Self::new(value).ok_or(super::Negative { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_and_overflowing_offsets_do_not_exist() {
        assert_eq!(Offset::new(-1), None);
        assert_eq!(Offset::MAX.next(), None);
        assert_eq!(Offset::ZERO.checked_add(-1), None);
        assert_eq!(Offset::ZERO.distance_from(Offset::MAX), None);
        assert_eq!(Offset::MAX.distance_from(Offset::ZERO), Some(i64::MAX));
    }

    #[test]
    fn a_range_is_half_open() {
        let range = OffsetRange::new(Offset(2), Offset(4)).unwrap();
        assert!(range.contains(Offset(2)) && range.contains(Offset(3)) && !range.contains(Offset(4)));
        assert_eq!(OffsetRange::new(Offset(4), Offset(2)), None);
        assert!(OffsetRange::new(Offset(4), Offset(4)).unwrap().is_empty());
    }
}
