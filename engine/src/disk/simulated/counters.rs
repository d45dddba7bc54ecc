//! What a simulated disk has done, by kind, so that a test can insist that each kind of loss occurred.

/// Counts since the disk was made. A copy made by [`super::SimulatedDisk::fork`] starts from its original's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimulatedCounters {
    /// Crashes that took the machine.
    pub power_losses: u64,
    /// Crashes that took the process only.
    pub kills: u64,
    /// Written pages that read as zeros after a power loss, below the file's size.
    pub holes: u64,
    /// Of the holes, those in a part by which the file had grown: the new size got there, the bytes did not.
    pub sizes_before_data: u64,
    /// Written pages that went back to an older version.
    pub stale_pages: u64,
    /// Pages with sectors of two versions.
    pub torn_pages: u64,
    /// Files in which a later page got there and an earlier one did not.
    pub reorderings: u64,
    /// Files that came back shorter.
    pub lost_sizes: u64,
    /// Files that came back longer: the cut was lost.
    pub undone_cuts: u64,
    /// Names that were gone, or named what they named before.
    pub lost_names: u64,
    /// Removed names that were back.
    pub resurrected_names: u64,
    /// Operations in flight that a crash undid.
    pub dropped_operations: u64,
    /// Writes of which a crash left a part.
    pub interrupted_writes: u64,
    /// Writes that an injected error ended after a part.
    pub short_writes: u64,
    /// Calls that failed with EIO.
    pub io_errors: u64,
    /// Calls that failed for want of space.
    pub out_of_space: u64,
    /// Syncs that failed, after which what they should have covered is neither certain nor written again.
    pub failed_syncs: u64,
    /// Cached reads that were told that the bytes are not in memory.
    pub cold_reads: u64,
    /// Completions that came before one of an operation submitted earlier.
    pub overtakings: u64,
}
