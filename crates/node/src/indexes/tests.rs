//! Indexes of a store whose replicas come and go: they are what the documents say, also after a crash at any
//! point between.

mod faults;
mod kinds;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{fs, io};

use millrace_bucket::{BucketId, DividedGroup};
use millrace_document::{
    Document, DocumentGroup, DocumentId, DocumentValue, DocumentVersion, DropScope, DroppedScope, Timestamp,
};
use millrace_env::{AppendFile, Disk, ManualClock, RealDisk, SystemClock, WallClock};
use millrace_indexing::DocumentColumns;
use millrace_schema::{Application, PackageFindings};
use millrace_store::{Store, StoreOptions, StoreTuning};
use tempfile::TempDir;

use super::definition::definitions;
use super::opened::OpenedIndex;
use super::{FollowerSwitch, IndexDefinition, IndexDifferences, IndexState, NodeIndexes};

const SERVICES: &str = "<services version='1.0'><content id='c' version='1.0'>
  <documents><document type='note' mode='streaming'/></documents>
  <index-service><index name='by-owner' document='note'><key field='owner'/></index></index-service>
</content></services>";

const NOTE: &str = "schema note { document note {
  field owner type string { indexing: summary | attribute }
  field text type string { indexing: summary }
} }";

const HOUR_US: u64 = 3_600_000_000;

fn application() -> Application {
    application_of(SERVICES, NOTE)
}

fn application_of(services: &str, note: &str) -> Application {
    let files = [("services.xml", services), ("schemas/note.sd", note)];
    let files: BTreeMap<String, Vec<u8>> =
        files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).into();
    Application::from_files(files).expect("an application")
}

fn defined(application: &Application) -> Vec<Arc<IndexDefinition>> {
    definitions(application, &mut PackageFindings::default())
}

fn now() -> u64 {
    millrace_env::unix_time().as_micros() as u64
}

/// All files and directories under one, as far as they are there.
fn paths_in(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| paths_in(&path).into_iter().chain([path])).collect()
}

/// A node's store and indexes, without a thread of the indexes.
struct IndexedStore {
    directory: TempDir,
    store: Store,
    indexes: NodeIndexes,
}

impl IndexedStore {
    fn new() -> Self {
        IndexedStore::open(tempfile::tempdir().expect("a directory"))
    }

    fn open(directory: TempDir) -> Self {
        IndexedStore::with_clock(directory, Arc::new(SystemClock))
    }

    fn with_clock(directory: TempDir, clock: Arc<dyn WallClock>) -> Self {
        IndexedStore::with(directory, clock, &application())
    }

    fn with(directory: TempDir, clock: Arc<dyn WallClock>, application: &Application) -> Self {
        let opened = IndexedStore::on(Arc::new(RealDisk), directory, clock, application);
        assert!(!opened.indexes.inner().is_adoption_left(), "the indexes open");
        opened
    }

    /// A node whose indexes are on this disk.
    fn on(
        disk: Arc<dyn Disk>,
        directory: TempDir,
        clock: Arc<dyn WallClock>,
        application: &Application,
    ) -> Self {
        let mut options = StoreOptions::new(directory.path());
        options.clock = clock;
        options.disk_reserve = 0;
        options.maintenance = false;
        options.tuning =
            StoreTuning { tombstone_retention: Duration::from_hours(24 * 365), ..options.tuning };
        let layout = Arc::new(DocumentColumns::new(application));
        let store = Store::open(options, layout).expect("a store");
        let follower = Arc::new(FollowerSwitch::new(store.clone()));
        let indexes = NodeIndexes::new(directory.path(), &follower, disk);
        indexes.inner().adopt(&defined(application), Timestamp(0));
        IndexedStore { directory, store, indexes }
    }

    /// Works until this is so.
    fn poll(&self, what: &str, holds: impl Fn(&IndexedStore) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(120);
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what}");
            self.indexes.inner().step().expect("the store is read");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_ready(&self) -> bool {
        self.indexes.statuses().iter().all(|status| status.state == IndexState::Ready)
    }

    /// Reads and writes until there is nothing to do.
    fn work(&self) {
        while self.indexes.inner().step().expect("the indexes are kept up") {}
        assert!(self.indexes.statuses().iter().all(|status| status.state.name() == "ready"));
        self.indexes.inner().flush_all().expect("the indexes are written");
    }

