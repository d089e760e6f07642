//! Several replicas without common documents, all on nodes that are retired.

use millrace_sim::disjoint_retired_replicas;

#[test]
fn retired_replicas_without_a_document_in_common_lose_none() {
    for seed in 1..=12 {
        for sources in [2, 3, 4] {
            let outcome = disjoint_retired_replicas(seed, sources, 40);
            if let Some(wrong) = outcome.wrong {
                let last = outcome.lines[outcome.lines.len().saturating_sub(40)..].join("\n");
                panic!("{last}\nseed {seed}, {sources} sources: {wrong}");
            }
        }
    }
}
