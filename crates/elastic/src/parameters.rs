//! Parameters that each operation takes. Others are refused, as Elasticsearch does, before anything is done.
//!
//! The names are those of the REST interface specifications of Elasticsearch 8 and OpenSearch 2. A name is
//! listed if it is obeyed, or if nothing here depends on it. Of the latter kind are time limits of the
//! administration (a change is durable when it is answered), hints for the distribution of work over shards,
//! and forms for people.

use crate::Error;
use crate::request::{ElasticParameters, ElasticRequest};
use crate::scan_limit::duration_of;

/// Parameters of all operations.
const COMMON: &[&str] =
    &["error_trace", "filter_path", "format", "human", "pretty", "source", "source_content_type"];

/// Choice of indexes by name.
const NAMES: &[&str] = &["allow_no_indices", "expand_wildcards", "ignore_throttled", "ignore_unavailable"];

/// Administration.
const ADMIN: &[&str] = &[
    "cluster_manager_timeout",
    "include_type_name",
    "local",
    "master_timeout",
    "timeout",
    "wait_for_active_shards",
];

const SETTINGS: &[&str] = &["flat_settings", "include_defaults", "preserve_existing"];

/// Parts of the documents in an answer.
const SHOWN: &[&str] =
    &["_source", "_source_exclude", "_source_excludes", "_source_include", "_source_includes"];

/// Queries as texts.
const TEXT_QUERY: &[&str] = &["analyze_wildcard", "analyzer", "default_operator", "df", "lenient", "q"];

const SEARCH: &[&str] = &[
    "allow_partial_search_results",
    "batched_reduce_size",
    "ccs_minimize_roundtrips",
    "docvalue_fields",
    "explain",
    "from",
    "max_concurrent_shard_requests",
    "pre_filter_shard_size",
    "preference",
    "request_cache",
    "rest_total_hits_as_int",
    "routing",
    "scroll",
    "search_pipeline",
    "search_type",
    "seq_no_primary_term",
    "size",
    "sort",
    "stats",
    "stored_fields",
    "terminate_after",
    "timeout",
    "track_scores",
    "track_total_hits",
    "typed_keys",
    "version",
];

const ASYNC_SEARCH: &[&str] = &["keep_alive", "keep_on_completion", "wait_for_completion_timeout"];

const FIELD_CAPS: &[&str] = &["fields", "filters", "include_empty_fields", "include_unmapped", "types"];

const COUNT: &[&str] = &["min_score", "preference", "routing", "terminate_after"];

const MULTI_SEARCH: &[&str] = &[
    "ccs_minimize_roundtrips",
    "max_concurrent_searches",
    "max_concurrent_shard_requests",
    "pre_filter_shard_size",
    "rest_total_hits_as_int",
    "search_type",
    "typed_keys",
];

const POINT_IN_TIME: &[&str] = &[
    "allow_partial_pit_creation",
    "allow_partial_search_results",
    "keep_alive",
    "max_concurrent_shard_requests",
    "preference",
    "routing",
];

const SCROLL: &[&str] = &["rest_total_hits_as_int", "scroll", "scroll_id"];

/// Writes of single documents and of bulks.
const WRITE: &[&str] = &[
    "pipeline",
    "refresh",
    "require_alias",
    "require_data_stream",
    "routing",
    "timeout",
    "wait_for_active_shards",
];

/// Writes with a document, whose errors never show it.
const SHOWN_ON_ERROR: &[&str] = &["include_source_on_error"];

/// Writes of the documents that a query finds.
const BY_QUERY: &[&str] = &[
    "conflicts",
    "max_docs",
    "preference",
    "refresh",
    "request_cache",
    "requests_per_second",
    "routing",
    "scroll",
    "scroll_size",
    "search_timeout",
    "search_type",
    "slices",
    "stats",
    "timeout",
    "version",
    "wait_for_active_shards",
    "wait_for_completion",
];

const REINDEX: &[&str] = &[
    "max_docs",
    "refresh",
    "requests_per_second",
    "scroll",
    "slices",
    "timeout",
    "wait_for_active_shards",
    "wait_for_completion",
];

