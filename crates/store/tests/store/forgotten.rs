//! Names that no sync of their directory covered are gone after a loss of power: the store starts with all
//! that was acknowledged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millrace_env::PowerLossDisk;
use millrace_store::{Store, StoreOptions, StoreTuning, StoreVisit};

use crate::common::{TestLayout, open, options, put, remove, visited, wait_until};

/// Number of lives of a directory; each takes about half a second.
const LIVES: &str = "MILLRACE_POWER_LIVES";

fn small(directory: &Path, disk: &PowerLossDisk) -> StoreOptions {
    StoreOptions {
        disk: Arc::new(disk.clone()),
        tail_bytes: 8 << 10,
        tuning: StoreTuning { split_documents: 60, ..StoreTuning::default() },
        ..options(directory)
    }
}

fn all(store: &Store) -> BTreeMap<String, i64> {
    let found = visited(store, &StoreVisit { wanted: 1000, ..StoreVisit::all(&["mail"]) });
    found.into_iter().filter_map(|(id, number, _)| Some((id, number?))).collect()
}

/// One step of a life; between any two of them the power may go.
fn step(store: &Store, number: i64, model: &mut BTreeMap<String, i64>) {
    let id_text = format!("id:n:mail:n={}:{}", number % 7, number % 90);
    match number % 11 {
        3 => {
            remove(store, &id_text);
            model.remove(&id_text);
        }
        6 => store.seal().expect("sealed"),
        9 => store.maintain().expect("maintained"),
        10 => {
            let group = millrace_document::DocumentGroup::Number((number % 7).unsigned_abs());
            store.drop_group(Some("mail"), &group).expect("dropped");
            let prefix = format!("id:n:mail:n={}:", number % 7);
            model.retain(|id, _| !id.starts_with(&prefix));
        }
        _ => {
            put(store, &id_text, &"some words ".repeat(50), number);
            model.insert(id_text, number);
        }
    }
}

#[test]
fn a_loss_of_power_forgets_nothing_that_was_acknowledged() {
    let lives = std::env::var(LIVES).ok().and_then(|lives| lives.parse().ok()).unwrap_or(6);
    let mut model = BTreeMap::new();
    let mut before: Option<tempfile::TempDir> = None;
    let mut number = 0;
    for life in 0..lives {
        let (place, kept) =
            (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let root = place.path().join("data");
        let disk = PowerLossDisk::new(&root, kept.path());
        match before.take() {
            None => std::fs::create_dir(&root).expect("made"),
            // What the last life left is durable.
            Some(left) => {
                std::fs::rename(left.path().join("data"), &root).expect("renamed");
                sync_all(&disk, &root);
            }
        }
        let store = Store::open(small(&root, &disk), Arc::new(TestLayout))
            .unwrap_or_else(|error| panic!("life {life}: {error}"));
        assert_eq!(all(&store), model, "life {life}");
        for _ in 0..10 + life * 5 {
            step(&store, number, &mut model);
            number += 1;
        }
        let left = tempfile::tempdir().expect("a directory");
        disk.lose_power(&left.path().join("data")).expect("copied");
        store.close();
        before = Some(left);
    }
    let left = before.expect("there was a life");
    let store = open(options(&left.path().join("data")));
    assert_eq!(all(&store), model);
}

fn sync_all(disk: &PowerLossDisk, directory: &Path) {
    use millrace_env::Disk as _;
    for entry in std::fs::read_dir(directory).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sync_all(disk, &path);
        }
    }
    disk.sync_directory(directory).expect("noted");
}

#[test]
fn a_new_store_is_there_from_its_first_acknowledged_write_on() {
    let (place, kept) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let root = place.path().join("data");
    std::fs::create_dir(&root).expect("made");
    let disk = PowerLossDisk::new(&root, kept.path());
    let store = open(StoreOptions {
        disk: Arc::new(disk.clone()),
        seal_idle: Duration::from_secs(60),
        ..options(&root)
    });
    put(&store, "id:n:mail:g=ann:1", "text", 1);
    let left = tempfile::tempdir().expect("a directory");
    disk.lose_power(&left.path().join("data")).expect("copied");
    store.close();
    let store = open(options(&left.path().join("data")));
    assert_eq!(all(&store).into_values().collect::<Vec<_>>(), [1]);
}

const WORDS: &str = "some words of no one else";

/// Files below a directory that have the words.
fn files_with_words(directory: &Path) -> Vec<PathBuf> {
    let has_words = |path: &PathBuf| {
        // Threads of the store remove files meanwhile.
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(WORDS.len()).any(|window| window == WORDS.as_bytes())
    };
    crate::snapshots::files(directory).into_iter().filter(has_words).collect()
}

#[test]
fn a_loss_of_power_brings_nothing_back_that_was_erased() {
    let (place, kept) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let root = place.path().join("data");
    std::fs::create_dir(&root).expect("made");
    let disk = PowerLossDisk::new(&root, kept.path());
    let keep_logs = Duration::from_secs(3600);
    let store = open(StoreOptions { maintenance: true, keep_logs, ..small(&root, &disk) });
    for number in 0..20 {
        put(&store, &format!("id:n:mail:g=ann:{number}"), WORDS, number);
    }
    store.seal().expect("sealed");
    assert!(!files_with_words(&root).is_empty());
    let group = millrace_document::DocumentGroup::Name("ann".to_owned());
    store.drop_group(None, &group).expect("dropped");
    store.erase_within(&group, Duration::ZERO).expect("noted");
    wait_until("it is erased", || store.pending_erasures() == (0, 0));
    let left = tempfile::tempdir().expect("a directory");
    disk.lose_power(&left.path().join("data")).expect("copied");
    assert_eq!(files_with_words(left.path()), Vec::<PathBuf>::new());
    store.close();
}
