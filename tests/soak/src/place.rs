//! Where a writer's directory is, and what can be done to it there.

use std::io;
use std::path::{Path, PathBuf};

use fastrand::Rng;
use tempfile::TempDir;

#[cfg(target_os = "linux")]
use crate::medium::Medium;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) enum Place {
    /// On the machine's own file system.
    Own(TempDir),
    /// On one that can lose its power.
    #[cfg(target_os = "linux")]
    Medium(Box<Medium>),
}

impl Place {
    pub(crate) fn own() -> io::Result<Self> {
        Ok(Self::Own(tempfile::tempdir()?))
    }

    /// The data directory.
    pub(crate) fn directory(&self) -> PathBuf {
        self.root().join("data")
    }

    fn root(&self) -> &Path {
        match self {
            Self::Own(root) => root.path(),
            #[cfg(target_os = "linux")]
            Self::Medium(medium) => medium.root(),
        }
    }

    /// Whether the power is gone.
    pub(crate) fn is_down(&self) -> bool {
        match self {
            Self::Own(_) => false,
            #[cfg(target_os = "linux")]
            Self::Medium(medium) => medium.is_down(),
        }
    }

    /// Lets the power go at the call of this number, counted from now.
    pub(crate) fn cut_at(&self, calls: u64) {
        match self {
            Self::Own(_) => {}
            #[cfg(target_os = "linux")]
            Self::Medium(medium) => medium.cut_at(calls),
        }
    }

    /// The power goes, if it is not gone, and comes back.
    pub(crate) fn lose_power(&mut self, rng: &mut Rng) -> io::Result<()> {
        match self {
            Self::Own(_) => drop(rng.bool()),
            #[cfg(target_os = "linux")]
            Self::Medium(medium) => medium.lose_power(rng)?,
        }
        Ok(())
    }

    /// What was asked of the medium and what it did.
    pub(crate) fn counted(&self) -> Counted {
        match self {
            Self::Own(_) => Counted::default(),
            #[cfg(target_os = "linux")]
            Self::Medium(medium) => medium.counted(),
        }
    }
}

/// What was asked of a medium, and what was lost, by kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted(pub(crate) Vec<(&'static str, u64)>);

impl Counted {
    pub(crate) fn add(&mut self, one: &Self) {
        if self.0.is_empty() {
            self.0.clone_from(&one.0);
            return;
        }
        for ((_, sum), (_, count)) in self.0.iter_mut().zip(&one.0) {
            *sum += count;
        }
    }

    /// The kinds that never came up.
    pub(crate) fn missing(&self) -> Vec<&'static str> {
        self.0.iter().filter(|(_, count)| *count == 0).map(|(kind, _)| *kind).collect()
    }
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, (kind, count)) in self.0.iter().enumerate() {
            write!(f, "{}{kind} {count}", if number == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