const CONDITION: &[&str] = &["if_primary_term", "if_seq_no", "version", "version_type"];

const GET: &[&str] =
    &["preference", "realtime", "refresh", "routing", "stored_fields", "version", "version_type"];

const CAT: &[&str] =
    &["bytes", "full_id", "h", "health", "help", "include_unloaded_segments", "pri", "s", "time", "ts", "v"];

const HEALTH: &[&str] = &[
    "awareness_attribute",
    "ensure_node_weighed_in",
    "level",
    "wait_for_events",
    "wait_for_no_initializing_shards",
    "wait_for_no_relocating_shards",
    "wait_for_nodes",
    "wait_for_status",
];

/// Groups of figures and their parts: those that are not there have none.
const INDEX_FIGURES: &[&str] = &[
    "completion_fields",
    "fielddata_fields",
    "fields",
    "forbid_closed_indices",
    "groups",
    "include_segment_file_sizes",
    "include_unloaded_segments",
    "level",
    "types",
];

const MERGE: &[&str] = &[
    "flush",
    "force",
    "max_num_segments",
    "only_expunge_deletes",
    "primary_only",
    "wait_for_completion",
    "wait_if_ongoing",
];

/// Lists of parameters of an operation; `None` for a path that does not exist.
fn lists_of(request: &ElasticRequest) -> Option<Vec<&'static [&'static str]>> {
    let parts: Vec<&str> = request.path.split('/').filter(|part| !part.is_empty()).collect();
    let operation = parts.iter().position(|part| part.starts_with('_') && *part != "_all");
    let Some(at) = operation else { return Some(vec![NAMES, ADMIN, SETTINGS, &["features"]]) };
    let is_read = ["GET", "HEAD"].contains(&request.method.as_str());
    Some(match (parts[at], parts.get(at + 1).copied()) {
        ("_search", Some("scroll")) => vec![SCROLL],
        ("_search", Some("pipeline")) => vec![ADMIN],
        ("_search", Some("point_in_time")) | ("_pit", _) => vec![NAMES, POINT_IN_TIME],
        ("_search", _) => vec![SEARCH, NAMES, SHOWN, TEXT_QUERY],
        ("_async_search", _) => vec![SEARCH, NAMES, SHOWN, TEXT_QUERY, ASYNC_SEARCH],
        ("_count", _) => vec![COUNT, NAMES, TEXT_QUERY],
        ("_msearch", _) => vec![MULTI_SEARCH, NAMES],
        ("_field_caps", _) => vec![NAMES, FIELD_CAPS],
        ("_analyze" | "_migration" | "_resolve", _) => vec![NAMES],
        ("_explain", _) => vec![GET, SHOWN, TEXT_QUERY],
        ("_terms_enum", _) => vec![NAMES],
        ("_stats", _) => vec![NAMES, INDEX_FIGURES],
        ("_validate", _) => vec![NAMES, TEXT_QUERY, &["all_shards", "explain", "rewrite"]],
        ("_delete_by_query", _) => vec![BY_QUERY, NAMES, TEXT_QUERY],
        ("_update_by_query", _) => vec![BY_QUERY, NAMES, TEXT_QUERY, &["pipeline"]],
        ("_reindex", _) => vec![REINDEX],
        ("_bulk", _) => vec![WRITE, SHOWN, SHOWN_ON_ERROR, &["batch_size", "batch_interval"]],
        ("_mget", _) => vec![GET, SHOWN],
        ("_source", _) => vec![GET, SHOWN],
        ("_doc", _) if is_read => vec![GET, SHOWN],
        ("_doc", _) if request.method == "DELETE" => vec![WRITE, CONDITION],
        ("_doc" | "_create", _) => vec![WRITE, CONDITION, SHOWN_ON_ERROR, &["op_type"]],
        ("_update", _) => vec![WRITE, CONDITION, SHOWN, SHOWN_ON_ERROR, &["retry_on_conflict"]],
        ("_mapping" | "_mappings", _) => vec![NAMES, ADMIN, &["include_defaults", "write_index_only"]],
        ("_settings", _) => vec![NAMES, ADMIN, SETTINGS],
        ("_refresh" | "_flush" | "_forcemerge", _) => vec![NAMES, MERGE],
        ("_open" | "_close", _) => vec![NAMES, ADMIN, MERGE],
        ("_lifecycle", _) => vec![NAMES, ADMIN, SETTINGS],
        ("_block", _) => vec![NAMES, ADMIN],
        ("_rollover", _) => vec![ADMIN, &["dry_run"]],
        ("_alias" | "_aliases" | "_data_stream", _) => vec![NAMES, ADMIN],
        ("_index_template" | "_component_template" | "_template" | "_ingest" | "_ilm", _) => {
            vec![ADMIN, SETTINGS, &["cause", "create", "order", "summary"]]
        }
        ("_cluster", Some("health")) => vec![NAMES, ADMIN, HEALTH],
        ("_cluster", Some("state")) => vec![NAMES, ADMIN, SETTINGS],
        ("_cluster", _) => vec![ADMIN, SETTINGS],
        ("_cat", _) => vec![NAMES, ADMIN, CAT],
        ("_nodes", _) => vec![ADMIN, SETTINGS, &["level", "metric", "types"]],
        ("_license" | "_xpack", _) => vec![ADMIN, &["accept_enterprise", "categories"]],
        _ => return None,
    })
}

