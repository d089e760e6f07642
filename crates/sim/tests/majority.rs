//! Those who join must not make a majority that is cut off a minority.

use millrace_sim::joined_while_a_majority_is_cut_off;

#[test]
fn a_majority_that_is_cut_off_while_others_join_is_not_left_behind() {
    for seed in 1..=12 {
        let outcome = joined_while_a_majority_is_cut_off(seed);
        if let Some(wrong) = outcome.wrong {
            let last = outcome.lines[outcome.lines.len().saturating_sub(60)..].join("\n");
            panic!("{last}\nseed {seed}: {wrong}");
        }
        assert!(outcome.acknowledgements > 20, "seed {seed}: the majority could go on, and did not");
    }
}
