//! The scenarios of the catalogue, one short script each.

mod random_runs;
mod smoke;
