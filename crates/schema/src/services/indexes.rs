//! Reader of `<index-service>`: in a content cluster, or in a file of its own that Vespa ignores.

use std::collections::BTreeSet;
use std::sync::Arc;

use millrace_document::DataType;
use millrace_linguistics::MatchMode;
use roxmltree::Node;

use super::settings::{ServiceBlock, SettingTable, settings};
use crate::package::Files;
use crate::resolve::ResolvedSchemas;
use crate::suggest::{did_you_mean, one_of};
use crate::{
    ContentCluster, Error, IndexConfig, IndexKeyConfig, IndexServiceConfig, PackageFindings, Schema,
    SchemaField, SourcedText, xml,
};

/// Path of the file outside of services.xml.
pub(crate) const EXTENSION_FILE: &str = "ext/millrace/indexes.xml";

/// Name of the element.
pub(super) const ELEMENT: &str = "index-service";

const INDEXES_MAX: usize = 1024;
const KEYS_MAX: usize = 8;
const STORED_MAX: usize = 16;
const NAME_MAX: usize = 63;

/// Place of the declarations that are read.
struct IndexReader<'a, 'f> {
    file: &'a str,
    schemas: &'a ResolvedSchemas,
    cluster: &'a ContentCluster,
    findings: &'f mut PackageFindings,
    copies: u8,
    slices: u8,
    placed: bool,
}

/// Function that reads an attribute into the parts of its element. Mistakes are reported to the reader.
type AttributeReader<T> = fn(&mut IndexReader<'_, '_>, Node<'_, '_>, &str, &mut T);

/// Function that reads a child element into the parts of its parent.
type ChildReader<T> = fn(&mut IndexReader<'_, '_>, Node<'_, '_>, &mut T);

/// Attributes of `<index-service>`, as they are given.
#[derive(Default)]
struct ServiceParts {
    copies: Option<u8>,
    slices: Option<u8>,
    placed: bool,
}

static SERVICE: SettingTable<AttributeReader<ServiceParts>> = SettingTable {
    block: "Attributes of index-service",
    rows: &[settings! {
        "copies", "<index-service copies='2'/>",
            "Wanted number of copies of each placed index, 1 to 4; checked, and without effect for others.",
            |reader, node, text, parts| parts.copies = reader.copies(node, text);
        "slices", "<index-service slices='8'/>",
            "Number of slices of each placed index, a power of two up to 64; checked, and without effect for others.",
            |reader, node, text, parts| parts.slices = reader.slices(node, text);
        "placed", "<index-service placed='true'/>",
            "`true` if a cluster places copies of the indexes on nodes; by default entries lie with the documents.",
            |reader, node, text, parts| {
                let values = [("true", true), ("false", false)];
                parts.placed = reader.choice(node, "placed", text, &values).unwrap_or_default();
            };
        // It is read before the rest, to find the cluster.
        "content", "<index-service content='mail'/>",
            "The content cluster, where the element has a file of its own.", |_, _, _, _| ();
    }],
};

static SERVICE_CHILDREN: SettingTable<ChildReader<IndexServiceConfig>> = SettingTable {
    block: "Elements of index-service",
    rows: &[settings! {
        "index", "<index name='by-sender' document='mail'/>", "An index.",
            |reader, node, service| service.indexes.extend(reader.index(node));
        "fast-search", "<fast-search document='mail'/>", "An index for each attribute of a type with `fast-search`.",
            |reader, node, service| {
                let indexes = reader.fast_search(node);
                service.indexes.extend(indexes);
            };
    }],
};

/// Attributes of `<index>`, as they are given.
#[derive(Default)]
struct IndexParts {
    name: String,
    document: Option<String>,
    selection: Option<String>,
    deferred: bool,
    copies: Option<u8>,
    slices: Option<u8>,
}

static INDEX: SettingTable<AttributeReader<IndexParts>> = SettingTable {
    block: "Attributes of index",
    rows: &[settings! {
        "name", "<index name='by-sender'/>", "The name, unique in the application.",
            |_, _, text, parts| parts.name = text.to_owned();
        "document", "<index document='mail'/>", "A document type of the content cluster.",
            |_, _, text, parts| parts.document = Some(text.to_owned());
        "selection", "<index selection='mail.date &gt; 0'/>", "A selection; only these documents are in the index.",
            |_, _, text, parts| parts.selection = Some(text.to_owned());
        "build", "<index build='deferred'/>", "`immediate`, or `deferred` until `millrace index build`.",
            |reader, node, text, parts| {
                let values = [("immediate", false), ("deferred", true)];
                parts.deferred = reader.choice(node, "build", text, &values).unwrap_or_default();
            };
        "copies", "<index copies='2'/>", "As of the element around it.",
            |reader, node, text, parts| parts.copies = reader.copies(node, text);
        "slices", "<index slices='8'/>", "As of the element around it.",
            |reader, node, text, parts| parts.slices = reader.slices(node, text);
    }],
};

