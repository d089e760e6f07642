//! Rows of a load that are not in a run yet.

use std::cmp::Ordering;

use millrace_keys::KeyRange;

use crate::record::{DocumentRecord, EntryRecord};
use crate::{Error, IndexChange, run_writer::RunWriter};

/// Documents in their order, with their keys, in one allocation.
#[derive(Default, Clone)]
pub(crate) struct LoadedRows {
    /// For each row the key of the document, and those of its entries.
    bytes: Vec<u8>,
    rows: Vec<LoadedRow>,
    /// Ends of the keys in `bytes`: for each row that of the document, and those of its entries.
    ends: Vec<usize>,
}

#[derive(Clone)]
struct LoadedRow {
    start: usize,
    timestamp: u64,
    /// Number of the end of the document's key.
    first_end: usize,
}

/// Place of an entry in the order of entries.
struct SortedEntry {
    /// First bytes of its key, so that most comparisons read nothing else.
    prefix: u64,
    row: usize,
    /// Number of the end of the index key.
    end: usize,
}

impl LoadedRows {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Number of entries of all rows.
    pub fn entries(&self) -> usize {
        self.ends.len() - self.rows.len()
    }

    pub fn memory_bytes(&self) -> usize {
        let ends = self.ends.len() * size_of::<usize>();
        self.bytes.len() + self.rows.len() * size_of::<LoadedRow>() + ends
    }

    /// Adds a row whose document is above all others.
    pub fn push(&mut self, change: &IndexChange) {
        let last = self.rows.len().checked_sub(1).map(|row| self.document(row));
        assert!(last.is_none_or(|last| last < &change.document[..]), "rows are loaded in their order");
        let row =
            LoadedRow { start: self.bytes.len(), timestamp: change.timestamp, first_end: self.ends.len() };
        self.rows.push(row);
        for part in std::iter::once(&change.document).chain(&change.keys) {
            self.bytes.extend_from_slice(part);
            self.ends.push(self.bytes.len());
        }
    }

    /// Key of the document of a row.
    pub fn document(&self, row: usize) -> &[u8] {
        let LoadedRow { start, first_end, .. } = self.rows[row];
        &self.bytes[start..self.ends[first_end]]
    }

    /// Record of a row.
    pub fn record(&self, row: usize) -> DocumentRecord {
        let keys = self.key_ends(row).map(|end| self.key(end).to_vec()).collect();
        DocumentRecord { timestamp: self.rows[row].timestamp, keys }
    }

    /// Number of the first row whose document is `document` or above it.
    pub fn row_from(&self, document: &[u8]) -> usize {
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
    pub fn find(&self, document: &[u8]) -> Option<DocumentRecord> {
        let row = self.row_from(document);
        (row < self.rows.len() && self.document(row) == document).then(|| self.record(row))
    }

    /// Writes all rows to a run.
    pub fn write(&self, writer: &mut RunWriter<'_>) -> Result<(), Error> {
        for row in 0..self.rows.len() {
            let keys = self.key_ends(row).map(|end| self.key(end));
            writer.document_of(self.document(row), self.rows[row].timestamp, keys)?;
        }
        let mut key = Vec::new();
        for entry in self.sorted() {
            let record = self.entry(&entry, &mut key);
            writer.entry(&key, &record)?;
        }
        Ok(())
    }

    /// Entries in their order.
    pub fn sorted_entries(&self) -> impl Iterator<Item = (Vec<u8>, EntryRecord)> {
        self.sorted().into_iter().map(|entry| {
            let mut key = Vec::new();
            let record = self.entry(&entry, &mut key);
            (key, record)
        })
    }

    /// Number of entries in a range, up to `limit`.
    pub fn count(&self, range: &KeyRange, limit: u64) -> u64 {
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
        let mut entries = Vec::with_capacity(self.entries());
        for row in 0..self.rows.len() {
            for end in self.key_ends(row) {
                let mut prefix = [0; 8];
                let whole = self.key(end).iter().chain(self.document(row));
                prefix.iter_mut().zip(whole).for_each(|(to, from)| *to = *from);
                entries.push(SortedEntry { prefix: u64::from_be_bytes(prefix), row, end });
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

    /// Bytes of an entry's whole key.
    fn whole(&self, entry: &SortedEntry) -> impl Iterator<Item = &u8> {
        self.key(entry.end).iter().chain(self.document(entry.row))
    }

    /// Record of an entry, and its whole key.
    fn entry(&self, entry: &SortedEntry, key: &mut Vec<u8>) -> EntryRecord {
        let index_key = self.key(entry.end);
        key.clear();
        key.extend_from_slice(index_key);
        key.extend_from_slice(self.document(entry.row));
        EntryRecord { timestamp: self.rows[entry.row].timestamp, live: true, key_length: index_key.len() }
    }

    /// Numbers of the ends of a row's index keys.
    fn key_ends(&self, row: usize) -> std::ops::Range<usize> {
        let end = self.rows.get(row + 1).map_or(self.ends.len(), |next| next.first_end);
        self.rows[row].first_end + 1..end
    }

    /// Index key that ends there.
    fn key(&self, end: usize) -> &[u8] {
        &self.bytes[self.ends[end - 1]..self.ends[end]]
    }
}
