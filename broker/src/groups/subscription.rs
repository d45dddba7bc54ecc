//! What a consumer says about itself: Kafka's `ConsumerProtocolSubscription`, of which only the topics are read here.

use std::collections::BTreeSet;

/// The topics of a subscription; `None` if these bytes are none.
///
/// A version, then an array of strings; what follows (user data, owned partitions, ...) belongs to the clients.
pub(super) fn topics(bytes: &[u8]) -> Option<BTreeSet<String>> {
    let (_version, rest) = bytes.split_first_chunk::<2>()?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    let mut topics = BTreeSet::new();
    for _ in 0..u32::try_from(i32::from_be_bytes(*count)).ok()? {
        let (length, behind) = rest.split_first_chunk::<2>()?;
        let length = usize::try_from(i16::from_be_bytes(*length)).ok()?;
        topics.insert(std::str::from_utf8(behind.get(..length)?).ok()?.to_owned());
        rest = behind.get(length..)?;
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_are_read_and_nonsense_is_not() {
        let bytes = b"\0\x03\0\0\0\x02\0\x01a\0\x02bc\xff\xff\xff\xff\0\0\0\0";
        assert_eq!(topics(bytes), Some(BTreeSet::from(["a".to_owned(), "bc".to_owned()])));
        for cut in 0..13 {
            assert_eq!(topics(&bytes[..cut]), None, "{cut}");
        }
        assert_eq!(topics(b"\0\0\xff\xff\xff\xff"), None);
        assert_eq!(topics(b"\0\0\0\0\0\x01\xff\xfe"), None);
        assert_eq!(topics(b"\0\0\0\0\0\0"), Some(BTreeSet::new()));
    }
}
