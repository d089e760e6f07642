//! Indexes that are document types of the application.
//!
//! A routing value names the group of a document, `_id` its name: a document is `id:TYPE:TYPE:g=ROUTING:ID`.
//! `n=NUMBER` names the group of a number. Documents of another namespace, and those without a group, have
//! their whole ids here. Versions and sequence numbers are the timestamps of the store.

mod mapping;
mod owned_writes;
mod reading;
mod writing;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use millrace_document::{Document, DocumentGroup, DocumentId, DocumentType, Timestamp};
use millrace_node::deployment::CompiledDocumentType;
use serde_json::{Map, Value};

pub(crate) use self::owned_writes::write_at_owners;
pub(crate) use self::reading::{find, scan};
pub(crate) use self::writing::{place, prepare, settle};
use crate::Error;
use crate::catalog::{CatalogEntries, IndexEntry, OpenIndex};
use crate::names::{self, NameOptions};
use crate::service::ElasticService;
use crate::source_text::{SourceText, TypedDocument};
use crate::storage::StoredSource;

/// A document type that an index stands for.
pub(crate) struct TypeBinding {
    kind: Arc<CompiledDocumentType>,
    /// True if the application skips fields that the type lacks.
    ignores_undefined_fields: bool,
}

impl fmt::Debug for TypeBinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The index of a document type. Its mapping has the fields of the type, and takes no others.
pub(crate) fn index(
    kind: &Arc<CompiledDocumentType>,
    ignores_undefined_fields: bool,
    aliases: BTreeMap<String, Map<String, Value>>,
) -> OpenIndex {
    let name = kind.schema.name.to_string();
    let settings = [("index.number_of_shards", "1"), ("index.number_of_replicas", "0")];
    let entry = IndexEntry {
        uuid: name.clone(),
        name,
        // Its documents are in no group of the service.
        number: u32::MAX,
        created_ms: 0,
        settings: settings.map(|(name, value)| (name.to_owned(), value.into())).into(),
        mappings: mapping::of_schema(&kind.schema),
        aliases,
        is_closed: false,
        seq_no_reserved: i64::MAX,
        time_field: None,
        observed: Map::new(),
    };
    let binding = TypeBinding { kind: Arc::clone(kind), ignores_undefined_fields };
    OpenIndex { typed: Some(Arc::new(binding)), ..OpenIndex::new(entry, Arc::default()) }
}

/// Error of the deletion of a document type.
pub(crate) fn undeletable(name: &str) -> Error {
    Error::Forbidden(format!(
        "[{name}] is a document type of the application; to remove it, deploy the application without it"
    ))
}

/// Refuses the deletion of indexes by names or patterns that document types have.
///
/// # Errors
/// A type has one of them, or a date in a name is malformed.
pub(crate) fn check_deletable(
    entries: &CatalogEntries,
    expression: &str,
    options: NameOptions,
) -> Result<(), Error> {
    let covered = names::covered_types(entries, expression, options)?;
    match covered.iter().find(|name| expression.split(',').any(|part| part == **name)) {
        Some(name) => Err(undeletable(name)),
        None if covered.is_empty() => Ok(()),
        None => Err(Error::Forbidden(format!(
            "[{expression}] covers the document types [{}] of the application, and nothing was deleted: use a narrower \
             pattern, or leave the types out as in [*,-{}]; to remove a type, deploy the application without it",
            covered.join(", "),
            covered.join(",-")
        ))),
    }
}

impl OpenIndex {
    /// The index of a document type with other aliases.
    ///
    /// # Errors
    /// `entry` differs in more.
    pub(crate) fn with_aliases_of(&self, entry: &IndexEntry) -> Result<OpenIndex, Error> {
        let own = &*self.entry;
        let is_same = own.settings == entry.settings && own.mappings == entry.mappings && !entry.is_closed;
        match is_same {
            true => Ok(OpenIndex { entry: Arc::new(entry.clone()), ..self.clone() }),
            false => Err(Error::Forbidden(format!(
                "[{}] is a document type of the application, which has its fields and settings; to change them, deploy \
                 the application",
                own.name
            ))),
        }
    }
}

impl TypeBinding {
    /// Name of the type, and of the index.
    fn name(&self) -> &str {
        &self.kind.schema.name
    }

    fn document_type(&self) -> &DocumentType {
        &self.kind.schema.document_type
    }

