//! Versions that come with their timestamps, in any order, against a map: with local writes, drops, seals,
//! merges, splits and restarts in between.

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::{DocumentVersion, DropScope, DroppedScope, Timestamp};
use millrace_env::ManualClock;
use millrace_store::{Error, Store, StoreOptions, StoreTuning, StoreVisit, StoredReplica, ViewScope};
use proptest::prelude::*;
use proptest::strategy::Union;

use crate::common::{document, get, id, modify_all, open, options, put, remove, shown, visited};
use crate::model::{GROUPS, TYPES, any_changes, any_id, group, group_of, type_of};
use crate::transfer::{bytes, import};

/// The time, and how long before it removals are remembered.
pub const NOW: u64 = 1_000_000_000;
pub const RETENTION: u64 = 1000;

#[derive(Debug, Clone)]
enum LateStep {
    /// Versions: document, how long ago, whether it is there.
    Apply(Vec<(String, u64, bool)>),
    /// Many in one group, written this long ago or somewhat less.
    Fill(usize, u16, u64),
    Put(String, i64),
    Remove(String),
    /// Modifications in one batch: each gives a document a number, or removes it.
    Modify(Vec<(String, Option<i64>)>),
    DropGroup(Option<usize>, usize, u64),
    DropType(usize, u64),
    /// A bucket of three bits is given up.
    Delete(u64),
    /// It is given up, and comes back as the files that it was.
    Return(u64),
    Seal,
    Maintain,
    Reopen,
    Check,
}

fn ago() -> impl Strategy<Value = u64> {
    1..2 * RETENTION
}

fn step() -> impl Strategy<Value = LateStep> {
    let versions = proptest::collection::vec((any_id(), ago(), proptest::bool::weighted(0.7)), 1..20);
    Union::new_weighted(vec![
        (12, versions.prop_map(LateStep::Apply).boxed()),
        (
            1,
            (0..GROUPS.len(), 1..1500u16, ago())
                .prop_map(|(group, count, ago)| LateStep::Fill(group, count, ago))
                .boxed(),
        ),
        (1, (any_id(), 0..100i64).prop_map(|(id, number)| LateStep::Put(id, number)).boxed()),
        (1, any_id().prop_map(LateStep::Remove).boxed()),
        (2, any_changes().prop_map(LateStep::Modify).boxed()),
        (
            2,
            (proptest::option::of(0..TYPES.len()), 0..GROUPS.len(), ago())
                .prop_map(|(of, group, ago)| LateStep::DropGroup(of, group, ago))
                .boxed(),
        ),
        (1, (0..TYPES.len(), ago()).prop_map(|(of, ago)| LateStep::DropType(of, ago)).boxed()),
        (1, (0..8u64).prop_map(LateStep::Delete).boxed()),
        (2, (0..8u64).prop_map(LateStep::Return).boxed()),
        (5, Just(LateStep::Seal).boxed()),
        (3, Just(LateStep::Maintain).boxed()),
        (1, Just(LateStep::Reopen).boxed()),
        (3, Just(LateStep::Check).boxed()),
    ])
}

