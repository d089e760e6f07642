use std::path::Path;
use std::sync::atomic::AtomicBool;

use millrace_bucket::{DocumentSortKey, NodeKey};
use millrace_document::{DocumentGroup, DocumentId};
use millrace_env::{DiskOperation, ObservedDisk, RealDisk};
use millrace_index::BlockCache;
use millrace_index_feed::SourceRun;
use millrace_index_placement::PlacementTable;

use super::super::copies::NodeCopies;
use super::*;

fn place(root: &Path) -> IndexDirectory {
    IndexDirectory {
        root: root.to_owned(),
        disk: Arc::new(RealDisk),
        cache: Arc::new(BlockCache::new(1 << 20)),
    }
}

fn definition() -> StoredDefinition {
    StoredDefinition { definition: 9, document_type: "mail".to_owned(), slice: BucketId::ROOT }
}

fn key(group: u64, name: &str) -> Vec<u8> {
    let id = DocumentId::parse(&format!("id:a:mail:n={group}:{name}")).expect("an id");
    DocumentSortKey::new(&id).as_bytes().to_vec()
}

fn row(group: u64, name: &str, timestamp: u64) -> FeedRow<VersionKeys> {
    FeedRow {
        bucket: BucketId::new(1, group & 1),
        document_type: "mail".to_owned(),
        document: key(group, name),
        timestamp: Timestamp(timestamp),
        body: VersionKeys(vec![(9, vec![name.as_bytes().to_vec()])]),
        bytes: 10,
    }
}

fn names(copy: &StoredCopy) -> String {
    let page = copy.copy.documents(&[], 100).expect("documents");
    let mut names: Vec<String> = page
        .documents
        .iter()
        .flat_map(|indexed| &indexed.record.keys)
        .map(|key| String::from_utf8_lossy(key).into_owned())
        .collect();
    names.sort();
    names.join(" ")
}

fn part(bucket: BucketId) -> BucketPart<'static> {
    BucketPart { bucket, excluded: &[], after: None, until: None }
}

#[test]
fn a_page_replaces_the_documents_of_its_bucket_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let (copy, marks) = place(directory.path()).open(CopyId(1), &definition()).expect("it opens");
    assert_eq!(marks, CopyMarks::default());
    let rows = [row(2, "even", 5), row(3, "odd", 5), row(3, "late", 9)];
    copy.apply(&rows).expect("taken in");
    let odd = part(BucketId::new(1, 1));
    let since = copy.replace(&odd, Timestamp(7), &[row(3, "new", 8)]).expect("replaced");
    assert_eq!((since, &*names(&copy)), (vec![key(3, "late")], "even late new odd"));
    let all = copy.replace(&odd, Timestamp(0), &[row(3, "odd", 5)]).expect("replaced");
    assert_eq!((all, &*names(&copy)), (Vec::new(), "even odd"));
    let first = key(3, "odd");
    let after = BucketPart { after: Some(&first), ..part(BucketId::new(1, 1)) };
    copy.replace(&after, Timestamp(0), &[]).expect("replaced");
    assert_eq!(names(&copy), "even odd", "the page begins after the document");
    let excluded = BucketPart { excluded: &[BucketId::new(2, 3)], ..part(BucketId::new(1, 1)) };
    copy.replace(&excluded, Timestamp(0), &[]).expect("replaced");
    assert_eq!(names(&copy), "even odd", "the document is of a bucket inside");
    copy.replace(&odd, Timestamp(0), &[]).expect("replaced");
    assert_eq!(names(&copy), "even");
}

#[test]
fn a_drop_takes_out_the_older_documents_of_its_group() {
    let directory = tempfile::tempdir().expect("a directory");
    let (copy, _) = place(directory.path()).open(CopyId(1), &definition()).expect("it opens");
    copy.apply(&[row(3, "old", 5), row(3, "new", 9), row(5, "other", 5)]).expect("taken in");
    let scope = DropScope::Group { document_type: None, group: DocumentGroup::Number(3) };
    copy.drop_scope(&part(BucketId::new(1, 1)), &scope, None, Timestamp(7)).expect("dropped");
    assert_eq!(names(&copy), "new other");
    let scope = DropScope::Type("mail".to_owned());
    copy.drop_scope(&part(BucketId::new(1, 0)), &scope, None, Timestamp(9)).expect("dropped");
    assert_eq!(names(&copy), "new other", "another bucket");
    copy.drop_scope(&part(BucketId::new(1, 1)), &scope, None, Timestamp(9)).expect("dropped");
    assert_eq!(names(&copy), "");
}