/// Parameters that are whole numbers and have no effect here, with the least value of each.
const NUMBERS: &[(&str, i64)] = &[
    ("max_concurrent_searches", 1),
    ("max_concurrent_shard_requests", 1),
    ("max_num_segments", -1),
    ("pre_filter_shard_size", 1),
    ("retry_on_conflict", 0),
];

/// Parameters that are lengths of time.
const TIMES: &[&str] = &["cluster_manager_timeout", "master_timeout", "timeout"];

/// Checks the values of parameters that no operation reads.
fn check_values(parameters: &ElasticParameters) -> Result<(), Error> {
    for (name, least) in NUMBERS {
        if let Some(number) = parameters.integer(name)?.filter(|number| number < least) {
            return Err(Error::IllegalArgument(format!(
                "[{name}] must be at least [{least}], found [{number}]"
            )));
        }
    }
    for name in SHOWN_ON_ERROR {
        parameters.flag(name)?;
    }
    for text in TIMES.iter().filter_map(|name| parameters.get(name)) {
        duration_of(text)?;
    }
    let shards =
        parameters.get("wait_for_active_shards").filter(|text| !["all", "index-setting"].contains(text));
    match shards {
        Some(text) if text.parse::<u32>().is_err() => {
            Err(Error::IllegalArgument(format!("cannot parse ActiveShardCount[{text}]")))
        }
        _ => Ok(()),
    }
}

/// Checks that a form of the answer is asked for that there is. Tables have others.
fn check_format(request: &ElasticRequest, parameters: &ElasticParameters) -> Result<(), Error> {
    let is_table = request.path.trim_start_matches('/').starts_with("_cat");
    match parameters.get("format").filter(|format| !is_table && !format.is_empty()) {
        Some(format) if !["json", "application/json"].contains(&format) => Err(Error::NotAcceptable(
            format!("[format] is [{format}] and is not supported; answers are [json]"),
        )),
        _ => Ok(()),
    }
}

