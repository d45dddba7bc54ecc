//! What must hold of bytes that nobody vouches for: a batch, messages of old formats, an index, a small file, a whole directory of ours and of
//! a Kafka's.
//!
//! Each function takes any bytes and panics where something does not hold. Who makes the bytes up is another matter: a coverage-guided
//! fuzzer (`fuzz/targets`), and a test here that shows each function the corpus which the fuzzer has left, and what grew out of it.

mod batch;
#[cfg(test)]
mod corpus_test;
mod directory;
mod index;
mod kafka;
mod legacy;
mod small;

pub use batch::batch;
pub use directory::directory;
pub use index::index;
pub use kafka::kafka;
pub use legacy::legacy;
pub use small::small;

/// One of the functions, and the name of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 6] = [
    ("batch", batch),
    ("legacy", legacy),
    ("index", index),
    ("small", small),
    ("directory", directory),
    ("kafka", kafka),
];
