//! Copies that go on from marks: those that were stored, and those that came with files.

use super::*;

/// A copy that was built right after its index was declared, while no bucket is closed: it has no times W.
fn built() -> FeedPair {
    let mut pair = FeedPair::new();
    pair.commit(row(half(0), 1, at(10)));
    // A drop is in flight.
    pair.in_flight = owned().into_keys().map(|bucket| (bucket, Timestamp(0))).collect();
    pair.source.disturb_all(pair.now);
    pair.begin(Timestamp(0));
    pair.close();
    assert_eq!(pair.taken(), ["read all of 0: 1", "read all of 1: 0", "ready"]);
    assert_eq!(pair.marks(), [0, 0]);
    pair
}

/// Reads of a copy that is made of files with these marks.
fn imported(pair: &mut FeedPair, number: u64, marks: &CopyMarks) -> Vec<String> {
    let number = CopyNumber(number);
    let added = pair.follower.add_copy(number, FeedPair::definition(), marks, pair.now);
    pair.carry_out(added);
    pair.exchange();
    assert!(pair.follower.is_ready(number));
    let mut reads = pair.taken();
    reads.retain(|effect| effect.starts_with("read "));
    reads
}

/// Lets another node follow instead, without copies.
fn follow_elsewhere(pair: &mut FeedPair, version: u64, owners: BTreeMap<BucketId, Option<NodeKey>>) {
    pair.follower = IndexFeedFollower::new(2);
    let adopted = pair.follower.adopt(version, owners, pair.now);
    pair.carry_out(adopted);
}

#[test]
fn an_import_from_before_the_source_began_is_read_as_a_whole() {
    let mut pair = FeedPair::new();
    pair.commit(row(half(0), 1, at(90)));
    pair.begin(Timestamp(at(0).0 - 1));
    assert_eq!(pair.taken(), ["read all of 0: 1", "read all of 1: 0", "ready"]);
}

#[test]
fn a_copy_that_stood_still_for_long_is_read_as_a_whole() {
    let mut pair = FeedPair::new();
    pair.commit(row(half(0), 1, at(90)));
    pair.commit(row(half(0), 2, at(99)));
    // The owner may have forgotten removals of after W.
    pair.now = Timestamp(at(95).0 + SINCE_US);
    pair.begin(at(95));
    assert_eq!(pair.taken(), ["read all of 0: 2", "read all of 1: 0", "ready"]);
}

#[test]
fn an_import_right_after_a_build_reads_what_changed_unless_the_replica_was_disturbed() {
    type PairChange = fn(&mut FeedPair);
    let cases: [(&str, PairChange, [&str; 2]); 8] = [
        ("nothing", |_| (), ["since", "since"]),
        ("a row", |pair| pair.commit(row(half(1), 2, at(100))), ["since", "since"]),
        ("a late row", |pair| pair.commit(row(half(1), 2, at(20))), ["since", "all"]),
        (
            "a drop",
            |pair| {
                let scope = DropScope::Type(MAIL.to_owned());
                pair.source.dropped(&scope, None, at(30), &[half(1)], pair.now);
            },
            ["since", "all"],
        ),
        (
            "segments",
            |pair| {
                pair.source.changing(&[half(1)], pair.now);
                pair.source.changed(&[half(1)], pair.now);
            },
            ["since", "all"],
        ),
        ("changes passed by", |pair| pair.source.disturb_all(pair.now), ["all", "all"]),
        (
            "the owner was started again",
            |pair| {
                pair.source = IndexFeedSource::new(SourceRun(2), pair.now);
                pair.report();
            },
            ["all", "all"],
        ),
        ("much time", |pair| pair.now = Timestamp(pair.now.0 + SINCE_US), ["all", "all"]),
    ];
    for (name, change, expected) in cases {
        let mut pair = built();
        let marks = pair.follower.marks(COPY);
        let since = pair.now.0 - MARGIN_US;
        change(&mut pair);
        follow_elsewhere(&mut pair, 1, FeedPair::owners());
        let mut reads = imported(&mut pair, 2, &marks);
        reads.sort_by_key(|read| read.contains(" of 1: "));
        let is_as_expected = |(read, (bits, expected)): (&String, (usize, &str))| {
            let scope = if expected == "all" { "all".to_owned() } else { since.to_string() };
            read.starts_with(&format!("read {scope} of {bits}: "))
        };
        assert_eq!(reads.len(), 2, "{name}: {reads:?}");
        assert!(reads.iter().zip(expected.into_iter().enumerate()).all(is_as_expected), "{name}: {reads:?}");
    }
}

