//! The store against a map: random operations, with seals, merges, splits, drops and restarts in between.

use std::collections::{BTreeMap, BTreeSet};

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, Timestamp};
use millrace_store::{Store, StoreOptions, StoreTuning, StoreVisit, ViewScope, VisitSlice};
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::common::{get, id, modify_all, open, options, put, remove, shown, visited};
use crate::groups::check_groups;

/// Documents are few, so that operations meet.
pub const GROUPS: [&str; 6] = ["", "g=ann", "g=bob", "n=1", "n=4294967297", "n=2"];
pub const TYPES: [&str; 2] = ["mail", "note"];
const NAMES: u8 = 12;

#[derive(Debug, Clone)]
enum ModelOperation {
    Put(String, i64),
    Remove(String),
    /// Many at once, in one group, so that there are several chunks.
    Fill(usize, u16),
    /// Modifications in one batch: each gives a document a number, or removes it.
    Modify(Vec<(String, Option<i64>)>),
    DropGroup(Option<usize>, usize),
    /// Drops the documents of a group and type, up to one of its documents.
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

/// Modifications of documents of all kinds, also several of one.
pub fn any_changes() -> impl Strategy<Value = Vec<(String, Option<i64>)>> {
    let filled = (0..GROUPS.len(), 0..1500_u16)
        .prop_map(|(group, number)| format!("id:n:mail:{}:fill{number}", GROUPS[group]));
    let id = prop_oneof![3 => any_id(), 2 => filled];
    proptest::collection::vec((id, proptest::option::weighted(0.8, 0..100i64)), 1..300)
}

fn step() -> impl Strategy<Value = ModelOperation> {
    Union::new_weighted(vec![
        (12, (any_id(), 0..100i64).prop_map(|(id, number)| ModelOperation::Put(id, number)).boxed()),
        (4, any_id().prop_map(ModelOperation::Remove).boxed()),
        (3, any_changes().prop_map(ModelOperation::Modify).boxed()),
        (
            1,
            (0..GROUPS.len(), 1..1500u16)
                .prop_map(|(group, count)| ModelOperation::Fill(group, count))
                .boxed(),
        ),
        (
            1,
            (proptest::option::of(0..TYPES.len()), 0..GROUPS.len())
                .prop_map(|(of, group)| ModelOperation::DropGroup(of, group))
                .boxed(),
        ),
        (
            2,
            (0..TYPES.len(), 1..GROUPS.len(), 0..30usize)
                .prop_map(|(of, group, nth)| ModelOperation::DropUntil(of, group, nth))
                .boxed(),
        ),
        (1, (0..TYPES.len()).prop_map(ModelOperation::DropType).boxed()),
        (4, Just(ModelOperation::Seal).boxed()),
        (2, Just(ModelOperation::Maintain).boxed()),
        (1, Just(ModelOperation::Reopen).boxed()),
        (3, Just(ModelOperation::Check).boxed()),
    ])
}

pub fn group(text: &str) -> DocumentGroup {
    match text.split_once('=') {
        None => DocumentGroup::None,
        Some(("n", number)) => DocumentGroup::Number(number.parse().expect("a number of the test")),
        Some((_, name)) => DocumentGroup::Name(name.to_owned()),
    }
}

pub fn group_of(id: &str) -> &str {
    id.split(':').nth(3).expect("an id of the test")
}

pub fn type_of(id: &str) -> &str {
    id.split(':').nth(2).expect("an id of the test")
}

/// Small enough to split and to need several pages of everything.
fn small(directory: &std::path::Path) -> StoreOptions {
    StoreOptions {
        tuning: StoreTuning { split_documents: 40, split_bytes: 1 << 20, ..StoreTuning::default() },
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
            let visit = StoreVisit { scope, wanted: 5000, ..StoreVisit::all(&[document_type]) };
            let visited: BTreeSet<String> = visited(store, &visit).into_iter().map(|(id, ..)| id).collect();
            assert!(visited.iter().eq(expected.keys()), "{bucket}");
        }
    }
    for (id, (number, _)) in model.iter().filter(|(id, _)| id.len() % 3 == 0) {
        assert_eq!(get(store, id), Some(*number), "{id}");
    }
    check_visits(store, model);
    check_groups(store, &TYPES);
}