    /// Id of a document. A whole id of the type stands for itself.
    ///
    /// # Errors
    /// There is no routing value, or it names another group than the id; the id is invalid.
    fn document_id(&self, name: &str, routing: Option<&str>) -> Result<DocumentId, Error> {
        if let Some(id) = self.whole_id(name) {
            return match routing.map(group_of) {
                Some(group) if group != *id.group() => Err(Error::IllegalArgument(format!(
                    "the id [{id}] has the group [{}], and routing names [{group}]; leave out routing",
                    id.group()
                ))),
                _ => Ok(id),
            };
        }
        let group = self.group(Some(name), routing)?;
        Ok(DocumentId::new(self.name(), self.name(), &group, name)?)
    }

    /// A text that is the whole id of a document of the type.
    fn whole_id(&self, name: &str) -> Option<DocumentId> {
        let id = DocumentId::parse(name).ok()?;
        (id.document_type() == self.name()).then_some(id)
    }

    /// Group that a routing value names.
    ///
    /// # Errors
    /// There is none.
    fn group(&self, id: Option<&str>, routing: Option<&str>) -> Result<DocumentGroup, Error> {
        routing.map(group_of).ok_or_else(|| {
            let document = id.map(|id| format!("/[{id}]")).unwrap_or_default();
            self.routing_missing(format!(
                "routing is required for [{}]{document}: it names the group of the document",
                self.name()
            ))
        })
    }

    fn routing_missing(&self, reason: String) -> Error {
        Error::Routing { reason, index: self.name().to_owned() }
    }

    /// Id of a document as it is shown here.
    fn shown_id(&self, id: &DocumentId) -> String {
        let is_short = id.namespace() == self.name()
            && *id.group() != DocumentGroup::None
            && self.whole_id(id.name()).is_none();
        if is_short { id.name().to_owned() } else { id.to_string() }
    }

    /// A document of the store as it is shown here.
    fn source(&self, document: Document, timestamp: Timestamp) -> StoredSource {
        let version = version_of(timestamp);
        StoredSource {
            id: self.shown_id(&document.id),
            version,
            seq_no: version,
            routing: routing_of(document.id.group()),
            source: SourceText::OfType(Arc::new(TypedDocument::new(&self.kind, document))),
        }
    }
}

/// Routing value that counts: the one of the request, or the only group of the caller where the id does not
/// say another.
fn routing_for(
    service: &ElasticService,
    binding: &TypeBinding,
    id: Option<&str>,
    routing: Option<&str>,
) -> Option<String> {
    let has_own = id.is_some_and(|id| binding.whole_id(id).is_some());
    let only = || service.caller.only_group().filter(|_| !has_own).and_then(routing_of);
    routing.map(str::to_owned).or_else(only)
}

/// Group that a routing value names.
pub(crate) fn group_of(routing: &str) -> DocumentGroup {
    if let Some(number) = routing.strip_prefix("n=").and_then(|number| number.parse().ok()) {
        return DocumentGroup::Number(number);
    }
    DocumentGroup::Name(routing.strip_prefix("g=").unwrap_or(routing).to_owned())
}

/// Routing value that names a group.
fn routing_of(group: &DocumentGroup) -> Option<String> {
    match group {
        DocumentGroup::None => None,
        DocumentGroup::Name(name) if name.starts_with("n=") || name.starts_with("g=") => {
            Some(group.to_string())
        }
        DocumentGroup::Name(name) => Some(name.clone()),
        DocumentGroup::Number(_) => Some(group.to_string()),
    }
}

/// A timestamp as a version and as a sequence number.
fn version_of(timestamp: Timestamp) -> i64 {
    i64::try_from(timestamp.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routing_values_name_groups_and_the_other_way_round() {
        for (routing, group, shown) in [
            ("ann", "g=ann", "ann"),
            ("7", "g=7", "7"),
            ("n=7", "n=7", "n=7"),
            ("n=x", "g=n=x", "g=n=x"),
            ("g=ann", "g=ann", "ann"),
            ("g=n=7", "g=n=7", "g=n=7"),
        ] {
            let named = group_of(routing);
            assert_eq!(named.to_string(), group, "{routing}");
            let text = routing_of(&named).expect("it is a group");
            assert_eq!((text.as_str(), group_of(&text)), (shown, named), "{routing}");
        }
    }
}