#[test]
fn an_owner_counts_as_away_until_it_adopts_its_first_state() {
    let mut pair = FeedPair::new();
    pair.source = IndexFeedSource::new(SourceRun(2), pair.now);
    pair.commit(row(half(0), 1, at(90)));
    // Until it knows a state, others settle without the row, and close.
    pair.now = at(300);
    pair.report();
    assert_eq!(pair.source.disorder(half(0)), at(300));
    pair.begin(at(200));
    assert_eq!(pair.taken(), ["read all of 0: 1", "read all of 1: 0", "ready"]);
}

#[test]
fn a_mark_holds_while_the_owner_sees_and_serves_by_each_state() {
    let serves = |version| AdoptedState { version, serves: true };
    let away = |version| AdoptedState { version, serves: false };
    // States after the first one, and true if a copy reads all.
    let cases = [
        ("the same state again", vec![serves(1)], false),
        ("the next state", vec![serves(2)], false),
        ("the next states", vec![serves(2), serves(3)], false),
        ("an earlier state after the next one", vec![serves(2), serves(1)], false),
        ("a state after one that it has not seen", vec![serves(3)], true),
        ("a state after one in which it did not serve", vec![away(2), serves(3)], true),
        ("a state after one that it looked at twice", vec![away(2), away(2), serves(3)], true),
    ];
    for (name, states, reads_all) in cases {
        let mut pair = built();
        let marks = pair.follower.marks(COPY);
        let mut newest = 1;
        for state in states {
            pair.owned = if state.serves { owned() } else { BTreeMap::new() };
            assert_eq!(pair.adopt_state(state), state.version >= newest, "{name}");
            newest = newest.max(state.version);
        }
        follow_elsewhere(&mut pair, newest, FeedPair::owners());
        let since = pair.now.0 - MARGIN_US;
        let expected = match reads_all {
            true => ["read all of 0: 1".to_owned(), "read all of 1: 0".to_owned()],
            false => [format!("read {since} of 0: 0"), format!("read {since} of 1: 0")],
        };
        assert_eq!(imported(&mut pair, 2, &marks), expected, "{name}");
    }
}

#[test]
fn disturbances_of_a_session_count_until_the_next_closing() {
    let mut pair = built();
    let scope = DropScope::Type(MAIL.to_owned());
    pair.source.dropped(&scope, None, at(30), &[half(0), half(1)], pair.now);
    pair.exchange();
    pair.taken();
    let marks = pair.follower.marks(COPY);
    assert_eq!(imported(&mut pair, 2, &marks), ["read all of 0: 1", "read all of 1: 0"]);
    pair.close();
    let (marks, since) = (pair.follower.marks(COPY), pair.now.0 - MARGIN_US);
    let expected = [format!("read {since} of 0: 0"), format!("read {since} of 1: 0")];
    assert_eq!(imported(&mut pair, 3, &marks), expected);
}

#[test]
fn a_mark_that_came_with_files_is_given_up_with_the_next_disturbance() {
    let mut pair = built();
    let marks = pair.follower.marks(COPY);
    follow_elsewhere(&mut pair, 1, FeedPair::owners());
    imported(&mut pair, 2, &marks);
    assert_eq!(pair.follower.marks(CopyNumber(2)).replicas, marks.replicas);
    pair.commit(row(half(1), 2, at(20)));
    pair.exchange();
    let kept: Vec<BucketId> = pair.follower.marks(CopyNumber(2)).replicas.into_keys().collect();
    assert_eq!(kept, [half(0)]);
    pair.close();
    assert_eq!(pair.follower.marks(CopyNumber(2)).replicas.len(), 2);
}

#[test]
fn a_mark_holds_for_what_is_divided_off_its_bucket() {
    let mut pair = built();
    let marks = pair.follower.marks(COPY);
    let part = BucketId::new(34, 1);
    pair.adopt(2, owned().into_iter().chain([(part, true)]).collect());
    let owners = FeedPair::owners().into_iter().chain([(part, Some(OWNER))]).collect();
    follow_elsewhere(&mut pair, 2, owners);
    let since = pair.now.0 - MARGIN_US;
    let read = |bits| format!("read {since} of {bits}: 0");
    assert_eq!(imported(&mut pair, 2, &marks), [read(0), read(1), read(1)]);
}
