//! How the replicas of this node look from outside.

use highwater_engine::units::Now;

use super::Shard;
use crate::partition::Status;

impl Shard {
    /// All replicas of this node, in order of topic and partition.
    pub fn replicas(&self, now: Now) -> Vec<Status> {
        let mut all: Vec<Status> = self
            .replicas
            .values()
            .map(|replica| replica.look(|machine, facts| machine.status(now, facts)))
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}
