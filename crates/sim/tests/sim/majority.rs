//! A majority that is cut off continues by the state that it knows: so the others must not, even if it is
//! made to look like a minority.

use millrace_sim::{SimOutcome, joined_while_a_majority_is_cut_off, set_down_while_a_majority_is_cut_off};

#[track_caller]
fn check(live: fn(u64) -> SimOutcome) {
    for seed in 1..=20 {
        let outcome = live(seed);
        if let Some(wrong) = outcome.wrong {
            let last = outcome.lines[outcome.lines.len().saturating_sub(60)..].join("\n");
            panic!("{last}\nseed {seed}: {wrong}");
        }
        assert!(outcome.acknowledgements > 20, "seed {seed}: the majority could go on, and did not");
    }
}

#[test]
fn others_join() {
    check(joined_while_a_majority_is_cut_off);
}

#[test]
fn an_operator_sets_down_one_that_has_ended() {
    check(set_down_while_a_majority_is_cut_off);
}
