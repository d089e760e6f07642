//! Indexes of an application, compiled: the keys of a document.

mod hashed;

use std::collections::BTreeSet;
use std::sync::Arc;

use millrace_bucket::DocumentSortKey;
use millrace_document::{DataType, Document, DocumentGroup, DocumentValue, ValueRef};
use millrace_index::{IndexChange, LoadedRows};
use millrace_keys::{KeyComponent, KeyLayout, KeyType, KeyWriter, KeyedValue};
use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use millrace_schema::{
    Application, Error as SchemaError, IndexConfig, IndexKeyConfig, PackageFindings, Schema, SourcedText,
};
use millrace_selection::DocumentSelection;
use millrace_store::{Error as StoreError, VisitedRow, VisitedValue, VisitedVersion};
use xxhash_rust::xxh3::xxh3_64;

use hashed::hashed_text;

/// A compiled index.
pub struct IndexDefinition {
    /// Its declaration.
    pub config: IndexConfig,
    /// Content cluster that declares it.
    pub content: Arc<str>,
    /// Hash of all that determines its entries.
    pub hash: u64,
    /// Layout of its keys.
    pub layout: KeyLayout,
    /// Sources of the components' values.
    sources: Vec<ComponentSource>,
    selection: Option<DocumentSelection>,
}

/// Source of the values of a component.
enum ComponentSource {
    /// The group of the document.
    Group,
    /// A field, and the steps from its value to the values.
    Field(String, Vec<String>),
}

impl ComponentSource {
    fn of_path(path: &str) -> Self {
        if path == IndexKeyConfig::GROUP {
            return ComponentSource::Group;
        }
        let mut steps = path.split('.').map(str::to_owned);
        ComponentSource::Field(steps.next().unwrap_or_default(), steps.collect())
    }
}

/// Compiles the indexes of an application, by content cluster. Selections that cannot work are reported as
/// findings.
pub(crate) fn definitions(
    application: &Application,
    findings: &mut PackageFindings,
) -> Vec<Arc<IndexDefinition>> {
    let mut definitions = Vec::new();
    for cluster in &application.content {
        for config in cluster.indexes.iter().flat_map(|service| &service.indexes) {
            let Some(schema) = application.schemas.get(&config.document_type) else { continue };
            let definition = IndexDefinition::new(config, &cluster.id, schema);
            definitions.extend(findings.ok_or_report(definition).map(Arc::new));
        }
    }
    definitions
}

impl IndexDefinition {
    fn new(config: &IndexConfig, content: &Arc<str>, schema: &Arc<Schema>) -> Result<Self, SchemaError> {
        let refuse = |reason: String| SchemaError::Invalid { position: config.position.clone(), reason };
        let selection = config.selection.as_ref().map(|text| selection(text, schema)).transpose()?;
        let keys = config.keys.iter().map(|key| component(key, schema));
        let stored = config.stored.iter().map(|path| stored_component(path, schema));
        let components = keys.chain(stored).collect::<Option<Vec<_>>>();
        let unfit =
            || refuse(format!("a key or stored field of index '{}' is not an attribute", config.name));
        let components = components.ok_or_else(unfit)?;
        let layout = KeyLayout::new(components).map_err(|error| refuse(error.to_string()))?;
        let mut definition = IndexDefinition {
            config: config.clone(),
            content: Arc::clone(content),
            hash: xxh3_64(hashed_text(config, content, schema, &layout).as_bytes()),
            layout,
            sources: Vec::new(),
            selection,
        };
        definition.sources = definition.paths().map(ComponentSource::of_path).collect();
        Ok(definition)
    }

    /// Name of the index.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// True if both name the same index with the same entries.
    pub fn is_same(&self, other: &IndexDefinition) -> bool {
        (&self.config.name, &self.content, self.hash) == (&other.config.name, &other.content, other.hash)
    }

    /// Text of the selection, if the index has only some documents of its type.
    pub fn selection(&self) -> Option<&str> {
        self.config.selection.as_ref().map(|text| text.value.trim())
    }

    /// Converts a version to a change of the index.
    pub(super) fn change(&self, version: &VisitedVersion) -> IndexChange {
        let (id, timestamp, keys) = match version {
            VisitedVersion::Document(document, timestamp) => (&document.id, timestamp, self.keys(document)),
            VisitedVersion::Removed(id, timestamp) => (id, timestamp, Vec::new()),
        };
        let document = DocumentSortKey::new(id).as_bytes().to_vec();
        IndexChange { document, timestamp: timestamp.0, keys }
    }

