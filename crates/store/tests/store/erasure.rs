//! Erasure: within its bound no file has anything of a group that was dropped, and other groups stay.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use millrace_bucket::BucketId;
use millrace_document::{DocumentGroup, DocumentVersion, DropScope, DroppedScope, Timestamp};
use millrace_env::{ManualClock, WallClock as _};
use millrace_store::{ErasurePartner, GroupErasure, Store, StoreOptions, StoreTuning};

use crate::common::{document, get, open, options, put, remove};

const DAY: u64 = 24 * 3600 * 1_000_000;

/// Texts of the dropped group: nothing else has them, and no compression makes them shorter.
const WORDS: [&str; 3] = ["Qz8vK1xWm4Rt7LbY", "hP3sD9gN6fJc2VuE", "oA5iT0yXr1MkB8wZ"];

fn group(name: &str) -> DocumentGroup {
    DocumentGroup::Name(name.to_owned())
}

/// Buckets that share files: eight from the start.
fn in_eight(directory: &Path) -> StoreOptions {
    let tuning = StoreTuning { split_bits: 3, ..StoreTuning::default() };
    StoreOptions { tuning, ..options(directory) }
}

/// The words that are in files below a directory.
fn words_in(directory: &Path) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            // The store may delete a file meanwhile.
            let bytes = std::fs::read(&path).unwrap_or_default();
            found.extend(WORDS.into_iter().filter(|word| has(&bytes, word.as_bytes())));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// Documents of 40 groups in segments and in the tail. Those of `ann` have the words: in a text, in the id of
/// a removed document, and in a text of the tail.
fn fill(store: &Store, directory: &Path) {
    store.maintain().expect("split");
    for number in 0..40 {
        put(store, &format!("id:n:mail:g=user{number}:1"), "others", number);
    }
    put(store, "id:n:mail:g=ann:1", WORDS[0], 1);
    put(store, &format!("id:n:mail:g=ann:{}", WORDS[1]), "removed", 2);
    store.seal().expect("sealed");
    let [first, removed, _] = WORDS;
    let mut sealed = vec![first, removed];
    sealed.sort_unstable();
    assert_eq!(words_in(&directory.join("segments")), sealed, "the check finds words in segments");
    remove(store, &format!("id:n:mail:g=ann:{}", WORDS[1]));
    put(store, "id:n:mail:g=ann:3", WORDS[2], 3);
    put(store, "id:n:mail:g=user1:2", "others in the tail", 2);
    assert!(words_in(&directory.join("tail")).contains(&WORDS[2]), "the check finds words in logs");
}

#[track_caller]
fn check_others(store: &Store) {
    for number in 0..40 {
        assert_eq!(get(store, &format!("id:n:mail:g=user{number}:1")), Some(number), "user{number}");
    }
    assert_eq!(get(store, "id:n:mail:g=user1:2"), Some(2));
}

