//! Faults of the tail's log, through the seam: the log is the embedded store's file, which `env` does not
//! see.

mod chains;

use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use millrace_document::{Document, DocumentGroup, DocumentId, DocumentValue};
use millrace_env::ManualClock;

use super::Store;
use crate::read::columns::EmptyLayout;
use crate::tail::{
    AppendError, FjallTails, NewRow, RowDurability, SharedRowVisitor, TailFactory, TailFilter, TailRows,
    TailSnapshot,
};
use crate::{
    CommittedWrite, DocumentWrite, Error, StoreChange, StoreOptions, StoreVisit, ViewScope, WriteDurability,
};

/// Behaviour of appends: 0 works, 1 does not sync, 2 finds the disk full, 3 works but not yet: it becomes 4,
/// and blocks until that changes. 5 works, and only later syncs fail.
type TailBehaviour = Arc<AtomicU8>;

struct FaultyTails(TailBehaviour);

struct FaultyTail(Arc<dyn TailRows>, TailBehaviour);

impl TailFactory for FaultyTails {
    fn create(&self, directory: &Path) -> Result<Arc<dyn TailRows>, Error> {
        Ok(Arc::new(FaultyTail(FjallTails.create(directory)?, Arc::clone(&self.0))))
    }

    fn lay_out(&self, directory: &Path, bytes: u64, is_wanted: &dyn Fn() -> bool) {
        FjallTails.lay_out(directory, bytes, is_wanted);
    }

    fn open(&self, directory: &Path) -> Result<Arc<dyn TailRows>, Error> {
        Ok(Arc::new(FaultyTail(FjallTails.open(directory)?, Arc::clone(&self.0))))
    }

    fn check(&self, directory: &Path) -> Result<Vec<crate::CheckFinding>, Error> {
        FjallTails.check(directory)
    }

    fn delete(&self, directory: &Path) -> Result<(), Error> {
        FjallTails.delete(directory)
    }
}

impl TailRows for FaultyTail {
    fn append(&self, rows: Vec<NewRow>, durability: RowDurability) -> Result<(), AppendError> {
        self.append_by_behaviour(|| self.0.append(rows, durability))
    }

    fn sync(&self) -> Result<(), AppendError> {
        match self.1.load(Ordering::SeqCst) {
            5 => Err(AppendError::NotDurable("injected: the later sync failed".to_owned())),
            _ => self.append_by_behaviour(|| self.0.sync()),
        }
    }

    fn append_marks(&self, marks: Vec<(u64, Vec<u8>)>) -> Result<(), AppendError> {
        self.append_by_behaviour(|| self.0.append_marks(marks))
    }

    fn marks(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.0.marks()
    }

    fn snapshot(&self) -> Box<dyn TailSnapshot> {
        self.0.snapshot()
    }

    fn ids(&self) -> &TailFilter {
        self.0.ids()
    }
}

