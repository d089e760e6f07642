//! Views after each of many random operations: with rows of the tail kept between views, on the plain paths
//! without them, and beside a map. Both paths show the same documents, in the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, mpsc};

use millrace_column::{Column, ColumnKey, ExecutionPaths, View};
use millrace_env::ManualClock;
use millrace_store::{DocumentWrite, Store, StoreChange, StoreOptions, ViewScope, WriteDurability, WriterId};
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::common::{document, id, open, options, put, remove, shown};
use crate::late::{NOW, apply, small, version};
use crate::model::{GROUPS, TYPES, any_id, group, group_of, type_of};

#[derive(Debug, Clone)]
enum RecentStep {
    Put(String, i64),
    Remove(String),
    /// Earlier versions, which come late: document, how long ago, whether it is there.
    Apply(Vec<(String, u64, bool)>),
    /// Puts in one batch into a group: the first number, and their count.
    Fill(usize, u16, u16),
    DropGroup(usize),
    Seal,
    Maintain,
    /// Nothing is written between two views.
    View(String),
}

/// Documents of few groups, so that these have many rows.
fn wide_id() -> impl Strategy<Value = String> {
    (0..TYPES.len(), 1..4usize, 0..400u16)
        .prop_map(|(of, group, number)| format!("id:n:{}:{}:fill{number}", TYPES[of], GROUPS[group]))
}

fn step() -> impl Strategy<Value = RecentStep> {
    let id = || prop_oneof![any_id(), wide_id()];
    let late = proptest::collection::vec((id(), 1..1000u64, proptest::bool::weighted(0.7)), 1..6);
    let fill = (1..GROUPS.len(), 0..400u16, prop_oneof![4 => 1..12u16, 1 => 100..300u16]);
    Union::new_weighted(vec![
        (24, (id(), 0..100i64).prop_map(|(id, number)| RecentStep::Put(id, number)).boxed()),
        (6, id().prop_map(RecentStep::Remove).boxed()),
        (3, late.prop_map(RecentStep::Apply).boxed()),
        (5, fill.prop_map(|(group, first, count)| RecentStep::Fill(group, first, count)).boxed()),
        (1, (0..GROUPS.len()).prop_map(RecentStep::DropGroup).boxed()),
        (2, Just(RecentStep::Seal).boxed()),
        (1, Just(RecentStep::Maintain).boxed()),
        (8, id().prop_map(RecentStep::View).boxed()),
    ])
}

/// Documents by id: the time of the newest version, and its number unless it is removed.
#[derive(Default)]
struct RecentModel {
    versions: BTreeMap<String, (u64, Option<i64>)>,
    /// Groups that were dropped, and documents whose removal need not be remembered: earlier versions do
    /// not come to them any more.
    closed: BTreeSet<String>,
}

impl RecentModel {
    fn add(&mut self, id: &str, timestamp: u64, number: Option<i64>) {
        if self.versions.get(id).is_none_or(|(known, _)| timestamp > *known) {
            self.versions.insert(id.to_owned(), (timestamp, number));
        }
    }
}

fn put_all(store: &Store, ids: &[String]) -> Vec<u64> {
    let (sender, answer) = mpsc::channel();
    let write = |text: &String| {
        let number = text.len() as i64;
        DocumentWrite { id: id(text), change: StoreChange::Put(document(text, "a text of many", number)) }
    };
    let writes = ids.iter().map(write).collect();
    store
        .write_batch(writes, WriterId::default(), WriteDurability::Synced, move |all| drop(sender.send(all)))
        .expect("the store takes the batch");
    let outcomes = answer.recv().expect("every batch is answered");
    outcomes.into_iter().map(|outcome| outcome.expect("the put is acknowledged").timestamp.0).collect()
}

/// Ids of the documents of a view, in its order.
fn in_order(view: &dyn View) -> Vec<String> {
    let chunks = view.chunks();
    let ids = view.columns(&ColumnKey::id(), 0..chunks.len()).expect("the view reads");
    let mut all = Vec::new();
    for (chunk, ids) in chunks.iter().zip(ids) {
        let Some(Column::Bytes(ids)) = ids else { panic!("a chunk has ids") };
        let is_live =
            |row: usize| chunk.live.as_ref().is_none_or(|live| live[row / 64] >> (row % 64) & 1 == 1);
        let live = (0..chunk.documents).filter(|row| is_live(*row));
        all.extend(live.filter_map(|row| String::from_utf8(ids.get(row)?.to_vec()).ok()));
    }
    all
}

