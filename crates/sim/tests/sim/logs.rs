//! Events of logs are there once, whatever partition they went to, under all faults of many seeds.

use millrace_sim::{Sabotage, SimOptions, run};

fn options() -> SimOptions {
    SimOptions { logs: true, ..SimOptions::default() }
}

#[test]
fn every_event_is_there_once_until_its_partition_is_dropped() {
    let mut events = 0;
    for seed in 1..=200 {
        let outcome = run(seed, options());
        if let Some(wrong) = outcome.wrong {
            let lines = run(seed, SimOptions { trace: true, ..options() }).lines;
            let last = lines[lines.len().saturating_sub(60)..].join("\n");
            panic!("{last}\nseed {seed}: {wrong}\nagain, whole: cargo run -p millrace-sim -- {seed}");
        }
        events += outcome.events;
    }
    assert!(events > 10_000, "{events} events: too few");
}

#[test]
fn what_is_broken_on_purpose_is_found() {
    for (sabotage, seeds) in [
        (Sabotage::WrittenEventsAreSentAgain, 20),
        (Sabotage::OpenPartitionsDropped, 20),
        (Sabotage::EarlyAcknowledgement, 100),
    ] {
        let found = (1..=seeds)
            .any(|seed| run(seed, SimOptions { sabotage: Some(sabotage), ..options() }).wrong.is_some());
        assert!(found, "{sabotage:?} goes unnoticed in {seeds} seeds");
    }
}