/// Fields of an index.
struct IndexFields {
    schema: Arc<Schema>,
    keys: Vec<IndexKeyConfig>,
    stored: Vec<String>,
}

static INDEX_CHILDREN: SettingTable<ChildReader<IndexFields>> = SettingTable {
    block: "Elements of index",
    rows: &[settings! {
        "key", "<key field='date' order='descending'/>", "A key.", key;
        "stored", "<stored field='title'/>", "A stored field, for queries that use nothing but keys and such fields.", stored;
    }],
};

/// Attributes of `<key>`, as they are given.
#[derive(Default)]
struct KeyParts {
    field: Option<String>,
    descending: bool,
}

static KEY: SettingTable<AttributeReader<KeyParts>> = SettingTable {
    block: "Attributes of key",
    rows: &[settings! {
        "field", "<key field='person.name'/>", "An attribute, a part of one, or `id.group`.",
            |_, _, text, parts| parts.field = Some(text.to_owned());
        "order", "<key field='date' order='descending'/>", "`ascending` or `descending`.",
            |reader, node, text, parts| {
                let values = [("ascending", false), ("descending", true)];
                parts.descending = reader.choice(node, "order", text, &values).unwrap_or_default();
            };
    }],
};

static STORED: SettingTable<AttributeReader<Option<String>>> = SettingTable {
    block: "Attributes of stored",
    rows: &[settings! {
        "field", "<stored field='title'/>", "An attribute, or a part of one.",
            |_, _, text, field| *field = Some(text.to_owned());
    }],
};

static FAST_SEARCH: SettingTable<AttributeReader<Option<String>>> = SettingTable {
    block: "Attributes of fast-search",
    rows: &[settings! {
        "document", "<fast-search document='mail'/>", "A document type of the content cluster.",
            |_, _, text, document| *document = Some(text.to_owned());
    }],
};

/// Attributes and elements of `<index-service>`, as documented.
pub(super) fn documented() -> Vec<ServiceBlock> {
    vec![
        SERVICE.documented(),
        SERVICE_CHILDREN.documented(),
        INDEX.documented(),
        INDEX_CHILDREN.documented(),
        KEY.documented(),
        STORED.documented(),
        FAST_SEARCH.documented(),
    ]
}

/// Reads the element of a content cluster.
pub(super) fn read(
    node: Node<'_, '_>,
    cluster: &mut ContentCluster,
    schemas: &ResolvedSchemas,
    findings: &mut PackageFindings,
) {
    if let Some(element) = xml::child(node, ELEMENT) {
        cluster.indexes = Some(service(super::FILE, element, cluster, schemas, findings));
    }
}

/// Reads the file of its own, if the package has it.
pub(super) fn read_file(
    files: &Files,
    clusters: &mut [ContentCluster],
    schemas: &ResolvedSchemas,
    findings: &mut PackageFindings,
) {
    let Some(bytes) = files.get(EXTENSION_FILE) else { return };
    let Some(text) = findings.ok_or_report(xml::text(EXTENSION_FILE, bytes)) else { return };
    let Some(document) = findings.ok_or_report(xml::parse(EXTENSION_FILE, text)) else { return };
    let root = document.root_element();
    let refuse = |findings: &mut PackageFindings, reason: String| {
        findings.ok_or_report(xml::invalid::<()>(EXTENSION_FILE, root, reason));
    };
    if root.tag_name().name() != ELEMENT {
        let found = root.tag_name().name();
        return refuse(findings, format!("expected <{ELEMENT} content='…'>, found <{found}>"));
    }
    let id = root.attribute("content");
    let ids: Vec<String> = clusters.iter().map(|cluster| cluster.id.to_string()).collect();
    let cluster = match (id, &mut *clusters) {
        (None, [only]) => only,
        (Some(id), clusters) if ids.iter().any(|known| known == id) => {
            clusters.iter_mut().find(|cluster| *cluster.id == *id).expect("the id is among those listed")
        }
        (Some(id), _) => {
            let hint = did_you_mean(id, ids.iter().map(String::as_str));
            return refuse(findings, format!("no content cluster '{id}'{hint}"));
        }
        (None, _) => {
            return refuse(
                findings,
                format!("<{ELEMENT}> needs the attribute 'content': the id of a content cluster"),
            );
        }
    };
    if cluster.indexes.is_some() {
        let reason = format!(
            "content cluster '{}' has its indexes in {} already: keep one of the two",
            cluster.id,
            super::FILE
        );
        return refuse(findings, reason);
    }
    cluster.indexes = Some(service(EXTENSION_FILE, root, cluster, schemas, findings));
}