/// Checks that an operation takes all parameters of its request, and that their values are some.
///
/// # Errors
/// It does not take some of them, which are all named, or a value is malformed.
pub(crate) fn check(request: &ElasticRequest, parameters: &ElasticParameters) -> Result<(), Error> {
    let Some(lists) = lists_of(request) else { return Ok(()) };
    let is_known = |name: &str| COMMON.contains(&name) || lists.iter().any(|list| list.contains(&name));
    let unknown: Vec<String> =
        parameters.names().filter(|name| !is_known(name)).map(|name| format!("[{name}]")).collect();
    match unknown.as_slice() {
        [] => {
            check_format(request, parameters)?;
            check_values(parameters)
        }
        several => Err(Error::IllegalArgument(format!(
            "request [{}] contains unrecognized parameter{}: {}",
            request.path,
            if several.len() == 1 { "" } else { "s" },
            several.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_one(request: &str, expected: Result<(), &str>) {
        let (method, target) = request.split_once(' ').expect("a request has a method and a path");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let shown = ElasticRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            ..ElasticRequest::default()
        };
        let outcome = check(&shown, &ElasticParameters::parse(query)).map_err(|error| error.to_string());
        assert_eq!(outcome, expected.map_err(str::to_owned), "{request}");
    }

    #[test]
    fn each_operation_takes_its_own_parameters() {
        for request in [
            "GET /",
            "GET /?pretty&human",
            "GET /a/_search?q=b:1&df=c&size=3&_source=false&timeout=1s&allow_no_indices=true",
            "POST /_search/scroll?scroll_id=x&scroll=1m",
            "GET /a/_count?q=b&min_score=1&terminate_after=5",
            "POST /a/_bulk?refresh=true&routing=x&_source=true&pipeline=p&timeout=1m",
            "PUT /a/_doc/1?version=3&version_type=external&refresh=wait_for&op_type=create",
            "DELETE /a/_doc/1?if_seq_no=1&if_primary_term=1",
            "GET /a/_doc/1?realtime=false&stored_fields=b&preference=_local",
            "POST /a/_update/1?retry_on_conflict=3&_source_includes=b",
            "PUT /a?master_timeout=1m&include_type_name=false",
            "GET /_cat/indices?v&h=index&bytes=b&expand_wildcards=all",
            "GET /_cluster/health?wait_for_status=yellow&timeout=1s",
            "POST /logs/_rollover?dry_run",
            "GET /a/_validate/query?q=b&explain",
            "GET /_resolve/index/a?expand_wildcards=all",
            "GET /_nothing?what=ever",
            "POST /a/_async_search?keep_alive=1m&keep_on_completion=false&wait_for_completion_timeout=200ms&size=1",
            "GET /_field_caps?fields=*&filters=-parent&types=long&include_empty_fields=true",
            "POST /_bulk?include_source_on_error=false&filter_path=errors",
            "POST /a/_update/1?include_source_on_error=true",
            "GET /a/_search?format=json",
            "GET /_cat/indices?format=text",
        ] {
            check_one(request, Ok(()));
        }
        for (request, expected) in [
            ("GET /?q=a", "request [/] contains unrecognized parameter: [q]"),
            ("GET /a/_search?siez=3", "request [/a/_search] contains unrecognized parameter: [siez]"),
            (
                "GET /a/_search?profile=true&suggest_text=x",
                "request [/a/_search] contains unrecognized parameters: [profile], [suggest_text]",
            ),
            ("GET /a/_count?size=1", "request [/a/_count] contains unrecognized parameter: [size]"),
            (
                "POST /a/_update/1?retry_on_conflict=-1",
                "[retry_on_conflict] must be at least [0], found [-1]",
            ),
            (
                "POST /a/_update/1?retry_on_conflict=x",
                "Failed to parse int parameter [retry_on_conflict] with value [x]",
            ),
            (
                "GET /a/_search?max_concurrent_shard_requests=0",
                "[max_concurrent_shard_requests] must be at least [1], found [0]",
            ),
            ("POST /_bulk?wait_for_active_shards=-2", "cannot parse ActiveShardCount[-2]"),
            (
                "PUT /a?timeout=soon",
                "failed to parse setting [timeout] with value [soon] as a time value: unit is missing or unrecognized",
            ),
            ("POST /_bulk?lang=painless", "request [/_bulk] contains unrecognized parameter: [lang]"),
            (
                "POST /_bulk?include_source_on_error=maybe",
                "Failed to parse value [maybe] as only [true] or [false] are allowed.",
            ),
            ("GET /a/_search?format=yaml", "[format] is [yaml] and is not supported; answers are [json]"),
            ("PUT /a/_doc/1?ttl=1d", "request [/a/_doc/1] contains unrecognized parameter: [ttl]"),
            (
                "PUT /a/_settings?write_index_only=true",
                "request [/a/_settings] contains unrecognized parameter: [write_index_only]",
            ),
        ] {
            check_one(request, Err(expected));
        }
    }
}
