//! Passes that change what they find, a page at a time: garbage collection and reindexing go through a store so.

use std::sync::mpsc;

use millrace_document::{Document, DocumentId, Timestamp};

use crate::{Change, Error, Modification, Refusal, Store, Visit, Visited, Write};

/// What one page of a sweep did.
#[derive(Debug, Clone, PartialEq)]
pub struct Swept {
    /// Documents that were looked at.
    pub seen: u64,
    /// Documents that were changed.
    pub changed: u64,
    /// Where the next page begins; `None` at the end.
    pub continuation: Option<String>,
    /// The share of all places that lie behind, from 0 to 1.
    pub progress: f64,
}

/// Looks at the next page, and changes what `decide` wants changed. When it refuses a document, nothing of the page is changed.
pub(crate) fn sweep(
    store: &Store,
    visit: &Visit,
    decide: &dyn Fn(Document) -> Result<Modification, Refusal>,
) -> Result<Swept, Error> {
    let page = store.visit(visit)?;
    let mut seen = 0;
    let mut decided = Vec::new();
    for visited in page.visited {
        let Visited::Document(document, timestamp) = visited else { continue };
        seen += 1;
        let id = document.id.clone();
        match decide(document).map_err(Error::Refused)? {
            Modification::Nothing => {}
            change => decided.push((id, timestamp, change)),
        }
    }
    let changed = change(store, decided)?;
    Ok(Swept { seen, changed, continuation: page.continuation, progress: page.progress })
}

/// Changes these versions; a document that was written since stays as it is. Returns how many were changed.
fn change(store: &Store, decided: Vec<(DocumentId, Timestamp, Modification)>) -> Result<u64, Error> {
    let (sender, answers) = mpsc::channel();
    for (id, timestamp, modification) in decided {
        let change = Change::if_unchanged(timestamp, modification);
        let sender = sender.clone();
        store.write(Write { id, change }, move |outcome| {
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
