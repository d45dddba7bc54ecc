//! The scenarios of the catalogue, one short script each.

mod smoke;
mod random_runs;
