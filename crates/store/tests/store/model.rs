//! The store against a map: random operations, with seals, merges, splits, drops and restarts in between.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::BucketId;
use millrace_document::{Group, Timestamp};
use millrace_store::{Options, Store, Tuning, ViewScope, Visit};
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::common::{get, id, open, options, put, remove, shown, visited};

/// Documents are few, so that operations meet.
pub const GROUPS: [&str; 6] = ["", "g=ann", "g=bob", "n=1", "n=4294967297", "n=2"];
pub const TYPES: [&str; 2] = ["mail", "note"];
const NAMES: u8 = 12;

#[derive(Debug, Clone)]
enum Step {
    Put(String, i64),
    Remove(String),
    /// Many at once, in one group, so that there are several chunks.
    Fill(usize, u16),
    DropGroup(Option<usize>, usize),
    /// What a group has of a type, up to one of its documents.
    DropUntil(usize, usize, usize),
    DropType(usize),
    Seal,
    Maintain,
    Reopen,
    Check,
}

pub fn any_id() -> impl Strategy<Value = String> {
    (0..TYPES.len(), 0..GROUPS.len(), 0..NAMES)
        .prop_map(|(of, group, name)| format!("id:n:{}:{}:{name}", TYPES[of], GROUPS[group]))
}

fn step() -> impl Strategy<Value = Step> {
    Union::new_weighted(vec![
        (12, (any_id(), 0..100i64).prop_map(|(id, number)| Step::Put(id, number)).boxed()),
        (4, any_id().prop_map(Step::Remove).boxed()),
        (1, (0..GROUPS.len(), 1..1500u16).prop_map(|(group, count)| Step::Fill(group, count)).boxed()),
        (
            1,
            (proptest::option::of(0..TYPES.len()), 0..GROUPS.len())
                .prop_map(|(of, group)| Step::DropGroup(of, group))
                .boxed(),
        ),
        (
            2,
            (0..TYPES.len(), 1..GROUPS.len(), 0..30usize)
                .prop_map(|(of, group, nth)| Step::DropUntil(of, group, nth))
                .boxed(),
        ),
        (1, (0..TYPES.len()).prop_map(Step::DropType).boxed()),
        (4, Just(Step::Seal).boxed()),
        (2, Just(Step::Maintain).boxed()),
        (1, Just(Step::Reopen).boxed()),
        (3, Just(Step::Check).boxed()),
    ])
}

pub fn group(text: &str) -> Group {
    match text.split_once('=') {
        None => Group::None,
        Some(("n", number)) => Group::Number(number.parse().expect("a number of the test")),
        Some((_, name)) => Group::Name(name.to_owned()),
    }
}

pub fn group_of(id: &str) -> &str {
    id.split(':').nth(3).expect("an id of the test")
}

pub fn type_of(id: &str) -> &str {
    id.split(':').nth(2).expect("an id of the test")
}

/// Small enough to split and to need several pages of everything.
fn small(directory: &std::path::Path) -> Options {
    Options {
        tuning: Tuning { split_documents: 40, split_bytes: 1 << 20, ..Tuning::default() },
        ..options(directory)
    }
}

fn check(store: &Store, model: &BTreeMap<String, (i64, Timestamp)>) {
    for document_type in TYPES {
        let of_type = || model.iter().filter(|(id, _)| type_of(id) == document_type);
        for name in GROUPS {
            let expected: BTreeMap<String, i64> = of_type()
                .filter(|(id, _)| group_of(id) == name)
                .map(|(id, (number, _))| (id.clone(), *number))
                .collect();
            let view = store.view(document_type, &ViewScope::Groups(vec![group(name)])).expect("a view");
            assert_eq!(shown(&*view), expected, "{document_type} {name}");
        }
        let expected: BTreeMap<String, i64> =
            of_type().map(|(id, (number, _))| (id.clone(), *number)).collect();
        assert_eq!(shown(&*store.view(document_type, &ViewScope::All).expect("a view")), expected);
        for bucket in (0..4).map(|bits| BucketId::new(2, bits)) {
            let expected: BTreeMap<String, i64> = of_type()
                .filter(|(text, _)| bucket.contains(id(text).location()))
                .map(|(id, (number, _))| (id.clone(), *number))
                .collect();
            let scope = ViewScope::Buckets(vec![bucket]);
            assert_eq!(shown(&*store.view(document_type, &scope).expect("a view")), expected, "{bucket}");
            let visit = Visit { scope, wanted: 5000, ..Visit::all(&[document_type]) };
            let visited: BTreeSet<String> = visited(store, &visit).into_iter().map(|(id, ..)| id).collect();
            assert!(visited.iter().eq(expected.keys()), "{bucket}");
        }
    }
    for (id, (number, _)) in model.iter().filter(|(id, _)| id.len() % 3 == 0) {
        assert_eq!(get(store, id), Some(*number), "{id}");
    }
    check_visits(store, model);
}

