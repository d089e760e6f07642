//! Comparison of a copy with the documents that it should have.

use crate::copy::{IndexCopy, IndexedDocument};
use crate::record::{DocumentRecord, IndexChange};
use crate::{Error, SliceRange};

/// Documents that are read together.
const PAGE: usize = 1024;

/// A document of which a copy has another record than it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordDifference {
    /// Key of the document.
    pub document: Vec<u8>,
    /// The record that the copy should have; without keys if the document has no entries.
    pub expected: DocumentRecord,
    /// The record that it has.
    pub found: DocumentRecord,
}

/// Result of [`IndexCopy::compare`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordComparison {
    /// Documents that were compared: those that have entries, or should have some.
    pub documents: u64,
    /// Documents that differ.
    pub different: u64,
    /// The first of them, in their order.
    pub differences: Vec<RecordDifference>,
}

impl IndexCopy {
    /// Compares the documents of a slice with those that the copy should have, which are given in their
    /// order, each once; removed ones may be left out. A document differs if its keys do, or, where it has
    /// keys, the time of its version. Returns at most `limit` differences, and the number of all.
    ///
    /// Documents that are written meanwhile may differ, and are to be looked at once more.
    ///
    /// # Errors
    /// A run cannot be read or is damaged; a document could not be read.
    ///
    /// # Panics
    /// The documents are not in their order.
    pub fn compare<E: From<Error>>(
        &self,
        slice: &SliceRange,
        documents: impl IntoIterator<Item = Result<IndexChange, E>>,
        limit: usize,
    ) -> Result<RecordComparison, E> {
        let mut comparison = RecordComparison::default();
        let mut found = DocumentReader::new(self, slice);
        let mut next = found.next()?;
        let mut last: Option<Vec<u8>> = None;
        for change in documents {
            let IndexChange { document, timestamp, keys } = change?;
            assert!(last.is_none_or(|last| last < document), "documents are compared in their order");
            let expected = DocumentRecord { timestamp, keys };
            while let Some(extra) = next.take_if(|next| next.document < document) {
                comparison.note(extra.document, DocumentRecord::default(), extra.record, limit);
                next = found.next()?;
            }
            let mut record = DocumentRecord::default();
            if let Some(same) = next.take_if(|next| next.document == document) {
                record = same.record;
                next = found.next()?;
            }
            comparison.note(document.clone(), expected, record, limit);
            last = Some(document);
        }
        while let Some(extra) = next {
            comparison.note(extra.document, DocumentRecord::default(), extra.record, limit);
            next = found.next()?;
        }
        Ok(comparison)
    }
}

impl RecordComparison {
    fn note(&mut self, document: Vec<u8>, expected: DocumentRecord, found: DocumentRecord, limit: usize) {
        if expected.keys.is_empty() && found.keys.is_empty() {
            return;
        }
        self.documents += 1;
        if expected == found {
            return;
        }
        self.different += 1;
        if self.differences.len() < limit {
            self.differences.push(RecordDifference { document, expected, found });
        }
    }
}

/// Documents of a slice of a copy, in their order.
struct DocumentReader<'a> {
    copy: &'a IndexCopy,
    slice: &'a SliceRange,
    page: std::vec::IntoIter<IndexedDocument>,
    /// Start of the next page; `None` at the end.
    from: Option<Vec<u8>>,
}

impl<'a> DocumentReader<'a> {
    fn new(copy: &'a IndexCopy, slice: &'a SliceRange) -> Self {
        DocumentReader { copy, slice, page: Vec::new().into_iter(), from: Some(slice.low.clone()) }
    }

    fn next(&mut self) -> Result<Option<IndexedDocument>, Error> {
        loop {
            if let Some(document) = self.page.next() {
                return Ok(Some(document).filter(|found| !self.slice.is_below(&found.document)));
            }
            let Some(from) = self.from.take() else { return Ok(None) };
            let page = self.copy.documents(&from, PAGE)?;
            let last = page.documents.last().filter(|_| !page.is_last);
            self.from = last.map(|last| [&last.document[..], &[0]].concat());
            self.page = page.documents.into_iter();
        }
    }
}
