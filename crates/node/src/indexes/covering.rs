//! Answers from the entries of an index alone, where a query uses nothing of the documents but the values of
//! keys and stored fields.
//!
//! The entries are shown to the query as documents that have these values and no others. A query that would
//! read something else fails: it never takes a value that is not in the keys for one that is not there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use millrace_bucket::{BucketId, LocationRange, reversed_location};
use millrace_column::{CHUNK_DOCS, Column, ColumnKey, MemoryView, ReadError, View, ViewChunk};
use millrace_document::{DataType, DocumentId, DocumentValue, EncodedDocument, wire};
use millrace_keys::{ComponentValue, KeyComponent};
use millrace_schema::Schema;
use millrace_search::PreparedSearch;
use millrace_store::{Store, ViewScope};

use super::IndexDefinition;
use super::definition::key_type_of;
use super::service::document_id;
use crate::CompiledApplication;

/// Bytes of entries above which the documents are read.
const BYTES_MAX: usize = 16 << 20;

/// Entries of candidates, one for each document.
pub struct CoveringEntries {
    definition: Arc<IndexDefinition>,
    /// Keys of the documents, and those of the entries.
    keys: Vec<(Vec<u8>, Vec<u8>)>,
    bytes: usize,
}

impl CoveringEntries {
    /// Creates a list without entries; `None` if a document can have several in the index.
    pub(super) fn new(definition: &Arc<IndexDefinition>) -> Option<Self> {
        let mut components = definition.layout.components().iter();
        components.all(|component| !component.several).then(|| CoveringEntries {
            definition: Arc::clone(definition),
            keys: Vec::new(),
            bytes: 0,
        })
    }

    /// Adds an entry.
    pub(super) fn push(&mut self, key: &[u8], document: &[u8]) {
        self.bytes += key.len() + document.len();
        if self.bytes <= BYTES_MAX {
            self.keys.push((document.to_vec(), key.to_vec()));
        }
    }

    /// A view of the documents in a scope, and in the buckets of a share of the query, as far as the keys
    /// have them; `None` if the search uses more than these have.
    pub fn view(
        &self,
        search: &PreparedSearch,
        application: &CompiledApplication,
        scope: &ViewScope,
        store: &Store,
        within: Option<&[BucketId]>,
    ) -> Option<Arc<dyn View>> {
        // Those of an earlier definition can have values of other types.
        let is_present = application.indexes().iter().any(|present| present.is_same(&self.definition));
        if self.bytes > BYTES_MAX || !is_present {
            return None;
        }
        let schema = &search.plan().schema;
        let covered = self.covered(schema);
        let fields: BTreeSet<Arc<str>> =
            covered.iter().flatten().map(|(name, _)| Arc::clone(*name)).collect();
        let used = search.all_used_fields()?;
        if !used.iter().all(|field| fields.contains(*field)) {
            return None;
        }
        let parts = within.map(|within| DividedParts::new(&store.buckets(), within));
        let documents = self.documents(&covered, scope, parts.as_ref())?;
        let layout = application.layout();
        let mut keys = layout.columns(&schema.name)?;
        keys.retain(|key| fields.contains(key.root()));
        keys.push(ColumnKey::id());
        // Columns of the store are in a cache of bounded size, and these are in memory as long as the query.
        search.plan().memory.take(self.bytes).ok()?;
        let mut memory = MemoryView::new();
        for chunk in documents.chunks(CHUNK_DOCS) {
            let of_chunk = chunk.iter().map(|(id, fields)| EncodedDocument::parse(id.as_str(), fields));
            let of_chunk = of_chunk.collect::<Result<Vec<_>, _>>().ok()?;
            let mut columns = Vec::with_capacity(keys.len());
            for key in &keys {
                columns.push((key.clone(), layout.build(&schema.name, key, &of_chunk).ok()?));
            }
            memory.push(ViewChunk { documents: chunk.len(), live: None }, columns);
        }
        Some(Arc::new(CoveredView { memory, fields, index: self.definition.name().to_owned() }))
    }

    /// Field and type of each component of the keys that has the whole value of a field.
    fn covered<'s>(&self, schema: &'s Schema) -> Vec<Option<(&'s Arc<str>, &'s DataType)>> {
        let paths = self.definition.paths().zip(self.definition.layout.components());
        let covered = paths.map(|(path, component)| {
            let (name, field) = schema.fields.get_key_value(path)?;
            is_whole(&field.data_type, component).then_some((name, &field.data_type))
        });
        covered.collect()
    }

    /// Ids of documents, with the wire form of the values of the keys; `None` if a key does not have them.
    fn documents(
        &self,
        covered: &[Option<(&Arc<str>, &DataType)>],
        scope: &ViewScope,
        parts: Option<&DividedParts>,
    ) -> Option<Vec<(DocumentId, Vec<u8>)>> {
        // In the order of the documents, each once.
        let keys: BTreeMap<&[u8], &[u8]> =
            self.keys.iter().map(|(document, key)| (&document[..], &key[..])).collect();
        let mut documents = Vec::with_capacity(keys.len());
        for (document, key) in keys {
            let id = document_id(document)?;
            if !is_in_scope(&id, scope) || parts.is_some_and(|parts| !parts.has(document)) {
                continue;
            }
            let values = self.definition.layout.values(key)?;
            let fields = covered.iter().zip(values).filter_map(|(covered, value)| {
                let (name, data_type) = (*covered)?;
                Some((Arc::clone(name), document_value(data_type, value)?))
            });
            let fields: Vec<(Arc<str>, DocumentValue)> = fields.collect();
            documents.push((id, wire::encode_named(&fields)));
        }
        Some(documents)
    }
}

