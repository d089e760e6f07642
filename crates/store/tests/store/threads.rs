//! A thread of the store panics: either the process ends with the message, or the thread goes on, and the
//! panic is reported.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millrace_column::{Column, ColumnKey};
use millrace_document::{DataType, Document, DocumentValue, EncodedDocument, wire};
use millrace_env::{AppendFile, Disk, ReadFile, RealDisk};
use millrace_store::{
    Error, Store, StoreChange, StoreLayout, StoreModification, StoreOptions, StoreTuning, StoreVisit,
};

use crate::common::{TestLayout, document, get, id, open, options, put, visited, write};

/// A disk that panics in the next calls of one thread.
#[derive(Debug, Clone)]
struct PanickingDisk {
    thread: &'static str,
    left: Arc<AtomicU64>,
}

impl PanickingDisk {
    fn new(thread: &'static str) -> Self {
        PanickingDisk { thread, left: Arc::default() }
    }

    fn arm(&self, calls: u64) {
        self.left.store(calls, Ordering::SeqCst);
    }

    fn call(&self) {
        let is_meant = std::thread::current().name() == Some(self.thread);
        let one_less = |left: u64| left.checked_sub(1);
        if is_meant && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok() {
            panic!("injected: {} panics", self.thread);
        }
    }
}

#[derive(Debug)]
struct PanickingFile(Arc<dyn ReadFile>, PanickingDisk);

impl ReadFile for PanickingFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, offset: u64, buffers: &mut [&mut [u8]]) -> io::Result<()> {
        self.1.call();
        self.0.read_at(offset, buffers)
    }
}

impl Disk for PanickingDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn AppendFile>> {
        self.call();
        RealDisk.create(path)
    }

    fn reopen(&self, path: &Path, length: u64) -> io::Result<Box<dyn AppendFile>> {
        self.call();
        RealDisk.reopen(path, length)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(PanickingFile(RealDisk.open(path)?, self.clone())))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call();
        RealDisk.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.hard_link(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        RealDisk.unlink(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        RealDisk.list(directory)
    }

    fn create_directory(&self, directory: &Path) -> io::Result<()> {
        RealDisk.create_directory(directory)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        self.call();
        RealDisk.sync_directory(directory)
    }

    fn free_space(&self, path: &Path) -> io::Result<u64> {
        self.call();
        RealDisk.free_space(path)
    }

    fn total_space(&self, path: &Path) -> io::Result<u64> {
        RealDisk.total_space(path)
    }
}

const DIRECTORY: &str = "MILLRACE_PANIC_CHILD";

/// Not a test of its own: a process whose committer panics at its third write. It would go on for ever.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let disk = PanickingDisk::new("store-commit");
    let store = open(StoreOptions { disk: Arc::new(disk.clone()), ..options(directory.as_ref()) });
    for number in 0.. {
        if number == 3 {
            disk.arm(1);
        }
        put(&store, &format!("id:n:mail:g=ann:{number}"), "text", number);
    }
}

#[test]
fn a_panic_of_the_committer_ends_the_process_with_what_happened() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(std::env::current_exe().expect("the test knows itself"))
        .args(["--exact", "threads::child", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the child starts");
    let deadline = Instant::now() + Duration::from_secs(120);
    while child.try_wait().expect("asked").is_none() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    // A process that goes on is ended here, and recognised by its exit status.
    let _ = child.kill();
    let ended = child.wait_with_output().expect("it ended");
    assert_eq!(ended.status.code(), Some(70));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("the thread that makes writes durable panicked: injected"), "{said}");
    let store = open(options(directory.path()));
    let numbers: Vec<_> = (0..4).map(|number| get(&store, &format!("id:n:mail:g=ann:{number}"))).collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(2), None]);
}

fn increment(store: &Store, id_text: &str) -> Result<(), Error> {
    let text = id_text.to_owned();
    let modify = move |found: Option<(Document, _)>| {
        let number = found.map_or(0, |(found, _)| crate::common::number(&found));
        Ok(StoreModification::Put(document(&text, "text", number + 1)))
    };
    write(store, &id(id_text), StoreChange::Modify(Box::new(modify))).map(drop)
}

#[test]
fn a_panic_of_a_modifier_is_an_answer_and_the_next_modification_runs() {
    const A: &str = "id:n:mail:g=ann:1";
    let directory = tempfile::tempdir().expect("a directory");
    let disk = PanickingDisk::new("store-modify");
    let store = open(StoreOptions { disk: Arc::new(disk.clone()), ..options(directory.path()) });
    put(&store, A, "text", 1);
    store.seal().expect("sealed");
    store.clear_cache();
    disk.arm(6);
    for _ in 0..6 {
        let outcome = increment(&store, A);
        assert!(matches!(&outcome, Err(Error::Panicked { .. })), "{outcome:?}");
    }
    increment(&store, A).expect("acknowledged");
    assert_eq!((get(&store, A), store.status().panics), (Some(2), 6));
    assert_eq!(store.failures(), ["6 panics were caught since the start; see the log"]);
}

