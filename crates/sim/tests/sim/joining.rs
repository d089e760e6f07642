//! A node that joins or restarts while another is absent takes part at once.

use millrace_sim::joined_while_one_is_away;

#[test]
fn no_operation_waits_for_a_node_that_is_known_to_be_away() {
    for seed in 1..=20 {
        let outcome = joined_while_one_is_away(seed);
        if let Some(wrong) = outcome.wrong {
            let last = outcome.lines[outcome.lines.len().saturating_sub(60)..].join("\n");
            panic!("{last}\nseed {seed}: {wrong}");
        }
    }
}