/// Refuses more indexes than an application can have, and names that are given twice.
pub(super) fn check(clusters: &[ContentCluster], findings: &mut PackageFindings) {
    let indexes =
        || clusters.iter().filter_map(|cluster| cluster.indexes.as_ref()).flat_map(|of| &of.indexes);
    let mut names = BTreeSet::new();
    for (number, index) in indexes().enumerate() {
        let refuse = |reason| Error::Invalid { position: index.position.clone(), reason };
        if !names.insert(&index.name) {
            findings.report(refuse(format!("there are two indexes with the name '{}'", index.name)));
        }
        if number == INDEXES_MAX {
            findings
                .report(refuse(format!("more than {INDEXES_MAX} indexes: an application can have no more")));
        }
    }
}

fn service(
    file: &str,
    element: Node<'_, '_>,
    cluster: &ContentCluster,
    schemas: &ResolvedSchemas,
    findings: &mut PackageFindings,
) -> IndexServiceConfig {
    let mut reader = IndexReader { file, schemas, cluster, findings, copies: 2, slices: 8, placed: false };
    let mut parts = ServiceParts::default();
    reader.attributes(element, &SERVICE, &mut parts);
    reader.copies = parts.copies.unwrap_or(reader.copies);
    reader.slices = parts.slices.unwrap_or(reader.slices);
    reader.placed = parts.placed;
    let mut service = IndexServiceConfig::default();
    reader.children(element, &SERVICE_CHILDREN, &mut service);
    service
}

/// Reads `<key>`.
fn key(reader: &mut IndexReader<'_, '_>, node: Node<'_, '_>, fields: &mut IndexFields) {
    let mut parts = KeyParts::default();
    reader.attributes(node, &KEY, &mut parts);
    let Some((path, several)) = reader.field(node, parts.field, &fields.schema) else { return };
    if fields.keys.iter().any(|known| known.path == path) {
        reader.refuse(node, format!("the key '{path}' is given twice"));
    }
    if several && fields.keys.iter().any(|known| known.several) {
        reader.refuse(node, "two keys of one index have several values: at most one can");
    }
    fields.keys.push(IndexKeyConfig { path, descending: parts.descending, several });
}

/// Reads `<stored>`.
fn stored(reader: &mut IndexReader<'_, '_>, node: Node<'_, '_>, fields: &mut IndexFields) {
    let mut field = None;
    reader.attributes(node, &STORED, &mut field);
    let Some((path, several)) = reader.field(node, field, &fields.schema) else { return };
    if fields.stored.contains(&path) {
        reader.refuse(node, format!("the stored field '{path}' is given twice"));
    }
    if several {
        let position = xml::position_of(reader.file, node);
        let reason = "has several values, and is not kept in the entries: only single ones are";
        reader.findings.warnings.push(format!("{position}: the stored field '{path}' {reason}"));
        return;
    }
    fields.stored.push(path);
}

impl IndexReader<'_, '_> {
    fn refuse(&mut self, node: Node<'_, '_>, reason: impl Into<String>) {
        self.findings.ok_or_report(xml::invalid::<()>(self.file, node, reason));
    }

    /// Reads the attributes of an element; unknown ones are mistakes.
    fn attributes<T>(&mut self, node: Node<'_, '_>, table: &SettingTable<AttributeReader<T>>, parts: &mut T) {
        for attribute in node.attributes() {
            let name = attribute.name();
            match table.find(name) {
                Some(read) => read(self, node, attribute.value(), parts),
                None => {
                    let (element, hint) = (node.tag_name().name(), table.hint(name));
                    self.refuse(node, format!("unknown attribute '{name}' of <{element}>{hint}"));
                }
            }
        }
    }

