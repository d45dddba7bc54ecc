//! What is asked of a figure that stands beside another one.

use serde::Serialize;

use crate::report::figure;

/// What is asked of a figure, or of its ratio to the one beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) enum Goal {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
    /// Nothing is asked: it says what the machine gives, beside a figure of ours.
    Shown,
}

impl Goal {
    pub(crate) fn is_met(self, figure: f64, ratio: f64) -> bool {
        match self {
            Self::RatioAtLeast(least) => ratio >= least,
            Self::RatioAtMost(most) => ratio <= most,
            Self::AtLeast(least) => figure >= least,
            Self::AtMost(most) => figure <= most,
            Self::Below(bound) => figure < bound,
            Self::Shown => true,
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Self::RatioAtLeast(least) => format!("ratio >= {least}"),
            Self::RatioAtMost(most) => format!("ratio <= {most}"),
            Self::AtLeast(least) => format!(">= {}", figure(least)),
            Self::AtMost(most) => format!("<= {}", figure(most)),
            Self::Below(bound) => format!("< {}", figure(bound)),
            Self::Shown => "-".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_or_a_figure_is_judged() {
        assert!(Goal::RatioAtLeast(1.5).is_met(150.0, 1.5));
        assert!(!Goal::RatioAtLeast(1.5).is_met(149.0, 1.49));
        assert!(Goal::RatioAtMost(1.3).is_met(9.0, 1.3));
        assert!(!Goal::AtLeast(4.0).is_met(3.9, 9.0));
        assert!(Goal::AtMost(2.0).is_met(2.0, 0.0));
        assert!(!Goal::Below(1.0).is_met(1.0, 0.0));
    }
}
