//! Points in time of a group, read from stores in use: from snapshots and the logs after them, on one node or
//! on several between which buckets move.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, DocumentVersion, DropScope, DroppedScope, Timestamp};
use millrace_store::{
    Error, PointBase, PointReader, SnapshotName, Store, StoreOptions, StoreVisit, VisitedVersion,
    restore_point,
};

use crate::common::{TestLayout, id, number, open, options, put, remove, visited};
use crate::late::{apply, version};
use crate::transfer::{bytes, import};

const GROUPS: [&str; 3] = ["user0", "user1", "user2"];

fn keeping(directory: &Path) -> StoreOptions {
    StoreOptions { keep_logs: Duration::from_secs(3600), ..options(directory) }
}

fn name(text: &str) -> SnapshotName {
    SnapshotName::parse(text).expect("the test's name is one")
}

fn group(name: &str) -> DocumentGroup {
    DocumentGroup::Name(name.to_owned())
}

fn create(store: &Store, text: &str) {
    store.create_snapshot(&name(text), store.next_timestamp(), || Ok((1, Vec::new()))).expect("made");
}

/// A time that has passed, and is before all later writes.
fn now(store: &Store) -> Timestamp {
    std::thread::sleep(Duration::from_millis(2));
    let time = store.next_timestamp();
    std::thread::sleep(Duration::from_millis(2));
    time
}

fn contents(store: &Store) -> BTreeMap<String, i64> {
    let found = visited(store, &StoreVisit { wanted: 1000, ..StoreVisit::all(&["mail"]) });
    found.into_iter().filter_map(|(id, number, _)| Some((id, number?))).collect()
}

fn of_group(all: &BTreeMap<String, i64>, group: &str) -> BTreeMap<String, i64> {
    let is_in = |text: &str| *id(text).group() == DocumentGroup::Name(group.to_owned());
    all.iter().filter(|(text, _)| is_in(text)).map(|(text, number)| (text.clone(), *number)).collect()
}

fn reader(store: &Store, snapshot: &str, of: &str, until: Timestamp) -> Result<PointReader, Error> {
    let snapshot = store.snapshot(&name(snapshot)).expect("listed").expect("it is there");
    PointReader::open(store, PointBase::Snapshot(&snapshot), &group(of), until, Arc::new(TestLayout))
}

/// The documents that some nodes have together: of each the newest version, if it was not dropped.
fn together(readers: &[PointReader]) -> BTreeMap<String, i64> {
    let mut drops = Vec::new();
    let mut newest: BTreeMap<String, (Timestamp, Option<i64>)> = BTreeMap::new();
    for reader in readers {
        let mut after: Option<String> = None;
        loop {
            let page = reader.drops(after.as_deref()).expect("searched");
            drops.extend(page.drops);
            after = page.continuation;
            if after.is_none() {
                break;
            }
        }
        loop {
            let page = reader.versions(&["mail".to_owned()], after.as_deref(), 3).expect("read");
            for version in page.versions {
                let (id, timestamp, number) = match &version {
                    VisitedVersion::Document(document, timestamp) => {
                        (document.id.as_str(), *timestamp, Some(number(document)))
                    }
                    VisitedVersion::Removed(id, timestamp) => (id.as_str(), *timestamp, None),
                };
                let known = newest.entry(id.to_owned()).or_insert((timestamp, number));
                if known.0 < timestamp {
                    *known = (timestamp, number);
                }
            }
            after = page.continuation;
            if after.is_none() {
                break;
            }
        }
    }
    let is_dropped = |text: &str, at: Timestamp| {
        let reached = |location| drops.iter().filter(move |drop| drop.reaches("mail", location));
        reached(id(text).location()).any(|drop| drop.timestamp >= at)
    };
    let live = newest.into_iter().filter(|(text, (timestamp, _))| !is_dropped(text, *timestamp));
    live.filter_map(|(text, (_, number))| Some((text, number?))).collect()
}

