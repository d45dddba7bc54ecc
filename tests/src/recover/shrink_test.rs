//! A failing play becomes a short one.

use highwater_engine::{Rule, Rules};

use super::{Choices, Setting, shrink, written_down};

/// Figures of the shortest plays that are known to show what these rules prevent; a few more are no mistake.
const LINES_MAX: usize = 12;

#[test]
fn a_play_that_fails_becomes_a_short_one_that_fails_alike() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut table = Vec::new();
    for rule in [Rule::EpochsFollowTruncation, Rule::NobodySeesAboveWritten, Rule::SyncOnlyAfterItsWrites] {
        let setting = Setting { rules: Rules::default().without(rule), ..Setting::default() };
        let found = (0..500).filter_map(|seed| {
            let play = written_down(&mut Choices::seeded(seed), setting.clone());
            Some((play.lines.len(), shrink(&play)?))
        });
        // Where the log has to be long for the fault to show, no short play shows it.
        let shortest = found.take(3).min_by_key(|(_, (play, _))| play.lines.len());
        let (before, (mut play, violation)) = shortest.expect("a rule that is off is seen");
        let seen = play.play_caught().is_err();
        play.setting.rules = Rules::default();
        table.push((
            rule,
            before,
            play.lines.len(),
            seen,
            play.play_caught().is_ok(),
            format!("{play}{violation}"),
        ));
    }
    std::panic::set_hook(hook);
    for (rule, before, after, fails, holds_with_the_rule, text) in table {
        println!("{rule:?}: {before} lines became {after}:\n{text}");
        assert!(fails && holds_with_the_rule, "{rule:?}:\n{text}");
        assert!(after <= LINES_MAX, "{rule:?} is shown by {after} lines:\n{text}");
    }
}