impl FaultyTail {
    fn append_by_behaviour(
        &self,
        append: impl FnOnce() -> Result<(), AppendError>,
    ) -> Result<(), AppendError> {
        match self.1.load(Ordering::SeqCst) {
            0 | 5 => append(),
            1 => Err(AppendError::NotDurable("injected: the sync failed".to_owned())),
            3 => {
                self.1.store(4, Ordering::SeqCst);
                while self.1.load(Ordering::SeqCst) == 4 {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                append()
            }
            _ => Err(AppendError::Full),
        }
    }
}

fn open(directory: &Path, tail: &TailBehaviour) -> Store {
    open_with(StoreOptions::new(directory), tail)
}

fn open_with(options: StoreOptions, tail: &TailBehaviour) -> Store {
    let options = StoreOptions { disk_reserve: 0, maintenance: false, ..options };
    Store::open_with(options, Arc::new(EmptyLayout), Box::new(FaultyTails(Arc::clone(tail))))
        .expect("the store opens")
}

fn id(number: u32) -> DocumentId {
    DocumentId::parse(&format!("id:n:mail:g=ann:{number}")).expect("the test's id is one")
}

fn put(store: &Store, number: u32) -> Result<CommittedWrite, Error> {
    let (sender, answer) = mpsc::channel();
    let document = Document { id: id(number), fields: vec![("a".into(), DocumentValue::Int(1))] };
    store.write(DocumentWrite { id: id(number), change: StoreChange::Put(document) }, move |outcome| {
        drop(sender.send(outcome))
    });
    answer.recv().expect("every write is answered")
}

fn holds(store: &Store, number: u32) -> bool {
    store.get(&id(number)).expect("the store reads").is_some()
}

fn put_deferred(store: &Store, number: u32) -> Result<CommittedWrite, Error> {
    let (sender, answer) = mpsc::channel();
    let document = Document { id: id(number), fields: vec![("a".into(), DocumentValue::Int(1))] };
    let writes = vec![DocumentWrite { id: id(number), change: StoreChange::Put(document) }];
    let done = move |mut outcomes: Vec<_>| drop(sender.send(outcomes.remove(0)));
    store
        .write_batch(writes, crate::WriterId::default(), WriteDurability::Deferred, done)
        .map_err(|refused| refused.error)?;
    answer.recv().expect("every write is answered")
}

fn poll(what: &str, holds: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "{what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn writes_that_were_acknowledged_before_their_sync_are_synced_soon() {
    let directory = tempfile::tempdir().expect("a directory");
    let tail = TailBehaviour::default();
    let store = open(directory.path(), &tail);
    put_deferred(&store, 1).expect("acknowledged");
    assert!(holds(&store, 1));
    poll("it is synced", || store.status().deferred_us_max > 0);
    // A sync for another write is one for those before it.
    put_deferred(&store, 2).expect("acknowledged");
    put(&store, 3).expect("acknowledged");
    // A generation that has taken over has nothing of the one before.
    put_deferred(&store, 4).expect("acknowledged");
    store.seal().expect("sealed");
    put_deferred(&store, 5).expect("acknowledged");
    store.close();
    let store = open(directory.path(), &tail);
    assert!((1..=5).all(|number| holds(&store, number)));
}

#[test]
fn a_sync_that_fails_after_its_writes_were_acknowledged_ends_writing() {
    let directory = tempfile::tempdir().expect("a directory");
    let tail = TailBehaviour::default();
    let store = open(directory.path(), &tail);
    tail.store(5, Ordering::SeqCst);
    put_deferred(&store, 1).expect("acknowledged");
    poll("the sync fails", || store.status().refusing.is_some());
    tail.store(0, Ordering::SeqCst);
    assert!(matches!(put(&store, 2), Err(Error::Poisoned { .. })), "even when the disk works again");
    assert!(matches!(put_deferred(&store, 3), Err(Error::Poisoned { .. })));
    assert!(holds(&store, 1), "reads go on");
}

/// Otherwise a loss of power could take a row of the one before, and leave a later one.
#[test]
fn a_generation_is_synced_before_rows_go_to_the_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let tail = TailBehaviour::default();
    let never = std::time::Duration::from_secs(24 * 3600);
    let options = StoreOptions { deferred_sync: never, ..StoreOptions::new(directory.path()) };
    let store = open_with(options, &tail);
    put_deferred(&store, 1).expect("acknowledged");
    store.seal().expect("sealed");
    tail.store(5, Ordering::SeqCst);
    assert!(matches!(put_deferred(&store, 2), Err(Error::Poisoned { .. })));
    assert!(holds(&store, 1) && !holds(&store, 2));
}

