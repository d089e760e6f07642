//! Bytes of columns in the segment files, and the times that sealing takes for them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millrace_column::ColumnKey;

use crate::Error;
use crate::state::StoreState;
use crate::upkeep::seal_times::SealTimes;

/// A column of a document type in all segment files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredColumn {
    /// The document type.
    pub document_type: String,
    /// Key of the column: the field and the form.
    pub key: ColumnKey,
    /// Bytes in the files, as they are stored.
    pub bytes: u64,
    /// Time since the start in which threads that seal have made it.
    pub seal_time: Duration,
}

/// Bytes of the filters of ids in all segments.
pub(crate) fn filter_bytes(state: &StoreState) -> u64 {
    let segments = state.buckets.iter().flat_map(|bucket| &bucket.segments);
    let opened = segments.filter_map(|segment| segment.opened.as_ref().ok());
    // A file can have documents of several buckets.
    let files: BTreeMap<u64, u64> = opened.map(|file| (file.number(), file.filter_bytes())).collect();
    files.values().sum()
}

/// The columns of all segments, the largest of each type first. Reads the directories of all segments.
pub(crate) fn stored_columns(state: &StoreState, times: &SealTimes) -> Result<Vec<StoredColumn>, Error> {
    let mut bytes: BTreeMap<(String, ColumnKey), u64> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for segment in state.buckets.iter().flat_map(|bucket| &bucket.segments) {
        // A file that cannot be opened is reported where its documents are read.
        let Ok(opened) = &segment.opened else { continue };
        if !seen.insert(segment.record.number) {
            continue;
        }
        for (number, section) in opened.sections().iter().enumerate() {
            for (key, of_column) in section.columns.iter().zip(opened.column_bytes(number)?) {
                *bytes.entry((section.document_type.clone(), key.clone())).or_default() += of_column;
            }
        }
    }
    let column = |((document_type, key), bytes): ((String, ColumnKey), u64)| {
        let seal_time = times.of_column(&document_type, &key);
        StoredColumn { document_type, key, bytes, seal_time }
    };
    let mut columns: Vec<StoredColumn> = bytes.into_iter().map(column).collect();
    columns.sort_by(|a, b| (&a.document_type, b.bytes, &a.key).cmp(&(&b.document_type, a.bytes, &b.key)));
    Ok(columns)
}
