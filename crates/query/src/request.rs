use std::collections::BTreeMap;
use std::time::Duration;

use crate::Item;

/// A whole query request, parsed; names are still to be checked against a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// What must match.
    pub root: Item,
    /// Which schemas are asked.
    pub sources: Sources,
    /// Which documents are streamed.
    pub streaming: Streaming,
    /// Hits to return.
    pub hits: usize,
    /// Hits to skip.
    pub offset: usize,
    /// Order, where it is not by relevance.
    pub sorting: Vec<SortKey>,
    /// Grouping requests as text, in order: the part of YQL after `|`, and the `select` parameter.
    pub grouping: Vec<String>,
    /// How to rank.
    pub ranking: Ranking,
    /// What to return of a hit.
    pub presentation: Presentation,
    /// When to give up.
    pub timeout: Duration,
    /// How much to tell about the execution, from 0.
    pub trace_level: u8,
    /// The language of the query's text (`language`, `locale`).
    pub language: Option<String>,
    /// Every parameter as it came, for what reads its own.
    pub parameters: BTreeMap<String, String>,
}

/// Which schemas are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sources {
    /// All of them: `from sources *`.
    All,
    /// These, by schema or content cluster name.
    Named(Vec<String>),
}

/// Which documents are streamed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Streaming {
    /// `streaming.groupname`, one or several.
    pub groups: Vec<String>,
    /// `streaming.userid`.
    pub user: Option<u64>,
    /// `streaming.selection`: a document selection, parsed later.
    pub selection: Option<String>,
}

/// One key of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// A field, or `[relevance]`, `[docid]`, `[source]`.
    pub field: String,
    /// Which way.
    pub order: SortOrder,
    /// `function(…)` around the field: `lowercase`, `raw`, or `uca` with locale and strength.
    pub function: Option<(String, Vec<String>)>,
    /// `missing(…)`: `first`, `last`, or `as` with a value.
    pub missing: Option<(String, Option<String>)>,
}

/// Ascending or descending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortOrder {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// How to rank.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ranking {
    /// The rank profile; `default` where none is named.
    pub profile: Option<String>,
    /// `ranking.features.query(name)`, `input.query(name)`: text of a number, string or tensor, typed by the profile's inputs.
    pub inputs: BTreeMap<String, String>,
    /// `ranking.properties.*`.
    pub properties: BTreeMap<String, String>,
    /// `ranking.freshness`: now, in seconds since 1970, where given.
    pub now: Option<i64>,
    /// `ranking.rerankCount`, `ranking.secondPhase.rerankCount`.
    pub rerank_count: Option<usize>,
    /// `ranking.listFeatures`: return all rank features.
    pub list_features: bool,
    /// `ranking.queryCache` and others that have no effect here are left in the parameters.
    pub location: Option<String>,
}

/// What to return of a hit.
#[derive(Debug, Clone, PartialEq)]
pub struct Presentation {
    /// The document summary; `default` where none is named.
    pub summary: Option<String>,
    /// Fields named in `select`; empty for all of the summary.
    pub fields: Vec<String>,
    /// Whether `bolding` fields are bolded.
    pub bolding: bool,
    /// `presentation.format`.
    pub format: Option<String>,
    /// `presentation.format.tensors`.
    pub tensors: Option<String>,
    /// `presentation.timing`.
    pub timing: bool,
}
