//! Tools for operators that look at files and ask no cluster. They change nothing.

pub mod dump;