/// Runs a write on both stores. Returns its outcome, which is the same unless buckets split: the work of that
/// takes times of the clock.
fn both<T: PartialEq + std::fmt::Debug>(stores: &[Store; 2], splits: bool, run: impl Fn(&Store) -> T) -> T {
    let [fast, plain] = stores;
    let (outcome, other) = (run(fast), run(plain));
    assert!(splits || outcome == other, "{outcome:?} and {other:?}");
    outcome
}

fn check(stores: &[Store; 2], model: &RecentModel, viewed: &str, splits: bool) {
    let (of, name) = (type_of(viewed), group_of(viewed));
    let known = model.versions.iter().filter(|(id, _)| type_of(id) == of && group_of(id) == name);
    let expected: BTreeMap<String, i64> =
        known.filter_map(|(id, (_, number))| Some((id.clone(), (*number)?))).collect();
    let [fast, plain] = stores.each_ref().map(|store| {
        let view = store.view(of, &ViewScope::Groups(vec![group(name)])).expect("a view");
        assert_eq!(shown(&*view), expected, "{viewed}");
        in_order(&*view)
    });
    // The order of rows follows from their times, and that of files from their numbers.
    assert!(splits || fast == plain, "{viewed}: {fast:?} and {plain:?}");
}

/// Runs the steps on two stores, in which buckets split early or not at all. The clock stands still, so that
/// versions have the same times in both.
fn run(steps: Vec<RecentStep>, splits: bool) {
    let directories = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let of = |directory: &Path| match splits {
        true => small(directory),
        false => StoreOptions { clock: Arc::new(ManualClock::new(NOW)), ..options(directory) },
    };
    let [fast, plain] = &directories;
    let plain = StoreOptions { paths: ExecutionPaths::Plain, ..of(plain.path()) };
    let stores = [open(of(fast.path())), open(plain)];
    let mut model = RecentModel::default();
    for step in steps {
        let mut viewed = vec!["id:n:mail:g=ann:0".to_owned()];
        match step {
            RecentStep::Put(id, number) => {
                let written = both(&stores, splits, |store| put(store, &id, "a text", number).timestamp);
                model.add(&id, written.0, Some(number));
                viewed = vec![id];
            }
            RecentStep::Remove(id) => {
                let written = both(&stores, splits, |store| remove(store, &id).timestamp);
                model.add(&id, written.0, None);
                viewed = vec![id];
            }
            RecentStep::Apply(versions) => {
                let versions: Vec<_> = versions
                    .into_iter()
                    .filter(|(id, ..)| !model.closed.contains(group_of(id)) && !model.closed.contains(id))
                    // Removals have odd times, so that a version is the same each time it comes.
                    .map(|(id, ago, there)| (id, (NOW - ago) & !1 | u64::from(!there), there))
                    .collect();
                both(&stores, splits, |store| {
                    let rows =
                        versions.iter().map(|(id, timestamp, there)| version(id, *timestamp, *there).0);
                    apply(store, rows.collect());
                });
                for (id, timestamp, there) in &versions {
                    model.add(id, *timestamp, version(id, *timestamp, *there).1);
                }
                viewed = versions.into_iter().map(|(id, ..)| id).collect();
            }
            RecentStep::Fill(name, first, count) => {
                let filled = first..first + count;
                let ids: Vec<String> =
                    filled.map(|number| format!("id:n:mail:{}:fill{number}", GROUPS[name])).collect();
                let written = both(&stores, splits, |store| put_all(store, &ids));
                for (id, timestamp) in ids.iter().zip(written) {
                    model.add(id, timestamp, Some(id.len() as i64));
                }
                viewed = ids[..1].to_vec();
            }
            RecentStep::DropGroup(name) => {
                let dropped = group(GROUPS[name]);
                both(&stores, splits, |store| store.drop_group(None, &dropped).expect("dropped"));
                model.versions.retain(|id, _| group_of(id) != GROUPS[name]);
                model.closed.insert(GROUPS[name].to_owned());
            }
            RecentStep::Seal => both(&stores, splits, |store| store.seal().expect("sealed")),
            RecentStep::Maintain => {
                both(&stores, splits, |store| store.maintain().expect("maintained"));
                let removed = model.versions.iter().filter(|(_, (_, number))| number.is_none());
                model.closed.extend(removed.map(|(id, _)| id.clone()));
            }
            RecentStep::View(id) => viewed = vec![id],
        }
        for viewed in viewed {
            check(&stores, &model, &viewed, splits);
        }
    }
}

