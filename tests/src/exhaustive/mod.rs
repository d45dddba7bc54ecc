//! Every state that a small cluster can come to.
//!
//! The machines of the product (a partition's and the controller's) under every order of what can happen, within bounds on how often
//! something goes wrong: stateright walks through the states, breadth first. Where the world has real logs and random orders, here a log is
//! a list of numbers and no order is left out. What is not bounded is time, but for the lag time, which decides who is in sync.

mod bounds;
mod cluster;
mod model;
mod node;
mod seen;
mod state;

use highwater_replication::Rules;
use stateright::{Checker, Model};

pub use bounds::Bounds;
pub use seen::Seen;

use cluster::Cluster;

/// What a search has found.
#[derive(Debug)]
pub struct Found {
    /// States that differ.
    pub states: usize,
    /// The longest of the shortest ways to a state, in events.
    pub depth: usize,
    /// How often each thing was seen that makes a search worth its time.
    pub seen: Vec<(Seen, u64)>,
    /// An invariant that does not hold, and the shortest way to where it does not, an event a line.
    pub breach: Option<(&'static str, Vec<String>)>,
}

/// Goes through all states within the bounds, or to the first one in which an invariant does not hold.
pub fn search(bounds: Bounds, rules: Rules) -> Found {
    let cluster = Cluster::new(bounds, rules);
    let counts = cluster.counts();
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let checker =
        cluster.checker().threads(threads).finish_when(stateright::HasDiscoveries::Any).spawn_bfs().join();
    let breach =
        checker.discoveries().into_iter().next().map(|(name, path)| {
            (name, path.into_actions().iter().map(|action| format!("{action:?}")).collect())
        });
    Found { states: checker.unique_state_count(), depth: checker.max_depth(), seen: counts.all(), breach }
}

#[cfg(test)]
mod tests {
    use highwater_replication::Rule;

    use super::*;

    const TWO: Bounds = Bounds { records: 1, ..Bounds::of(2) };

    /// What finds that a rule is off. Of the others, none is missed by two replicas in any of the small bounds: an old epoch's Fetch needs a
    /// third one to do harm, and min ISR at completion another rule that is off as well.
    const FINDERS: [(Rule, &str, Bounds); 8] = [
        (Rule::HwOverMaximalIsr, "I2 leaders are complete", Bounds { kills: 1, lags: 1, min_isr: 1, ..TWO }),
        (Rule::HwFrozenBelowMinIsr, "I2 leaders are complete", Bounds { kills: 1, power_cuts: 1, ..TWO }),
        (
            Rule::DivergenceCheck,
            "I8 committed records stay",
            Bounds { records: 2, kills: 1, min_isr: 1, ..TWO },
        ),
        (
            Rule::ResetFollowerAtNewSession,
            "I2 leaders are complete",
            Bounds { kills: 1, power_cuts: 1, ..TWO },
        ),
        (
            Rule::ExpansionNeedsEpochStart,
            "I2 leaders are complete",
            Bounds { kills: 1, power_cuts: 1, ..TWO },
        ),
        (Rule::WaitsKeyedByEpoch, "I17 acknowledged is committed", Bounds { records: 2, fences: 1, ..TWO }),
        (Rule::SuspectsDoNotLead, "I2 leaders are complete", Bounds { kills: 1, power_cuts: 1, ..TWO }),
        (
            Rule::NextFetchWaitsForWritten,
            "I2 leaders are complete",
            Bounds { kills: 1, power_cuts: 1, ..TWO },
        ),
    ];

    #[test]
    fn two_replicas_with_one_kill_keep_what_they_promised() {
        let found = search(Bounds { records: 2, kills: 1, lags: 1, min_isr: 1, ..TWO }, Rules::default());
        assert!(found.breach.is_none(), "{found:#?}");
        let missed: Vec<_> = found.seen.iter().filter(|(_, count)| *count == 0).collect();
        assert_eq!(missed, [&(Seen::CutRefused, 0)], "{found:#?}");
    }

    #[test]
    fn each_rule_that_is_off_is_found() {
        for (rule, invariant, bounds) in FINDERS {
            let found = search(bounds, Rules::default().without(rule));
            let breach = found.breach.as_ref().map(|(name, _)| *name);
            assert_eq!(breach, Some(invariant), "{rule:?}: {found:#?}");
        }
    }
}