    /// Reads the children of an element; unknown ones are mistakes.
    fn children<T>(&mut self, node: Node<'_, '_>, table: &SettingTable<ChildReader<T>>, parts: &mut T) {
        for child in xml::elements(node) {
            let name = child.tag_name().name();
            match table.find(name) {
                Some(read) => read(self, child, parts),
                None => {
                    let (element, hint) = (node.tag_name().name(), table.hint(name));
                    self.refuse(child, format!("unknown element <{name}> in <{element}>{hint}"));
                }
            }
        }
    }

    /// Value of an attribute, which must be one of these.
    fn choice<T: Copy>(
        &mut self,
        node: Node<'_, '_>,
        name: &str,
        text: &str,
        values: &[(&str, T)],
    ) -> Option<T> {
        let found = values.iter().find(|(value, _)| *value == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let known = one_of(values.iter().map(|(value, _)| *value));
            self.refuse(node, format!("{name}='{text}': expected {known}"));
        }
        found
    }

    fn copies(&mut self, node: Node<'_, '_>, text: &str) -> Option<u8> {
        let copies = text.parse().ok().filter(|copies| (1..=4).contains(copies));
        if copies.is_none() {
            self.refuse(node, format!("copies='{text}': expected 1 to 4"));
        }
        copies
    }

    fn slices(&mut self, node: Node<'_, '_>, text: &str) -> Option<u8> {
        let slices = text.parse().ok().filter(|slices: &u8| slices.is_power_of_two() && *slices <= 64);
        if slices.is_none() {
            self.refuse(node, format!("slices='{text}': expected 1, 2, 4, 8, 16, 32 or 64"));
        }
        slices
    }

    /// Schema of a document type of the cluster; `None` if it is unknown or invalid.
    fn schema(&mut self, node: Node<'_, '_>, name: Option<&str>) -> Option<Arc<Schema>> {
        let Some(name) = name else {
            let element = node.tag_name().name();
            self.refuse(
                node,
                format!("<{element}> needs the attribute 'document': a document type of the cluster"),
            );
            return None;
        };
        if let (Some(schema), true) = (self.schemas.sound.get(name), self.cluster.document(name).is_some()) {
            return Some(Arc::clone(schema));
        }
        if !self.schemas.invalid.has(name) {
            let known = self.cluster.documents.iter().map(|document| &*document.document_type);
            let hint = did_you_mean(name, known);
            self.refuse(
                node,
                format!("document type '{name}' is not in content cluster '{}'{hint}", self.cluster.id),
            );
        }
        None
    }

    fn index(&mut self, node: Node<'_, '_>) -> Option<IndexConfig> {
        let errors_before = self.findings.error_count();
        let mut parts = IndexParts::default();
        self.attributes(node, &INDEX, &mut parts);
        if !is_name(&parts.name) {
            let reason = format!(
                "'{}' is not a name of an index: a lower-case letter, then up to {} lower-case letters, digits, '.', '_' and '-'",
                parts.name,
                NAME_MAX - 1
            );
            self.refuse(node, reason);
        }
        let schema = self.schema(node, parts.document.as_deref())?;
        let document_type = Arc::clone(&schema.name);
        let (keys, stored) = self.fields(node, schema);
        let position = xml::position_of(self.file, node);
        (self.findings.error_count() == errors_before).then(|| IndexConfig {
            name: parts.name,
            document_type,
            keys,
            stored,
            selection: parts.selection.map(|value| SourcedText { value, position: position.clone() }),
            deferred: parts.deferred,
            copies: parts.copies.unwrap_or(self.copies),
            slices: parts.slices.unwrap_or(self.slices),
            placed: self.placed,
            position,
        })
    }

    /// Keys and stored fields of an index.
    fn fields(&mut self, node: Node<'_, '_>, schema: Arc<Schema>) -> (Vec<IndexKeyConfig>, Vec<String>) {
        let mut fields = IndexFields { schema, keys: Vec::new(), stored: Vec::new() };
        self.children(node, &INDEX_CHILDREN, &mut fields);
        let IndexFields { keys, stored, .. } = fields;
        let listed = xml::named(node, "key").count();
        if listed == 0 || listed > KEYS_MAX {
            let reason = format!("an index has 1 to {KEYS_MAX} keys, not {listed}: <key field='…'/>");
            self.refuse(node, reason);
        }
        if stored.len() > STORED_MAX {
            let reason = format!("an index has at most {STORED_MAX} stored fields, not {}", stored.len());
            self.refuse(node, reason);
        }
        (keys, stored)
    }

