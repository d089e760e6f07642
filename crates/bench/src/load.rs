//! Loading of documents directly into a store, at maximum speed.

use std::sync::Arc;

use millrace_document::Document;
use millrace_store::{DocumentWrite, Store, StoreChange};
use parking_lot::{Condvar, Mutex};

use crate::Error;

/// Number of concurrent writes: enough for one sync to cover many, few enough for any queue.
const TOGETHER: usize = 4096;
/// Number of documents between two seals.
const SEAL_EVERY: usize = 16 * TOGETHER;

/// Writes the documents, and leaves them sealed and merged.
pub(crate) fn load(
    store: &Store,
    documents: impl Iterator<Item = Result<Document, Error>>,
) -> Result<(), Error> {
    load_unmerged(store, documents)?;
    store.maintain().map_err(Error::failed)
}

/// Writes the documents, and leaves them sealed.
pub(crate) fn load_unmerged(
    store: &Store,
    documents: impl Iterator<Item = Result<Document, Error>>,
) -> Result<(), Error> {
    write(store, documents, SEAL_EVERY)?;
    store.seal().map_err(Error::failed)
}

/// Writes the documents, and leaves them in the tail, if the store seals nothing by itself.
pub(crate) fn load_unsealed(
    store: &Store,
    documents: impl Iterator<Item = Result<Document, Error>>,
) -> Result<(), Error> {
    write(store, documents, usize::MAX)
}

/// Writes the documents, and seals them whenever there are so many more.
fn write(
    store: &Store,
    documents: impl Iterator<Item = Result<Document, Error>>,
    seal_every: usize,
) -> Result<(), Error> {
    let pending = Arc::new(WriteCounter::default());
    for (number, document) in documents.enumerate() {
        let document = document?;
        if number % TOGETHER == TOGETHER - 1 {
            pending.wait()?;
        }
        if number % seal_every == seal_every - 1 {
            store.seal().map_err(Error::failed)?;
        }
        pending.begin();
        let of_write = Arc::clone(&pending);
        store.write(
            DocumentWrite { id: document.id.clone(), change: StoreChange::Put(document) },
            move |outcome| {
                of_write.end(outcome.err());
            },
        );
    }
    pending.wait()
}

/// Counter of the writes in progress.
#[derive(Default)]
struct WriteCounter {
    state: Mutex<(usize, Option<millrace_store::Error>)>,
    changed: Condvar,
}

impl WriteCounter {
    fn begin(&self) {
        self.state.lock().0 += 1;
    }

    fn end(&self, error: Option<millrace_store::Error>) {
        let mut state = self.state.lock();
        state.0 -= 1;
        if error.is_some() {
            state.1 = error;
        }
        if state.0 == 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until none is in progress; returns the error of one of them.
    fn wait(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |(count, _)| *count > 0);
        state.1.take().map_or(Ok(()), |error| Err(Error::failed(error)))
    }
}