    /// The same node after it was killed now.
    fn killed(&self) -> Self {
        let directory = loop {
            let directory = tempfile::tempdir().expect("a directory");
            let mut copy = Command::new("cp");
            copy.args(["--recursive", "--sparse=always"])
                .arg(self.directory.path().join("."))
                .arg(directory.path());
            let before = paths_in(self.directory.path());
            // Another thread deletes generations that were sealed: what a kill leaves is of one moment.
            if copy.output().expect("cp runs").status.success() && before == paths_in(self.directory.path()) {
                break directory;
            }
        };
        IndexedStore::open(directory)
    }

    fn apply(&self, versions: &[(&str, u64, Option<&str>)]) {
        let version = |(id, timestamp, owner): &(&str, u64, Option<&str>)| match owner {
            Some(owner) => DocumentVersion::put(&document(id, owner), Timestamp(*timestamp)),
            None => DocumentVersion::removal(parsed(id), Timestamp(*timestamp)),
        };
        self.apply_all(versions.iter().map(version).collect());
    }

    fn apply_all(&self, versions: Vec<DocumentVersion>) {
        let (sender, answer) = mpsc::channel();
        self.store.apply(versions, move |outcome| drop(sender.send(outcome)));
        answer.recv().expect("it is answered").expect("it is acknowledged");
    }

    fn delete(&self, bucket: BucketId) {
        let info = self.store.replica_infos(&[bucket], Timestamp(0)).expect("counted")[0];
        let checksum = info.map_or(0, |info| info.checksum);
        assert_eq!(self.store.delete_replicas(&[(bucket, checksum)], Timestamp(0)).expect("deleted"), [true]);
    }

    fn compared(&self, when: &str) -> IndexDifferences {
        let found = self.indexes.verify("by-owner").expect("it is compared");
        assert_eq!(found.differences, 0, "{when}: {found:?}");
        found
    }

    /// Compares the index with the documents, now and after a kill.
    #[track_caller]
    fn check(&self, documents: u64, when: &str) {
        let killed = self.killed();
        killed.work();
        let found = killed.compared(&format!("{when}, killed"));
        assert_eq!((found.documents, found.entries), (documents, documents), "{when}, killed");
        self.work();
        let found = self.compared(when);
        assert_eq!((found.documents, found.entries), (documents, documents), "{when}");
    }
}

fn parsed(id: &str) -> DocumentId {
    DocumentId::parse(id).expect("an id")
}

fn document(id: &str, owner: &str) -> Document {
    let owner = DocumentValue::String(owner.to_owned());
    Document { id: parsed(id), fields: vec![("owner".into(), owner)] }
}

fn bucket(bits: u64) -> BucketId {
    BucketId::new(1, bits)
}

/// A parcel as bytes.
#[derive(Default)]
struct ReceivedBytes(Vec<u8>);

