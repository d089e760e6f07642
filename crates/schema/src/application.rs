use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Place, QueryProfile, Schema, ValidationOverride};

/// An application package, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// Schemas by name.
    pub schemas: BTreeMap<Arc<str>, Arc<Schema>>,
    /// The content clusters of services.xml.
    pub content: Vec<ContentCluster>,
    /// The container cluster of services.xml that serves queries and feeds.
    pub container: Container,
    /// Query profiles by id, what they inherit already put in.
    pub query_profiles: BTreeMap<String, QueryProfile>,
    /// What validation-overrides.xml allows.
    pub overrides: Vec<ValidationOverride>,
    /// What people should know, though it works: each names its place.
    pub warnings: Vec<String>,
    /// All files of the package, by path with forward slashes.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Application {
    /// The cluster that documents of this type belong to.
    pub fn cluster_of(&self, document_type: &str) -> Option<&ContentCluster> {
        self.content.iter().find(|cluster| cluster.document(document_type).is_some())
    }
}

/// The container cluster of services.xml.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Container {
    /// Its id; `default` or `container` where services.xml says none.
    pub id: String,
    /// The port of its http server, if it says one.
    pub port: Option<u16>,
    /// `<search>` is there.
    pub search: bool,
    /// `<document-api>` is there.
    pub document_api: bool,
    /// `ignore-undefined-fields` of the document API.
    pub ignore_undefined_fields: bool,
    /// Components of known types, for whoever runs them.
    pub components: Vec<Component>,
}

/// A component of a known type, such as an embedder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its id.
    pub id: String,
    /// Its type, such as `hugging-face-embedder`.
    pub component_type: String,
    /// Its element as XML text.
    pub xml: String,
    /// Where it stands.
    pub place: Place,
}

/// A content cluster of services.xml.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ContentCluster {
    /// Its id.
    pub id: Arc<str>,
    /// The copies to keep: the greater of `redundancy` and `min-redundancy`, at least 1.
    pub redundancy: u16,
    /// Its document types.
    pub documents: Vec<ClusterDocument>,
    /// `documents selection`: what every document of the cluster must match.
    pub selection: Option<String>,
    /// `garbage-collection`: documents that stop matching their selections are removed.
    pub garbage_collection: bool,
    /// `garbage-collection-interval` in seconds; 3600 by default.
    pub garbage_interval_s: u64,
    /// Limits that differ from the defaults.
    pub tuning: Tuning,
}

impl ContentCluster {
    /// The entry of this document type.
    pub fn document(&self, document_type: &str) -> Option<&ClusterDocument> {
        self.documents.iter().find(|document| &*document.document_type == document_type)
    }

    /// The document selection that documents of this type must match to be fed and, with
    /// [`ContentCluster::garbage_collection`], to stay: that of the cluster and that of the type. None: all belong.
    pub fn belongs(&self, document_type: &str) -> Option<String> {
        let own = self.document(document_type).and_then(|document| document.selection.as_deref());
        match (self.selection.as_deref(), own) {
            (Some(cluster), Some(own)) => Some(format!("({cluster}) and ({own})")),
            (one, other) => one.or(other).map(str::to_owned),
        }
    }
}

/// A document type in a content cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDocument {
    /// The document type; also the name of its schema.
    pub document_type: Arc<str>,
    /// How it is searched.
    pub mode: DocumentMode,
    /// Its own selection.
    pub selection: Option<String>,
}

/// How a document type is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentMode {
    /// By streaming. `index` is read as this too, with a warning: everything is exact here.
    Streaming,
    /// Stored only.
    StoreOnly,
}

/// Limits of a content cluster that services.xml sets; `None` where it does not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tuning {
    /// `max-document-size` in bytes.
    pub document_size_max: Option<u64>,
    /// `resource-limits`: the share of the disk at which writes are refused.
    pub disk_limit: Option<f64>,
    /// `removed-db`: how long removed documents are remembered, in seconds.
    pub removed_age_s: Option<u64>,
    /// `bucket-splitting`: documents of a bucket before it is split.
    pub bucket_documents_max: Option<u64>,
    /// `bucket-splitting`: bytes of a bucket before it is split.
    pub bucket_bytes_max: Option<u64>,
    /// `query-timeout` in seconds.
    pub query_timeout_s: Option<f64>,
}
