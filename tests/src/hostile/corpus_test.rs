//! Shows each target its kept corpus, each input as it is, and changed a little by a seeded generator.

use std::path::Path;

use fastrand::Rng;

use super::TARGETS;

const CHANGED: usize = 30;

#[test]
fn nothing_that_a_fuzzer_has_left_breaks_anything() {
    for (name, target) in TARGETS {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/targets/corpus").join(name);
        let mut paths: Vec<_> = std::fs::read_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        assert!(paths.len() > 5, "{name} has a corpus");
        let mut rng = Rng::with_seed(1);
        for path in &paths {
            let bytes = std::fs::read(path).unwrap();
            target(&bytes);
            for _ in 0..CHANGED {
                let mut changed = bytes.clone();
                for _ in 0..rng.usize(1..4) {
                    let at = rng.usize(..=changed.len());
                    match rng.u8(..3) {
                        0 if at < changed.len() => changed[at] = rng.u8(..),
                        1 => changed.insert(at, rng.u8(..)),
                        _ => changed.truncate(at.max(changed.len() / 2)),
                    }
                }
                target(&changed);
            }
        }
    }
}
