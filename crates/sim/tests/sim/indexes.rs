//! Copies of placed indexes have what the documents say, and queries of them miss nothing, under all faults
//! of many seeds.

use millrace_sim::{Sabotage, SimOptions, run};

fn options() -> SimOptions {
    SimOptions { indexes: true, ..SimOptions::default() }
}

#[test]
fn copies_have_what_the_documents_say_and_queries_miss_nothing() {
    let (mut queries, mut moves) = (0, 0);
    // By the last one a node learns of its first state long after it began to run.
    for seed in (1..=60).chain([2296]) {
        let outcome = run(seed, options());
        if let Some(wrong) = outcome.wrong {
            let lines = run(seed, SimOptions { trace: true, ..options() }).lines;
            let last = lines[lines.len().saturating_sub(60)..].join("\n");
            panic!("{last}\nseed {seed}: {wrong}\nagain, whole: cargo run -p millrace-sim -- {seed}");
        }
        queries += outcome.index_queries;
        moves += outcome.index_moves;
    }
    assert!(queries > 1_000 && moves > 60, "{queries} queries, {moves} copies as files: too few");
}

#[test]
fn the_same_seed_places_the_same_copies() {
    let traced = || run(5, SimOptions { trace: true, ..options() });
    let (first, second) = (traced(), traced());
    assert_eq!(first.lines, second.lines);
    assert_eq!(
        (first.processed_events, first.index_queries),
        (second.processed_events, second.index_queries)
    );
}

#[test]
fn what_is_broken_on_purpose_is_found() {
    for (sabotage, seeds) in [
        (Sabotage::ReadyBeforeCaughtUp, 20),
        (Sabotage::FedAfterAcknowledgement, 20),
        (Sabotage::DropsNotFed, 100),
        (Sabotage::IncompleteOwnersFeed, 100),
        (Sabotage::ReadSinceLeftOut, 300),
        (Sabotage::ImportedMarksAhead, 300),
        (Sabotage::PositionsNotRechecked, 600),
    ] {
        let found = (1..=seeds)
            .any(|seed| run(seed, SimOptions { sabotage: Some(sabotage), ..options() }).wrong.is_some());
        assert!(found, "{sabotage:?} goes unnoticed in {seeds} seeds");
    }
}