/// Of a crash between the marks and a manifest that has them, the log brings them back.
#[test]
fn drops_of_several_groups_are_made_all_or_none() {
    let group = |name: u32| DocumentGroup::Name(format!("g{name}"));
    let id = |name: u32| DocumentId::parse(&format!("id:n:mail:g=g{name}:1")).expect("the test's id is one");
    let left = |store: &Store| -> Vec<u32> {
        (0..5).filter(|name| store.get(&id(*name)).expect("the store reads").is_some()).collect()
    };
    // The behaviour of the log, whether the drop is acknowledged, and the groups that are left.
    for (behaviour, is_dropped, expected) in
        [(0, true, vec![3, 4]), (1, false, vec![0, 1, 2, 3, 4]), (2, true, vec![3, 4])]
    {
        let directory = tempfile::tempdir().expect("a directory");
        let tail = TailBehaviour::default();
        let store = open(directory.path(), &tail);
        for name in 0..5 {
            let (sender, answer) = mpsc::channel();
            let change = StoreChange::Put(Document { id: id(name), fields: Vec::new() });
            store.write(DocumentWrite { id: id(name), change }, move |outcome| drop(sender.send(outcome)));
            answer.recv().expect("every write is answered").expect("acknowledged");
        }
        store.drop_groups(None, &[]).expect("nothing is dropped");
        tail.store(behaviour, Ordering::SeqCst);
        let outcome = store.drop_groups(Some("mail"), &[0, 1, 2].map(group));
        assert_eq!(outcome.is_ok(), is_dropped, "{behaviour}: {outcome:?}");
        tail.store(0, Ordering::SeqCst);
        assert_eq!(left(&store), expected, "{behaviour}: at once");
        store.close();
        let store = open(directory.path(), &tail);
        assert_eq!(left(&store), expected, "{behaviour}: after a new start");
        // Each mark has a time of its own: none hides another.
        store.seal().expect("sealed");
        store.maintain().expect("maintained");
        assert_eq!(left(&store), expected, "{behaviour}: from segments");
    }
}

#[test]
fn a_sync_that_fails_is_not_tried_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let tail = TailBehaviour::default();
    let store = open(directory.path(), &tail);
    put(&store, 1).expect("acknowledged");
    tail.store(1, Ordering::SeqCst);
    assert!(matches!(put(&store, 2), Err(Error::Poisoned { .. })));
    tail.store(0, Ordering::SeqCst);
    assert!(matches!(put(&store, 3), Err(Error::Poisoned { .. })), "even when the disk works again");
    assert!(store.status().refusing.is_some_and(|reason| reason.contains("the sync failed")));
    assert!(holds(&store, 1) && !holds(&store, 2), "reads go on");
    store.close();
    let store = open(directory.path(), &tail);
    put(&store, 4).expect("acknowledged after a new start");
    assert!(holds(&store, 1) && holds(&store, 4));
}

#[test]
fn a_full_log_gives_way_to_the_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let tail = TailBehaviour::default();
    let store = open(directory.path(), &tail);
    put(&store, 1).expect("acknowledged");
    tail.store(2, Ordering::SeqCst);
    assert!(matches!(put(&store, 2), Err(Error::DiskFull { .. })));
    tail.store(0, Ordering::SeqCst);
    // Writes are taken again as soon as a new generation stands, which is a matter of the background.
    poll("it recovers by itself", || put(&store, 3).is_ok());
    assert!(holds(&store, 1) && !holds(&store, 2) && holds(&store, 3));
    store.close();
    let store = open(directory.path(), &tail);
    assert!(holds(&store, 1) && !holds(&store, 2) && holds(&store, 3));
}

#[test]
fn a_write_that_is_on_its_way_while_the_tail_is_sealed_is_not_left_behind() {
    let directory = tempfile::tempdir().expect("a directory");
    let tail = TailBehaviour::default();
    let store = open(directory.path(), &tail);
    put(&store, 1).expect("acknowledged");
    tail.store(3, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| put(&store, 2));
        while tail.load(Ordering::SeqCst) != 4 {
            std::thread::yield_now();
        }
        let sealing = scope.spawn(|| store.seal());
        // Time for the threads of the background to seal what they must not seal yet.
        std::thread::sleep(std::time::Duration::from_millis(300));
        tail.store(0, Ordering::SeqCst);
        writing.join().expect("it ends").expect("acknowledged");
        sealing.join().expect("it ends").expect("sealed");
    });
    assert!(holds(&store, 1) && holds(&store, 2));
    store.close();
    let store = open(directory.path(), &tail);
    assert!(holds(&store, 1) && holds(&store, 2));
}

