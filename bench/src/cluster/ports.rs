//! Ports that nobody listens on.

use std::net::{Ipv4Addr, TcpListener};

use crate::error::{BenchError, Result};

const TRIES: usize = 200;

/// A base from which all of these distances are free. Somebody may take one before it is used, and then the start fails and says so.
pub(super) fn free_base(bases: std::ops::Range<u16>, distances: &[u16]) -> Result<u16> {
    let mut rng = fastrand::Rng::new();
    let free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    for _try in 0..TRIES {
        let base = rng.u16(bases.clone());
        if distances.iter().all(|distance| base.checked_add(*distance).is_some_and(free)) {
            return Ok(base);
        }
    }
    let said = format!("no free ports between {} and {}", bases.start, bases.end);
    Err(BenchError::Program { program: "the machine".to_owned(), said })
}