#[test]
fn a_panic_of_a_background_thread_is_reported_and_the_thread_continues() {
    for thread in ["store-roll", "store-seal", "store-merge"] {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = PanickingDisk::new(thread);
        let options = StoreOptions {
            disk: Arc::new(disk.clone()),
            tail_bytes: 64 << 10,
            seal_idle: Duration::from_millis(10),
            maintenance: true,
            tuning: StoreTuning { split_documents: 100, ..StoreTuning::default() },
            ..options(directory.path())
        };
        let store = open(options);
        disk.arm(1);
        let text = "words ".repeat(500);
        let mut number = 0;
        let mut write_some = |count: i64| {
            for _ in 0..count {
                let id_text = format!("id:n:mail:n={}:{number}", number % 5);
                // The tail may be full while the thread rests.
                while let Err(error) =
                    write(&store, &id(&id_text), StoreChange::Put(document(&id_text, &text, number)))
                {
                    assert!(matches!(error, Error::Overloaded), "{thread}: {error}");
                    std::thread::sleep(Duration::from_millis(5));
                }
                number += 1;
            }
        };
        let panicked = || store.status().panics > 0;
        let deadline = Instant::now() + Duration::from_secs(120);
        while !panicked() {
            assert!(Instant::now() < deadline, "{thread} has something to do");
            write_some(20);
        }
        let (seals, merges) = (store.status().seals, store.status().merges);
        let goes_on = || {
            let status = store.status();
            let has_merged = status.merges > merges || thread != "store-merge";
            status.seals > seals && has_merged && status.failures.is_empty()
        };
        while !goes_on() {
            assert!(Instant::now() < deadline, "{thread} goes on: {:?}", store.status());
            write_some(20);
        }
        store.close();
        let store = open(self::options(directory.path()));
        let found = visited(&store, &StoreVisit { wanted: 10_000, ..StoreVisit::all(&["mail"]) });
        assert_eq!(found.len() as i64, number, "{thread}");
    }
}

/// Panics on documents of one text, or cannot read it.
struct FailingLayout {
    panics: bool,
}

const BAD: &str = "a text on which the layout fails";

impl StoreLayout for FailingLayout {
    fn columns(&self, document_type: &str) -> Option<Vec<ColumnKey>> {
        TestLayout.columns(document_type)
    }

    fn build(
        &self,
        document_type: &str,
        key: &ColumnKey,
        documents: &[EncodedDocument<'_>],
    ) -> Result<Column, millrace_document::Error> {
        let bad = wire::encode_value(&DocumentValue::String(BAD.to_owned()));
        let is_bad = |document: &EncodedDocument<'_>| document.get("text") == Some(&*bad);
        if documents.iter().any(is_bad) {
            assert!(!self.panics, "injected: the layout panics");
            return Err(millrace_document::Error::Row("injected: the text cannot be read"));
        }
        TestLayout.build(document_type, key, documents)
    }

    fn derive(&self, document_type: &str, key: &ColumnKey, value: &Column) -> Option<Column> {
        TestLayout.derive(document_type, key, value)
    }

    fn data_type(&self, document_type: &str, field: &str) -> Option<DataType> {
        TestLayout.data_type(document_type, field)
    }
}

#[test]
fn a_document_on_which_the_layout_fails_is_sealed_as_it_was_written_and_reported() {
    for panics in [true, false] {
        let directory = tempfile::tempdir().expect("a directory");
        let store =
            Store::open(options(directory.path()), Arc::new(FailingLayout { panics })).expect("opened");
        put(&store, "id:n:mail:g=ann:1", "good", 1);
        put(&store, "id:n:mail:g=ann:2", BAD, 2);
        put(&store, "id:n:mail:g=bob:3", "good", 3);
        store.seal().expect("sealed");
        assert_eq!((store.status().tail_rows, store.status().panics), (0, u64::from(panics)));
        let (told, expected) =
            (store.failures(), if panics { "panics were caught" } else { "in group 'gann'" });
        assert!(told.len() == 1 && told[0].contains(expected), "{told:?}");
        let all = |store: &Store| -> Vec<Option<i64>> {
            visited(store, &StoreVisit::all(&["mail"])).into_iter().map(|(_, number, _)| number).collect()
        };
        let mut found = all(&store);
        found.sort_unstable();
        assert_eq!(found, [Some(1), Some(2), Some(3)]);
        assert_eq!(get(&store, "id:n:mail:g=ann:2"), Some(2));
        store.maintain().expect("maintained");
        store.close();
        // A layout that is mended has it, too.
        let store = open(options(directory.path()));
        let (found, _) = store.get(&id("id:n:mail:g=ann:2")).expect("read").expect("it is there");
        assert_eq!(found.get("text"), Some(&DocumentValue::String(BAD.to_owned())));
        assert_eq!(all(&store).len(), 3);
    }
}