/// A batch of one, as clients send it, is a single write.
#[test]
fn a_single_write_does_not_wait_for_the_batches_before_it() {
    const LARGE: usize = 3 << 20;
    let directory = tempfile::tempdir().expect("a directory");
    let tail = TailBehaviour::default();
    let store = open(directory.path(), &tail);
    let (sender, answered) = mpsc::channel();
    let write = |numbers: std::ops::Range<u32>, bytes: usize| {
        let first = numbers.start;
        let put = |number: u32| {
            let fields = vec![("a".into(), DocumentValue::String("x".repeat(bytes)))];
            DocumentWrite { id: id(number), change: StoreChange::Put(Document { id: id(number), fields }) }
        };
        let sender = sender.clone();
        let done = move |outcomes: Vec<Result<CommittedWrite, Error>>| {
            let _ = sender.send((first, outcomes.iter().all(Result::is_ok)));
        };
        let writes = numbers.map(put).collect();
        let taken = store.write_batch(writes, crate::WriterId::default(), WriteDurability::Synced, done);
        assert!(taken.is_ok(), "the store takes batch {first} on");
    };
    tail.store(3, Ordering::SeqCst);
    write(0..2, 1);
    poll("the first batch is being written", || tail.load(Ordering::SeqCst) == 4);
    write(10..12, LARGE);
    write(20..22, LARGE);
    write(30..31, 1);
    tail.store(0, Ordering::SeqCst);
    let order: Vec<(u32, bool)> = answered.iter().take(4).collect();
    assert_eq!(order, [(0, true), (30, true), (10, true), (20, true)]);
}

/// The last of the writes of a document that were accepted one after another stays, whichever queue each is
/// in.
#[test]
fn a_single_write_and_a_batch_keep_the_order_of_a_document() {
    let directory = tempfile::tempdir().expect("a directory");
    let tail = TailBehaviour::default();
    let store = open(directory.path(), &tail);
    let (sender, answered) = mpsc::channel();
    let write = |numbers: &[u32], value: i32| {
        let put = |number: &u32| {
            let fields = vec![("a".into(), DocumentValue::Int(value))];
            DocumentWrite { id: id(*number), change: StoreChange::Put(Document { id: id(*number), fields }) }
        };
        let sender = sender.clone();
        let done = move |outcomes: Vec<Result<CommittedWrite, Error>>| {
            let _ = sender.send(outcomes.iter().all(Result::is_ok));
        };
        let writes = numbers.iter().map(put).collect();
        let taken = store.write_batch(writes, crate::WriterId::default(), WriteDurability::Synced, done);
        assert!(taken.is_ok(), "the store takes the writes on");
    };
    tail.store(3, Ordering::SeqCst);
    write(&[0], 0);
    poll("the first write is being committed", || tail.load(Ordering::SeqCst) == 4);
    write(&[1, 2], 1);
    write(&[1], 2);
    write(&[3], 3);
    write(&[3, 4], 4);
    write(&[1, 3], 5);
    write(&[1], 6);
    tail.store(0, Ordering::SeqCst);
    assert!(answered.iter().take(7).all(|is_written| is_written));
    let value = |number: u32| {
        let found = store.get(&id(number)).expect("the store reads").expect("it was written");
        found.0.fields[0].1.clone()
    };
    assert_eq!([1, 2, 3, 4].map(value), [6, 1, 5, 4].map(DocumentValue::Int));
}

#[test]
fn the_space_of_a_sealed_tail_comes_back_while_the_store_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path(), &TailBehaviour::default());
    for round in 0..5 {
        put(&store, round).expect("acknowledged");
        let reader = store.view("mail", &crate::ViewScope::All).expect("a view");
        store.seal().expect("sealed");
        drop(reader);
    }
    // A reader that uses a generation just then (as the store's own threads do) keeps its files until the
    // next time.
    let generations = || std::fs::read_dir(directory.path().join("tail")).expect("listed").count();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while generations() > 1 {
        assert!(
            std::time::Instant::now() < deadline,
            "there are {} generations, not only the one that takes writes",
            generations()
        );
        store.seal().expect("sealed");
    }
}

/// Counts the rows of the tail that reads pass.
#[derive(Clone, Default)]
struct CountedTails(Arc<AtomicUsize>);

struct CountedTail(Arc<dyn TailRows>, Arc<AtomicUsize>);

