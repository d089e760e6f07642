use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_document::Group;
use millrace_query::Query;
use millrace_schema::{DocumentSummary, Schema};
use millrace_tensor::Tensor;

use crate::{Leaf, Node, Term};

/// A checked query over one schema.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The schema.
    pub schema: Arc<Schema>,
    /// Which documents are streamed.
    pub scope: Scope,
    /// What must match.
    pub root: Node,
    /// The predicates that [`Plan::root`] refers to.
    pub leaves: Vec<Leaf>,
    /// The terms, numbered as ranking counts them.
    pub terms: Vec<Term>,
    /// The fields of which several ranges became one; for traces.
    pub joined_ranges: Vec<String>,
    /// The rank profile's name; the schema has it.
    pub profile: String,
    /// `query(name)` of the profile's inputs, typed; defaults are filled in.
    pub inputs: BTreeMap<String, Input>,
    /// The values that other rank features have for this query, by their names as written, whatever they would be otherwise.
    pub feature_values: BTreeMap<String, Arc<Tensor>>,
    /// The order; empty for by relevance.
    pub sorting: Vec<SortColumn>,
    /// Hits to return, after `offset`.
    pub hits: usize,
    /// Hits to skip.
    pub offset: usize,
    /// The document summary to fill hits with.
    pub summary: DocumentSummary,
    /// Only these fields of the summary; empty for all.
    pub fields: Vec<String>,
    /// Seconds since 1970 for `now`, `freshness` and `age`; the wall clock where the query does not say.
    pub now: i64,
    /// How long it may take.
    pub timeout: Duration,
    /// The request itself, for grouping, rank properties and presentation.
    pub query: Arc<Query>,
}

impl Plan {
    /// How many positions lie between neighbouring elements of a field, for what asks how near words are; `None` where words of two
    /// elements are never near. The query says, or else the rank profile.
    pub fn element_gap(&self, field: &str) -> Option<u32> {
        let of_profile = || self.schema.rank_profiles.get(&self.profile)?.element_gaps.get(field).copied();
        self.query.ranking.element_gaps.get(field).copied().unwrap_or_else(of_profile)
    }
}

/// Which documents are streamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Those of these groups, and no others.
    Groups(Vec<Group>),
    /// All documents of the type that the selection (where there is one) matches.
    All {
        /// A document selection, checked by whoever evaluates it.
        selection: Option<String>,
    },
}

/// The value of a query feature.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A number or tensor.
    Tensor(Arc<Tensor>),
    /// A string.
    String(String),
}

/// One key of the order, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct SortColumn {
    /// What is compared.
    pub by: SortBy,
    /// Largest first.
    pub descending: bool,
    /// Where documents without a value go: `None` for the type's own place (smallest).
    pub missing: Option<Missing>,
}

/// What an order compares.
#[derive(Debug, Clone, PartialEq)]
pub enum SortBy {
    /// The score.
    Relevance,
    /// The document id.
    DocumentId,
    /// The cluster.
    Source,
    /// A field's number.
    Number(Arc<str>),
    /// A field's text, made comparable.
    Text(Arc<str>, TextOrder),
    /// A field that other schemas of the request have: no document of this one has a value.
    Elsewhere(Arc<str>),
}

/// How text is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextOrder {
    /// Byte by byte.
    Raw,
    /// Lower case first.
    Lowercase,
    /// By the Unicode collation algorithm.
    Collated {
        /// BCP 47 or with underscores.
        locale: String,
        /// `PRIMARY` to `IDENTICAL`.
        strength: String,
    },
}

/// Where documents without a value go.
#[derive(Debug, Clone, PartialEq)]
pub enum Missing {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// As if they had this value.
    As(String),
}
