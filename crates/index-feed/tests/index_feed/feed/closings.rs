//! Closings: how far copies have what all replicas have, by the reports of an owner.

use millrace_index_feed::{OwnedReplicaState, ReportStart};

use super::*;

#[test]
fn a_look_judges_buckets_by_what_their_replicas_have_and_by_writes_in_flight() {
    use OwnedReplicaState::{Incomplete, Settled, Whole};
    let start = IndexFeedSource::<u8>::new(SourceRun(1), at(0)).begin_report(at(100));
    let closing = Timestamp(at(100).0 - MARGIN_US);
    let earlier = Timestamp(closing.0 - 1);
    // For a bucket: true if the replica has everything, the oldest write in flight, its state.
    for (has_all, oldest, expected) in [
        (Some(true), None, Settled),
        (Some(true), Some(at(100)), Settled),
        (Some(true), Some(closing), Settled),
        (Some(true), Some(earlier), Whole),
        // A drop.
        (Some(true), Some(Timestamp(0)), Whole),
        (Some(false), None, Incomplete),
        (Some(false), Some(at(100)), Incomplete),
        (Some(false), Some(Timestamp(0)), Incomplete),
        (None, None, Incomplete),
    ] {
        let writes: BTreeMap<BucketId, Timestamp> =
            oldest.map(|oldest| (half(0), oldest)).into_iter().collect();
        let report = OwnerReport::new(start, &writes, [(half(0), has_all), (half(1), Some(true))]);
        let replicas = report.expect("something is known").replicas().clone();
        let expected = BTreeMap::from([(half(0), expected), (half(1), Settled)]);
        assert_eq!(replicas, expected, "{has_all:?}, {oldest:?}");
    }
    let unknown = [(half(0), None), (half(1), None)];
    assert_eq!(OwnerReport::new(start, &BTreeMap::new(), unknown), None, "nothing is known");
    let of_none = OwnerReport::new(ReportStart::default(), &BTreeMap::new(), []);
    assert!(of_none.is_some_and(|report| report.replicas().is_empty()), "it is known that it owns nothing");
}

#[test]
fn closings_wait_for_writes_in_flight_and_for_those_that_were_given_up() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.now = at(200);
    let closed = at(200).0 - MARGIN_US;
    pair.in_flight.insert(half(0), at(120));
    pair.close();
    assert_eq!(pair.marks(), [at(50).0, closed], "a write is in flight");
    assert_eq!(pair.freshness(), CopyFreshness::Fresh, "the owner has everything that was acknowledged");
    pair.in_flight.clear();
    pair.stand(half(0), false);
    pair.close();
    assert_eq!(pair.marks(), [at(50).0, closed], "it was given up");
    assert_eq!(pair.freshness(), CopyFreshness::Missing(BTreeSet::from([half(0)])));
    pair.stand(half(0), true);
    pair.exchange();
    pair.close();
    assert_eq!(pair.marks(), [closed, closed]);
    // A drop concerns versions of any time.
    pair.in_flight.insert(half(1), Timestamp(0));
    pair.now = at(300);
    pair.close();
    assert_eq!(pair.marks(), [at(300).0 - MARGIN_US, closed]);
}

#[test]
fn a_closing_is_about_the_time_of_the_look_and_waits_for_what_came_since() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.now = at(200);
    let closed = at(200).0 - MARGIN_US;
    pair.report();
    // The process stands still for long, and a late row comes that is in flight to other replicas.
    pair.now = at(300);
    pair.commit(row(half(0), 7, at(120)));
    pair.exchange();
    pair.source.close();
    pair.exchange();
    assert_eq!(pair.marks(), [at(50).0, closed]);
    pair.close();
    assert_eq!(pair.marks(), [at(300).0 - MARGIN_US, at(300).0 - MARGIN_US]);
}

#[test]
fn a_copy_that_is_added_reads_all_of_what_was_disturbed_after_the_look_of_a_closing() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.now = at(200);
    pair.report();
    pair.now = at(300);
    pair.commit(row(half(0), 7, at(120)));
    pair.source.close();
    pair.exchange();
    pair.taken();
    // It has everything from before a time that lies between the report and the row.
    let marks = CopyMarks::all(at(250));
    let added = pair.follower.add_copy(CopyNumber(2), FeedPair::definition(), &marks, pair.now);
    pair.carry_out(added);
    pair.exchange();
    let since = at(250).0;
    let expected = [format!("read {since} of 1: 0"), "read all of 0: 1".to_owned(), "ready".to_owned()];
    assert_eq!(pair.taken(), expected);
}

#[test]
fn a_restart_of_the_owner_is_read_as_a_whole_until_closings_have_passed_it() {
    let mut pair = FeedPair::new();
    pair.begin(at(50));
    pair.now = at(300);
    pair.close();
    pair.taken();
    pair.source = IndexFeedSource::new(SourceRun(2), pair.now);
    pair.report();
    assert_ne!(pair.freshness(), CopyFreshness::Fresh);
    // The follower learns of it when it asks why nothing comes.
    pair.now = at(330);
    let effects = pair.follower.tick(pair.now);
    pair.carry_out(effects);
    pair.exchange();
    assert_eq!(pair.taken(), ["read all of 0: 0", "read all of 1: 0"]);
    assert_eq!(pair.freshness(), CopyFreshness::Fresh);
    pair.now = at(370);
    pair.close();
    assert_eq!(pair.marks(), [at(310).0, at(310).0]);
    // Copies of other nodes, by the same closings and by earlier ones.
    for (run, until, scope) in [(2, at(310), at(310).0.to_string()), (3, at(299), "all".to_owned())] {
        pair.follower = IndexFeedFollower::new(run);
        pair.begin(until);
        let read = |bits: u64| format!("read {scope} of {bits}: 0");
        assert_eq!(pair.taken(), [read(0), read(1), "ready".to_owned()]);
    }
}

#[test]
fn a_copy_lags_by_what_its_owner_has_not_closed() {
    let mut pair = FeedPair::new();
    pair.begin(Timestamp(0));
    assert_eq!(pair.follower.lag(COPY, pair.now), None, "nothing is known");
    pair.close();
    assert_eq!(pair.follower.lag(COPY, pair.now), Some(0));
    pair.now = at(130);
    assert_eq!(pair.follower.lag(COPY, pair.now), Some(30_000_000), "the owner is silent");
    // What was closed is on its way.
    pair.report();
    pair.source.close();
    assert_eq!(pair.follower.lag(COPY, pair.now), Some(30_000_000));
    pair.exchange();
    assert_eq!(pair.follower.lag(COPY, pair.now), Some(0));
    let (scope, both) = (DropScope::Type(MAIL.to_owned()), [half(0), half(1)]);
    pair.source.dropped(&scope, None, at(100), &both, pair.now);
    pair.exchange();
    assert_eq!(pair.follower.lag(COPY, at(131)), Some(1_000_000), "a drop holds nothing up");
    pair.source.changing(&[half(1)], pair.now);
    pair.source.changed(&[half(1)], pair.now);
    while let Some(batch) = pair.source.next_batch(FOLLOWER) {
        let effects = pair.follower.batch(OWNER, batch, pair.now);
        pair.carry_out(effects);
    }
    assert_eq!(pair.follower.lag(COPY, pair.now), None, "the bucket is to be read");
    pair.exchange();
    assert_eq!(pair.follower.lag(COPY, pair.now), Some(0));
}
