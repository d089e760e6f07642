use std::sync::Arc;

use crate::{SourcePosition, SourcedText};

/// Indexes of a content cluster: `<index-service>`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct IndexServiceConfig {
    /// The indexes, each name once.
    pub indexes: Vec<IndexConfig>,
}

/// A declared index.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexConfig {
    /// Name, unique in the application.
    pub name: String,
    /// Type of its documents.
    pub document_type: Arc<str>,
    /// Keys, 1 to 8.
    pub keys: Vec<IndexKeyConfig>,
    /// Paths of stored fields with one value, at most 16.
    pub stored: Vec<String>,
    /// Selection of its documents; `None` for all.
    pub selection: Option<SourcedText<String>>,
    /// True to build it only on request.
    pub deferred: bool,
    /// True if a cluster places copies of its slices on nodes; else entries lie with the documents.
    pub placed: bool,
    /// Wanted number of copies, 1 to 4.
    pub copies: u8,
    /// Number of slices, a power of two from 1 to 64.
    pub slices: u8,
    /// Location of the declaration.
    pub position: SourcePosition,
}

/// A key of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexKeyConfig {
    /// Path of the attribute, or [`IndexKeyConfig::GROUP`].
    pub path: String,
    /// True to order from high to low.
    pub descending: bool,
    /// True if a document can have several values.
    pub several: bool,
}

impl IndexKeyConfig {
    /// Path of the group in the document's id.
    pub const GROUP: &str = "id.group";
}