    /// Path in an element, and whether a document can have several values there.
    fn field(&mut self, node: Node<'_, '_>, path: Option<String>, schema: &Schema) -> Option<(String, bool)> {
        let Some(path) = path else {
            let element = node.tag_name().name();
            self.refuse(node, format!("<{element}> needs the attribute 'field': <{element} field='…'/>"));
            return None;
        };
        if path == IndexKeyConfig::GROUP {
            return Some((path, false));
        }
        match several_values(schema, &path) {
            Ok(several) => Some((path, several)),
            Err(reason) => {
                self.refuse(node, reason.to_string());
                None
            }
        }
    }

    /// Indexes of all attributes with `fast-search` that an index can have as its key.
    fn fast_search(&mut self, node: Node<'_, '_>) -> Vec<IndexConfig> {
        let mut document = None;
        self.attributes(node, &FAST_SEARCH, &mut document);
        let Some(schema) = self.schema(node, document.as_deref()) else { return Vec::new() };
        let fields = schema.fields.values().flat_map(SchemaField::with_parts);
        let wanted =
            fields.filter(|field| field.attribute.as_ref().is_some_and(|attribute| attribute.fast_search));
        let mut indexes = Vec::new();
        for field in wanted {
            let path = field.name.to_string();
            match several_values(&schema, &path) {
                Ok(several) => indexes.push(IndexConfig {
                    name: format!("{}.{path}", schema.name),
                    document_type: Arc::clone(&schema.name),
                    keys: vec![IndexKeyConfig { path, descending: false, several }],
                    stored: Vec::new(),
                    selection: None,
                    deferred: false,
                    copies: self.copies,
                    slices: self.slices,
                    placed: self.placed,
                    position: xml::position_of(self.file, node),
                }),
                Err(reason) => {
                    let position = xml::position_of(self.file, node);
                    self.findings
                        .warnings
                        .push(format!("{position}: no index is kept for fast-search: {reason}"));
                }
            }
        }
        indexes
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    name.len() <= NAME_MAX && name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(allowed)
}

/// Reason why a path cannot be a key of an index.
#[derive(Debug, thiserror::Error)]
enum UnfitKey {
    #[error("schema '{schema}' has no attribute '{path}'{hint}")]
    Unknown { schema: String, path: String, hint: String },
    #[error("'{0}' is not an attribute: add 'attribute' to its indexing")]
    NoAttribute(String),
    #[error(
        "'{0}' is matched word by word: an index needs an attribute that is compared as a whole, with match: word"
    )]
    Words(String),
    #[error(
        "'{path}' is of type {data_type}: an index needs a number, a bool or a string, or several of them"
    )]
    Kind { path: String, data_type: String },
}

/// True if a document can have several values at the path of an attribute.
///
/// # Errors
/// The path is not that of an attribute that is compared as a whole value.
fn several_values(schema: &Schema, path: &str) -> Result<bool, UnfitKey> {
    let own = || path.to_owned();
    let Some(field) = schema.field_or_part(path) else {
        let fields = schema.fields.values().flat_map(SchemaField::with_parts);
        let attributes = fields.filter(|field| field.attribute.is_some()).map(|field| &*field.name);
        let hint = did_you_mean(path, attributes);
        return Err(UnfitKey::Unknown { schema: schema.name.to_string(), path: own(), hint });
    };
    if field.attribute.is_none() {
        return Err(UnfitKey::NoAttribute(own()));
    }
    if field.is_text()
        || !matches!(field.matching.mode, MatchMode::Word | MatchMode::Exact) && has_text(field)
    {
        return Err(UnfitKey::Words(own()));
    }
    let kind = element_type(&field.data_type);
    let is_in_collection = path.contains('.') && {
        let parent = schema.fields.get(path.split('.').next().unwrap_or_default());
        parent.is_some_and(|parent| is_collection(&parent.data_type))
    };
    match kind {
        Some(_) => Ok(is_in_collection || is_collection(&field.data_type)),
        None => Err(UnfitKey::Kind { path: own(), data_type: field.data_type.to_string() }),
    }
}

fn has_text(field: &SchemaField) -> bool {
    crate::field::holds_text(&field.data_type)
}

fn is_collection(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Array(_) | DataType::WeightedSet { .. } | DataType::Map(..))
}

/// Type of the single values of an attribute; `None` if they are not compared as wholes.
pub(crate) fn element_type(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::Array(element) | DataType::WeightedSet { element, .. } => element_type(element),
        DataType::Bool
        | DataType::Byte
        | DataType::Int
        | DataType::Long
        | DataType::Float16
        | DataType::Float
        | DataType::Double
        | DataType::String => Some(data_type),
        _ => None,
    }
}
