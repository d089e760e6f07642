use std::sync::mpsc;
use std::time::{Duration, Instant};

use millrace_document::{Document, Timestamp};

use crate::{Change, Error, Modification, Store, Visit, Visited, Write};

/// Documents looked at and removed in one go.
const PAGE: usize = 256;

/// Removes what `keep` does not want, page by page, not faster than allowed.
pub(crate) fn collect(
    store: &Store,
    document_types: &[&str],
    keep: &dyn Fn(&Document) -> bool,
    per_second: u32,
) -> Result<u64, Error> {
    let mut visit = Visit { wanted: PAGE, ..Visit::all(document_types) };
    let mut removed = 0;
    loop {
        let began = Instant::now();
        let page = store.visit(&visit)?;
        let unwanted: Vec<(&Document, Timestamp)> = page
            .visited
            .iter()
            .filter_map(|visited| match visited {
                Visited::Document(document, timestamp) if !keep(document) => Some((document, *timestamp)),
                _ => None,
            })
            .collect();
        let count = remove(store, &unwanted)?;
        removed += count;
        if page.continuation.is_none() {
            return Ok(removed);
        }
        visit.continuation = page.continuation;
        let at_least = Duration::from_secs(1).mul_f64(count as f64 / f64::from(per_second.max(1)));
        std::thread::sleep(at_least.saturating_sub(began.elapsed()));
    }
}

/// Removes these versions; a document that was written since stays.
fn remove(store: &Store, unwanted: &[(&Document, Timestamp)]) -> Result<u64, Error> {
    let (sender, answers) = mpsc::channel();
    for (document, timestamp) in unwanted {
        let timestamp = *timestamp;
        let change = Change::Modify(Box::new(move |found| {
            let unchanged = found.is_some_and(|(_, found)| found == timestamp);
            Ok(if unchanged { Modification::Remove } else { Modification::Nothing })
        }));
        let sender = sender.clone();
        store.write(Write { id: document.id.clone(), change }, move |outcome| {
            // The receiver waits for all answers, unless it has failed by then.
            let _ = sender.send(outcome);
        });
    }
    drop(sender);
    let mut removed = 0;
    for outcome in answers {
        removed += u64::from(outcome?.changed);
    }
    Ok(removed)
}
