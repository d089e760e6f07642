use std::fmt;
use std::sync::Arc;

use millrace_bucket::BucketId;
use millrace_document::{Document, DocumentGroup, DocumentId, Timestamp};

#[cfg(doc)]
use crate::Store;
use crate::read::visiting;
use crate::{Error, VisitSlice};

/// Set of documents that a view or a visit covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewScope {
    /// Documents of these groups; nothing is read of any other group. [`DocumentGroup::None`] stands for the
    /// documents without a group.
    Groups(Vec<DocumentGroup>),
    /// Documents in these buckets, none of which is inside another. The contents of the buckets of a divided
    /// group ([`Store::divide`]) are in no other bucket.
    Buckets(Vec<BucketId>),
    /// Documents of these groups that are in these buckets.
    GroupsIn(Vec<DocumentGroup>, Vec<BucketId>),
    /// Documents of all groups, and those without a group.
    All,
}

impl ViewScope {
    /// Buckets in which groups are looked up; `None`: all.
    pub(crate) fn within(&self) -> Option<&[BucketId]> {
        match self {
            ViewScope::GroupsIn(_, buckets) => Some(buckets),
            ViewScope::Groups(_) | ViewScope::Buckets(_) | ViewScope::All => None,
        }
    }
}

/// A pass over documents, one page at a time.
#[derive(Debug, Clone)]
pub struct StoreVisit {
    /// Document types, in the order in which they are returned.
    pub document_types: Vec<String>,
    /// Documents that it covers.
    pub scope: ViewScope,
    /// Minimum timestamp of versions, inclusive.
    pub from: Timestamp,
    /// Maximum timestamp of versions, inclusive.
    pub to: Timestamp,
    /// Share of the documents that it covers.
    pub slice: VisitSlice,
    /// End of the previous page; `None` for the first.
    pub continuation: Option<String>,
    /// Maximum number of documents in a page.
    pub wanted: usize,
    /// Condition on the returned documents; `None`: all are returned.
    pub filter: Option<VisitFilter>,
    /// True to return removals that are still remembered as well.
    pub tombstones: bool,
    /// Required fields; others may be missing in the result. `None`: all.
    pub fields: Option<Vec<String>>,
}

impl StoreVisit {
    /// All documents of these types, 1,024 per page.
    pub fn all(document_types: &[&str]) -> Self {
        StoreVisit {
            document_types: document_types.iter().map(|name| (*name).to_owned()).collect(),
            scope: ViewScope::All,
            from: Timestamp(0),
            to: Timestamp(u64::MAX),
            slice: VisitSlice::WHOLE,
            continuation: None,
            wanted: 1024,
            filter: None,
            tombstones: false,
            fields: None,
        }
    }

    /// Continuation of the visit after a document that it returned; `None` if it does not visit the type of
    /// this one.
    pub fn continuation_after(&self, id: &DocumentId) -> Option<String> {
        visiting::continuation_after(self, id)
    }

    /// Continuation of a visit of one type after a sort key: among its documents without a group, which come
    /// first, or among the others. With an empty key it is the start of these.
    pub fn continuation_at(grouped: bool, sort_key: &[u8]) -> String {
        visiting::continuation_at(grouped, sort_key)
    }

    /// Sort key of the last document before a continuation, and true if it has a group.
    ///
    /// # Errors
    /// No visit returned the continuation.
    pub fn position_of(continuation: &str) -> Result<(bool, Vec<u8>), Error> {
        visiting::position_of(continuation)
    }
}

/// A condition on the documents of a visit. Documents for which it does not hold cost only the columns that
/// it reads. It does not apply to removals.
#[derive(Clone)]
pub struct VisitFilter {
    /// Fields that the condition reads.
    fields: Vec<String>,
    accepts: Arc<dyn Fn(&Document) -> bool + Send + Sync>,
}

impl VisitFilter {
    /// Creates the condition `accepts`, which depends on the id and these fields of a document alone: it may
    /// get documents without the others.
    pub fn new(fields: Vec<String>, accepts: impl Fn(&Document) -> bool + Send + Sync + 'static) -> Self {
        VisitFilter { fields, accepts: Arc::new(accepts) }
    }

    pub(crate) fn fields(&self) -> &[String] {
        &self.fields
    }

    pub(crate) fn accepts(&self, document: &Document) -> bool {
        (self.accepts)(document)
    }
}

impl fmt::Debug for VisitFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VisitFilter").field("fields", &self.fields).finish_non_exhaustive()
    }
}

/// A page of a visit, in the order in which documents are stored.
#[derive(Debug, Clone)]
pub struct VisitPage {
    /// The documents.
    pub visited: Vec<VisitedVersion>,
    /// Start of the next page; `None` at the end. It stays valid across writes, seals, merges, splits and a
    /// restart.
    pub continuation: Option<String>,
    /// Share of all locations in that order that were passed, from 0 to 1. Documents need not be spread
    /// evenly over the locations.
    pub progress: f64,
}

/// End of a page of a visit whose versions were passed on.
#[derive(Debug, Clone, PartialEq)]
pub struct VisitEnd {
    /// Start of the next page, as in [`VisitPage`].
    pub continuation: Option<String>,
    /// Share of all locations that were passed, as in [`VisitPage`].
    pub progress: f64,
}

/// A version that a visit found.
#[derive(Debug, Clone, PartialEq)]
pub enum VisitedVersion {
    /// A document.
    Document(Document, Timestamp),
    /// A removal.
    Removed(DocumentId, Timestamp),
}

impl VisitedVersion {
    /// Id of the document.
    pub fn id(&self) -> &DocumentId {
        match self {
            VisitedVersion::Document(document, _) => &document.id,
            VisitedVersion::Removed(id, _) => id,
        }
    }
}
