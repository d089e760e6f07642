//! Columns of groups that were just imported, which are made before anyone asks for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use millrace_column::{Column, ColumnForm, ColumnKey, Compression};
use millrace_document::{DataType, DocumentGroup, EncodedDocument};
use millrace_env::ManualClock;
use millrace_store::{
    DocumentWrite, Store, StoreChange, StoreLayout, StoreOptions, ViewScope, WriteDurability, WriterId,
};

use crate::common::{TestLayout, document, id, options, put, shown, wait_until};

/// The layout of the tests, which counts the documents whose words were split, and cannot read some groups.
#[derive(Default)]
struct SplitCounter(AtomicUsize);

impl SplitCounter {
    fn split(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl StoreLayout for SplitCounter {
    fn columns(&self, document_type: &str) -> Option<Vec<ColumnKey>> {
        TestLayout.columns(document_type)
    }

    fn build(
        &self,
        document_type: &str,
        key: &ColumnKey,
        documents: &[EncodedDocument<'_>],
    ) -> Result<Column, millrace_document::Error> {
        if documents.iter().any(|document| document.id().contains("g=bad")) {
            return Err(millrace_document::Error::Row("injected: it cannot be read"));
        }
        if key.form == ColumnForm::Tokens {
            self.0.fetch_add(documents.len(), Ordering::SeqCst);
        }
        TestLayout.build(document_type, key, documents)
    }

    fn derive(&self, document_type: &str, key: &ColumnKey, value: &Column) -> Option<Column> {
        TestLayout.derive(document_type, key, value)
    }

    fn compression(&self, document_type: &str, key: &ColumnKey) -> Compression {
        TestLayout.compression(document_type, key)
    }

    fn data_type(&self, document_type: &str, field: &str) -> Option<DataType> {
        TestLayout.data_type(document_type, field)
    }
}

/// Puts documents of a group in one batch.
fn import(store: &Store, group: &str, documents: usize) {
    let (sender, answer) = mpsc::channel();
    let write = |number: usize| {
        let text = format!("id:n:mail:g={group}:{number}");
        let document = document(&text, &format!("words of number {number}"), number as i64);
        DocumentWrite { id: id(&text), change: StoreChange::Put(document) }
    };
    store
        .write_batch(
            (0..documents).map(write).collect(),
            WriterId::default(),
            WriteDurability::Synced,
            move |outcomes| drop(sender.send(outcomes)),
        )
        .expect("the store takes the batch");
    let outcomes = answer.recv().expect("every batch is answered");
    assert!(outcomes.iter().all(Result::is_ok), "the batch is acknowledged");
}

/// Number of documents that a view of a group shows.
fn count(store: &Store, group: &str) -> usize {
    let scope = ViewScope::Groups(vec![DocumentGroup::Name(group.to_owned())]);
    shown(&*store.view("mail", &scope).expect("a view")).len()
}

fn open(directory: &std::path::Path, cache_bytes: u64) -> (Store, Arc<SplitCounter>) {
    let layout = Arc::new(SplitCounter::default());
    // A view of many rows has them sealed, which splits their words too, once no row was written for
    // a while; by this clock that never comes.
    let clock = Arc::new(ManualClock::new(1_000_000));
    let options = StoreOptions { cache_bytes, columns_ahead: true, clock, ..options(directory) };
    let store = Store::open(options, Arc::<SplitCounter>::clone(&layout)).expect("the store opens");
    (store, layout)
}

#[test]
fn columns_of_an_imported_group_are_there_before_it_is_viewed() {
    const MANY: usize = 600;
    const FEW: usize = 100;
    let directory = tempfile::tempdir().expect("a directory");
    let (store, layout) = open(directory.path(), 64 << 20);
    import(&store, "few", FEW);
    for (imported, group) in (1..).zip(["ann", "bob"]) {
        // One is prepared after the other: the first is ready when the second is begun.
        import(&store, group, MANY);
        wait_until("the words of the group are split", || layout.split() >= imported * MANY);
    }
    assert_eq!(layout.split(), 2 * MANY, "a small group is left to its first query");
    assert_eq!(count(&store, "ann"), MANY);
    assert_eq!(layout.split(), 2 * MANY, "the view has the words that were split");
    put(&store, "id:n:mail:g=ann:new", "some new words", 7);
    assert_eq!(count(&store, "ann"), MANY + 1);
    let before = layout.split();
    assert_eq!(count(&store, "few"), FEW);
    assert_eq!(layout.split(), before + FEW);
    assert_eq!(count(&store, "bob"), MANY);
}

#[test]
fn what_does_not_fit_the_cache_is_left_to_its_first_query() {
    const LARGE: usize = 6_000;
    const MANY: usize = 600;
    let directory = tempfile::tempdir().expect("a directory");
    let (store, layout) = open(directory.path(), 4 << 20);
    import(&store, "large", LARGE);
    import(&store, "ann", MANY);
    wait_until("the words of the smaller group are split", || layout.split() >= MANY);
    // Groups that are due are prepared in any order, and the next only after it.
    import(&store, "bob", MANY);
    wait_until("the words of the next group are split", || layout.split() >= 2 * MANY);
    assert_eq!(layout.split(), 2 * MANY);
    assert_eq!(count(&store, "large"), LARGE);
}

#[test]
fn groups_beside_those_that_cannot_be_read_are_prepared() {
    const MANY: usize = 600;
    let directory = tempfile::tempdir().expect("a directory");
    let (store, layout) = open(directory.path(), 64 << 20);
    for group in ["bad1", "bad2", "ann", "bad3"] {
        import(&store, group, MANY);
    }
    wait_until("the words of the group that can be read are split", || layout.split() >= MANY);
    assert_eq!(count(&store, "ann"), MANY);
}
