//! Guarantees hold under all faults of many seeds.

use millrace_sim::{SimOptions, run};

/// Lives in which a group is divided while a part of a batch waits: its documents then lie in several
/// buckets.
const DIVIDED_MEANWHILE: [u64; 3] = [1160, 1422, 1661];

#[test]
fn some_hundreds_of_lives_keep_every_promise() {
    let mut acknowledgements = 0;
    for seed in (1..=300).chain(DIVIDED_MEANWHILE) {
        let outcome = run(seed, SimOptions::default());
        acknowledgements += outcome.acknowledgements;
        if let Some(wrong) = outcome.wrong {
            let lines = run(seed, SimOptions { trace: true, ..SimOptions::default() }).lines;
            let last = lines[lines.len().saturating_sub(60)..].join("\n");
            panic!("{last}\nseed {seed}: {wrong}\nagain, whole: cargo run -p millrace-sim -- {seed}");
        }
    }
    assert!(acknowledgements > 10_000, "a cluster that does nothing promises nothing");
}

#[test]
fn the_same_seed_is_the_same_life() {
    for seed in [3, 77, 1234] {
        let traced = || run(seed, SimOptions { trace: true, ..SimOptions::default() });
        let (first, second) = (traced(), traced());
        assert_eq!(first.lines, second.lines);
        assert_eq!(
            (first.processed_events, first.acknowledgements, first.reads),
            (second.processed_events, second.acknowledgements, second.reads)
        );
    }
}