#[test]
fn marks_count_only_with_the_files_that_they_are_of() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = place(directory.path());
    let bucket = BucketId::new(1, 1);
    let mark =
        ReplicaMark { owner: NodeKey(3), run: SourceRun(u64::MAX), disturbances: 4, until: Timestamp(78) };
    let marks = CopyMarks { until: [(bucket, Timestamp(77))].into(), replicas: [(bucket, mark)].into() };
    let (copy, _) = place.open(CopyId(4), &definition()).expect("it opens");
    copy.apply(&[row(3, "a", 5)]).expect("taken in");
    copy.verification.lock().repaired = Some(7);
    copy.flush(&marks).expect("written");
    drop(copy);
    let (copy, found) = place.open(CopyId(4), &definition()).expect("it opens");
    assert_eq!((&*names(&copy), found), ("a", marks));
    assert_eq!(copy.verification.lock().repaired, Some(7), "it is not verified again at each start");
    assert_eq!(place.list().expect("a list"), [CopyId(4)].into());
    drop(copy);
    remove_directory(&place.directory(CopyId(4))).expect("removed");
    let (copy, found) = place.open(CopyId(4), &definition()).expect("it opens");
    assert_eq!((&*names(&copy), found), ("", CopyMarks::default()), "the files are gone");
    let other = StoredDefinition { definition: 10, ..definition() };
    drop(copy);
    let (copy, found) = place.open(CopyId(4), &other).expect("it opens");
    assert_eq!((&*names(&copy), found), ("", CopyMarks::default()), "another definition");
    drop(copy);
    place.remove(CopyId(4)).expect("removed");
    assert_eq!(place.list().expect("a list"), BTreeSet::new());
}

#[test]
fn a_write_in_progress_leaves_no_marks_of_a_discarded_copy() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = place(directory.path());
    let (copy, marks) = place.open(CopyId(1), &definition()).expect("it opens");
    copy.apply(&[row(3, "a", 5)]).expect("taken in");
    copy.discard();
    place.remove(CopyId(1)).expect("removed");
    copy.flush(&marks).expect("nothing is written");
    assert_eq!(place.list().expect("a list"), BTreeSet::new());
}

#[test]
fn files_that_could_not_be_removed_are_removed_later() {
    let directory = tempfile::tempdir().expect("a directory");
    let is_refused = Arc::new(AtomicBool::new(true));
    let refuses = Arc::clone(&is_refused);
    let observe = move |operation: DiskOperation, _: &Path| -> std::io::Result<()> {
        match operation == DiskOperation::Unlink && refuses.load(Ordering::SeqCst) {
            true => Err(std::io::Error::other("injected")),
            false => Ok(()),
        }
    };
    let disk = Arc::new(ObservedDisk::new(Arc::new(RealDisk), Arc::new(observe)));
    let place = Arc::new(IndexDirectory { disk, ..place(directory.path()) });
    let (copy, marks) = place.open(CopyId(4), &definition()).expect("it opens");
    copy.flush(&marks).expect("written");
    drop(copy);
    let mut copies = NodeCopies::new(Arc::clone(&place), NodeKey(0), 1);
    let mut adopt = || {
        let actions = copies.adopt_table(&PlacementTable::default(), &|_| None, Timestamp(1));
        assert!(actions.is_empty(), "the table has no copies");
        copies.waits()
    };
    assert!(adopt(), "the table is looked at again");
    assert_eq!(place.list().expect("a list"), [CopyId(4)].into());
    is_refused.store(false, Ordering::SeqCst);
    assert!(!adopt(), "nothing is left");
    assert_eq!(place.list().expect("a list"), BTreeSet::new());
}

#[test]
fn rows_without_the_keys_of_the_copy_are_not_taken_in() {
    let directory = tempfile::tempdir().expect("a directory");
    let (copy, _) = place(directory.path()).open(CopyId(1), &definition()).expect("it opens");
    let unknown = FeedRow { body: VersionKeys::default(), ..row(3, "a", 5) };
    assert!(matches!(copy.apply(&[row(3, "b", 5), unknown]), Err(TakeError::NoKeys)));
    assert_eq!(names(&copy), "");
}

#[test]
fn marks_are_written_as_ever() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = place(directory.path());
    let bucket = BucketId::new(10, 77);
    let mark = ReplicaMark { owner: NodeKey(3), run: SourceRun(5), disturbances: 4, until: Timestamp(78) };
    let marks = CopyMarks { until: [(bucket, Timestamp(77))].into(), replicas: [(bucket, mark)].into() };
    let (copy, _) = place.open(CopyId(4), &definition()).expect("it opens");
    copy.apply(&[row(3, "a", 5)]).expect("taken in");
    copy.verification.lock().from_ms = 12;
    copy.verification.lock().repaired = Some(7);
    copy.flush(&marks).expect("written");
    let written = std::fs::read_to_string(directory.path().join("copy-4.json")).expect("it is there");
    let expected = concat!(
        r#"{"copy":{"definition":9,"document-type":"mail","slice":"BucketId(0x0000000000000000)"},"#,
        r#""marks":[["BucketId(0x280000000000004d)",77]],"#,
        r#""replicas":[["BucketId(0x280000000000004d)",{"owner":3,"run":5,"disturbances":4,"until":78}]],"#,
        r#""verification":{"from-ms":12,"repaired":7}}"#
    );
    assert_eq!(written, expected, "with other names the marks are as none, and copies are read again");
}