fn check_visits(store: &Store, model: &BTreeMap<String, (i64, Timestamp)>) {
    let expected: BTreeMap<String, (i64, Timestamp)> = model.clone();
    for wanted in [41, 5000] {
        let mut found = BTreeMap::new();
        for slice in 0..3 {
            let visit = Visit { wanted, slice: (slice, 3), ..Visit::all(&TYPES) };
            for (id, number, timestamp) in visited(store, &visit) {
                let number = number.expect("no removals were asked for");
                assert!(found.insert(id.clone(), (number, timestamp)).is_none(), "{id} is visited once");
            }
            if model.len() > 500 {
                // Small pages over many documents take long; one slice of three is enough.
                break;
            }
        }
        if model.len() <= 500 {
            assert_eq!(found, expected);
        } else {
            assert!(found.iter().all(|(id, version)| expected.get(id) == Some(version)));
        }
    }
    let middle =
        expected.values().map(|(_, timestamp)| *timestamp).min().map_or(0, |timestamp| timestamp.0 + 1);
    let late = Visit { from: Timestamp(middle), wanted: 5000, ..Visit::all(&TYPES) };
    let found = visited(store, &late).len();
    assert_eq!(found, expected.values().filter(|(_, timestamp)| timestamp.0 >= middle).count());
}

fn run(steps: Vec<Step>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(small(directory.path()));
    let mut model: BTreeMap<String, (i64, Timestamp)> = BTreeMap::new();
    for step in steps.into_iter().chain([
        Step::Check,
        Step::Seal,
        Step::Maintain,
        Step::Check,
        Step::Reopen,
        Step::Check,
    ]) {
        match step {
            Step::Put(id, number) => {
                let written = put(&store, &id, &format!("text {number} of {id}"), number);
                model.insert(id, (number, written.timestamp));
            }
            Step::Remove(id) => {
                remove(&store, &id);
                model.remove(&id);
            }
            Step::Fill(group, count) => fill(&store, GROUPS[group], count, &mut model),
            Step::DropGroup(of, name) => {
                let of = of.map(|of| TYPES[of]);
                store.drop_group(of, &group(GROUPS[name])).expect("dropped");
                model.retain(|id, _| group_of(id) != GROUPS[name] || of.is_some_and(|of| type_of(id) != of));
            }
            Step::DropUntil(of, name, nth) => {
                let is_of = |id: &str| group_of(id) == GROUPS[name] && type_of(id) == TYPES[of];
                let written = model.iter().filter(|(id, _)| is_of(id)).map(|(_, (_, written))| *written);
                if let Some(until) = written.take(nth + 1).last() {
                    store.drop_group_until(TYPES[of], &group(GROUPS[name]), until).expect("dropped");
                    model.retain(|id, (_, written)| !is_of(id) || *written > until);
                }
            }
            Step::DropType(of) => {
                store.drop_type(TYPES[of]).expect("dropped");
                model.retain(|id, _| type_of(id) != TYPES[of]);
            }
            Step::Seal => store.seal().expect("sealed"),
            Step::Maintain => store.maintain().expect("maintained"),
            Step::Reopen => {
                store.close();
                store = open(small(directory.path()));
            }
            Step::Check => check(&store, &model),
        }
    }
    store.close();
    let report = millrace_store::check(directory.path()).expect("checked");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

fn fill(store: &Store, group: &str, count: u16, model: &mut BTreeMap<String, (i64, Timestamp)>) {
    let (sender, answers) = std::sync::mpsc::channel();
    for number in 0..count {
        let id = format!("id:n:mail:{group}:fill{number}");
        let change = millrace_store::Change::Put(crate::common::document(&id, "filled", number.into()));
        let sender = sender.clone();
        store.write(millrace_store::Write { id: crate::common::id(&id), change }, move |outcome| {
            drop(sender.send((id, i64::from(number), outcome)));
        });
    }
    drop(sender);
    for (id, number, outcome) in answers {
        model.insert(id, (number, outcome.expect("acknowledged").timestamp));
    }
}

/// Ten, unless the environment says otherwise: every write of a test is synced.
fn cases() -> u32 {
    std::env::var("MILLRACE_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_map(steps in proptest::collection::vec(step(), 1..50)) {
        run(steps);
    }
}

#[test]
fn large_buckets_split_and_keep_their_documents() {
    let fills = (0..GROUPS.len()).map(|group| Step::Fill(group, 1400));
    run(fills.chain([Step::Seal, Step::Maintain, Step::Check]).collect());
}