/// Waits for the end of an erasure.
#[track_caller]
fn ended(store: &Store, name: &str) -> GroupErasure {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let erasure = store.erasure(&group(name)).expect("it can be told").expect("the group was dropped");
        if erasure.erased.is_some() {
            return erasure;
        }
        assert!(Instant::now() < deadline, "{erasure:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_erasure_without_delay_leaves_no_byte() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(StoreOptions { maintenance: true, ..in_eight(directory.path()) });
    fill(&store, directory.path());
    assert_eq!(store.erasure(&group("ann")).expect("told"), None);
    store.drop_group(None, &group("ann")).expect("dropped");
    let begun = store.erase_within(&group("ann"), Duration::ZERO).expect("noted").expect("it was dropped");
    assert_eq!(begun.due, begun.dropped);
    // Written after the drop: it stays.
    put(&store, "id:n:mail:g=ann:9", "again", 9);
    let erasure = ended(&store, "ann");
    assert!(erasure.erased >= Some(erasure.dropped), "{erasure:?}");
    assert_eq!(words_in(directory.path()), Vec::<&str>::new());
    check_others(&store);
    assert_eq!(get(&store, "id:n:mail:g=ann:9"), Some(9));
    store.close();
    let store = open(in_eight(directory.path()));
    assert_eq!(store.erasures(), [GroupErasure { holders: erasure.holders, ..erasure }]);
    check_others(&store);
    assert_eq!(get(&store, "id:n:mail:g=ann:9"), Some(9));
    assert_eq!(store.pending_erasures(), (0, 0));
}

#[test]
fn an_erasure_begins_at_half_of_its_time_also_after_a_crash() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = 1_800_000_000_000_000;
    let clock = Arc::new(ManualClock::new(start));
    let options = || StoreOptions { clock: Arc::clone(&clock) as Arc<_>, ..in_eight(directory.path()) };
    let store = open(options());
    fill(&store, directory.path());
    store.drop_group(None, &group("ann")).expect("dropped");
    let before = store.erasure(&group("ann")).expect("told").expect("it was dropped");
    assert_eq!(before.due.0 - before.dropped.0, 30 * DAY);
    assert!(before.holders.files > 0 && before.holders.logs > 0, "{before:?}");
    // Ordinary merges rewrite the group's own bucket; the file stays for the other seven.
    store.maintain().expect("merged");
    let left = words_in(directory.path());
    assert_eq!(left.len(), WORDS.len(), "{left:?}");
    // The process ends without a last word: what is on the disk is what a kill leaves.
    let copy = tempfile::tempdir().expect("a directory");
    copy_all(directory.path(), copy.path());
    store.close();
    let options = || StoreOptions { clock: Arc::clone(&clock) as Arc<_>, ..in_eight(copy.path()) };
    let store = open(options());
    assert_eq!(store.erasures().first().map(|erasure| erasure.due), Some(before.due));
    clock.set(start + 14 * DAY);
    store.maintain().expect("merged");
    assert_eq!(words_in(copy.path()).len(), WORDS.len());
    clock.set(start + 15 * DAY + 1_000_000);
    let deadline = Instant::now() + Duration::from_secs(120);
    while store.pending_erasures() != (0, 0) {
        assert!(Instant::now() < deadline, "{:?}", store.erasure(&group("ann")));
        store.maintain().expect("merged");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(words_in(copy.path()), Vec::<&str>::new());
    check_others(&store);
    // One that is not done in time is told apart.
    store.drop_group(None, &group("user3")).expect("dropped");
    clock.set(start + 60 * DAY);
    assert_eq!(store.pending_erasures(), (1, 1));
}

/// Copies the directory of a running store. A thread of it can delete a sealed generation of the tail
/// meanwhile.
fn copy_all(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            std::fs::create_dir(&target).expect("made");
            copy_all(&path, &target);
        } else {
            match std::fs::copy(&path, &target) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => drop(copied.expect("copied")),
            }
        }
    }
}

/// A replica that was away sends a version that is older than the drop, after the erasure has ended. No
/// reader sees it, and its bytes are in the log: the erasure begins again, also where a crash comes first.
#[test]
fn an_erasure_begins_again_with_versions_that_come_late() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = 1_800_000_000_000_000;
    let clock = Arc::new(ManualClock::new(start));
    let options = |at: &Path, maintenance: bool| StoreOptions {
        clock: Arc::clone(&clock) as Arc<_>,
        maintenance,
        ..in_eight(at)
    };
    let store = open(options(directory.path(), false));
    fill(&store, directory.path());
    clock.set(start + 1_000_000);
    // By another node, as the version that comes late: such drops are remembered after they are applied.
    let scope = DropScope::Group { document_type: None, group: group("ann") };
    let dropped = DroppedScope { scope, timestamp: Timestamp(start + 1_000_000) };
    store.apply_drop(BucketId::ROOT, &dropped).expect("dropped");
    store.erase_within(&group("ann"), Duration::ZERO).expect("noted");
    let work = |store: &Store| {
        let deadline = Instant::now() + Duration::from_secs(120);
        while store.pending_erasures() != (0, 0) {
            assert!(Instant::now() < deadline, "{:?}", store.erasure(&group("ann")));
            clock.set(clock.now_us() + 1_000_000);
            store.seal().expect("sealed");
            store.maintain().expect("merged");
            // Another thread deletes generations. The drop is forgotten after 14 days of this clock.
            thread::sleep(Duration::from_millis(1));
        }
    };
    work(&store);
    let first = store.erasure(&group("ann")).expect("told").expect("it was dropped");
    assert!(first.erased.is_some() && words_in(directory.path()).is_empty(), "{first:?}");
    let late = |id: &str, text: &str, timestamp: u64| {
        let version = DocumentVersion::put(&document(id, text, 1), Timestamp(timestamp));
        let (sender, answer) = mpsc::channel();
        store.apply(vec![version], move |outcome| drop(sender.send(outcome)));
        answer.recv().expect("answered").expect("taken");
    };
    // Of another group, and of this one after the drop: these stay.
    late("id:n:mail:g=user2:9", "others", start + 500_000);
    late("id:n:mail:g=ann:9", "again", first.dropped.0 + 1);
    assert_eq!(store.pending_erasures(), (0, 0));
    late("id:n:mail:g=ann:1", WORDS[0], start + 500_000);
    assert_eq!((get(&store, "id:n:mail:g=ann:1"), get(&store, "id:n:mail:g=ann:9")), (None, Some(1)));
    assert_eq!(store.pending_erasures().0, 1);
    // What a kill leaves now: the ledger on the disk is the earlier one.
    let copy = tempfile::tempdir().expect("a directory");
    copy_all(directory.path(), copy.path());
    work(&store);
    let again = store.erasure(&group("ann")).expect("told").expect("it was dropped");
    assert!(again.dropped > first.dropped && again.erased > first.erased, "{again:?}");
    assert_eq!((words_in(directory.path()), get(&store, "id:n:mail:g=ann:9")), (Vec::new(), Some(1)));
    store.close();
    let killed = open(options(copy.path(), false));
    assert_eq!(killed.pending_erasures().0, 1, "a start finds the late version in the log");
    assert_eq!(words_in(copy.path()), [WORDS[0]]);
    work(&killed);
    assert_eq!((words_in(copy.path()), get(&killed, "id:n:mail:g=ann:9")), (Vec::new(), Some(1)));
    check_others(&killed);
}