/// Expected contents: each document's newest version.
#[derive(Default)]
struct VersionModel {
    versions: BTreeMap<String, ModelVersion>,
    drops: Vec<(Option<usize>, Option<usize>, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct ModelVersion {
    timestamp: u64,
    /// `None`: it is removed.
    number: Option<i64>,
    /// The removal is so old that the store need not know of it any more.
    forgotten: bool,
}

impl VersionModel {
    fn add(&mut self, id: &str, timestamp: u64, number: Option<i64>) {
        let known = self.versions.get(id).map_or(0, |known| known.timestamp);
        if timestamp > known {
            self.versions.insert(id.to_owned(), ModelVersion { timestamp, number, forgotten: false });
        }
    }

    /// A version that comes later than the store need remember what replaced it.
    fn is_too_late(&self, id: &str, timestamp: u64) -> bool {
        self.versions.get(id).is_some_and(|known| known.forgotten && timestamp < known.timestamp)
    }

    fn dropped(&self, id: &str) -> u64 {
        let reaching = self.drops.iter().filter(|(of, name, _)| {
            of.is_none_or(|of| TYPES[of] == type_of(id))
                && name.is_none_or(|name| GROUPS[name] == group_of(id))
        });
        reaching.map(|(.., timestamp)| *timestamp).max().unwrap_or(0)
    }

    fn live(&self) -> BTreeMap<String, (i64, Timestamp)> {
        let live = self.versions.iter().filter_map(|(id, newest)| {
            let number = newest.number.filter(|_| newest.timestamp > self.dropped(id))?;
            Some((id.clone(), (number, Timestamp(newest.timestamp))))
        });
        live.collect()
    }
}

/// A version is the same wherever it comes from.
pub fn version(id_text: &str, timestamp: u64, there: bool) -> (DocumentVersion, Option<i64>) {
    let number = i64::try_from(timestamp).expect("times of the test are small");
    let version = match there {
        true => DocumentVersion::put(&document(id_text, "applied text", number), Timestamp(timestamp)),
        false => DocumentVersion::removal(id(id_text), Timestamp(timestamp)),
    };
    (version, there.then_some(number))
}

pub fn apply(store: &Store, versions: Vec<DocumentVersion>) {
    let (sender, answer) = mpsc::channel();
    store.apply(versions, move |outcome| drop(sender.send(outcome)));
    answer.recv().expect("every write is answered").expect("the versions are acknowledged");
}

/// Replica infos, with the removals that must be remembered.
pub fn infos(store: &Store, buckets: &[BucketId]) -> Vec<Option<StoredReplica>> {
    let infos = store.replica_infos(buckets, Timestamp(NOW - RETENTION / 2)).expect("counted");
    // The advance of the clock is covered by other tests.
    infos.into_iter().map(|info| info.map(|info| StoredReplica { newest: Timestamp(0), ..info })).collect()
}

fn delete(store: &Store, bucket: BucketId) {
    let checksum = infos(store, &[bucket])[0].map_or(0, |info| info.checksum);
    let deleted = store.delete_replicas(&[(bucket, checksum)], Timestamp(NOW - RETENTION / 2));
    assert_eq!(deleted.expect("deleted"), [true]);
    assert_eq!(infos(store, &[bucket]), [None]);
}

pub fn small(directory: &std::path::Path) -> StoreOptions {
    StoreOptions {
        tuning: StoreTuning {
            split_documents: 40,
            split_bytes: 1 << 20,
            tombstone_retention: Duration::from_micros(RETENTION),
            prune_interval: Duration::ZERO,
            ..StoreTuning::default()
        },
        clock: Arc::new(ManualClock::new(NOW)),
        ..options(directory)
    }
}

fn check(store: &Store, model: &VersionModel) {
    let live = model.live();
    for document_type in TYPES {
        for name in GROUPS {
            let of_group = live.iter().filter(|(id, _)| type_of(id) == document_type && group_of(id) == name);
            let expected: BTreeMap<String, i64> =
                of_group.map(|(id, (number, _))| (id.clone(), *number)).collect();
            let view = store.view(document_type, &ViewScope::Groups(vec![group(name)])).expect("a view");
            assert_eq!(shown(&*view), expected, "{document_type} {name}");
        }
    }
    let halves: Vec<_> = BucketId::ROOT.children().into_iter().flatten().collect();
    let documents = infos(store, &halves).into_iter().flatten().map(|info| info.documents).sum::<u64>();
    assert_eq!(documents, live.len() as u64, "counted where they lie");
    for id in model.versions.keys().filter(|id| id.len() % 3 == 0 || id.contains("fill1")) {
        assert_eq!(get(store, id), live.get(id).map(|(number, _)| *number), "{id}");
    }
    let visit = StoreVisit { wanted: 500, tombstones: true, ..StoreVisit::all(&TYPES) };
    for (id, number, timestamp) in visited(store, &visit) {
        let known = model.versions.get(&id).expect("nothing else is there");
        assert_eq!((number, timestamp.0), (known.number, known.timestamp), "{id}");
    }
    let found: BTreeMap<String, (i64, Timestamp)> =
        visited(store, &StoreVisit { wanted: 5000, ..StoreVisit::all(&TYPES) })
            .into_iter()
            .map(|(id, number, timestamp)| (id, (number.expect("no removals were asked for"), timestamp)))
            .collect();
    assert_eq!(found, live);
}

fn run(steps: Vec<LateStep>) {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(small(directory.path()));
    let mut model = VersionModel::default();
    let end = [
        LateStep::Check,
        LateStep::Seal,
        LateStep::Check,
        LateStep::Maintain,
        LateStep::Check,
        LateStep::Reopen,
        LateStep::Check,
    ];
    for step in steps.into_iter().chain(end) {
        match step {
            LateStep::Apply(versions) => {
                let versions: Vec<_> = versions
                    .into_iter()
                    .map(|(id, ago, there)| (id, NOW - ago, there))
                    .filter(|(id, timestamp, _)| !model.is_too_late(id, *timestamp))
                    .collect();
                let mut rows = Vec::new();
                for (id, timestamp, there) in versions {
                    // Removals have odd times and others even ones, so that a version is the same each time
                    // it comes.
                    let timestamp = timestamp & !1 | u64::from(!there);
                    let (version, number) = version(&id, timestamp, there);
                    model.add(&id, timestamp, number);
                    rows.push(version);
                }
                apply(&store, rows);
            }
            LateStep::Fill(group, count, ago) => {
                let mut rows = Vec::new();
                for number in 0..u64::from(count) {
                    let id = format!("id:n:mail:{}:fill{number}", GROUPS[group]);
                    let timestamp = (NOW - ago + number % 7) & !1;
                    if !model.is_too_late(&id, timestamp) {
                        let (version, number) = version(&id, timestamp, true);
                        model.add(&id, timestamp, number);
                        rows.push(version);
                    }
                }
                apply(&store, rows);
            }
            LateStep::Put(id, number) => {
                let written = put(&store, &id, "text put here", number);
                assert!(written.timestamp.0 >= NOW, "the clock is above all that came");
                model.add(&id, written.timestamp.0, Some(number));
            }
            LateStep::Remove(id) => {
                let written = remove(&store, &id);
                model.add(&id, written.timestamp.0, None);
            }
            LateStep::Modify(changes) => {
                let modified = modify_all(&store, &changes);
                let mut live = model.live();
                for ((id, number), (found, written)) in changes.into_iter().zip(modified) {
                    assert_eq!(found, live.remove(&id), "{id}");
                    model.add(&id, written.timestamp.0, number);
                    live.extend(number.map(|number| (id, (number, written.timestamp))));
                }
            }
            LateStep::DropGroup(of, name, ago) => {
                let document_type = of.map(|of| TYPES[of].to_owned());
                let scope = DropScope::Group { document_type, group: group(GROUPS[name]) };
                store
                    .apply_drop(BucketId::ROOT, &DroppedScope { scope, timestamp: Timestamp(NOW - ago) })
                    .expect("dropped");
                model.drops.push((of, Some(name), NOW - ago));
            }
            LateStep::DropType(of, ago) => {
                let scope = DropScope::Type(TYPES[of].to_owned());
                store
                    .apply_drop(BucketId::ROOT, &DroppedScope { scope, timestamp: Timestamp(NOW - ago) })
                    .expect("dropped");
                model.drops.push((Some(of), None, NOW - ago));
            }
            LateStep::Delete(bits) => {
                let bucket = BucketId::new(3, bits);
                delete(&store, bucket);
                model.versions.retain(|id, _| !bucket.contains(crate::common::id(id).location()));
            }
            LateStep::Return(bits) => {
                let bucket = BucketId::new(3, bits);
                let before = infos(&store, &[bucket]);
                let parcels = store.export(&[bucket]).expect("exported");
                delete(&store, bucket);
                for parcel in &parcels {
                    import(&store, parcel, &bytes(parcel)).expect("imported");
                }
                assert_eq!(infos(&store, &[bucket]), before, "what comes back is what went");
            }
            LateStep::Seal => store.seal().expect("sealed"),
            LateStep::Maintain => {
                store.maintain().expect("maintained");
                let old = |newest: &&mut ModelVersion| {
                    newest.number.is_none() && newest.timestamp < NOW - RETENTION
                };
                model.versions.values_mut().filter(old).for_each(|newest| newest.forgotten = true);
            }
            LateStep::Reopen => {
                let all = [BucketId::ROOT, BucketId::new(1, 1), BucketId::new(3, 5)];
                let before = infos(&store, &all);
                store.close();
                store = open(small(directory.path()));
                assert_eq!(infos(&store, &all), before, "what was counted bit by bit is counted at once");
            }
            LateStep::Check => check(&store, &model),
        }
    }
    assert_eq!(store.status().failures, Vec::<String>::new());
    store.close();
    let report = millrace_store::check(directory.path()).expect("checked");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Ten, unless the environment says otherwise: every write of a test is synced.
fn cases() -> u32 {
    std::env::var("MILLRACE_MODEL_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_newest_counts_in_whatever_order_it_comes(steps in proptest::collection::vec(step(), 1..50)) {
        run(steps);
    }
}

#[test]
fn another_clock_that_is_far_ahead_is_refused() {
    const HOUR: u64 = 3_600_000_000;
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(small(directory.path()));
    let try_apply = |timestamp| {
        let (sender, answer) = mpsc::channel();
        let given = version("id:n:mail:g=ann:1", timestamp, true).0;
        store.apply(vec![given], move |outcome| drop(sender.send(outcome)));
        answer.recv().expect("answered")
    };
    try_apply(NOW + HOUR).expect("as far as it may be");
    let refused = try_apply(NOW + HOUR + 2_000_000);
    assert!(matches!(refused, Err(Error::ClockAhead { ahead_s: 3602, limit_s: 3600 })), "{refused:?}");
    let scope = DropScope::Type("mail".to_owned());
    let drop = DroppedScope { scope, timestamp: Timestamp(NOW + 2 * HOUR) };
    let refused = store.apply_drop(BucketId::ROOT, &drop);
    assert!(matches!(refused, Err(Error::ClockAhead { .. })), "{refused:?}");
    assert_eq!(get(&store, "id:n:mail:g=ann:1"), Some((NOW + HOUR) as i64), "nothing else was taken");
    let written = put(&store, "id:n:mail:g=ann:2", "text", 1);
    assert!(written.timestamp.0 < NOW + HOUR + 1000, "its own clock did not follow: {:?}", written.timestamp);
}

#[test]
fn what_is_no_version_is_refused_with_all_that_came_with_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(small(directory.path()));
    let good = || version("id:n:mail:g=ann:1", NOW, true).0;
    let bad = [
        DocumentVersion { body: Some(Arc::from([1_u8, 2, 3])), ..good() },
        DocumentVersion { timestamp: Timestamp(0), ..good() },
        DocumentVersion { timestamp: Timestamp(u64::MAX), ..good() },
    ];
    for bad in bad {
        let (sender, answer) = mpsc::channel();
        store.apply(vec![good(), bad.clone()], move |outcome| drop(sender.send(outcome)));
        let error = answer.recv().expect("answered").expect_err("refused").to_string();
        assert!(error.contains("id:n:mail:g=ann:1"), "{error}");
        assert_eq!(get(&store, "id:n:mail:g=ann:1"), None);
    }
    apply(&store, Vec::new());
    apply(&store, vec![good(), good()]);
    assert_eq!(get(&store, "id:n:mail:g=ann:1"), Some(NOW as i64));
}