impl AppendFile for ReceivedBytes {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Copies a bucket from one store to another as files.
fn move_bucket(from: &Store, to: &Store, bucket: BucketId) {
    for parcel in from.export(&[bucket]).expect("exported") {
        let mut bytes = ReceivedBytes::default();
        parcel.write_to(0, &mut bytes).expect("read");
        let mut import = to.import(parcel.shares(), parcel.outline()).expect("it begins");
        import.append(&bytes.0).expect("written");
        import.arrive().and_then(|arrived| arrived.install(None)).expect("installed");
    }
}

/// A store with forty documents of ten groups, and four without a group.
fn source() -> IndexedStore {
    let source = IndexedStore::new();
    let ids: Vec<String> = (0..40)
        .map(|number| format!("id:n:note:g=g{}:{number}", number % 10))
        .chain((0..4).map(|number| format!("id:n:note::{number}")))
        .collect();
    let written = now() - HOUR_US;
    let rows: Vec<_> =
        ids.iter().enumerate().map(|(at, id)| (&**id, written + at as u64, Some("ann"))).collect();
    source.apply(&rows);
    source
}

fn documents(store: &Store, bucket: BucketId) -> u64 {
    store.replica_infos(&[bucket], Timestamp(0)).expect("counted")[0].map_or(0, |info| info.documents)
}

#[test]
fn replicas_come_and_go_with_their_entries() {
    let (source, node) = (source(), IndexedStore::new());
    let [zero, one] = [bucket(0), bucket(1)].map(|bucket| documents(&source.store, bucket));
    assert!(zero > 5 && one > 5, "{zero} {one}");
    node.check(0, "empty");
    move_bucket(&source.store, &node.store, bucket(0));
    node.check(zero, "a bucket has arrived");
    move_bucket(&source.store, &node.store, bucket(1));
    node.check(zero + one, "both have");
    node.delete(bucket(0));
    node.check(one, "one was deleted");
    let ids = (0..10).map(|number| format!("id:n:note:g=g{number}:{number}"));
    let id =
        &*ids.into_iter().find(|id| bucket(0).contains(parsed(id).location())).expect("a document of it");
    node.apply(&[(id, now(), Some("new"))]);
    node.check(one + 1, "it was created again, and written to");
    node.delete(bucket(0));
    // The index must not know the earlier versions as newer ones.
    move_bucket(&source.store, &node.store, bucket(0));
    node.check(zero + one, "it has come again");
    node.apply(&[(id, now(), Some("new"))]);
    node.work();
    node.delete(bucket(0));
    move_bucket(&source.store, &node.store, bucket(0));
    node.check(zero + one, "and again, before its deletion was read");
}

#[test]
fn a_bucket_is_stale_until_it_was_read() {
    let (source, node) = (source(), IndexedStore::new());
    node.work();
    move_bucket(&source.store, &node.store, bucket(0));
    assert_eq!(node.indexes.inner().feed.stale.len(), 1);
    let killed = node.killed();
    assert_eq!(killed.indexes.inner().feed.stale.len(), 1, "also after a crash");
    killed.work();
    assert_eq!(killed.indexes.inner().feed.stale.len(), 0);
    let again = killed.killed();
    assert_eq!(again.indexes.inner().feed.stale.len(), 0, "until the index is written");
    assert_eq!(again.indexes.inner().feed.notes.all(), []);
}

#[test]
fn an_index_that_stops_notes_what_comes_until_the_store_is_closed() {
    let (source, node) = (source(), IndexedStore::new());
    node.work();
    node.indexes.stop();
    move_bucket(&source.store, &node.store, bucket(0));
    node.apply(&[("id:n:note:g=zoe:1", now() - 24 * HOUR_US, Some("zoe"))]);
    let again = node.killed();
    again.work();
    let found = again.compared("started again");
    assert_eq!(found.documents, documents(&source.store, bucket(0)) + 1);
}

#[test]
fn late_rows_are_found_after_a_crash_and_do_not_win() {
    let node = IndexedStore::new();
    let old = now() - 2 * HOUR_US;
    node.apply(&[("id:n:note:g=ann:1", old, Some("ann")), ("id:n:note:g=ann:2", old, Some("ann"))]);
    node.work();
    node.apply(&[("id:n:note:g=ann:2", old + 9, None)]);
    // Runs are merged until the removal is forgotten.
    for number in 0..12 {
        node.apply(&[("id:n:note:g=ann:1", now() - 61_000_000 + number, Some("bob"))]);
        node.work();
    }
    node.check(1, "removed");
    node.apply(&[("id:n:note:g=ann:2", old + 5, Some("late"))]);
    node.check(1, "a version from before the removal");
    node.apply(&[("id:n:note:g=ann:3", old + 5, Some("late"))]);
    node.check(2, "a document that was written long ago");
    node.apply(&[("id:n:note:g=ann:3", old + 6, Some("later"))]);
    node.check(2, "a version that is newer, and late");
    node.apply(&[("id:n:note:g=ann:3", old + 7, None)]);
    node.check(1, "a removal that is late");
}

#[test]
fn an_index_that_reads_again_from_an_earlier_time_is_not_read_with_others() {
    let by_owner = "<index name='by-owner' document='note'><key field='owner'/></index>";
    let by_group = "<index name='by-group' document='note'><key field='id.group'/></index>";
    let services = SERVICES.replace(by_owner, &format!("{by_owner}{by_group}"));
    let directory = tempfile::tempdir().expect("a directory");
    let node = IndexedStore::with(directory, Arc::new(SystemClock), &application_of(&services, NOTE));
    let written = now() - HOUR_US;
    node.apply(&[("id:n:note:g=ann:1", written, Some("ann"))]);
    node.work();
    let inner = node.indexes.inner();
    // A row that does not reach the indexes, of a time before that until which they are complete.
    node.apply(&[("id:n:note:g=bob:2", written + 1, Some("bob"))]);
    assert_eq!(inner.feed.take().changes.len(), 1);
    let all = inner.all();
    all.iter().for_each(|index| index.read_again(None));
    assert!(all.iter().all(|index| index.begin_looking_up_drops()), "there are none");
    let divided = OpenedIndex::reading_together(inner.all());
    assert_eq!(divided.iter().map(Vec::len).collect::<Vec<_>>(), [2], "both read the same");
    let early = all.last().expect("there are two");
    early.read_again(Some(Timestamp(written)));
    assert!(OpenedIndex::read_page(&divided[0], &node.store).expect("it is read"), "one has to go on");
    node.work();
    let found = node.indexes.verify(early.definition.name()).expect("it is compared");
    assert_eq!((found.documents, found.differences), (2, 0), "{found:?}");
}

#[test]
fn a_removal_that_is_lost_while_an_index_is_built_is_read() {
    let node = IndexedStore::new();
    let written = now() - HOUR_US;
    let (removed, kept) = ("id:n:note:g=ann:1", "id:n:note:g=ann:2");
    node.apply(&[(removed, written, Some("ann")), (kept, written, Some("ann"))]);
    let inner = node.indexes.inner();
    inner.settle().expect("they are taken in");
    let all = inner.all();
    OpenedIndex::read_page(&all, &node.store).expect("it is read");
    node.apply(&[(removed, now(), None)]);
    assert_eq!(inner.feed.take().changes.len(), 1);
    all.iter().for_each(|index| index.read_again(None));
    node.work();
    assert_eq!(node.compared("a removal was lost").documents, 1);
}

#[test]
fn a_page_of_a_build_ends_where_its_keys_take_much_memory() {
    let by_owner = "<index name='by-owner' document='note'><key field='owner'/></index>";
    let by_tag = "<index name='by-tag' document='note' build='deferred'><key field='tags'/></index>";
    let services = SERVICES.replace(by_owner, by_tag);
    let note = "schema note { document note { field tags type array<string> { indexing: attribute } } }";
    let directory = tempfile::tempdir().expect("a directory");
    let node = IndexedStore::with(directory, Arc::new(SystemClock), &application_of(&services, note));
    // Their keys take 80 MB.
    let (batches, documents, tags) = (16, 50, 100);
    let written = now() - HOUR_US;
    let version = |number: usize| {
        let tag = |tag: usize| DocumentValue::String(format!("{number:04}{tag:03}{}", "x".repeat(993)));
        let fields = vec![("tags".into(), DocumentValue::Array((0..tags).map(tag).collect()))];
        let document = Document { id: parsed(&format!("id:n:note:g=ann:{number}")), fields };
        DocumentVersion::put(&document, Timestamp(written + number as u64))
    };
    for batch in 0..batches {
        node.apply_all((0..documents).map(|number| version(batch * documents + number)).collect());
    }
    assert!(node.indexes.build("by-tag").expect("it is there"));
    assert!(node.indexes.inner().step().expect("a page is read"), "there are more pages");
    assert_eq!(node.indexes.statuses()[0].state.name(), "building");
    node.work();
    let entries = (batches * documents * tags) as u64;
    assert_eq!(node.indexes.statuses()[0].entries, entries);
}

#[test]
fn many_changes_of_many_indexes_are_taken_in() {
    let by_owner = "<index name='by-owner' document='note'><key field='owner'/></index>";
    let others = (0..19).map(|number| by_owner.replace("by-owner", &format!("i{number}")));
    let services = SERVICES.replace(by_owner, &others.chain([by_owner.to_owned()]).collect::<String>());
    let directory = tempfile::tempdir().expect("a directory");
    let node = IndexedStore::with(directory, Arc::new(SystemClock), &application_of(&services, NOTE));
    node.work();
    let ids: Vec<String> = (0..1000).map(|number| format!("id:n:note:g=ann:{number}")).collect();
    let rows: Vec<_> = ids.iter().map(|id| (&**id, now(), Some("ann"))).collect();
    node.apply(&rows);
    node.indexes.inner().settle().expect("they are taken in");
    for name in ["i0", "by-owner"] {
        let found = node.indexes.verify(name).expect("it is compared");
        assert_eq!((found.documents, found.entries, found.differences), (1000, 1000, 0), "{name}");
    }
}

#[test]
fn a_drop_of_a_part_of_a_divided_group_leaves_the_others() {
    let node = IndexedStore::new();
    let written = now() - HOUR_US;
    let ids: Vec<String> = (0..64).map(|number| format!("id:n:note:g=ann:{number}")).collect();
    let rows: Vec<_> = ids.iter().map(|id| (&**id, written, Some("ann"))).collect();
    node.apply(&rows);
    node.work();
    let group = DocumentGroup::Name("ann".to_owned());
    let divided = DividedGroup { location: group.location_bits().expect("a group"), bits: 34 };
    node.store.divide(1, &[divided]).expect("divided");
    let parts: Vec<BucketId> = divided.parts().collect();
    let in_first = documents(&node.store, parts[0]);
    assert!((1..64).contains(&in_first));
    let scope = DropScope::Group { document_type: Some("note".to_owned()), group };
    let drop = DroppedScope { scope, timestamp: Timestamp(written) };
    node.store.apply_drop(parts[0], &drop).expect("dropped");
    node.check(64 - in_first, "a part was dropped");
    node.delete(parts[1]);
    let in_second = 64 - in_first - node.compared("a part was deleted").documents;
    node.check(64 - in_first - in_second, "a part was deleted");
}

#[test]
fn what_was_stale_before_a_group_was_divided_is_read_in_its_parts() {
    let (source, node) = (source(), IndexedStore::new());
    node.work();
    let group = DocumentGroup::Name("g3".to_owned());
    let location = group.location_bits().expect("a group");
    let of_group = bucket(u64::from(location & 1));
    move_bucket(&source.store, &node.store, of_group);
    node.store.divide(1, &[DividedGroup { location, bits: 33 }]).expect("divided");
    node.check(documents(&source.store, of_group), "divided");
}

#[test]
fn changes_before_the_indexes_are_open_are_noted() {
    let (source, node) = (source(), IndexedStore::new());
    node.work();
    let directory = node.killed().directory;
    let layout = Arc::new(DocumentColumns::new(&application()));
    let open = |directory: &Path| {
        let options = StoreOptions { disk_reserve: 0, ..StoreOptions::new(directory) };
        Store::open(options, layout.clone()).expect("a store")
    };
    let store = open(directory.path());
    let follower = Arc::new(FollowerSwitch::new(store.clone()));
    let indexes = NodeIndexes::new(directory.path(), &follower, Arc::new(RealDisk));
    move_bucket(&source.store, &store, bucket(0));
    drop((indexes, follower));
    store.close();
    let again = IndexedStore::open(directory);
    again.check(documents(&source.store, bucket(0)), "a bucket arrived early");
}

/// Value of one document. No other begins like it, so that a run has all of it.
const MARKER: &str = "zyxwvutsrqponm";

/// Names of the directories below the data directory with files that have the marker.
fn with_marker(directory: &Path) -> BTreeSet<String> {
    fn has_marker(path: &Path) -> bool {
        if path.is_dir() {
            let entries = std::fs::read_dir(path).expect("listed");
            return entries.flatten().any(|entry| has_marker(&entry.path()));
        }
        let bytes = std::fs::read(path).expect("read");
        bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
    }
    let entries = std::fs::read_dir(directory).expect("listed").flatten();
    let found = entries.filter(|entry| has_marker(&entry.path()));
    found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn an_erased_group_leaves_no_byte_in_an_index() {
    let start = now();
    let clock = Arc::new(ManualClock::new(start));
    let directory = tempfile::tempdir().expect("a directory");
    let node = IndexedStore::with_clock(directory, Arc::clone(&clock) as Arc<_>);
    let ids: Vec<String> = (0..40).map(|number| format!("id:n:note:g=g{}:{number}", number % 10)).collect();
    let rows: Vec<_> = ids.iter().map(|id| (&**id, start - 1000, Some("ann"))).collect();
    node.apply(&rows);
    node.apply(&[("id:n:note:g=erased:1", start - 1000, Some(MARKER))]);
    node.store.seal().expect("sealed");
    node.work();
    node.check(41, "before");
    let everywhere = BTreeSet::from(["indexes".to_owned(), "segments".to_owned()]);
    assert_eq!(with_marker(node.directory.path()), everywhere);

    let group = DocumentGroup::Name("erased".to_owned());
    node.store.drop_group(None, &group).expect("dropped");
    node.store.erase_within(&group, Duration::ZERO).expect("noted");
    let step = || {
        node.store.seal().expect("sealed");
        node.store.maintain().expect("merged");
        node.work();
    };
    (0..3).for_each(|_| step());
    let erasure = node.store.erasure(&group).expect("told").expect("it was dropped");
    assert_eq!(
        (erasure.erased, erasure.holders.elsewhere),
        (None, true),
        "removals are remembered for a while"
    );
    // A minute later the index need not remember them.
    for _ in 0..100 {
        clock.set(clock.now_us() + 2_000_000);
        step();
        if node.store.pending_erasures() == (0, 0) {
            break;
        }
    }
    let erasure = node.store.erasure(&group).expect("told").expect("it was dropped");
    assert!(erasure.erased.is_some(), "{erasure:?}");
    assert_eq!(with_marker(node.directory.path()), BTreeSet::new());
    node.check(40, "after");
}