#[test]
fn a_group_is_read_as_of_each_time_while_the_store_is_in_use() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = open(keeping(directory.path()));
    put(&store, "id:n:mail:g=user0:0", "words", 0);
    let before = now(&store);
    create(&store, "first");
    let mut noted = vec![(now(&store), contents(&store))];
    for step in 0..90_i64 {
        let id = format!("id:n:mail:g={}:{}", GROUPS[step as usize % 3], step % 11);
        match step % 15 {
            3 | 8 => drop(remove(&store, &id)),
            5 => store.seal().expect("sealed"),
            // The second one follows without a write, so that no log but that of the newest generation has
            // it.
            7 => {
                store.seal().expect("sealed");
                store.drop_group(None, &group("user1")).expect("dropped");
                noted.push((now(&store), contents(&store)));
                store.drop_group(None, &group("user1")).expect("dropped");
            }
            11 => store.maintain().expect("merged"),
            13 => {
                store.close();
                store = open(keeping(directory.path()));
            }
            14 if step == 44 => create(&store, "second"),
            _ => drop(put(&store, &id, &"words ".repeat(20), step)),
        }
        if step % 4 == 0 {
            noted.push((now(&store), contents(&store)));
        }
    }
    let second = noted.iter().position(|(time, _)| reader(&store, "second", "user0", *time).is_ok());
    let second = second.expect("some times are after it");
    assert!(second > 5, "a time before the second snapshot is refused: {second}");
    for (at, (time, expected)) in noted.iter().enumerate() {
        for of in GROUPS {
            for snapshot in ["first", "second"].iter().take(1 + usize::from(at >= second)) {
                let reader = reader(&store, snapshot, of, *time).expect("opened");
                assert_eq!(together(&[reader]), of_group(expected, of), "{snapshot} {of} {at}");
            }
        }
    }
    let refused = |time| reader(&store, "first", "user0", time).err().expect("refused").to_string();
    assert!(refused(before).contains("'first' was made after that time"), "{}", refused(before));
    let later = Timestamp(store.next_timestamp().0 + 3_600_000_000);
    assert!(refused(later).contains("has not passed yet"), "{}", refused(later));
    let faults = |store: &Store, time| -> Vec<bool> {
        let reach = store.reach(time).expect("listed");
        reach.snapshots.iter().map(|(_, fault)| fault.is_some()).collect()
    };
    let (last, _) = noted.last().expect("there are some");
    assert_eq!((faults(&store, *last), faults(&store, before)), (vec![false; 2], vec![true; 2]));
    assert_eq!(faults(&store, noted[1].0), [false, true]);
    assert_eq!(store.reach(*last).expect("listed").logs_since, Some(Timestamp(0)));
    // A log in between was lost.
    let logs = crate::snapshots::files(&directory.path().join("snapshots/.logs"));
    let newest = logs.last().expect("some are kept");
    let lost = directory.path().join("lost");
    std::fs::rename(newest, &lost).expect("renamed");
    assert_eq!(faults(&store, *last), [true, true]);
    assert!(refused(*last).contains("the logs of writes after the snapshot are not there"));
    assert_eq!(store.reach(*last).expect("listed").logs_since, None);
    std::fs::rename(&lost, newest).expect("renamed");
    assert_eq!(faults(&store, *last), [false, false]);
    // The oldest are not kept any more.
    std::fs::remove_file(&logs[0]).expect("removed");
    std::fs::remove_file(&logs[1]).expect("removed");
    assert_eq!(faults(&store, *last), [true, false]);
    assert!(refused(*last).contains("the logs of writes after the snapshot are not there"));
    let since = store.reach(*last).expect("listed").logs_since.expect("some are kept");
    let base = |since| PointBase::LogsSince(Timestamp(since));
    let of_logs =
        |since| PointReader::open(&store, base(since), &group("user0"), *last, Arc::new(TestLayout));
    assert!(of_logs(since.0).is_ok() && of_logs(since.0 - 1).is_err());
    // Without kept logs no time can be restored.
    store.close();
    let store = open(options(directory.path()));
    assert_eq!(faults(&store, *last), [true, true]);
}

/// Stores of the nodes of a cluster.
struct NodeStores {
    stores: Vec<Store>,
    /// The nodes with a replica of each bucket.
    holders: [Vec<usize>; 2],
    random: u64,
}

impl NodeStores {
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % bound
    }

    fn bucket(of: usize) -> BucketId {
        BucketId::new(1, of as u64)
    }

    fn bucket_of(text: &str) -> usize {
        (0..2).find(|of| NodeStores::bucket(*of).contains(id(text).location())).expect("they cover all")
    }

    /// Moves a replica, as files, and with the drops that the receiver has to know.
    fn move_replica(&mut self, bucket: usize) {
        let place = self.below(self.holders[bucket].len() as u64) as usize;
        let from = self.holders[bucket][place];
        let Some(to) = (0..self.stores.len()).find(|node| !self.holders[bucket].contains(node)) else {
            return;
        };
        let (source, target, id) = (&self.stores[from], &self.stores[to], NodeStores::bucket(bucket));
        target.create_incomplete_replicas(&[id]).expect("made");
        for drop in source.drops(id).expect("listed") {
            target.apply_drop(id, &drop).expect("dropped");
        }
        for parcel in source.export(&[id]).expect("exported") {
            import(target, &parcel, &bytes(&parcel)).expect("imported");
        }
        target.complete_replicas(&[id]).expect("completed");
        let info = source.replica_infos(&[id], Timestamp(0)).expect("counted")[0];
        let checksum = info.map_or(0, |info| info.checksum);
        assert_eq!(source.delete_replicas(&[(id, checksum)], Timestamp(0)).expect("deleted"), [true]);
        self.holders[bucket][place] = to;
    }
}