struct CountedSnapshot(Box<dyn TailSnapshot>, Arc<AtomicUsize>);

impl CountedTails {
    fn counted(&self, tail: Arc<dyn TailRows>) -> Arc<dyn TailRows> {
        Arc::new(CountedTail(tail, Arc::clone(&self.0)))
    }
}

impl TailFactory for CountedTails {
    fn create(&self, directory: &Path) -> Result<Arc<dyn TailRows>, Error> {
        Ok(self.counted(FjallTails.create(directory)?))
    }

    fn lay_out(&self, directory: &Path, bytes: u64, is_wanted: &dyn Fn() -> bool) {
        FjallTails.lay_out(directory, bytes, is_wanted);
    }

    fn open(&self, directory: &Path) -> Result<Arc<dyn TailRows>, Error> {
        Ok(self.counted(FjallTails.open(directory)?))
    }

    fn check(&self, directory: &Path) -> Result<Vec<crate::CheckFinding>, Error> {
        FjallTails.check(directory)
    }

    fn delete(&self, directory: &Path) -> Result<(), Error> {
        FjallTails.delete(directory)
    }
}

impl TailRows for CountedTail {
    fn append(&self, rows: Vec<NewRow>, durability: RowDurability) -> Result<(), AppendError> {
        self.0.append(rows, durability)
    }

    fn sync(&self) -> Result<(), AppendError> {
        self.0.sync()
    }

    fn append_marks(&self, marks: Vec<(u64, Vec<u8>)>) -> Result<(), AppendError> {
        self.0.append_marks(marks)
    }

    fn marks(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.0.marks()
    }

    fn snapshot(&self) -> Box<dyn TailSnapshot> {
        Box::new(CountedSnapshot(self.0.snapshot(), Arc::clone(&self.1)))
    }

    fn ids(&self) -> &TailFilter {
        self.0.ids()
    }
}

impl TailSnapshot for CountedSnapshot {
    fn shared_range(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut SharedRowVisitor<'_>,
    ) -> Result<(), Error> {
        self.0.shared_range(from, to, &mut |row| {
            self.1.fetch_add(1, Ordering::SeqCst);
            visit(row)
        })
    }
}

/// Each page of a visit reads its own rows of the tail, however many the group or the bucket has, also where
/// segments have older versions of them.
#[test]
fn a_page_reads_no_more_of_the_tail_than_it_has_documents() {
    const DOCUMENTS: u32 = 3_000;
    const WANTED: usize = 100;
    for (of, scope) in [
        ("g=ann", ViewScope::Groups(vec![DocumentGroup::Name("ann".to_owned())])),
        ("", ViewScope::Groups(vec![DocumentGroup::None])),
        ("g=ann", ViewScope::All),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let tails = CountedTails::default();
        let options =
            StoreOptions { disk_reserve: 0, maintenance: false, ..StoreOptions::new(directory.path()) };
        let store = Store::open_with(options, Arc::new(EmptyLayout), Box::new(tails.clone()))
            .expect("the store opens");
        let write = |number: u32| {
            let id = DocumentId::parse(&format!("id:n:mail:{of}:{number}")).expect("the test's id is one");
            let fields = vec![("a".into(), DocumentValue::Int(1))];
            DocumentWrite { id: id.clone(), change: StoreChange::Put(Document { id, fields }) }
        };
        // Twice: once for a segment, and once for the tail.
        for is_sealed in [true, false] {
            for first in (0..DOCUMENTS).step_by(500) {
                let (sender, answer) = mpsc::channel();
                let done = move |outcomes: Vec<Result<CommittedWrite, Error>>| drop(sender.send(outcomes));
                let writes = (first..first + 500).map(write).collect();
                let taken =
                    store.write_batch(writes, crate::WriterId::default(), WriteDurability::Synced, done);
                assert!(taken.is_ok(), "the batch is taken on");
                let outcomes = answer.recv().expect("every write is answered");
                assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
            }
            if is_sealed {
                store.seal().expect("sealed");
            }
        }
        let mut visit = StoreVisit { scope: scope.clone(), wanted: WANTED, ..StoreVisit::all(&["mail"]) };
        let (mut documents, mut pages) = (0, 0);
        loop {
            tails.0.store(0, Ordering::SeqCst);
            let page = store.visit(&visit).expect("the store reads");
            let passed = tails.0.load(Ordering::SeqCst);
            // Keys of a window, and its rows; two windows where the page ends in the second. The first page
            // also finds the groups.
            let is_first_of_all = pages == 0 && scope == ViewScope::All;
            assert!(
                passed <= 6 * WANTED || is_first_of_all,
                "{scope:?}: page {pages} passed {passed} rows of the tail"
            );
            (documents, pages) = (documents + page.visited.len(), pages + 1);
            match page.continuation {
                Some(continuation) => visit.continuation = Some(continuation),
                None => break,
            }
        }
        assert_eq!((documents, pages), (DOCUMENTS as usize, DOCUMENTS as usize / WANTED), "{scope:?}");
    }
}

