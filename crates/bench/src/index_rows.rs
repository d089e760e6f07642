//! Versions of documents as an index sees them: a whole number as the key of each.

use millrace_bucket::DocumentSortKey;
use millrace_document::DocumentValue;
use millrace_index::IndexChange;
use millrace_keys::{ComponentCondition, KeyComponent, KeyLayout, KeyRange, KeyType};

use crate::Error;
use crate::application;
use crate::random::BenchRandom;

/// Documents of a benchmark, and the fewest with which it runs.
pub(crate) const DOCUMENTS: u64 = 1_000_000;
pub(crate) const DOCUMENTS_MIN: u64 = 10_000;
/// Documents of a group.
const DOCUMENTS_OF_GROUP: u64 = 100;
/// A prime number: multiples of it visit each number below a smaller or another limit once.
const STRIDE: u64 = 7_368_787;

/// Generator of rows.
pub(crate) struct IndexRows {
    layout: KeyLayout,
    random: BenchRandom,
    /// Number of documents so far.
    documents: u64,
    timestamp: u64,
}

impl IndexRows {
    /// Creates a generator; its rows are the same on every run.
    pub fn new() -> Result<Self, Error> {
        let component =
            KeyComponent { key_type: KeyType::Integer, analyzer: None, descending: false, several: false };
        let layout = KeyLayout::new(vec![component]).map_err(Error::failed)?;
        Ok(IndexRows { layout, random: BenchRandom::new(21), documents: 0, timestamp: 0 })
    }

    /// New documents, each with a random key.
    pub fn new_documents(&mut self, count: u64) -> Result<Vec<IndexChange>, Error> {
        (0..count).map(|_| self.new_document()).collect()
    }

    fn new_document(&mut self) -> Result<IndexChange, Error> {
        let (number, key) = (self.documents, self.random.bits() as i64);
        self.documents += 1;
        self.version(number, Some(key))
    }

    /// Version of a document with this key; `None` is a removal.
    pub fn version(&mut self, number: u64, key: Option<i64>) -> Result<IndexChange, Error> {
        self.timestamp += 1;
        let id = application::id(number / DOCUMENTS_OF_GROUP, number)?;
        let value = key.map(DocumentValue::Long);
        let values = [value.iter().collect::<Vec<_>>()];
        Ok(IndexChange {
            document: DocumentSortKey::new(&id).as_bytes().to_vec(),
            timestamp: self.timestamp,
            keys: self.layout.entries(&values).keys,
        })
    }

    /// Changes of different documents: of ten, six get another key, three are new, one is removed.
    pub fn changes(&mut self, count: u64) -> Result<Vec<IndexChange>, Error> {
        let (existing, first) = (self.documents, self.random.below(self.documents));
        let changes = (0..count).map(|at| {
            let number = (first + at.wrapping_mul(STRIDE) % existing) % existing;
            match at % 10 {
                0 => self.version(number, None),
                1..=3 => self.new_document(),
                _ => {
                    let key = self.random.bits() as i64;
                    self.version(number, Some(key))
                }
            }
        });
        changes.collect()
    }

    /// Documents whose keys are the numbers from 0 on, each once, in another order than theirs.
    pub fn dense_documents(&mut self, count: u64) -> impl Iterator<Item = Result<IndexChange, Error>> {
        (0..count).map(move |number| self.version(number, Some((number.wrapping_mul(STRIDE) % count) as i64)))
    }

    /// Ranges of the keys of these numbers, inclusive.
    pub fn ranges(&self, first: i64, last: i64) -> Result<Vec<KeyRange>, Error> {
        let condition = match first == last {
            true => ComponentCondition::Integers(vec![first]),
            false => ComponentCondition::IntegerRange(first, last),
        };
        self.layout.ranges(&[condition]).map_err(Error::failed)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn changes_are_of_different_documents_and_kinds() {
        let mut rows = IndexRows::new().expect("the layout is one");
        assert_eq!(rows.new_documents(1000).expect("the ids are valid").len(), 1000);
        let changes = rows.changes(500).expect("the ids are valid");
        let documents: BTreeSet<_> = changes.iter().map(|change| &change.document).collect();
        assert_eq!((documents.len(), rows.documents), (500, 1150));
        assert_eq!(changes.iter().filter(|change| change.keys.is_empty()).count(), 50);
        let keys: BTreeSet<_> =
            rows.dense_documents(1000).map(|change| change.expect("the ids are valid").keys).collect();
        assert_eq!(keys.len(), 1000);
    }
}
