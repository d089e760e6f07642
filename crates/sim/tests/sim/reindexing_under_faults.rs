//! Documents are indexed again, each as the newest application says, under all faults of many seeds.

use millrace_sim::{Sabotage, SimOptions, run};

fn options() -> SimOptions {
    SimOptions { reindexing: true, ..SimOptions::default() }
}

#[test]
fn every_document_is_indexed_again_by_the_newest_rule() {
    let (mut ended, mut rewritten) = (0, 0);
    for seed in 1..=200 {
        let outcome = run(seed, options());
        if let Some(wrong) = outcome.wrong {
            let lines = run(seed, SimOptions { trace: true, ..options() }).lines;
            let last = lines[lines.len().saturating_sub(60)..].join("\n");
            panic!("{last}\nseed {seed}: {wrong}\nagain, whole: cargo run -p millrace-sim -- {seed}");
        }
        ended += outcome.reindexings;
        rewritten += outcome.rewritten;
    }
    assert!(ended > 400 && rewritten > 4_000, "{ended} reindexings, {rewritten} documents: too few");
}

#[test]
fn what_is_broken_on_purpose_is_found() {
    for (sabotage, seeds) in [
        (Sabotage::RemovedWhileReindexed, 300),
        (Sabotage::RewrittenLikeClients, 300),
        (Sabotage::MarkedBeforeWalked, 20),
        (Sabotage::AbsenceIgnored, 300),
        (Sabotage::SecondReindexingUnnoticed, 20),
        (Sabotage::PartialBucketsWalked, 300),
        (Sabotage::EveryPageCounts, 300),
        (Sabotage::UnreportedNodesPassedOver, 4_761),
    ] {
        // It is rare: the life in which it was found.
        let first = if sabotage == Sabotage::UnreportedNodesPassedOver { seeds } else { 1 };
        let found = (first..=seeds)
            .find(|seed| run(*seed, SimOptions { sabotage: Some(sabotage), ..options() }).wrong.is_some());
        assert!(found.is_some(), "{sabotage:?} goes unnoticed in {seeds} seeds");
    }
}