/// Documents of the nodes' directories that are restored to a time, compared as nodes compare them.
fn restored(directories: &[&Path], snapshot: &str, time: Timestamp) -> BTreeMap<String, i64> {
    let root = tempfile::tempdir().expect("a directory");
    let merged = open(options(&root.path().join("merged")));
    for (at, from) in directories.iter().enumerate() {
        let to = root.path().join(at.to_string());
        restore_point(from, Some(&name(snapshot)), &to, time).expect("restored");
        let store = open(options(&to));
        for bucket in [NodeStores::bucket(0), NodeStores::bucket(1)] {
            for drop in store.drops(bucket).expect("listed") {
                merged.apply_drop(bucket, &drop).expect("dropped");
            }
        }
        let visit = StoreVisit { tombstones: true, wanted: 1000, ..StoreVisit::all(&["mail"]) };
        let versions: Vec<DocumentVersion> = visited(&store, &visit)
            .into_iter()
            .map(|(text, number, timestamp)| version(&text, timestamp.0, number.is_some()).0)
            .collect();
        if !versions.is_empty() {
            apply(&merged, versions);
        }
        let infos = store.replica_infos(&[NodeStores::bucket(0), NodeStores::bucket(1)], Timestamp(0));
        let complete = infos.expect("counted").into_iter().flatten().all(|info| info.complete);
        assert!(complete, "each is compared with the others, and none is filled from them");
    }
    contents(&merged)
}

/// Buckets move between three nodes, as files, and lose their replica where they were. Each acknowledged
/// write is in the snapshot or the log of some node, with all removals and drops.
#[test]
fn nodes_have_all_writes_of_a_time_together_though_buckets_move() {
    for seed in 0..2 {
        let root = tempfile::tempdir().expect("a directory");
        let paths = [0, 1, 2].map(|node| root.path().join(format!("node{node}")));
        let stores = paths.iter().map(|path| open(keeping(path))).collect();
        let mut nodes = NodeStores { stores, holders: [vec![0, 1], vec![1, 2]], random: seed };
        for bucket in 0..2 {
            for node in &nodes.holders[bucket] {
                nodes.stores[*node].create_replicas(&[NodeStores::bucket(bucket)]).expect("made");
            }
        }
        let mut model: BTreeMap<String, i64> = BTreeMap::new();
        let mut noted = Vec::new();
        for step in 0..160 {
            let of = GROUPS[nodes.below(3) as usize];
            let text = format!("id:n:mail:g={of}:{}", nodes.below(9));
            let bucket = NodeStores::bucket_of(&text);
            let time = nodes.stores[0].next_timestamp();
            match nodes.below(20) {
                0 => {
                    let scope = DropScope::Group { document_type: None, group: group(of) };
                    for node in &nodes.holders[bucket] {
                        let drop = DroppedScope { scope: scope.clone(), timestamp: time };
                        nodes.stores[*node].apply_drop(NodeStores::bucket(bucket), &drop).expect("dropped");
                    }
                    model.retain(|known, _| *id(known).group() != group(of));
                }
                1 => nodes.move_replica(bucket),
                2 => nodes.stores.iter().for_each(|store| store.seal().expect("sealed")),
                3 => nodes.stores.iter().for_each(|store| store.maintain().expect("merged")),
                is_there => {
                    let is_there = is_there > 6;
                    let (row, number) = version(&text, time.0, is_there);
                    for node in &nodes.holders[bucket] {
                        apply(&nodes.stores[*node], vec![row.clone()]);
                    }
                    match number {
                        Some(number) => drop(model.insert(text, number)),
                        None => drop(model.remove(&text)),
                    }
                }
            }
            if step == 20 || step == 90 {
                nodes.stores.iter().for_each(|store| create(store, &format!("at{step}")));
            }
            if step >= 20 && step % 20 == 0 {
                noted.push((step, now(&nodes.stores[0]), model.clone()));
            }
        }
        for (step, time, expected) in &noted {
            for snapshot in ["at20", "at90"].iter().take(1 + usize::from(*step > 90)) {
                for of in GROUPS {
                    let opened = nodes.stores.iter().map(|store| reader(store, snapshot, of, *time));
                    let readers: Vec<PointReader> = opened.map(|opened| opened.expect("opened")).collect();
                    assert_eq!(together(&readers), of_group(expected, of), "{seed} {step} {snapshot} {of}");
                }
            }
        }
        nodes.stores.into_iter().for_each(Store::close);
        let paths: Vec<&Path> = paths.iter().map(|path| &**path).collect();
        for (step, time, expected) in noted.iter().step_by(3) {
            assert_eq!(restored(&paths, "at20", *time), *expected, "{seed} {step}");
        }
    }
}
