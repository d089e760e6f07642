//! Fields of documents that aggregations read.

use serde_json::{Map, Value};

use super::RequestedAggregation;
use super::pipelines::PipelineKind;
use crate::Error;
use crate::query;
use crate::read_fields::ReadFields;

/// Kinds that read of a document the fields that their options name as `field` and those of their queries,
/// and that take documents one by one.
const OF_DOCUMENTS: [&str; 5] =
    ["filters", "adjacency_matrix", "significant_terms", "significant_text", "sampler"];

/// Kinds that read of a document the fields that their options name as `field`, and no more. Documents with
/// the same values are alike to them.
const OF_FIELDS: [&str; 24] = [
    "terms",
    "rare_terms",
    "multi_terms",
    "histogram",
    "date_histogram",
    "auto_date_histogram",
    "range",
    "date_range",
    "ip_range",
    "missing",
    "composite",
    "value_count",
    "cardinality",
    "min",
    "max",
    "sum",
    "avg",
    "stats",
    "extended_stats",
    "percentiles",
    "percentile_ranks",
    "weighted_avg",
    "median_absolute_deviation",
    "global",
];

impl RequestedAggregation {
    /// Fields that the aggregation reads of each document, with those inside; `None`: whole documents.
    pub(crate) fn fields(&self) -> Option<Vec<&str>> {
        let mut fields: Vec<&str> = self.queried.source_paths()?.iter().map(String::as_str).collect();
        match self.own_fields() {
            Some(own) => fields.extend(own),
            None if OF_DOCUMENTS.contains(&self.kind.as_str()) => fields.extend(self.named_fields()),
            // Its options are its query.
            None if self.kind == "filter" => {}
            None => return None,
        }
        for one in &self.inner {
            fields.extend(one.fields()?);
        }
        Some(fields)
    }

    /// Fields that the aggregation itself reads; `None` if it needs documents one by one.
    pub(super) fn own_fields(&self) -> Option<Vec<&str>> {
        match OF_FIELDS.contains(&self.kind.as_str()) {
            true => Some(self.named_fields()),
            false => PipelineKind::of(&self.kind).map(|_| Vec::new()),
        }
    }

    /// Fields that its options name.
    pub(super) fn named_fields(&self) -> Vec<&str> {
        let mut fields = Vec::new();
        self.options.iter().for_each(|(name, value)| add_named_fields(name, value, &mut fields));
        fields
    }
}

/// Fields that the queries in the options of an aggregation read.
///
/// # Errors
/// A query is malformed.
pub(super) fn queried_fields(kind: &str, options: &Map<String, Value>) -> Result<ReadFields, Error> {
    let of_filter = (kind == "filter").then(|| Value::Object(options.clone()));
    let filters: Vec<&Value> =
        match options.get("filters").filter(|_| ["filters", "adjacency_matrix"].contains(&kind)) {
            Some(Value::Object(named)) => named.values().collect(),
            Some(Value::Array(filters)) => filters.iter().collect(),
            _ => Vec::new(),
        };
    let background = options.get("background_filter").filter(|_| kind.starts_with("significant_"));
    let mut fields = ReadFields::NONE;
    for query in of_filter.iter().chain(filters).chain(background) {
        // The mappings are those of the indexes that are searched later.
        fields.add_query(&Map::new(), &query::parse(query)?);
    }
    Ok(fields)
}

/// Adds the fields that an option and those in it name.
fn add_named_fields<'o>(name: &str, value: &'o Value, fields: &mut Vec<&'o str>) {
    match value {
        Value::String(field) if name == "field" => fields.push(field),
        Value::Array(parts) => parts.iter().for_each(|part| add_named_fields("", part, fields)),
        Value::Object(members) => {
            members.iter().for_each(|(name, value)| add_named_fields(name, value, fields));
        }
        _ => {}
    }
}
