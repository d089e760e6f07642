//! Rows of a load that are not in a run yet.

use std::cmp::Ordering;

use millrace_keys::KeyRange;

use crate::block::common;
use crate::record::{DocumentRecord, EntryRecord, check_length};
use crate::{Error, IndexChange, run_writer::RunWriter};

/// Entries whose bytes are copied together before they are written: those of each lie elsewhere in memory,
/// and a loop that only copies waits for several of them at a time.
const FETCHED_ENTRIES: usize = 64;

/// Documents with their keys, in few allocations for all of them.
#[derive(Default, Clone)]
pub struct LoadedRows {
    /// For each row the key of the document, and those of its entries.
    bytes: Vec<u8>,
    rows: Vec<LoadedRow>,
    /// Ends of the keys in `bytes`: for each row that of the document, and those of its entries.
    ends: Vec<usize>,
}

#[derive(Clone, Copy)]
struct LoadedRow {
    start: usize,
    timestamp: u64,
    /// Number of the end of the document's key.
    first_end: usize,
}

/// Place of an entry in the order of entries.
struct SortedEntry {
    /// First bytes in which its key may differ from others, so that most comparisons read nothing else.
    prefix: u64,
    row: usize,
    /// Number of the end of the index key.
    end: usize,
}

impl LoadedRows {
    /// No rows yet, with room for as many bytes of keys as that. Room that is not used costs no memory.
    pub fn with_capacity(bytes: usize) -> Self {
        LoadedRows { bytes: Vec::with_capacity(bytes), ..LoadedRows::default() }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of documents.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a version of a document. Its keys are sorted, each once.
    pub fn push<'k>(&mut self, document: &[u8], timestamp: u64, keys: impl Iterator<Item = &'k [u8]>) {
        self.rows.push(LoadedRow { start: self.bytes.len(), timestamp, first_end: self.ends.len() });
        self.bytes.extend_from_slice(document);
        self.ends.push(self.bytes.len());
        for key in keys {
            self.bytes.extend_from_slice(key);
            self.ends.push(self.bytes.len());
        }
    }

    /// Adds some rows of others, whose documents are above all of these and in their order.
    pub(crate) fn extend(&mut self, others: &LoadedRows, rows: &[usize]) {
        if let (Some(last), Some(first)) = (self.rows.len().checked_sub(1), rows.first()) {
            let is_above = self.document(last) < others.document(*first);
            assert!(is_above, "rows are loaded in their order");
        }
        if rows.len() == others.rows.len() {
            return self.extend_by_all(others);
        }
        for row in rows {
            self.push(others.document(*row), others.rows[*row].timestamp, others.keys(*row));
        }
    }

    /// Adds all rows of others.
    fn extend_by_all(&mut self, others: &LoadedRows) {
        let (bytes, ends) = (self.bytes.len(), self.ends.len());
        self.bytes.extend_from_slice(&others.bytes);
        self.ends.extend(others.ends.iter().map(|end| bytes + end));
        self.rows.extend(others.rows.iter().map(|row| LoadedRow {
            start: bytes + row.start,
            first_end: ends + row.first_end,
            ..*row
        }));
    }

    /// Number of entries of all rows.
    pub(crate) fn entries(&self) -> usize {
        self.ends.len() - self.rows.len()
    }

    /// Bytes that they take in memory.
    pub fn memory_bytes(&self) -> usize {
        let ends = self.ends.len() * size_of::<usize>();
        self.bytes.len() + self.rows.len() * size_of::<LoadedRow>() + ends
    }

    /// Checks that a row is not too long for a run.
    pub(crate) fn check_length(&self, row: usize) -> Result<(), Error> {
        check_length(self.document(row).len(), self.keys(row).map(<[u8]>::len))
    }

    /// Key of the document of a row.
    pub(crate) fn document(&self, row: usize) -> &[u8] {
        let LoadedRow { start, first_end, .. } = self.rows[row];
        &self.bytes[start..self.ends[first_end]]
    }

    /// Record of a row.
    pub(crate) fn record(&self, row: usize) -> DocumentRecord {
        let keys = self.keys(row).map(<[u8]>::to_vec).collect();
        DocumentRecord { timestamp: self.rows[row].timestamp, keys }
    }

    /// The rows as changes.
    pub fn changes(&self) -> impl Iterator<Item = IndexChange> {
        (0..self.rows.len()).map(|row| self.change(row))
    }

    /// A row as a change.
    pub(crate) fn change(&self, row: usize) -> IndexChange {
        let DocumentRecord { timestamp, keys } = self.record(row);
        IndexChange { document: self.document(row).to_vec(), timestamp, keys }
    }

    /// Number of the first row whose document is `document` or above it.
    pub(crate) fn row_from(&self, document: &[u8]) -> usize {
        // Rows are as many as numbers of them.
        let (mut first, mut end) = (0, self.rows.len());
        while first < end {
            let middle = first + (end - first) / 2;
            match self.document(middle).cmp(document) {
                Ordering::Less => first = middle + 1,
                _ => end = middle,
            }
        }
        first
    }

    /// Record of a document; `None` if it has no row.
    pub(crate) fn find(&self, document: &[u8]) -> Option<DocumentRecord> {
        let row = self.row_from(document);
        (row < self.rows.len() && self.document(row) == document).then(|| self.record(row))
    }

