//! Tools for operators that look at files and ask no cluster. `recover`, `repair`, `import` and `export` change something, and say before
//! what.

pub mod carry;
pub mod cat;
pub mod dump;
mod place;
pub mod rebuild;
pub mod recover;
pub mod repair;
mod segment_file;
pub mod verify;

#[cfg(test)]
mod looking_test;

/// Bytes in hex.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
    text
}