/// Puts documents in one batch.
fn put_all(store: &Store, numbers: std::ops::Range<u32>) {
    let (sender, answer) = mpsc::channel();
    let write = |number| {
        let document = Document { id: id(number), fields: vec![("a".into(), DocumentValue::Int(1))] };
        DocumentWrite { id: id(number), change: StoreChange::Put(document) }
    };
    let done = move |outcomes: Vec<Result<CommittedWrite, Error>>| drop(sender.send(outcomes));
    let taken = store.write_batch(
        numbers.map(write).collect(),
        crate::WriterId::default(),
        WriteDurability::Synced,
        done,
    );
    assert!(taken.is_ok(), "the store takes the batch");
    let outcomes = answer.recv().expect("every batch is answered");
    assert!(outcomes.iter().all(Result::is_ok), "the batch is acknowledged");
}

/// Views the group, which has this many documents. Returns the number of rows of the tail that were read.
fn reads_of_view(store: &Store, documents: usize) -> u64 {
    let reads = || store.shared().counters.tail_reads.load(Ordering::SeqCst);
    let before = reads();
    let scope = ViewScope::Groups(vec![DocumentGroup::Name("ann".to_owned())]);
    let view = store.view("mail", &scope).expect("a view");
    let live = view.chunks().iter().map(|chunk| match &chunk.live {
        None => chunk.documents,
        Some(words) => words.iter().map(|word| word.count_ones() as usize).sum(),
    });
    assert_eq!(live.sum::<usize>(), documents);
    reads() - before
}

#[test]
fn a_view_after_a_put_does_not_read_all_rows_of_the_tail_again() {
    const ROWS: u32 = 3000;
    const PUTS: u32 = 100;
    let directory = tempfile::tempdir().expect("a directory");
    // Rows share pieces by their times, which are the same in each run.
    let clock = Arc::new(ManualClock::new(1_000_000_000));
    let store =
        open_with(StoreOptions { clock, ..StoreOptions::new(directory.path()) }, &TailBehaviour::default());
    put_all(&store, 0..ROWS);
    let first = reads_of_view(&store, ROWS as usize);
    assert_eq!(first, 2 * u64::from(ROWS), "keys and contents");
    assert_eq!(reads_of_view(&store, ROWS as usize), 0, "nothing was written");
    let mut reads = 0;
    for number in 0..PUTS {
        put(&store, ROWS + number).expect("acknowledged");
        reads += reads_of_view(&store, (ROWS + number + 1) as usize);
        put(&store, number * 29).expect("acknowledged");
        reads += reads_of_view(&store, (ROWS + number + 1) as usize);
    }
    let all = u64::from(2 * PUTS * ROWS);
    assert!(reads >= u64::from(2 * PUTS) && reads < all / 4, "{reads} of {all}");
    // With as many new rows, all are found again, and kept.
    put_all(&store, 0..ROWS);
    assert!(reads_of_view(&store, (ROWS + PUTS) as usize) >= u64::from(ROWS));
    put(&store, ROWS + PUTS).expect("acknowledged");
    assert!(reads_of_view(&store, (ROWS + PUTS + 1) as usize) < u64::from(ROWS));
}