    /// Writes all rows to a run.
    pub(crate) fn write(&self, writer: &mut RunWriter<'_>) -> Result<(), Error> {
        for row in 0..self.rows.len() {
            writer.document_of(self.document(row), self.rows[row].timestamp, self.keys(row))?;
        }
        let (mut keys, mut fetched) = (Vec::new(), Vec::with_capacity(FETCHED_ENTRIES));
        for entries in self.sorted().chunks(FETCHED_ENTRIES) {
            keys.clear();
            fetched.clear();
            for entry in entries {
                let record = self.entry(entry, &mut keys);
                fetched.push((keys.len(), record));
            }
            let mut start = 0;
            for (end, record) in &fetched {
                writer.entry(&keys[start..*end], record)?;
                start = *end;
            }
        }
        Ok(())
    }

    /// Entries in their order.
    pub(crate) fn sorted_entries(&self) -> impl Iterator<Item = (Vec<u8>, EntryRecord)> {
        self.sorted().into_iter().map(|entry| {
            let mut key = Vec::new();
            let record = self.entry(&entry, &mut key);
            (key, record)
        })
    }

    /// Number of entries in a range, up to `limit`.
    pub(crate) fn count(&self, range: &KeyRange, limit: u64) -> u64 {
        let rows = 0..self.rows.len();
        let entries = rows.flat_map(|row| self.key_ends(row).map(move |end| (row, end)));
        let mut key = Vec::new();
        let within = entries.filter(|(row, end)| {
            key.clear();
            key.extend_from_slice(self.key(*end));
            key.extend_from_slice(self.document(*row));
            range.contains(&key)
        });
        within.take(usize::try_from(limit).unwrap_or(usize::MAX)).count() as u64
    }

    fn sorted(&self) -> Vec<SortedEntry> {
        let shared = self.shared_key_bytes();
        let mut entries = Vec::with_capacity(self.entries());
        for row in 0..self.rows.len() {
            for end in self.key_ends(row) {
                let prefix = prefix(&self.key(end)[shared..], self.document(row));
                entries.push(SortedEntry { prefix, row, end });
            }
        }
        entries.sort_unstable_by(|one, other| {
            // Most keys are as long as others, so their documents are not reached.
            one.prefix.cmp(&other.prefix).then_with(|| {
                let (key, other_key) = (self.key(one.end), self.key(other.end));
                match key.len() == other_key.len() {
                    true => key.cmp(other_key).then(one.row.cmp(&other.row)),
                    false => self.whole(one).cmp(self.whole(other)),
                }
            })
        });
        entries
    }

    /// Number of first bytes that all index keys have in common.
    fn shared_key_bytes(&self) -> usize {
        let mut keys = (0..self.rows.len()).flat_map(|row| self.keys(row));
        let Some(first) = keys.next() else { return 0 };
        keys.fold(first.len(), |shared, key| common(&first[..shared], key))
    }

    /// Bytes of an entry's whole key.
    fn whole(&self, entry: &SortedEntry) -> impl Iterator<Item = &u8> {
        self.key(entry.end).iter().chain(self.document(entry.row))
    }

    /// Record of an entry, and its whole key, which it appends.
    fn entry(&self, entry: &SortedEntry, key: &mut Vec<u8>) -> EntryRecord {
        let index_key = self.key(entry.end);
        key.extend_from_slice(index_key);
        key.extend_from_slice(self.document(entry.row));
        EntryRecord { timestamp: self.rows[entry.row].timestamp, live: true, key_length: index_key.len() }
    }

    /// Numbers of the ends of a row's index keys.
    fn key_ends(&self, row: usize) -> std::ops::Range<usize> {
        let end = self.rows.get(row + 1).map_or(self.ends.len(), |next| next.first_end);
        self.rows[row].first_end + 1..end
    }

    /// Index keys of a row.
    fn keys(&self, row: usize) -> impl Iterator<Item = &[u8]> {
        self.key_ends(row).map(|end| self.key(end))
    }

    /// Index key that ends there.
    fn key(&self, end: usize) -> &[u8] {
        &self.bytes[self.ends[end - 1]..self.ends[end]]
    }
}

impl FromIterator<IndexChange> for LoadedRows {
    fn from_iter<I: IntoIterator<Item = IndexChange>>(changes: I) -> Self {
        let mut rows = LoadedRows::default();
        for change in changes {
            rows.push(&change.document, change.timestamp, change.keys.iter().map(Vec::as_slice));
        }
        rows
    }
}

/// First bytes of an entry's key, of which these are the index key, or the rest of it, and the document.
fn prefix(key: &[u8], document: &[u8]) -> u64 {
    const LENGTH: usize = size_of::<u64>();
    let mut prefix = [0; LENGTH];
    let of_key = key.len().min(LENGTH);
    prefix[..of_key].copy_from_slice(&key[..of_key]);
    let of_document = document.len().min(LENGTH - of_key);
    prefix[of_key..of_key + of_document].copy_from_slice(&document[..of_document]);
    u64::from_be_bytes(prefix)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn entries_are_sorted_by_their_whole_keys(
            start in "[a\\x00]{0,9}",
            keys in prop::collection::vec(prop::collection::btree_set("[\\x00ab]{0,9}", 0..4), 0..20),
        ) {
            let mut rows = LoadedRows::default();
            let mut expected = Vec::new();
            for (number, keys) in keys.iter().enumerate() {
                let document = [number as u8];
                let keys: Vec<String> = keys.iter().map(|key| format!("{start}{key}")).collect();
                rows.push(&document, 7, keys.iter().map(String::as_bytes));
                expected.extend(keys.iter().map(|key| [key.as_bytes(), &document].concat()));
            }
            expected.sort();
            let found: Vec<Vec<u8>> = rows.sorted_entries().map(|(key, _)| key).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