    /// Keys of a document's entries.
    fn keys(&self, document: &Document) -> Vec<Vec<u8>> {
        if !self.selects(document) {
            return Vec::new();
        }
        let mut writer = KeyWriter::default();
        writer.begin();
        for source in &self.sources {
            let found = &mut |value: KeyedValue<'_>| writer.add(&self.layout, value);
            match source {
                ComponentSource::Group => with_group(document.id.group(), found),
                // Values of other types than the field's are left out with the component.
                ComponentSource::Field(field, steps) => {
                    document.get(field).into_iter().for_each(|value| collect(value, steps, found));
                }
            }
            writer.next_component(&self.layout);
        }
        writer.finish(&self.layout).to_vec()
    }

    /// True if the index has the document. The selection cannot depend on the time.
    fn selects(&self, document: &Document) -> bool {
        self.selection.as_ref().is_none_or(|selection| selection.matches(document, 0))
    }

    /// Keys of the entries of a version that a visit found. It required the [`IndexDefinition::fields`].
    pub(super) fn row_keys<'w>(
        &self,
        row: &VisitedRow<'_>,
        writer: &'w mut KeyWriter,
    ) -> Result<&'w [Vec<u8>], StoreError> {
        if row.is_removed() {
            return Ok(&[]);
        }
        if self.selection.is_some() && !row.document()?.is_some_and(|document| self.selects(document)) {
            return Ok(&[]);
        }
        writer.begin();
        for source in &self.sources {
            let found = &mut |value: KeyedValue<'_>| writer.add(&self.layout, value);
            match source {
                ComponentSource::Group => with_group(row.group(), found),
                ComponentSource::Field(field, steps) => match row.value(field)? {
                    Some(VisitedValue::InPlace(value)) => collect_in_place(value, steps, found),
                    Some(VisitedValue::Decoded(value)) => collect(&value, steps, found),
                    None => {}
                },
            }
            writer.next_component(&self.layout);
        }
        Ok(writer.finish(&self.layout))
    }

    /// Paths of the components of its keys: those that it declares as keys, then stored fields.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let keys = self.config.keys.iter().map(|key| key.path.as_str());
        keys.chain(self.config.stored.iter().map(String::as_str))
    }

    /// Fields whose values the index needs.
    pub(super) fn fields(&self) -> Vec<String> {
        let first = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
        let paths = self.paths().filter(|path| *path != IndexKeyConfig::GROUP);
        let mut fields: BTreeSet<String> = paths.map(first).collect();
        let selected =
            self.selection.iter().flat_map(|selection| selection.fields(&self.config.document_type));
        fields.extend(selected.map(str::to_owned));
        fields.into_iter().collect()
    }
}

/// Rows of an index that is loaded, as they are made of the versions of a visit.
#[derive(Default)]
pub(super) struct RowsToLoad {
    /// The rows so far.
    pub rows: LoadedRows,
    writer: KeyWriter,
    document: Vec<u8>,
}

impl RowsToLoad {
    /// No rows yet, with room for as many bytes of keys as that.
    pub fn with_capacity(bytes: usize) -> Self {
        RowsToLoad { rows: LoadedRows::with_capacity(bytes), ..RowsToLoad::default() }
    }

    /// Adds a version.
    pub fn push(&mut self, definition: &IndexDefinition, row: &VisitedRow<'_>) -> Result<(), StoreError> {
        let keys = definition.row_keys(row, &mut self.writer)?;
        self.document.clear();
        row.write_sort_key(&mut self.document);
        self.rows.push(&self.document, row.timestamp().0, keys.iter().map(Vec::as_slice));
        Ok(())
    }
}