/// Has erased when the test says so.
#[derive(Default)]
struct SlowPartner {
    asked: AtomicU64,
    done: AtomicBool,
}

impl ErasurePartner for SlowPartner {
    fn has_erased(&self, _: Timestamp) -> bool {
        self.done.load(Ordering::SeqCst)
    }

    fn erase(&self, dropped: Timestamp) {
        self.asked.fetch_max(dropped.0, Ordering::SeqCst);
    }
}

#[test]
fn an_erasure_waits_for_the_partner() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(StoreOptions { maintenance: true, ..options(directory.path()) });
    let partner = Arc::new(SlowPartner::default());
    store.set_erasure_partner(Some(Arc::clone(&partner) as Arc<_>));
    put(&store, "id:n:mail:g=ann:1", WORDS[0], 1);
    store.drop_group(None, &group("ann")).expect("dropped");
    store.erase_within(&group("ann"), Duration::ZERO).expect("noted");
    let deadline = Instant::now() + Duration::from_secs(120);
    let erasure = loop {
        let erasure = store.erasure(&group("ann")).expect("told").expect("it was dropped");
        if partner.asked.load(Ordering::SeqCst) == erasure.dropped.0 {
            break erasure;
        }
        assert!(Instant::now() < deadline, "{erasure:?}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((erasure.erased, erasure.holders.files, erasure.holders.logs), (None, 0, 0));
    assert!(erasure.holders.elsewhere);
    partner.done.store(true, Ordering::SeqCst);
    ended(&store, "ann");
}

/// The bucket of a deleted replica goes from the manifest at once; its part of a file that others use stays.
#[test]
fn parts_of_files_that_no_bucket_has_are_erased() {
    let directory = tempfile::tempdir().expect("a directory");
    let start = 1_800_000_000_000_000;
    let clock = Arc::new(ManualClock::new(start));
    let options = || StoreOptions { clock: Arc::clone(&clock) as Arc<_>, ..in_eight(directory.path()) };
    let store = open(options());
    fill(&store, directory.path());
    store.seal().expect("sealed");
    store.maintain().expect("merged");
    let bits = group("ann").location_bits().expect("it has a name");
    let bucket = BucketId::new(3, u64::from(bits));
    let info = store.replica_infos(&[bucket], Timestamp(0)).expect("counted")[0].expect("it has documents");
    let deleted = store.delete_replicas(&[(bucket, info.checksum)], Timestamp(0)).expect("deleted");
    assert_eq!((deleted, get(&store, "id:n:mail:g=ann:1")), (vec![true], None));
    store.maintain().expect("merged");
    assert!(words_in(directory.path()).contains(&WORDS[0]), "other buckets use the file");
    // The time of the search is known after a start.
    clock.set(start + DAY);
    store.maintain().expect("merged");
    store.close();
    clock.set(start + 14 * DAY);
    let store = open(options());
    store.maintain().expect("merged");
    assert!(words_in(directory.path()).contains(&WORDS[0]), "it is not time yet");
    clock.set(start + 16 * DAY);
    store.maintain().expect("merged");
    assert_eq!(words_in(directory.path()), Vec::<&str>::new());
    let of_bucket = |number: &i64| {
        let bits = group(&format!("user{number}")).location_bits().expect("it has a name");
        bucket.contains(millrace_document::Location::new(u64::from(bits)))
    };
    for number in (0..40).filter(|number| !of_bucket(number)) {
        assert_eq!(get(&store, &format!("id:n:mail:g=user{number}:1")), Some(number), "user{number}");
    }
}
