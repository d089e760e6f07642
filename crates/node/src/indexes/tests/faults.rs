//! Errors of the disk below the indexes: nothing of them stays once the disk works again.

use std::sync::atomic::{AtomicBool, Ordering};

use millrace_env::{DiskFault, DiskOperation, FaultyDisk, ObservedDisk};

use super::*;

/// Declaration of the index in [`SERVICES`].
const BY_OWNER: &str = "<index name='by-owner' document='note'><key field='owner'/></index>";

fn on(disk: Arc<dyn Disk>, directory: TempDir, application: &Application) -> IndexedStore {
    IndexedStore::on(disk, directory, Arc::new(SystemClock), application)
}

/// A disk that refuses this operation on paths with this text while the flag is set.
fn refusing(refused: DiskOperation, text: &'static str) -> (Arc<AtomicBool>, Arc<dyn Disk>) {
    let flag = Arc::new(AtomicBool::new(false));
    let is_set = Arc::clone(&flag);
    let observe = move |operation: DiskOperation, path: &Path| -> io::Result<()> {
        let is_meant = operation == refused && path.to_string_lossy().contains(text);
        match is_meant && is_set.load(Ordering::SeqCst) {
            true => Err(io::Error::other("injected")),
            false => Ok(()),
        }
    };
    (flag, Arc::new(ObservedDisk::new(Arc::new(RealDisk), Arc::new(observe))))
}

/// State and reason of an index.
fn failure(node: &IndexedStore, name: &str) -> Option<String> {
    let status = node.indexes.statuses().into_iter().find(|status| status.definition.name() == name);
    let status = status.expect("the index is declared");
    assert_eq!(status.state == IndexState::Failed, status.reason.is_some());
    status.reason
}

#[test]
fn a_replaced_index_goes_once_the_new_one_is_written() {
    let disk = FaultyDisk::new(Arc::new(RealDisk));
    let directory = tempfile::tempdir().expect("a directory");
    let node = on(Arc::new(disk.clone()), directory, &application());
    node.apply(&[("id:n:note:g=ann:1", now() - HOUR_US, Some("ann"))]);
    node.work();
    let changed = BY_OWNER.replace("<key field='owner'/>", "<key field='owner'/><key field='id.group'/>");
    let changed = application_of(&SERVICES.replace(BY_OWNER, &changed), NOTE);
    node.indexes.inner().adopt(&defined(&changed), Timestamp(0));
    let directories = |node: &IndexedStore| {
        let paths = paths_in(&node.directory.path().join("indexes"));
        paths.iter().filter(|path| path.is_dir()).count()
    };
    assert_eq!(directories(&node), 2);

    disk.inject(DiskFault::FailSync);
    while node.indexes.inner().step().expect("the store is read") {}
    let reason = failure(&node, "by-owner");
    assert!(reason.as_ref().is_some_and(|reason| reason.contains("the sync failed")), "{reason:?}");
    assert_eq!(directories(&node), 2, "a crash would leave neither of them");

    disk.heal();
    node.poll("the replaced index goes", |node| directories(node) == 1);
    node.check(1, "replaced");
}

#[test]
fn an_index_that_could_not_be_opened_has_what_changed_meanwhile() {
    let node = IndexedStore::new();
    let written = now() - HOUR_US;
    let [one, two, dropped] = ["id:n:note:g=ann:1", "id:n:note:g=ann:2", "id:n:note:g=bob:1"];
    node.apply(&[(one, written, Some("ann")), (two, written, Some("ann")), (dropped, written, Some("bob"))]);
    node.work();
    let IndexedStore { directory, store, indexes } = node;
    drop(indexes);
    store.close();

    let (refuses, disk) = refusing(DiskOperation::CreateDirectory, "by-owner@");
    refuses.store(true, Ordering::SeqCst);
    let node = on(disk, directory, &application());
    assert_eq!(failure(&node, "by-owner"), Some(injected(&node)));
    let refused = node.indexes.verify("by-owner").expect_err("it is not open").to_string();
    assert!(
        refused.contains("index 'by-owner' has failed: create ") && refused.contains("injected"),
        "{refused}"
    );
    node.store.drop_group(None, &DocumentGroup::Name("bob".to_owned())).expect("dropped");
    node.apply(&[(two, now(), None), ("id:n:note:g=ann:3", now(), Some("eve"))]);
    node.apply(&[("id:n:note:g=zoe:1", written - HOUR_US, Some("zoe"))]);
    node.indexes.inner().step().expect("the store is read");
    assert!(failure(&node, "by-owner").is_some());

    refuses.store(false, Ordering::SeqCst);
    node.poll("it is opened", IndexedStore::is_ready);
    node.check(3, "opened");
}

