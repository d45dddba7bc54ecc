//! The fingerprint of a key: `SipHash-2-4` with 128 bits, under a key of the round's own.
//!
//! Two keys with one fingerprint would be taken for one, and the older record lost. By chance that happens to one pair in 2^128; and as nobody
//! but the round knows its key, nobody can look for such a pair. (Kafka's cleaner takes MD5, of which pairs can be made.)
//! Source: J.-P. Aumasson, D. J. Bernstein, *`SipHash`: a fast short-input PRF*, with the longer output of its reference implementation.

/// What keys are told apart by.
pub(super) type Fingerprint = [u64; 2];

/// The secret under which a round's fingerprints are made.
pub(super) type Secret = [u64; 2];

/// The fingerprint of these bytes.
pub(super) fn fingerprint(secret: Secret, bytes: &[u8]) -> Fingerprint {
    let mut state = State::new(secret);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state.take(u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    // The length's lowest byte goes where no byte of the rest can be.
    last[7] = bytes.len().to_le_bytes()[0];
    state.take(u64::from_le_bytes(last));
    state.finish()
}

struct State([u64; 4]);

impl State {
    const fn new([k0, k1]: Secret) -> Self {
        Self([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.0;
        *v0 = v0.wrapping_add(*v1);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v3);
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.wrapping_add(*v3);
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.wrapping_add(*v1);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v2 = v2.rotate_left(32);
    }

    #[inline]
    fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.round();
        self.0[0] ^= word;
    }

    fn half(&mut self) -> u64 {
        for _ in 0..4 {
            self.round();
        }
        self.0.iter().fold(0, |folded, part| folded ^ part)
    }

    fn finish(mut self) -> Fingerprint {
        self.0[2] ^= 0xee;
        let first = self.half();
        self.0[1] ^= 0xdd;
        [first, self.half()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first, second and last vector of the reference implementation: the key 00 01 .. 0f, messages 00 01 .. of 0, 1 and 63 bytes.
    #[test]
    fn it_is_siphash_with_128_bits() {
        let secret = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let bytes: Vec<u8> = (0..63).collect();
        let hex = |length: usize| {
            let [low, high] = fingerprint(secret, &bytes[..length]);
            u128::from(high) << 64 | u128::from(low)
        };
        let vector = |text: &str| {
            let bytes: Vec<u8> =
                (0..16).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect();
            u128::from_le_bytes(bytes.try_into().unwrap())
        };
        assert_eq!(hex(0), vector("a3817f04ba25a8e66df67214c7550293"));
        assert_eq!(hex(1), vector("da87c1d86b99af44347659119b22fc45"));
        assert_eq!(hex(63), vector("5150d1772f50834a503e069a973fbd7c"));
    }
}
