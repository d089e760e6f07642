//! Passes that change the documents they find, one page at a time: used for garbage collection and
//! reindexing.

use std::sync::mpsc;

use millrace_document::{Document, Timestamp};

use crate::{
    DocumentWrite, Error, Store, StoreChange, StoreModification, StoreVisit, VisitedVersion, WriteRefusal,
};

/// Result of one page of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct SweptPage {
    /// Number of documents examined.
    pub seen: u64,
    /// Number of documents changed.
    pub changed: u64,
    /// Start of the next page; `None` at the end.
    pub continuation: Option<String>,
    /// Share of all locations that were passed, from 0 to 1.
    pub progress: f64,
}

/// Examines the next page, and applies the changes that `decide` returns. If it refuses a document, nothing
/// of the page is changed.
pub(crate) fn sweep(
    store: &Store,
    visit: &StoreVisit,
    decide: &dyn Fn(Document) -> Result<StoreModification, WriteRefusal>,
) -> Result<SweptPage, Error> {
    let page = store.visit(visit)?;
    let mut seen = 0;
    let mut changes = Vec::new();
    for visited in page.visited {
        let VisitedVersion::Document(document, timestamp) = visited else { continue };
        seen += 1;
        let id = document.id.clone();
        let decided = decide(document).map_err(Error::Refused)?;
        let change = StoreChange::of_found(timestamp, Timestamp(u64::MAX), decided);
        changes.extend(change.map(|change| DocumentWrite { id, change }));
    }
    let changed = change(store, changes)?;
    Ok(SweptPage { seen, changed, continuation: page.continuation, progress: page.progress })
}

/// Makes these changes; a document that was written since stays as it is. Returns the number of changed
/// documents.
fn change(store: &Store, changes: Vec<DocumentWrite>) -> Result<u64, Error> {
    let _rewriting = store.shared().rewrites.rewriting();
    let (sender, answers) = mpsc::channel();
    for write in changes {
        let sender = sender.clone();
        store.write(write, move |outcome| {
            // The receiver waits for all answers, unless it has failed by then.
            let _ = sender.send(outcome);
        });
    }
    drop(sender);
    let mut changed = 0;
    for outcome in answers {
        changed += u64::from(outcome?.changed);
    }
    Ok(changed)
}
