//! Comparison of an index with the documents.

use std::collections::BTreeMap;

use millrace_keys::KeyRange;
use millrace_store::{StoreVisit, VisitedVersion};

use super::NodeIndexes;
use super::opened::OpenedIndex;
use super::service::{document_id, is_in};
use crate::Error;

/// Documents that are compared together.
const PAGE: usize = 1024;

/// Maximum number of stale buckets that are read before.
const MENDED_MAX: usize = 1 << 20;

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexDifferences {
    /// Documents that were compared.
    pub documents: u64,
    /// Entries that were found.
    pub entries: u64,
    /// Documents whose keys differ.
    pub differences: u64,
    /// Ids of some of them, at most ten.
    pub examples: Vec<String>,
}

impl NodeIndexes {
    /// Compares an index with the documents, and its entries with its record of documents. Documents that are
    /// written meanwhile are looked at once more; those of stale buckets are not compared.
    ///
    /// # Errors
    /// There is no such index; it is not ready; a file cannot be read or is damaged. A damaged index is built
    /// again.
    pub fn verify(&self, name: &str) -> Result<IndexDifferences, Error> {
        self.compare(name).inspect_err(|error| self.inner().note_damage(error))
    }

    fn compare(&self, name: &str) -> Result<IndexDifferences, Error> {
        let index = self.ready(name)?;
        for _ in 0..MENDED_MAX {
            if !self.inner().reread_stale()? {
                break;
            }
        }
        index.copy.check()?;
        let mut differences = IndexDifferences::default();
        self.compare_documents(&index, &mut differences)?;
        self.compare_records(&index, &mut differences)?;
        self.compare_entries(&index, &mut differences)?;
        Ok(differences)
    }

    /// Each document of the store has the record that it should have.
    fn compare_documents(
        &self,
        index: &OpenedIndex,
        differences: &mut IndexDifferences,
    ) -> Result<(), Error> {
        let inner = self.inner();
        let mut visit = StoreVisit {
            wanted: PAGE,
            fields: Some(index.definition.fields()),
            ..StoreVisit::all(&[&index.definition.config.document_type])
        };
        loop {
            let page = inner.store.visit(&visit)?;
            inner.settle()?;
            for version in &page.visited {
                differences.documents += 1;
                let wanted = index.definition.change(version);
                let record = index.copy.document(&wanted.document)?.unwrap_or_default();
                if record.keys != wanted.keys && !self.agrees_now(index, &wanted.document)? {
                    differences.note(&wanted.document);
                }
            }
            if page.continuation.is_none() {
                return Ok(());
            }
            visit.continuation = page.continuation;
        }
    }

    /// Looks at a document once more: it may have been written between the two looks.
    fn agrees_now(&self, index: &OpenedIndex, document: &[u8]) -> Result<bool, Error> {
        let inner = self.inner();
        let Some(id) = document_id(document) else { return Ok(false) };
        for _ in 0..8 {
            let before = inner.store.get(&id)?;
            inner.settle()?;
            // Read after the record might change with the bucket.
            if self.is_stale(document) {
                return Ok(true);
            }
            let record = index.copy.document(document)?.unwrap_or_default();
            let stored = before.as_ref().map(|(_, timestamp)| timestamp.0);
            let keys = before.map(|(document, timestamp)| {
                index.definition.change(&VisitedVersion::Document(document, timestamp)).keys
            });
            if record.keys == keys.unwrap_or_default() {
                return Ok(true);
            }
            let after = inner.store.get(&id)?.map(|(_, timestamp)| timestamp.0);
            if after == stored {
                return Ok(false);
            }
        }
        // It is written all the time.
        Ok(true)
    }

    /// True if a document is in a stale bucket.
    fn is_stale(&self, document: &[u8]) -> bool {
        let (stale, _) = self.inner().feed.stale.snapshot();
        stale.iter().any(|bucket| is_in(document, *bucket))
    }

    /// Each document with entries is in the store.
    fn compare_records(&self, index: &OpenedIndex, differences: &mut IndexDifferences) -> Result<(), Error> {
        let inner = self.inner();
        let mut from = Vec::new();
        loop {
            let page = index.copy.documents(&from, PAGE)?;
            for indexed in page.documents.iter().filter(|indexed| !indexed.record.keys.is_empty()) {
                let id = document_id(&indexed.document);
                let is_there = id.map(|id| inner.store.get(&id)).transpose()?.flatten().is_some();
                if !is_there && !self.agrees_now(index, &indexed.document)? {
                    differences.note(&indexed.document);
                }
            }
            let Some(last) = page.documents.last().filter(|_| !page.is_last) else { return Ok(()) };
            from = [&last.document[..], &[0]].concat();
        }
    }

    /// Each entry is one of its document's record, and each key of a record has an entry.
    fn compare_entries(&self, index: &OpenedIndex, differences: &mut IndexDifferences) -> Result<(), Error> {
        let all = [KeyRange { low: Vec::new(), high: None }];
        let mut continuation = None;
        loop {
            let page = index.copy.scan(&all, continuation.as_deref(), PAGE)?;
            let mut known: BTreeMap<&[u8], Vec<Vec<u8>>> = BTreeMap::new();
            for entry in page.entries.iter() {
                differences.entries += 1;
                if !known.contains_key(entry.document) {
                    let record = index.copy.document(entry.document)?.unwrap_or_default();
                    known.insert(entry.document, record.keys);
                }
                let keys = &known[entry.document];
                if keys.binary_search_by(|key| key[..].cmp(entry.key)).is_err()
                    && !self.agrees_now(index, entry.document)?
                {
                    differences.note(entry.document);
                }
            }
            match page.continuation {
                None => break,
                next => continuation = next,
            }
        }
        let mut from = Vec::new();
        loop {
            let page = index.copy.documents(&from, PAGE)?;
            for indexed in &page.documents {
                for key in &indexed.record.keys {
                    let whole = [&key[..], &indexed.document].concat();
                    let high = Some([&whole[..], &[0]].concat());
                    let has = index.copy.count(&[KeyRange { low: whole, high }], 2, &|_| true)? == 1;
                    if !has && !self.entry_is_stale(index, &indexed.document, key)? {
                        differences.note(&indexed.document);
                    }
                }
            }
            let Some(last) = page.documents.last().filter(|_| !page.is_last) else { return Ok(()) };
            from = [&last.document[..], &[0]].concat();
        }
    }

    /// True if a document has lost a key since its record was read.
    fn entry_is_stale(&self, index: &OpenedIndex, document: &[u8], key: &Vec<u8>) -> Result<bool, Error> {
        let record = index.copy.document(document)?.unwrap_or_default();
        Ok(record.keys.binary_search(key).is_err())
    }
}

impl IndexDifferences {
    fn note(&mut self, document: &[u8]) {
        self.differences += 1;
        if self.examples.len() < 10 {
            self.examples.extend(document_id(document).map(|id| id.to_string()));
        }
    }
}