/// Reason of an index whose directory could not be made.
fn injected(node: &IndexedStore) -> String {
    let indexes = node.directory.path().join("indexes");
    let paths = paths_in(&indexes);
    let directory = paths.iter().find(|path| path.is_dir()).expect("the index has a directory");
    format!("create {}: injected", directory.display())
}

#[test]
fn an_index_that_cannot_be_written_holds_no_other_up() {
    let by_group = "<index name='by-group' document='note'><key field='id.group'/></index>";
    let services = SERVICES.replace(BY_OWNER, &format!("{BY_OWNER}{by_group}"));
    let (refuses, disk) = refusing(DiskOperation::Sync, "by-owner@");
    let directory = tempfile::tempdir().expect("a directory");
    let node = on(disk, directory, &application_of(&services, NOTE));
    refuses.store(true, Ordering::SeqCst);
    node.apply(&[("id:n:note:g=ann:1", now() - HOUR_US, Some("ann"))]);
    while node.indexes.inner().step().expect("the store is read") {}
    assert!(failure(&node, "by-owner").is_some());
    assert_eq!(failure(&node, "by-group"), None);
    let built = |name: &str| node.indexes.inner().newest(name).is_some_and(|index| index.copy.status().built);
    assert_eq!([built("by-owner"), built("by-group")], [false, true]);

    refuses.store(false, Ordering::SeqCst);
    node.poll("both are written", |node| node.is_ready());
    assert!(built("by-owner"));
    node.compared("both are written");
}

#[test]
fn a_damaged_index_is_built_again() {
    let disk = FaultyDisk::new(Arc::new(RealDisk));
    let directory = tempfile::tempdir().expect("a directory");
    let node = on(Arc::new(disk.clone()), directory, &application());
    node.apply(&[("id:n:note:g=ann:1", now() - HOUR_US, Some("ann"))]);
    node.work();
    let before = node.indexes.inner().newest("by-owner").expect("it is open");

    // In the first block of the run.
    disk.inject(DiskFault::FlipBit { name_ends: ".run".to_owned(), offset: 12, bit: 3 });
    let found = node.indexes.verify("by-owner").expect_err("it is damaged").to_string();
    assert!(found.contains("is damaged") && found.contains("is built again"), "{found}");
    disk.heal();
    let is_another = |node: &IndexedStore| {
        node.indexes.inner().newest("by-owner").is_some_and(|index| !Arc::ptr_eq(&index, &before))
    };
    node.poll("it is built again", |node| is_another(node) && node.is_ready());
    node.check(1, "built again");
}

/// A node like one that was closed, whose indexes are on this disk.
fn opened_again(node: IndexedStore, disk: Arc<dyn Disk>) -> IndexedStore {
    let IndexedStore { directory, store, indexes } = node;
    drop(indexes);
    store.close();
    on(disk, directory, &application())
}

#[test]
fn an_index_that_is_opened_later_has_the_buckets_that_came() {
    let (source, node) = (source(), IndexedStore::new());
    node.work();
    let (refuses, disk) = refusing(DiskOperation::CreateDirectory, "by-owner@");
    refuses.store(true, Ordering::SeqCst);
    let node = opened_again(node, disk);
    move_bucket(&source.store, &node.store, bucket(0));
    node.indexes.inner().step().expect("the store is read");
    assert_eq!(node.indexes.inner().feed.stale.len(), 0, "no index that is open lacks it");

    refuses.store(false, Ordering::SeqCst);
    node.poll("it is opened", IndexedStore::is_ready);
    node.check(documents(&source.store, bucket(0)), "opened");
}