/// Twelve, unless the environment says otherwise: every write of a test is synced.
fn cases() -> u32 {
    std::env::var("MILLRACE_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn kept_rows_of_the_tail_change_no_view(
        steps in proptest::collection::vec(step(), 1..80),
        splits in proptest::bool::ANY,
    ) {
        run(steps, splits);
    }
}

/// One group with many rows, and views after single puts, removals and small batches: of rows in the tail,
/// then of those in a segment.
#[test]
fn kept_rows_are_brought_up_to_date_in_the_order_of_new_ones() {
    let fill = RecentStep::Fill(1, 0, 500);
    let of = |number: u32| format!("id:n:mail:{}:fill{number}", GROUPS[1]);
    let change = |number: u32| match number % 8 {
        0 => RecentStep::Remove(of(number * 37 % 550)),
        1 => RecentStep::Fill(1, (number * 11 % 550) as u16, 5),
        2 | 3 => RecentStep::Put(of(550 + number / 16), 1),
        _ => RecentStep::Put(of(number * 53 % 600), i64::from(number)),
    };
    let first = [fill].into_iter().chain((0..100).map(change));
    let sealed = [RecentStep::Seal, RecentStep::Fill(1, 200, 40)].into_iter();
    run(first.chain(sealed).chain((100..150).map(change)).collect(), false);
}

/// Views beside writes, and beside the sealing of their rows: each shows all that was acknowledged before it
/// began, and a write whole or not at all.
#[test]
fn views_beside_writes_show_one_instant() {
    const WRITES: i64 = 300;
    const SEALED_AFTER: i64 = 70;
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(StoreOptions { clock: Arc::new(ManualClock::new(NOW)), ..options(directory.path()) });
    let scope = ViewScope::Groups(vec![group(GROUPS[1])]);
    let of = |name: &str| format!("id:n:mail:{}:{name}", GROUPS[1]);
    let (acknowledged, is_done) = (AtomicI64::new(0), AtomicBool::new(false));
    let expected = |at: i64| -> BTreeMap<String, i64> {
        let names = ["one".to_owned(), "other".to_owned(), format!("moved{at}")];
        names.iter().filter(|_| at > 0).map(|name| (of(name), at)).collect()
    };
    let write = || {
        for number in 1..=WRITES {
            let version = |name: &str, there| version(&of(name), number as u64, there).0;
            let moved = [format!("moved{number}"), format!("moved{}", number - 1)];
            let there = [version("one", true), version("other", true), version(&moved[0], true)];
            apply(&store, there.into_iter().chain([version(&moved[1], false)]).collect());
            acknowledged.store(number, Ordering::SeqCst);
            if number % SEALED_AFTER == 0 {
                store.seal().expect("sealed");
            }
        }
    };
    let view = || {
        loop {
            let is_last = is_done.load(Ordering::SeqCst);
            let before = acknowledged.load(Ordering::SeqCst);
            let shown = shown(&*store.view("mail", &scope).expect("a view"));
            let at = shown.get(&of("one")).copied().unwrap_or_default();
            assert!(at >= before, "{before} was acknowledged, and {at} is shown");
            assert_eq!(shown, expected(at));
            if is_last {
                break;
            }
        }
    };
    std::thread::scope(|threads| {
        let writer = threads.spawn(write);
        threads.spawn(view);
        threads.spawn(view);
        let outcome = writer.join();
        is_done.store(true, Ordering::SeqCst);
        outcome.expect("the writes are acknowledged");
    });
}
