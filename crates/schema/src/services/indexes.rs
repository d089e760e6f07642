//! Reader of `<index-service>`: in a content cluster, or in a file of its own that Vespa ignores.

use std::collections::BTreeSet;
use std::sync::Arc;

use millrace_document::DataType;
use millrace_linguistics::MatchMode;
use roxmltree::Node;

use crate::package::Files;
use crate::resolve::ResolvedSchemas;
use crate::suggest::did_you_mean;
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
    findings: &'f mut PackageFindings,
    copies: u8,
    slices: u8,
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
    let Some(text) = findings.keep(xml::text(EXTENSION_FILE, bytes)) else { return };
    let Some(document) = findings.keep(xml::parse(EXTENSION_FILE, text)) else { return };
    let root = document.root_element();
    let refuse = |findings: &mut PackageFindings, reason: String| {
        findings.keep(xml::invalid::<()>(EXTENSION_FILE, root, reason));
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
        let refuse = |reason| Error::Invalid { place: index.place.clone(), reason };
        if !names.insert(&index.name) {
            findings.tell(refuse(format!("there are two indexes with the name '{}'", index.name)));
        }
        if number == INDEXES_MAX {
            findings
                .tell(refuse(format!("more than {INDEXES_MAX} indexes: an application can have no more")));
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
    let mut reader = IndexReader { file, schemas, findings, copies: 2, slices: 8 };
    reader.copies = reader.copies(element).unwrap_or(2);
    reader.slices = reader.slices(element).unwrap_or(8);
    reader.known_attributes(element, &["copies", "slices", "content"]);
    let mut service = IndexServiceConfig::default();
    for child in xml::elements(element) {
        match child.tag_name().name() {
            "index" => service.indexes.extend(reader.index(child, cluster)),
            "fast-search" => service.indexes.extend(reader.fast_search(child, cluster)),
            other => {
                let hint = did_you_mean(other, ["index", "fast-search"]);
                reader.refuse(child, format!("unknown element <{other}> in <{ELEMENT}>{hint}"));
            }
        }
    }
    service
}

impl IndexReader<'_, '_> {
    fn refuse(&mut self, node: Node<'_, '_>, reason: impl Into<String>) {
        self.findings.keep(xml::invalid::<()>(self.file, node, reason));
    }

    fn known_attributes(&mut self, node: Node<'_, '_>, known: &[&str]) {
        for attribute in node.attributes().filter(|attribute| !known.contains(&attribute.name())) {
            let (name, element) = (attribute.name(), node.tag_name().name());
            let hint = did_you_mean(name, known.iter().copied());
            self.refuse(node, format!("unknown attribute '{name}' of <{element}>{hint}"));
        }
    }

    fn copies(&mut self, node: Node<'_, '_>) -> Option<u8> {
        let text = node.attribute("copies")?;
        let copies = text.parse().ok().filter(|copies| (1..=4).contains(copies));
        if copies.is_none() {
            self.refuse(node, format!("copies='{text}': expected 1 to 4"));
        }
        copies
    }

    fn slices(&mut self, node: Node<'_, '_>) -> Option<u8> {
        let text = node.attribute("slices")?;
        let slices = text.parse().ok().filter(|slices: &u8| slices.is_power_of_two() && *slices <= 64);
        if slices.is_none() {
            self.refuse(node, format!("slices='{text}': expected 1, 2, 4, 8, 16, 32 or 64"));
        }
        slices
    }

    /// Schema of a document type of the cluster; `None` if it is unknown or invalid.
    fn schema(&mut self, node: Node<'_, '_>, cluster: &ContentCluster) -> Option<Arc<Schema>> {
        let Some(name) = node.attribute("document") else {
            let element = node.tag_name().name();
            self.refuse(
                node,
                format!("<{element}> needs the attribute 'document': a document type of the cluster"),
            );
            return None;
        };
        if let (Some(schema), true) = (self.schemas.sound.get(name), cluster.document(name).is_some()) {
            return Some(Arc::clone(schema));
        }
        if !self.schemas.broken.has(name) {
            let known = cluster.documents.iter().map(|document| &*document.document_type);
            let hint = did_you_mean(name, known);
            self.refuse(
                node,
                format!("document type '{name}' is not in content cluster '{}'{hint}", cluster.id),
            );
        }
        None
    }

    fn index(&mut self, node: Node<'_, '_>, cluster: &ContentCluster) -> Option<IndexConfig> {
        let told = self.findings.told();
        self.known_attributes(node, &["name", "document", "selection", "build", "copies", "slices"]);
        let name = node.attribute("name").unwrap_or_default().to_owned();
        if !is_name(&name) {
            let reason = format!(
                "'{name}' is not a name of an index: a lower-case letter, then up to {} lower-case letters, digits, '.', '_' and '-'",
                NAME_MAX - 1
            );
            self.refuse(node, reason.to_string());
        }
        let deferred = match node.attribute("build") {
            None | Some("immediate") => false,
            Some("deferred") => true,
            Some(other) => {
                self.refuse(node, format!("build='{other}': expected 'immediate' or 'deferred'"));
                false
            }
        };
        let copies = self.copies(node).unwrap_or(self.copies);
        let slices = self.slices(node).unwrap_or(self.slices);
        let schema = self.schema(node, cluster)?;
        let (keys, stored) = self.fields(node, &schema);
        let selection = node
            .attribute("selection")
            .map(|text| SourcedText { value: text.to_owned(), place: xml::place(self.file, node) });
        (self.findings.told() == told).then(|| IndexConfig {
            name,
            document_type: Arc::clone(&schema.name),
            keys,
            stored,
            selection,
            deferred,
            copies,
            slices,
            place: xml::place(self.file, node),
        })
    }

    /// Keys and stored fields of an index.
    fn fields(&mut self, node: Node<'_, '_>, schema: &Schema) -> (Vec<IndexKeyConfig>, Vec<String>) {
        let (mut keys, mut stored): (Vec<IndexKeyConfig>, Vec<String>) = (Vec::new(), Vec::new());
        for child in xml::elements(node) {
            match child.tag_name().name() {
                "key" => {
                    let Some(key) = self.key(child, schema) else { continue };
                    if keys.iter().any(|known| known.path == key.path) {
                        self.refuse(child, format!("the key '{}' is given twice", key.path));
                    }
                    if key.several && keys.iter().any(|known| known.several) {
                        let reason = "two keys of one index have several values: at most one can";
                        self.refuse(child, reason);
                    }
                    keys.push(key);
                }
                "stored" => {
                    self.known_attributes(child, &["field"]);
                    let Some((path, _)) = self.field(child, schema) else { continue };
                    if stored.contains(&path) {
                        self.refuse(child, format!("the stored field '{path}' is given twice"));
                    }
                    stored.push(path);
                }
                other => {
                    let hint = did_you_mean(other, ["key", "stored"]);
                    self.refuse(child, format!("unknown element <{other}> in <index>{hint}"));
                }
            }
        }
        let listed = xml::named(node, "key").count();
        if listed == 0 || listed > KEYS_MAX {
            let reason = format!("an index has 1 to {KEYS_MAX} keys, not {listed}: <key field='…'/>");
            self.refuse(node, reason.to_string());
        }
        if stored.len() > STORED_MAX {
            let reason = format!("an index has at most {STORED_MAX} stored fields, not {}", stored.len());
            self.refuse(node, reason.to_string());
        }
        (keys, stored)
    }

    fn key(&mut self, node: Node<'_, '_>, schema: &Schema) -> Option<IndexKeyConfig> {
        self.known_attributes(node, &["field", "order"]);
        let descending = match node.attribute("order") {
            None | Some("ascending") => false,
            Some("descending") => true,
            Some(other) => {
                self.refuse(node, format!("order='{other}': expected 'ascending' or 'descending'"));
                false
            }
        };
        let (path, several) = self.field(node, schema)?;
        Some(IndexKeyConfig { path, descending, several })
    }

    /// Path in an element, and whether a document can have several values there.
    fn field(&mut self, node: Node<'_, '_>, schema: &Schema) -> Option<(String, bool)> {
        let Some(path) = node.attribute("field") else {
            let element = node.tag_name().name();
            self.refuse(node, format!("<{element}> needs the attribute 'field': <{element} field='…'/>"));
            return None;
        };
        if path == IndexKeyConfig::GROUP {
            return Some((path.to_owned(), false));
        }
        match several_values(schema, path) {
            Ok(several) => Some((path.to_owned(), several)),
            Err(reason) => {
                self.refuse(node, reason.to_string());
                None
            }
        }
    }

    /// Indexes of all attributes with `fast-search` that an index can have as its key.
    fn fast_search(&mut self, node: Node<'_, '_>, cluster: &ContentCluster) -> Vec<IndexConfig> {
        self.known_attributes(node, &["document"]);
        let Some(schema) = self.schema(node, cluster) else { return Vec::new() };
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
                    place: xml::place(self.file, node),
                }),
                Err(reason) => {
                    let place = xml::place(self.file, node);
                    self.findings
                        .warnings
                        .push(format!("{place}: no index is kept for fast-search: {reason}"));
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
