use millrace_bucket::BucketId;
use millrace_document::{Document, DocumentId, Group, Timestamp};

#[cfg(doc)]
use crate::Store;

/// Which documents a view or a visit covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewScope {
    /// Those of these groups; of no other is anything read. [`Group::None`] stands for the documents without a group.
    Groups(Vec<Group>),
    /// Those that fall into these buckets, none of which is inside another. What is in the buckets of a divided group ([`Store::divide`]) is in no
    /// other bucket.
    Buckets(Vec<BucketId>),
    /// Those of these groups that fall into these buckets.
    GroupsIn(Vec<Group>, Vec<BucketId>),
    /// Those of all groups, and those without.
    All,
}

impl ViewScope {
    /// The buckets that groups are looked at in; `None`: all.
    pub(crate) fn within(&self) -> Option<&[BucketId]> {
        match self {
            ViewScope::GroupsIn(_, buckets) => Some(buckets),
            ViewScope::Groups(_) | ViewScope::Buckets(_) | ViewScope::All => None,
        }
    }
}

/// A pass over documents, a page at a time.
#[derive(Debug, Clone)]
pub struct Visit {
    /// The document types, in the order in which they are to come.
    pub document_types: Vec<String>,
    /// Of which groups.
    pub scope: ViewScope,
    /// Versions of this timestamp or later.
    pub from: Timestamp,
    /// Versions of this timestamp or earlier.
    pub to: Timestamp,
    /// Of the documents cut into `.1` slices, slice number `.0` (from 0).
    pub slice: (u32, u32),
    /// Where the page before ended; `None` for the first.
    pub continuation: Option<String>,
    /// The most documents in a page.
    pub wanted: usize,
    /// Whether removals that are still remembered come too.
    pub tombstones: bool,
    /// The fields that are needed; others may be missing in what comes. `None`: all.
    pub fields: Option<Vec<String>>,
}

impl Visit {
    /// All documents of these types, 1,024 a page.
    pub fn all(document_types: &[&str]) -> Self {
        Visit {
            document_types: document_types.iter().map(|name| (*name).to_owned()).collect(),
            scope: ViewScope::All,
            from: Timestamp(0),
            to: Timestamp(u64::MAX),
            slice: (0, 1),
            continuation: None,
            wanted: 1024,
            tombstones: false,
            fields: None,
        }
    }
}

/// What a visit found next, in the order in which documents are stored.
#[derive(Debug, Clone)]
pub struct VisitPage {
    /// The documents.
    pub visited: Vec<Visited>,
    /// Where the next page begins; `None` at the end. It holds whatever is written, sealed, merged or split meanwhile, and after
    /// a restart.
    pub continuation: Option<String>,
    /// The share of all places in that order that lie behind, from 0 to 1. Documents need not be spread evenly over the places.
    pub progress: f64,
}

/// A version that a visit found.
#[derive(Debug, Clone, PartialEq)]
pub enum Visited {
    /// A document.
    Document(Document, Timestamp),
    /// A removal.
    Removed(DocumentId, Timestamp),
}
