//! A simulation without findings proves something only if it detects deliberate defects.

use millrace_sim::{Sabotage, SimOptions, run};

#[test]
fn what_is_broken_on_purpose_is_found() {
    for (sabotage, seeds) in [
        (Sabotage::NoFence, 1_000),
        (Sabotage::NoComparison, 100),
        (Sabotage::EarlyAcknowledgement, 100),
        (Sabotage::TypesDroppedLocally, 100),
        (Sabotage::DropsAfterCounting, 300),
        (Sabotage::AbsentAreAdmitted, 300),
        (Sabotage::NamesNotSynced, 300),
        (Sabotage::BatchPartDropped, 100),
    ] {
        let found = (1..=seeds).any(|seed| {
            run(seed, SimOptions { sabotage: Some(sabotage), ..SimOptions::default() }).wrong.is_some()
        });
        assert!(found, "{sabotage:?} goes unnoticed in {seeds} seeds");
    }
}
