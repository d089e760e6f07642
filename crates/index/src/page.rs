//! Pages of scans.

/// A page of a scan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntryPage {
    /// Entries in the order of keys, then of documents.
    pub entries: PageEntries,
    /// Start of the next page; `None` at the end. It stays valid across changes, flushes and merges.
    pub continuation: Option<Vec<u8>>,
}

/// An entry that a scan found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScannedEntry<'p> {
    /// Values of the indexed fields, encoded so that their bytes have the order of the values.
    pub key: &'p [u8],
    /// Key of the document.
    pub document: &'p [u8],
    /// Time of the version of the document that has the entry.
    pub timestamp: u64,
}

/// Entries in an order, in few allocations for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PageEntries {
    /// For each entry its key, then that of the document.
    bytes: Vec<u8>,
    places: Vec<EntryEnds>,
}

/// Ends of an entry in the bytes. It begins at the end of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct EntryEnds {
    key_end: usize,
    end: usize,
    timestamp: u64,
}

impl PageEntries {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = ScannedEntry<'_>> {
        (0..self.places.len()).map(|at| self.at(at))
    }

    /// The last entry.
    pub fn last(&self) -> Option<ScannedEntry<'_>> {
        self.places.len().checked_sub(1).map(|at| self.at(at))
    }

    /// Removes the last entry, if there is one.
    pub fn pop(&mut self) {
        self.places.pop();
        self.bytes.truncate(self.places.last().map_or(0, |place| place.end));
    }

    fn at(&self, at: usize) -> ScannedEntry<'_> {
        let EntryEnds { key_end, end, timestamp } = self.places[at];
        let start = self.start(at);
        ScannedEntry { key: &self.bytes[start..key_end], document: &self.bytes[key_end..end], timestamp }
    }

    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.places[before].end)
    }

    /// Adds an entry: its key with that of the document after it, and the length of the first.
    pub(crate) fn push(&mut self, whole: &[u8], key_length: usize, timestamp: u64) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(whole);
        let (key_end, end) = (start + key_length, self.bytes.len());
        self.places.push(EntryEnds { key_end, end, timestamp });
    }

    /// Key of the last entry with that of the document after it; empty if there is none.
    pub(crate) fn last_whole(&self) -> &[u8] {
        let last = self.places.len().checked_sub(1);
        last.map_or(&[], |last| &self.bytes[self.start(last)..])
    }
}
