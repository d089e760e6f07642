use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Schema;

/// An application package, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// Schemas by name.
    pub schemas: BTreeMap<Arc<str>, Arc<Schema>>,
    /// The content clusters of services.xml.
    pub content: Vec<ContentCluster>,
    /// The id of the container cluster.
    pub container: String,
    /// What people should know, though it works: level and message.
    pub warnings: Vec<String>,
    /// All files of the package, by path.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// A content cluster of services.xml.
#[derive(Debug, Clone, PartialEq)]
pub struct ContentCluster {
    /// Its id.
    pub id: Arc<str>,
    /// `redundancy` (`min-redundancy`).
    pub redundancy: u16,
    /// Its document types: schema, mode, garbage collection.
    pub documents: Vec<(Arc<str>, DocumentMode, Option<Garbage>)>,
    /// `documents selection`, for feeding.
    pub selection: Option<String>,
    /// `garbage-collection-interval` in seconds; 3600 by default.
    pub garbage_interval_s: u64,
}

/// How a document type is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentMode {
    /// By streaming. `index` is read as this too, with a warning: everything is exact here.
    Streaming,
    /// Stored only.
    StoreOnly,
}

/// Which documents garbage collection keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbage {
    /// The document selection: documents that do not match are removed.
    pub selection: String,
}