/// True if a component of a key has the value of a field as it is.
fn is_whole(data_type: &DataType, component: &KeyComponent) -> bool {
    key_type_of(data_type) == Some(component.key_type) && component.analyzer.is_none()
}

/// Value of a field of a document; `None` if it has none.
fn document_value(data_type: &DataType, value: ComponentValue) -> Option<DocumentValue> {
    Some(match (data_type, value) {
        (_, ComponentValue::Missing) => return None,
        (_, ComponentValue::Bool(value)) => DocumentValue::Bool(value),
        (DataType::Byte, ComponentValue::Integer(number)) => DocumentValue::Byte(i8::try_from(number).ok()?),
        (DataType::Int, ComponentValue::Integer(number)) => DocumentValue::Int(i32::try_from(number).ok()?),
        (_, ComponentValue::Integer(number)) => DocumentValue::Long(number),
        (DataType::Double, ComponentValue::Float(number)) => DocumentValue::Double(number),
        (_, ComponentValue::Float(number)) => DocumentValue::Float(number as f32),
        (_, ComponentValue::Text(text)) => DocumentValue::String(text),
    })
}

fn is_in_scope(id: &DocumentId, scope: &ViewScope) -> bool {
    match scope {
        ViewScope::Groups(groups) | ViewScope::GroupsIn(groups, _) => groups.contains(id.group()),
        ViewScope::Buckets(_) | ViewScope::All => true,
    }
}

/// Parts of divided groups. A document of one is in its part alone, though the bucket that the group was in
/// has the same locations.
struct DividedParts {
    /// Those of the store, in the order of locations.
    stored: Vec<LocationRange>,
    /// Those in which the query reads documents.
    queried: Vec<LocationRange>,
}

impl DividedParts {
    fn new(stored: &[BucketId], queried: &[BucketId]) -> Self {
        let ranges = |buckets: &[BucketId]| {
            let parts = buckets.iter().filter(|bucket| bucket.used_bits() > BucketId::GROUP_BITS);
            let mut ranges: Vec<LocationRange> = parts.map(|part| part.reversed_range()).collect();
            ranges.sort_unstable();
            ranges
        };
        DividedParts { stored: ranges(stored), queried: ranges(queried) }
    }

    /// True if the query reads a document, given by its key, whose location is in its buckets.
    fn has(&self, document: &[u8]) -> bool {
        let location = reversed_location(document);
        let is_in = |ranges: &[LocationRange]| {
            let after = ranges.partition_point(|range| range.first <= location);
            after.checked_sub(1).is_some_and(|at| ranges[at].contains(location))
        };
        !is_in(&self.stored) || is_in(&self.queried)
    }
}

/// View of documents with the values of some fields.
struct CoveredView {
    memory: MemoryView,
    fields: BTreeSet<Arc<str>>,
    index: String,
}

impl View for CoveredView {
    fn chunks(&self) -> &[ViewChunk] {
        self.memory.chunks()
    }

    fn columns(&self, key: &ColumnKey, range: Range<usize>) -> Result<Vec<Option<Column>>, ReadError> {
        if !key.field.is_empty() && !self.fields.contains(key.root()) {
            let reason = format!(
                "index '{}' does not have the field '{}' of the documents: query with index.use=none",
                self.index,
                key.root()
            );
            return Err(ReadError(reason));
        }
        self.memory.columns(key, range)
    }
}

#[cfg(test)]
mod tests {
    use millrace_bucket::{DividedGroup, DocumentSortKey};
    use millrace_document::DocumentGroup;

    use super::*;

    #[test]
    fn a_document_of_a_divided_group_is_in_its_part_alone() {
        let location = DocumentGroup::Number(5).location_bits().expect("a group");
        let parts: Vec<BucketId> = DividedGroup { location, bits: 34 }.parts().collect();
        let whole = BucketId::new(2, u64::from(location));
        let ids: Vec<DocumentId> = (0..64)
            .map(|number| DocumentId::parse(&format!("id:n:note:n=5:{number}")).expect("an id"))
            .collect();
        let beside = DocumentId::parse("id:n:note:n=9:1").expect("an id");
        assert!(whole.contains(beside.location()));
        let has = |divided: &DividedParts, id: &DocumentId| divided.has(DocumentSortKey::new(id).as_bytes());
        let none = DividedParts::new(&parts, &[whole]);
        let one = DividedParts::new(&parts, &[whole, parts[2]]);
        for id in &ids {
            assert!(!has(&none, id), "{id}");
            assert_eq!(has(&one, id), parts[2].contains(id.location()), "{id}");
            assert!(has(&DividedParts::new(&[whole], &[whole]), id), "the store has not divided it: {id}");
        }
        assert!(ids.iter().any(|id| has(&one, id)));
        assert!(has(&none, &beside) && has(&one, &beside), "another group in the same bucket");
    }
}
