//! Fields by which the hits of a query are collapsed.

use std::sync::Arc;

use millrace_query::CollapseOptions;
use millrace_schema::Schema;

/// Collapsing of hits that have the same values as better ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCollapse {
    /// Fields that are compared, in the order of the request.
    pub fields: Vec<CollapseField>,
}

/// A field by which hits are collapsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollapseField {
    /// Name in the schema; `None` if the schema does not have it: its documents then have no value.
    pub source: Option<Arc<str>>,
    /// Number of hits of each value that remain.
    pub size: usize,
}

impl PlannedCollapse {
    /// Resolves the names of a request: each is that of a field of the document summary that the request
    /// names for this, or of the schema.
    pub fn of(collapse: &CollapseOptions, schema: &Schema) -> Self {
        let summary = collapse.summary.as_deref().and_then(|name| schema.summaries.get(name));
        let field = |(name, size): &(String, usize)| {
            let shown = summary.and_then(|summary| summary.fields.iter().find(|shown| *shown.name == **name));
            let source = schema.fields.get_key_value(shown.map_or(name.as_str(), |shown| &*shown.source));
            CollapseField { source: source.map(|(name, _)| Arc::clone(name)), size: *size }
        };
        PlannedCollapse { fields: collapse.fields.iter().map(field).collect() }
    }
}
