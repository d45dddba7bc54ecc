//! Tools for operators that look at files and ask no cluster. They change nothing.

pub mod cat;
pub mod dump;
mod segment_file;

/// Bytes in hex.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}
