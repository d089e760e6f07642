//! Slices of a visit: each document is in exactly one, and each slice has a share of every group, in the
//! tail, in segments, and in divided groups. Filters and continuations of the same visits.

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, Timestamp};
use millrace_store::{Store, StoreVisit, ViewScope, VisitFilter, VisitSlice};

use crate::common::{id, number, open, visited};
use crate::late::{NOW, apply, small, version};

const BITS: u8 = 3;
/// Low bits of the group that is divided, and of another one.
const LOW: u32 = 5;
const GROUPS: [u64; 4] = [5, (1 << 32) + 5, 13, 6];

type Versions = Vec<(String, Option<i64>, Timestamp)>;

fn fill(store: &Store, from: u64, count: u64) {
    let ids = (from..from + count).map(|number| match number % 6 {
        5 => format!("id:n:note::{number}"),
        4 => format!("id:n:mail::{number}"),
        group => format!("id:n:mail:n={}:{number}", GROUPS[group as usize]),
    });
    let versions = ids.enumerate();
    apply(store, versions.map(|(at, id)| version(&id, NOW - 400 + at as u64 % 300, at % 9 != 0).0).collect());
}

fn sliced(store: &Store, scope: &ViewScope, slice: VisitSlice) -> Versions {
    let all = StoreVisit::all(&["mail", "note"]);
    visited(store, &StoreVisit { tombstones: true, wanted: 23, scope: scope.clone(), slice, ..all })
}

/// Compares visits with a filter, and visits that continue after a document, with the visit of everything.
#[track_caller]
fn check_filter(store: &Store, scope: &ViewScope, slice: VisitSlice, whole: &Versions) {
    let all = StoreVisit::all(&["mail", "note"]);
    let plain = StoreVisit { tombstones: true, wanted: 23, scope: scope.clone(), slice, ..all };
    let ids = |versions: Versions| versions.into_iter().map(|(id, ..)| id).collect::<Vec<_>>();
    let by_number = VisitFilter::new(vec!["number".to_owned()], |document| number(document) % 3 == 0);
    let by_id = VisitFilter::new(Vec::new(), |document| document.id.as_str().ends_with('7'));
    type IsKept = fn(&(String, Option<i64>, Timestamp)) -> bool;
    let filters: [(VisitFilter, IsKept); 2] = [
        (by_number, |(_, number, _)| number.is_none_or(|number| number % 3 == 0)),
        (by_id, |(id, number, _)| number.is_none() || id.ends_with('7')),
    ];
    for (filter, is_kept) in filters {
        let visit = StoreVisit { filter: Some(filter), ..plain.clone() };
        let kept: Versions = whole.iter().filter(|version| is_kept(version)).cloned().collect();
        assert_eq!(visited(store, &visit), kept, "{slice} of {scope:?}");
    }
    let from = Timestamp(NOW - 350);
    let late: Versions = whole.iter().filter(|(.., timestamp)| *timestamp >= from).cloned().collect();
    assert_eq!(visited(store, &StoreVisit { from, ..plain.clone() }), late, "{slice} of {scope:?}");
    for (at, (after, ..)) in whole.iter().enumerate().step_by(37) {
        let continuation = plain.continuation_after(&id(after));
        let rest = visited(store, &StoreVisit { continuation, ..plain.clone() });
        assert_eq!(ids(rest), ids(whole[at + 1..].to_vec()), "after {after} of {slice} of {scope:?}");
    }
}

/// Compares the slices of these scopes with the whole.
#[track_caller]
fn check(store: &Store, parts: &[BucketId]) {
    let groups = GROUPS.map(DocumentGroup::Number).into_iter().chain([DocumentGroup::None]);
    let mut scopes = vec![ViewScope::All, ViewScope::Groups(groups.clone().collect())];
    scopes.extend(groups.map(|group| ViewScope::Groups(vec![group])));
    for part in parts {
        scopes.push(ViewScope::Buckets(vec![*part]));
        scopes.push(ViewScope::GroupsIn(vec![DocumentGroup::Number(GROUPS[0])], vec![*part]));
    }
    for scope in scopes {
        let whole = sliced(store, &scope, VisitSlice::WHOLE);
        check_filter(store, &scope, VisitSlice::WHOLE, &whole);
        let counts: &[u32] = if scope == ViewScope::All { &[2, 3, 4, 23] } else { &[2, 3] };
        for count in counts.iter().copied() {
            let mut together = Versions::new();
            for number in 0..count {
                let slice = VisitSlice::new(number, count).expect("one of them");
                let found = sliced(store, &scope, slice);
                check_filter(store, &scope, slice, &found);
                assert!(found.iter().all(|(text, ..)| slice.has(&id(text))), "{slice} of {scope:?}");
                // A bucket that is a part of a group has a part of its slices.
                let is_even = count <= 4 && !matches!(scope, ViewScope::Buckets(_) | ViewScope::GroupsIn(..));
                let share = whole.len() / count as usize;
                assert!(
                    !is_even || (share / 2..=share * 2).contains(&found.len()),
                    "{} of {} are in {slice} of {scope:?}",
                    found.len(),
                    whole.len()
                );
                together.extend(found);
            }
            let in_order = |mut versions: Versions| {
                versions.sort();
                versions
            };
            assert_eq!(in_order(together), in_order(whole.clone()), "{count} slices of {scope:?}");
        }
    }
}

#[test]
fn slices_of_a_visit_make_up_the_whole_and_cut_every_group() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(small(directory.path()));
    let whole = BucketId::new(BITS, u64::from(LOW));
    store.create_replicas(&[whole, BucketId::new(BITS, 6)]).expect("made");
    fill(&store, 0, 900);
    check(&store, &[whole]);
    store.seal().expect("sealed");
    check(&store, &[whole]);
    fill(&store, 600, 700);
    store.divide(BITS, &[(LOW, 34).into()]).expect("divided");
    let parts: Vec<BucketId> = (0..4).map(|part| BucketId::new(34, part << 32 | u64::from(LOW))).collect();
    check(&store, &parts);
    store.seal().expect("sealed");
    store.maintain().expect("merged");
    check(&store, &parts);
}