#[test]
fn an_index_that_cannot_be_opened_is_built_again_on_request() {
    let node = IndexedStore::new();
    node.apply(&[("id:n:note:g=ann:1", now() - HOUR_US, Some("ann"))]);
    node.work();
    let (refuses, disk) = refusing(DiskOperation::CreateDirectory, "by-owner@");
    refuses.store(true, Ordering::SeqCst);
    let node = opened_again(node, disk);
    let runs = || {
        let paths = paths_in(&node.directory.path().join("indexes"));
        paths.iter().filter(|path| path.extension().is_some_and(|end| end == "run")).count()
    };
    node.indexes.inner().step().expect("the store is read");
    assert_eq!(runs(), 1, "its files stay");
    node.indexes.rebuild("by-owner").expect("it is declared");
    node.indexes.inner().step().expect("the store is read");
    assert_eq!(runs(), 0, "its files are removed first");
    assert!(failure(&node, "by-owner").is_some());

    refuses.store(false, Ordering::SeqCst);
    node.poll("it is built again", IndexedStore::is_ready);
    node.check(1, "built again");
}

#[test]
fn an_index_is_whole_where_two_have_it_built_again() {
    let node = IndexedStore::new();
    node.apply(&[("id:n:note:g=ann:1", now() - HOUR_US, Some("ann"))]);
    node.work();
    let before = node.indexes.inner().newest("by-owner").expect("it is open");
    node.indexes.inner().rebuild(&before);
    node.work();
    // The second has not seen that it was.
    node.indexes.inner().rebuild(&before);
    node.apply(&[("id:n:note:g=ann:2", now(), Some("ann"))]);
    node.check(2, "built again");
}

#[test]
fn files_that_could_not_be_removed_are_those_of_no_later_index() {
    let (refuses, disk) = refusing(DiskOperation::Unlink, "by-owner@");
    let node = on(disk, tempfile::tempdir().expect("a directory"), &application());
    let written = now() - HOUR_US;
    node.apply(&[("id:n:note:g=ann:1", written, Some("ann")), ("id:n:note:g=bob:1", written, Some("bob"))]);
    node.work();
    refuses.store(true, Ordering::SeqCst);
    let inner = node.indexes.inner();
    inner.adopt(&[], Timestamp(0));
    assert!(inner.is_adoption_left(), "its directory stays");
    node.store.drop_group(None, &DocumentGroup::Name("bob".to_owned())).expect("dropped");
    node.apply(&[("id:n:note:g=zoe:1", written, Some("zoe"))]);
    inner.adopt(&defined(&application()), Timestamp(0));
    let reason = failure(&node, "by-owner");
    assert!(reason.as_ref().is_some_and(|reason| reason.contains("injected")), "{reason:?}");

    refuses.store(false, Ordering::SeqCst);
    node.poll("it is built", IndexedStore::is_ready);
    node.check(2, "declared again");
}

#[test]
fn an_index_that_was_closed_has_what_was_not_written() {
    let (source, node) = (source(), IndexedStore::new());
    node.work();
    move_bucket(&source.store, &node.store, bucket(0));
    node.apply(&[
        ("id:n:note:g=zoe:1", now() - 24 * HOUR_US, Some("zoe")),
        ("id:n:note:g=zoe:2", now(), Some("zoe")),
    ]);
    let inner = node.indexes.inner();
    while inner.step().expect("the store is read") {}
    let index = inner.newest("by-owner").expect("it is open");
    inner.close(&index, &crate::Error::Internal("the disk refuses".to_owned()));
    assert!(failure(&node, "by-owner").is_some_and(|reason| reason.contains("the disk refuses")));
    node.poll("it is opened again", IndexedStore::is_ready);
    node.check(documents(&source.store, bucket(0)) + 2, "opened again");
}

#[test]
fn drops_are_looked_up_by_an_index_that_reads_again_just_before_a_page() {
    let node = IndexedStore::new();
    let written = now() - HOUR_US;
    node.apply(&[("id:n:note:g=ann:1", written, Some("ann")), ("id:n:note:g=bob:1", written, Some("bob"))]);
    node.work();
    node.store.drop_group(None, &DocumentGroup::Name("bob".to_owned())).expect("dropped");
    let inner = node.indexes.inner();
    assert!(!inner.feed.take().changes.is_empty(), "the drop is lost");
    let index = inner.newest("by-owner").expect("it is open");
    index.read_again(inner.feed.notes.late());
    let more = OpenedIndex::read_page(&[index], &node.store).expect("the store is read");
    assert!(more, "drops come first");
    node.check(1, "read again");
}
