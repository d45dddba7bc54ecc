//! A small part of the enumeration, and the rules of the engine switched off to see that it sees.

use highwater_engine::{Rule, Rules};

use super::{Bounds, Kind, Table, enumerate, scene_names};

fn few() -> Bounds {
    Bounds { scene_states: 200, deep_one_in: 200, deep_states_max: 30, rules: Rules::default() }
}

#[test]
fn a_part_of_all_crashes_of_all_scenes() {
    let mut table = Table::default();
    for scene in scene_names() {
        match enumerate(scene, 0, &few()) {
            Ok(one) => table.add(&one),
            Err(bad) => panic!("{bad}"),
        }
    }
    println!("{table}");
    assert_eq!(table.missing(), Vec::<Kind>::new(), "{table}");
}

#[test]
fn the_enumeration_sees_rules_that_are_switched_off() {
    for (rule, scene) in [
        (Rule::RecoveryPointBelowUnsynced, "checkpoint"),
        (Rule::EpochsFollowTruncation, "truncation in a sealed segment"),
    ] {
        let bounds = Bounds { rules: Rules::default().without(rule), ..few() };
        assert!(enumerate(scene, 0, &bounds).is_err(), "{rule:?} is not missed in {scene}");
    }
}