/// Calls `found` with a group, as `id.group` in selections.
fn with_group(group: &DocumentGroup, found: &mut dyn FnMut(KeyedValue<'_>)) {
    match group {
        DocumentGroup::None => found(KeyedValue::Text("")),
        DocumentGroup::Number(number) => found(KeyedValue::Text(&number.to_string())),
        DocumentGroup::Name(name) => found(KeyedValue::Text(name)),
    }
}

/// Calls `found` with the single values at the end of a path.
fn collect(value: &DocumentValue, path: &[String], found: &mut dyn FnMut(KeyedValue<'_>)) {
    match (value, path.split_first()) {
        (DocumentValue::Array(elements), _) => {
            elements.iter().for_each(|element| collect(element, path, found));
        }
        (DocumentValue::WeightedSet(elements), None) => {
            elements.iter().for_each(|(element, _)| collect(element, path, found));
        }
        (DocumentValue::Map(entries), Some((step, rest))) => {
            for (key, value) in entries {
                match &**step {
                    "key" => collect(key, rest, found),
                    "value" => collect(value, rest, found),
                    _ => {}
                }
            }
        }
        (DocumentValue::Struct(members), Some((step, rest))) => {
            let named = members.iter().filter(|(name, _)| **name == **step);
            named.for_each(|(_, member)| collect(member, rest, found));
        }
        (value, None) => found(KeyedValue::from(value)),
        _ => {}
    }
}

/// [`collect`] for a value in a column.
fn collect_in_place(value: ValueRef<'_>, path: &[String], found: &mut dyn FnMut(KeyedValue<'_>)) {
    match (value, path.split_first()) {
        (ValueRef::Array(elements), _) => {
            elements.values().for_each(|element| collect_in_place(element, path, found));
        }
        (ValueRef::WeightedSet(elements), None) => {
            elements.weighted().for_each(|(element, _)| collect_in_place(element, path, found));
        }
        (ValueRef::Map(entries), Some((step, rest))) => {
            for (key, value) in entries.entries() {
                match &**step {
                    "key" => collect_in_place(key, rest, found),
                    "value" => collect_in_place(value, rest, found),
                    _ => {}
                }
            }
        }
        (ValueRef::Struct(members), Some((step, rest))) => {
            let named = members.members().filter(|(name, _)| **name == **step);
            named.for_each(|(_, member)| collect_in_place(member, rest, found));
        }
        (value, None) => found(match value {
            ValueRef::Bool(value) => KeyedValue::Bool(value),
            ValueRef::Byte(number) => KeyedValue::Integer(i64::from(number)),
            ValueRef::Int(number) => KeyedValue::Integer(i64::from(number)),
            ValueRef::Long(number) => KeyedValue::Integer(number),
            ValueRef::Float(number) => KeyedValue::Float(f64::from(number)),
            ValueRef::Double(number) => KeyedValue::Float(number),
            ValueRef::String(text) => KeyedValue::Text(text),
            _ => KeyedValue::Other,
        }),
        _ => {}
    }
}

/// Component of a key; `None` if it is not an attribute that an index can have.
fn component(key: &IndexKeyConfig, schema: &Schema) -> Option<KeyComponent> {
    let IndexKeyConfig { path, descending, several } = key;
    let (descending, several) = (*descending, *several);
    if path == IndexKeyConfig::GROUP {
        return Some(KeyComponent { key_type: KeyType::Text, analyzer: None, descending, several });
    }
    let field = schema.field_or_part(path)?;
    let key_type = key_type_of(element_type(&field.data_type))?;
    let is_folded = key_type == KeyType::Text && !field.matching.cased;
    let analyzer = is_folded.then(|| Arc::new(FieldAnalyzer::new(&field.matching, TextLanguage::Unknown)));
    Some(KeyComponent { key_type, analyzer, descending, several })
}

/// Type of keys with values of a type; `None` if it cannot be in keys.
pub(super) fn key_type_of(data_type: &DataType) -> Option<KeyType> {
    match data_type {
        DataType::Bool => Some(KeyType::Bool),
        DataType::Byte | DataType::Int | DataType::Long => Some(KeyType::Integer),
        DataType::Float16 | DataType::Float | DataType::Double => Some(KeyType::Float),
        DataType::String => Some(KeyType::Text),
        _ => None,
    }
}

/// Component for the value of a stored field, as it is: it follows the keys, so it orders no entries but
/// those of equal keys.
fn stored_component(path: &str, schema: &Schema) -> Option<KeyComponent> {
    let key = IndexKeyConfig { path: path.to_owned(), descending: false, several: false };
    Some(KeyComponent { analyzer: None, ..component(&key, schema)? })
}

fn element_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Array(element) | DataType::WeightedSet { element, .. } => element_type(element),
        _ => data_type,
    }
}

/// Parses the selection of an index: it must be a function of the document.
fn selection(text: &SourcedText<String>, schema: &Schema) -> Result<DocumentSelection, SchemaError> {
    let refuse = |reason: String| SchemaError::Invalid {
        position: text.position.clone(),
        reason: format!("selection '{}': {reason}", text.value),
    };
    let mut selection = DocumentSelection::parse(&text.value).map_err(|error| refuse(error.to_string()))?;
    if !selection.is_only_about(&schema.name) {
        let reason =
            format!("it is about documents of other types than '{}', which the index has", schema.name);
        return Err(refuse(reason));
    }
    if selection.depends_on_time() {
        let reason = "now() changes without a write: compare with the field in the query instead";
        return Err(refuse(reason.to_owned()));
    }
    selection.bind(&schema.document_type, &schema.ancestors).map_err(|error| refuse(error.to_string()))?;
    Ok(selection)
}