fn check_visits(store: &Store, model: &BTreeMap<String, (i64, Timestamp)>) {
    let expected: BTreeMap<String, (i64, Timestamp)> = model.clone();
    for wanted in [41, 5000] {
        let mut found = BTreeMap::new();
        for slice in 0..3 {
            let visit = StoreVisit {
                wanted,
                slice: VisitSlice::new(slice, 3).expect("one of three"),
                ..StoreVisit::all(&TYPES)
            };
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
    let late = StoreVisit { from: Timestamp(middle), wanted: 5000, ..StoreVisit::all(&TYPES) };
    let found = visited(store, &late).len();
    assert_eq!(found, expected.values().filter(|(_, timestamp)| timestamp.0 >= middle).count());
}

fn run(steps: Vec<ModelOperation>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(small(directory.path()));
    let mut model: BTreeMap<String, (i64, Timestamp)> = BTreeMap::new();
    for step in steps.into_iter().chain([
        ModelOperation::Check,
        ModelOperation::Seal,
        ModelOperation::Maintain,
        ModelOperation::Check,
        ModelOperation::Reopen,
        ModelOperation::Check,
    ]) {
        match step {
            ModelOperation::Put(id, number) => {
                let written = put(&store, &id, &format!("text {number} of {id}"), number);
                model.insert(id, (number, written.timestamp));
            }
            ModelOperation::Remove(id) => {
                remove(&store, &id);
                model.remove(&id);
            }
            ModelOperation::Fill(group, count) => fill(&store, GROUPS[group], count, &mut model),
            ModelOperation::Modify(changes) => {
                let modified = modify_all(&store, &changes);
                for ((id, number), (found, written)) in changes.into_iter().zip(modified) {
                    assert_eq!(found, model.get(&id).copied(), "{id}");
                    assert_eq!((written.existed, written.changed), (Some(found.is_some()), true), "{id}");
                    model.remove(&id);
                    model.extend(number.map(|number| (id, (number, written.timestamp))));
                }
            }
            ModelOperation::DropGroup(of, name) => {
                let of = of.map(|of| TYPES[of]);
                store.drop_group(of, &group(GROUPS[name])).expect("dropped");
                model.retain(|id, _| group_of(id) != GROUPS[name] || of.is_some_and(|of| type_of(id) != of));
            }
            ModelOperation::DropUntil(of, name, nth) => {
                let is_of = |id: &str| group_of(id) == GROUPS[name] && type_of(id) == TYPES[of];
                let written = model.iter().filter(|(id, _)| is_of(id)).map(|(_, (_, written))| *written);
                if let Some(until) = written.take(nth + 1).last() {
                    store
                        .drop_group_until(&store.pause_rewrites(), TYPES[of], &group(GROUPS[name]), until)
                        .expect("dropped");
                    model.retain(|id, (_, written)| !is_of(id) || *written > until);
                }
            }
            ModelOperation::DropType(of) => {
                store.drop_type(TYPES[of]).expect("dropped");
                model.retain(|id, _| type_of(id) != TYPES[of]);
            }
            ModelOperation::Seal => store.seal().expect("sealed"),
            ModelOperation::Maintain => store.maintain().expect("maintained"),
            ModelOperation::Reopen => {
                store.close();
                store = open(small(directory.path()));
            }
            ModelOperation::Check => check(&store, &model),
        }
    }
    store.close();
    let report = millrace_store::check(directory.path()).expect("checked");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let mut documents: BTreeMap<String, u64> = BTreeMap::new();
    for id in model.keys() {
        *documents.entry(type_of(id).to_owned()).or_default() += 1;
    }
    assert_eq!(report.documents, Some(documents));
}

fn fill(store: &Store, group: &str, count: u16, model: &mut BTreeMap<String, (i64, Timestamp)>) {
    let (sender, answers) = std::sync::mpsc::channel();
    for number in 0..count {
        let id = format!("id:n:mail:{group}:fill{number}");
        let change = millrace_store::StoreChange::Put(crate::common::document(&id, "filled", number.into()));
        let sender = sender.clone();
        store.write(millrace_store::DocumentWrite { id: crate::common::id(&id), change }, move |outcome| {
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
    let fills = (0..GROUPS.len()).map(|group| ModelOperation::Fill(group, 1400));
    run(fills.chain([ModelOperation::Seal, ModelOperation::Maintain, ModelOperation::Check]).collect());
}
