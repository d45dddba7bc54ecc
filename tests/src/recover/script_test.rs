//! Every call of the script crashes or fails, in turn.

use highwater_engine::disk::simulated::Fault;

use super::script::{Crash, calls, crash_at, fail_at};

#[test]
fn every_crash_point_of_the_script() {
    let calls = calls().unwrap_or_else(|violation| panic!("without a crash:\n{violation}"));
    assert!(calls > 300, "the script is long enough: {calls}");
    for call in 0..calls {
        for crash in Crash::ALL {
            if let Err(violation) = crash_at(call, crash) {
                panic!("crash at call {call}, {crash:?}\n{violation}");
            }
        }
    }
}

#[test]
fn every_call_of_the_script_fails_once() {
    let calls = calls().unwrap_or_else(|violation| panic!("without a failure:\n{violation}"));
    for call in 0..calls {
        for fault in [Fault::Io, Fault::NoSpace, Fault::ShortWrite, Fault::NoDescriptors] {
            let crash = Crash::ALL[usize::try_from(call).unwrap_or(0) % 4];
            if let Err(violation) = fail_at(call, fault, crash) {
                panic!("call {call} fails with {fault:?}, then {crash:?}\n{violation}");
            }
        }
    }
}
