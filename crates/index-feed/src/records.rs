//! Records of a copy as a map: the meaning of the effects on a copy, for simulations.

use std::collections::{BTreeMap, BTreeSet};

use millrace_document::Timestamp;

use crate::FeedRow;

/// Records of a copy by the sort keys of their documents: the time of a version, and its body. Removals have
/// none.
pub type RecordMap<B> = BTreeMap<Vec<u8>, (Timestamp, Option<B>)>;

/// Takes a version in, whatever is known of its document.
pub fn put<B: Clone>(records: &mut RecordMap<B>, row: &FeedRow<Option<B>>) {
    records.insert(row.document.clone(), (row.timestamp, row.body.clone()));
}

/// Takes a version in, unless a newer one is known.
pub fn apply<B: Clone>(records: &mut RecordMap<B>, row: &FeedRow<Option<B>>) {
    if records.get(&row.document).is_none_or(|(known, _)| *known < row.timestamp) {
        put(records, row);
    }
}

/// Replaces documents by the rows that were read of them.
pub fn replace_documents<B: Clone>(
    records: &mut RecordMap<B>,
    documents: &BTreeSet<Vec<u8>>,
    rows: &[FeedRow<Option<B>>],
) {
    records.retain(|key, _| !documents.contains(key));
    rows.iter().for_each(|row| put(records, row));
}

/// Replaces the records of a range of documents by the rows of a page. Returns the documents without a row
/// that have a version of `from` or later; with 0, those without a row are forgotten instead.
pub fn replace_range<B: Clone>(
    records: &mut RecordMap<B>,
    is_in_range: impl Fn(&[u8]) -> bool,
    from: Timestamp,
    rows: &[FeedRow<Option<B>>],
) -> Vec<Vec<u8>> {
    let is_unmatched = |key: &[u8]| is_in_range(key) && !rows.iter().any(|row| row.document == key);
    let mut unmatched = Vec::new();
    if from.0 == 0 {
        records.retain(|key, _| !is_unmatched(key));
    } else {
        let later = records.iter().filter(|(key, (time, _))| *time >= from && is_unmatched(key));
        unmatched.extend(later.map(|(key, _)| key.clone()));
    }
    rows.iter().for_each(|row| put(records, row));
    unmatched
}
