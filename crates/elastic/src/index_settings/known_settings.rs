//! Names of the settings that indexes may have. Most have no effect here: they are about files, segments,
//! caches, and the places of shards, and clients send them from templates that were made for other servers.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Error;

/// Settings with an effect, or with one in a part of their values.
const OBEYED: &[&str] = &[
    "blocks.metadata",
    "blocks.read",
    "blocks.read_only",
    "blocks.read_only_allow_delete",
    "blocks.write",
    "hidden",
    "mapping.ignore_malformed",
    "mapping.total_fields.ignore_dynamic_beyond_limit",
    "mapping.total_fields.limit",
    "max_docvalue_fields_search",
    "max_rescore_window",
    "max_result_window",
    "max_slices_per_scroll",
    "mode",
    "number_of_routing_size",
    "number_of_shards",
    "partition.bytes",
    "partition.documents",
    "partition.window",
    "refresh_interval",
];

/// Settings without an effect.
const KEPT: &[&str] = &[
    "append_only.enabled",
    "auto_expand_replicas",
    "auto_expand_search_replicas",
    "bloom_filter_for_id_field.enabled",
    "bulk.adaptive_shard_selection.enabled",
    "check_pending_flush.enabled",
    "codec",
    "composite_index",
    "compound_format",
    "creation_date",
    "creation_date_string",
    "data_path",
    "default_pipeline",
    "dimensions",
    "fast_refresh",
    "final_pipeline",
    "flush_after_merge",
    "format",
    "frozen",
    "gc_deletes",
    "indexing_complete",
    "knn",
    "load_fixed_bitset_filters_eagerly",
    "look_ahead_time",
    "look_back_time",
    "mapper.dynamic",
    "mapping.coerce",
    "mapping.depth.limit",
    "mapping.dimension_fields.limit",
    "mapping.exclude_source_vectors",
    "mapping.field_name_length.ignore_dynamic_beyond_limit",
    "mapping.field_name_length.limit",
    "mapping.ignore_above",
    "mapping.nested_fields.limit",
    "mapping.nested_objects.limit",
    "mapping.nested_parents.limit",
    "mapping.semantic_text.use_legacy_format",
    "mapping.single_type",
    "mapping.source.mode",
    "mapping.synthetic_source_keep",
    "mapping.use_doc_values_skipper",
    "max_adjacency_matrix_filters",
    "max_inner_result_window",
    "max_nested_query_depth",
    "max_ngram_diff",
    "max_refresh_listeners",
    "max_regex_length",
    "max_script_fields",
    "max_shingle_diff",
    "max_slices_per_pit",
    "max_terms_count",
    "number_of_replicas",
    "number_of_routing_shards",
    "number_of_search_only_replicas",
    "number_of_search_replicas",
    "optimize_auto_generated_id",
    "periodic_flush_interval",
    "priority",
    "provided_name",
    "publish_referenced_segments_interval",
    "routing_partition_size",
    "routing_path",
    "shard_limit.group",
    "source_only",
    "unreferenced_file_cleanup.enabled",
    "upgrade_version",
    "use_compound_file",
    "use_time_series_doc_values_format",
    "uuid",
    "verified_before_close",
    "verified_read_only",
    "write.wait_for_active_shards",
];

/// Beginnings of the names of others without an effect. Of `analysis`, normalizers and analyzers have one.
const KEPT_GROUPS: &[&str] = &[
    "allocation.",
    "analysis.",
    "analyze.",
    "auto_force_merge.",
    "codec.",
    "composite_index.",
    "context",
    "dense_vector.",
    "derived_",
    "downsample.",
    "esql.",
    "failure_store.",
    "fielddata.",
    "flush.",
    "highlight.",
    "history.",
    "indexing.",
    "knn.",
    "lifecycle.",
    "logsdb.",
    "mapping.synthetic_source.",
    "merge.",
    "merge_on_flush.",
    "neural_search.",
    "opendistro.",
    "opensearch.",
    "optimize_doc_id_lookup.",
    "percolator.",
    "plugins.",
    "queries.",
    "query.",
    "query_string.",
    "recovery.",
    "remote_store.",
    "replication.",
    "requests.",
    "resize.",
    "rollup.",
    "routing.allocation.",
    "routing.rebalance.",
    "search.",
    "searchable_snapshot.",
    "segment.",
    "seq_no.",
    "shard.",
    "similarity.",
    "soft_deletes.",
    "sort.",
    "star_tree.",
    "store.",
    "time_series.",
    "translog.",
    "unassigned.",
    "version.",
    "warmer.",
    "write_load.",
    "xpack.",
];

/// Checks that settings are known. Those that are removed may be any.
///
/// # Errors
/// One is not.
pub(super) fn check_names(settings: &BTreeMap<String, Value>) -> Result<(), Error> {
    let is_known = |name: &str| {
        let name = name.strip_prefix("index.").unwrap_or(name);
        OBEYED.contains(&name)
            || KEPT.contains(&name)
            || KEPT_GROUPS.iter().any(|group| name.starts_with(group))
    };
    match settings.iter().find(|(name, value)| !value.is_null() && !is_known(name)) {
        Some((name, _)) => Err(Error::IllegalArgument(format!(
            "unknown setting [{name}] please check that any required plugins are installed, or check the breaking changes \
             documentation for removed settings"
        ))),
        None => Ok(()),
    }
}
