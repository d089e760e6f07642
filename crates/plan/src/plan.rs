use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_document::DocumentGroup;
use millrace_query::Query;
use millrace_schema::{DocumentSummary, Schema};
use millrace_selection::DocumentSelection;
use millrace_tensor::Tensor;

use crate::{LocaleCollation, PlanLeaf, PlanNode, PlanTerm, PlannedCollapse, PlannedGrouping, QueryMemory};

/// A validated query over one schema.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The schema.
    pub schema: Arc<Schema>,
    /// Documents to stream.
    pub scope: StreamedScope,
    /// The match condition.
    pub root: PlanNode,
    /// Predicates referenced by [`Plan::root`].
    pub leaves: Vec<PlanLeaf>,
    /// Terms, with the numbering used by ranking.
    pub terms: Vec<PlanTerm>,
    /// Fields whose ranges were merged into one; for traces.
    pub joined_ranges: Vec<String>,
    /// Name of the rank profile; it exists in the schema.
    pub profile: String,
    /// Typed values of `query(name)` for the profile's inputs, including defaults.
    pub inputs: BTreeMap<String, FeatureInput>,
    /// Values of other rank features by name as written; they replace the computed values for this query.
    pub feature_values: BTreeMap<String, Arc<Tensor>>,
    /// Sort order; empty to sort by relevance.
    pub sorting: Vec<SortColumn>,
    /// Grouping requests, in order.
    pub groupings: Vec<PlannedGrouping>,
    /// Collapsing of hits, if requested.
    pub collapse: Option<PlannedCollapse>,
    /// Number of hits to return, after `offset`.
    pub hits: usize,
    /// Number of hits to skip.
    pub offset: usize,
    /// Document summary of the hits.
    pub summary: DocumentSummary,
    /// Fields of the summary to return; empty for all.
    pub fields: Vec<String>,
    /// Time of the query for `now`, `freshness` and `age`, in seconds since 1970; by default the wall clock.
    pub now: i64,
    /// Time limit.
    pub timeout: Duration,
    /// The request, for rank properties and presentation.
    pub query: Arc<Query>,
    /// Memory that the results may take; the schemas of a query share it.
    pub memory: Arc<QueryMemory>,
}

impl Plan {
    /// Number of positions between adjacent elements of a field, for proximity; `None` if words of two
    /// elements are never near. The query takes precedence over the rank profile.
    pub fn element_gap(&self, field: &str) -> Option<u32> {
        let of_profile = || self.schema.rank_profiles.get(&self.profile)?.element_gaps.get(field).copied();
        self.query.ranking.element_gaps.get(field).copied().unwrap_or_else(of_profile)
    }
}

/// Set of documents to stream.
#[derive(Debug, Clone)]
pub enum StreamedScope {
    /// Documents of these groups only.
    Groups(Vec<DocumentGroup>),
    /// All documents of the type that match the selection, if there is one.
    All {
        /// A document selection; it does not select all documents.
        selection: Option<Arc<DocumentSelection>>,
    },
}

/// Value of a query feature.
#[derive(Debug, Clone, PartialEq)]
pub enum FeatureInput {
    /// A number or tensor.
    Tensor(Arc<Tensor>),
    /// A string.
    String(String),
}

/// One validated sort key.
#[derive(Debug, Clone, PartialEq)]
pub struct SortColumn {
    /// Value to compare.
    pub by: SortBy,
    /// True to sort the largest first.
    pub descending: bool,
    /// Position of documents without a value: `None` for the type's default (smallest).
    pub missing: Option<MissingOrder>,
}

/// Value that a sort key compares.
#[derive(Debug, Clone, PartialEq)]
pub enum SortBy {
    /// The score.
    Relevance,
    /// The document id.
    DocumentId,
    /// The name of the cluster.
    Source,
    /// A number field, or the number of a position on a z-curve by its name (`place_zcurve`).
    Number(Arc<str>),
    /// A text field, with its collation.
    Text(Arc<str>, TextOrder),
    /// A field of binary data, in the order of its bytes.
    Bytes(Arc<str>),
    /// A field of other schemas in the request: no document of this schema has a value.
    Elsewhere(Arc<str>),
}

/// Collation of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextOrder {
    /// Byte by byte.
    Raw,
    /// Lower case first.
    Lowercase,
    /// By the Unicode collation algorithm.
    Collated(LocaleCollation),
}

/// Position of documents without a value.
#[derive(Debug, Clone, PartialEq)]
pub enum MissingOrder {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// Like documents with this value.
    As(String),
}
