//! A simulation of nodes with documents and of index nodes, in one thread from one seed.

mod copies;
mod documents;
mod faults;
mod queries;
mod replication;
mod world;

use millrace_fixtures::SeededRandom;

use self::world::FeedWorld;

/// A time between two, in milliseconds, as microseconds.
fn millis(random: &mut SeededRandom, least: u64, most: u64) -> u64 {
    random.between(1_000 * least, 1_000 * most)
}

/// A deliberate defect, to verify that the checks detect it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedSabotage {
    /// Rows are passed to the feed after they were acknowledged.
    FedAfterAcknowledgement,
    /// A copy follows, and does not take in what changed since W.
    NotReadSince,
    /// Records that a page does not have stay.
    PageOnlyAdds,
    /// A write that was given up counts as one that all replicas have.
    GivenUpIgnored,
    /// A merge of replicas makes no bucket stale.
    MergeUnnoticed,
    /// A copy counts as ready before it has caught up.
    ReadyTooEarly,
    /// Drops are not passed to the feed.
    DropForgotten,
    /// A row that is older than the record replaces it.
    NewestRuleLeftOut,
    /// Closings are not behind the clock.
    ClosedTooFar,
    /// A node that comes back feeds as if it had not been away.
    ReturnUnnoticed,
    /// Closings count that are by another cluster state, with other buckets.
    ClosedByAnotherState,
    /// A bucket counts as complete at an owner that is not.
    IncompleteFollowed,
    /// A page does not have the rows that came while it was read.
    PageTornByRows,
    /// A copy reads since its mark of a replica that was disturbed after it.
    DisturbanceForgotten,
}

/// All of them.
const SABOTAGES: [FeedSabotage; 14] = [
    FeedSabotage::FedAfterAcknowledgement,
    FeedSabotage::NotReadSince,
    FeedSabotage::PageOnlyAdds,
    FeedSabotage::GivenUpIgnored,
    FeedSabotage::MergeUnnoticed,
    FeedSabotage::ReadyTooEarly,
    FeedSabotage::DropForgotten,
    FeedSabotage::NewestRuleLeftOut,
    FeedSabotage::ClosedTooFar,
    FeedSabotage::ReturnUnnoticed,
    FeedSabotage::ClosedByAnotherState,
    FeedSabotage::IncompleteFollowed,
    FeedSabotage::PageTornByRows,
    FeedSabotage::DisturbanceForgotten,
];

/// Seeds within which a defect is found.
const SABOTAGE_SEEDS: u64 = 1_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn copies_have_what_the_documents_say() {
    let first = number("MILLRACE_FEED_SEED", 1);
    let count = number("MILLRACE_FEED_COUNT", 200);
    let mut happened = world::WorldCounts::default();
    for seed in first..first + count {
        let mut world = FeedWorld::new(seed, None);
        if let Err(wrong) = world.run() {
            panic!("seed {seed}: {wrong}\n{}", world.log().join("\n"));
        }
        happened.add(&world.counts);
    }
    println!("{happened:?}");
    // A simulation in which nothing happens proves nothing.
    if count >= 100 {
        happened.assert_all();
    }
}

#[test]
fn what_is_broken_on_purpose_is_found() {
    let mut unnoticed = Vec::new();
    for sabotage in SABOTAGES {
        let found = (1..=SABOTAGE_SEEDS).find_map(|seed| {
            let outcome = FeedWorld::new(seed, Some(sabotage)).run();
            outcome.err().map(|wrong| format!("seed {seed}: {wrong}"))
        });
        println!("{sabotage:?}: {found:?}");
        unnoticed.extend(found.is_none().then_some(sabotage));
    }
    assert!(unnoticed.is_empty(), "not found in {SABOTAGE_SEEDS} seeds: {unnoticed:?}");
}
