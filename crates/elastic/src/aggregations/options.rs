//! Options of each kind of aggregation. Others are refused: an option that is passed over changes the answer.

use serde_json::{Map, Value};

use crate::Error;

/// Options of each kind. One is listed if it is obeyed, or if nothing here depends on it: hints for the
/// execution, and the accuracy of results that are exact here.
pub(super) const OPTIONS: &[(&str, &[&str])] = &[
    (
        "terms",
        &[
            "field",
            "missing",
            "format",
            "value_type",
            "size",
            "shard_size",
            "order",
            "min_doc_count",
            "shard_min_doc_count",
            "include",
            "exclude",
            "execution_hint",
            "collect_mode",
            "show_term_doc_count_error",
        ],
    ),
    (
        "rare_terms",
        &["field", "missing", "format", "value_type", "max_doc_count", "include", "exclude", "precision"],
    ),
    (
        "significant_terms",
        &[
            "field",
            "size",
            "shard_size",
            "min_doc_count",
            "shard_min_doc_count",
            "include",
            "exclude",
            "background_filter",
            "execution_hint",
            "jlh",
        ],
    ),
    (
        "significant_text",
        &["field", "size", "shard_size", "min_doc_count", "shard_min_doc_count", "background_filter", "jlh"],
    ),
    (
        "multi_terms",
        &[
            "terms",
            "size",
            "shard_size",
            "order",
            "min_doc_count",
            "shard_min_doc_count",
            "collect_mode",
            "show_term_doc_count_error",
        ],
    ),
    (
        "histogram",
        &[
            "field",
            "missing",
            "format",
            "interval",
            "offset",
            "min_doc_count",
            "extended_bounds",
            "hard_bounds",
            "keyed",
            "order",
        ],
    ),
    (
        "date_histogram",
        &[
            "field",
            "missing",
            "format",
            "time_zone",
            "interval",
            "calendar_interval",
            "fixed_interval",
            "offset",
            "min_doc_count",
            "extended_bounds",
            "hard_bounds",
            "keyed",
            "order",
        ],
    ),
    ("auto_date_histogram", &["field", "missing", "format", "time_zone", "buckets", "minimum_interval"]),
    ("range", &["field", "missing", "format", "ranges", "keyed"]),
    ("date_range", &["field", "missing", "format", "time_zone", "ranges", "keyed"]),
    ("ip_range", &["field", "missing", "ranges", "keyed"]),
    ("filters", &["filters", "other_bucket", "other_bucket_key", "keyed"]),
    ("adjacency_matrix", &["filters", "separator"]),
    ("missing", &["field"]),
    ("nested", &["path"]),
    ("reverse_nested", &[]),
    ("global", &[]),
    ("sampler", &["shard_size"]),
    ("composite", &["sources", "size", "after"]),
    ("avg", &["field", "missing", "format", "value_type"]),
    ("sum", &["field", "missing", "format", "value_type"]),
    ("min", &["field", "missing", "format", "value_type"]),
    ("max", &["field", "missing", "format", "value_type"]),
    ("stats", &["field", "missing", "format", "value_type"]),
    ("extended_stats", &["field", "missing", "format", "value_type", "sigma"]),
    ("value_count", &["field", "missing", "format", "value_type"]),
    ("cardinality", &["field", "missing", "value_type", "precision_threshold", "execution_hint"]),
    ("percentiles", &["field", "missing", "format", "value_type", "percents", "keyed", "tdigest", "hdr"]),
    ("percentile_ranks", &["field", "missing", "format", "value_type", "values", "keyed", "tdigest", "hdr"]),
    ("median_absolute_deviation", &["field", "missing", "format", "value_type", "compression"]),
    ("weighted_avg", &["value", "weight", "format", "value_type"]),
    (
        "top_hits",
        &[
            "size",
            "from",
            "sort",
            "_source",
            "version",
            "seq_no_primary_term",
            "docvalue_fields",
            "fields",
            "stored_fields",
            "track_scores",
            "highlight",
        ],
    ),
    ("top_metrics", &["metrics", "size", "sort"]),
    ("derivative", &["buckets_path", "gap_policy", "format", "unit"]),
    ("cumulative_sum", &["buckets_path", "format"]),
    ("serial_diff", &["buckets_path", "gap_policy", "format", "lag"]),
    ("moving_fn", &["buckets_path", "gap_policy", "format", "window", "shift", "script"]),
    ("bucket_sort", &["sort", "from", "size", "gap_policy"]),
    ("bucket_script", &["buckets_path", "script", "gap_policy", "format"]),
    ("bucket_selector", &["buckets_path", "script", "gap_policy"]),
    ("avg_bucket", &["buckets_path", "gap_policy", "format"]),
    ("sum_bucket", &["buckets_path", "gap_policy", "format"]),
    ("min_bucket", &["buckets_path", "gap_policy", "format"]),
    ("max_bucket", &["buckets_path", "gap_policy", "format"]),
    ("stats_bucket", &["buckets_path", "gap_policy", "format"]),
    ("extended_stats_bucket", &["buckets_path", "gap_policy", "format", "sigma"]),
    ("percentiles_bucket", &["buckets_path", "gap_policy", "format", "percents", "keyed"]),
];

/// Checks the options of an aggregation.
///
/// # Errors
/// The kind is not one that there is, or an option is not one of it.
pub(super) fn check(kind: &str, options: &Map<String, Value>) -> Result<(), Error> {
    let Some((_, known)) = OPTIONS.iter().find(|(name, _)| *name == kind) else {
        return Err(Error::unknown(&format!("Unknown aggregation type [{kind}]")));
    };
    match options.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(Error::Parsing(format!("[{kind}] unknown field [{unknown}]"))),
        None => Ok(()),
    }
}
