//! Members of each kind of query. Others are refused: a condition that is passed over changes what is found.

use serde_json::{Map, Value};

use crate::Error;

/// Members of each kind of query, beside `boost` and `_name`. A member is listed if it is obeyed, or if
/// nothing here depends on it: hints for rewriting over the terms of an index, of which there is none, and
/// synonyms.
const MEMBERS: &[(&str, &[&str])] = &[
    ("match_all", &[]),
    ("match_none", &[]),
    ("ids", &["values"]),
    ("distance_feature", &["field", "origin", "pivot"]),
    ("term", &["value", "case_insensitive"]),
    (
        "match",
        &[
            "query",
            "operator",
            "minimum_should_match",
            "fuzziness",
            "prefix_length",
            "max_expansions",
            "fuzzy_transpositions",
            "fuzzy_rewrite",
            "lenient",
            "zero_terms_query",
            "analyzer",
            "auto_generate_synonyms_phrase_query",
        ],
    ),
    ("match_phrase", &["query", "slop", "analyzer", "zero_terms_query"]),
    ("match_phrase_prefix", &["query", "slop", "analyzer", "zero_terms_query", "max_expansions"]),
    (
        "match_bool_prefix",
        &[
            "query",
            "operator",
            "minimum_should_match",
            "analyzer",
            "fuzziness",
            "prefix_length",
            "max_expansions",
            "fuzzy_transpositions",
            "fuzzy_rewrite",
        ],
    ),
    (
        "multi_match",
        &[
            "query",
            "fields",
            "type",
            "operator",
            "minimum_should_match",
            "fuzziness",
            "prefix_length",
            "max_expansions",
            "fuzzy_transpositions",
            "fuzzy_rewrite",
            "lenient",
            "zero_terms_query",
            "analyzer",
            "slop",
            "tie_breaker",
            "auto_generate_synonyms_phrase_query",
        ],
    ),
    (
        "range",
        &[
            "gte",
            "gt",
            "lte",
            "lt",
            "from",
            "to",
            "include_lower",
            "include_upper",
            "format",
            "time_zone",
            "relation",
        ],
    ),
    ("exists", &["field"]),
    ("prefix", &["value", "prefix", "case_insensitive", "rewrite"]),
    ("wildcard", &["value", "wildcard", "case_insensitive", "rewrite"]),
    ("regexp", &["value", "case_insensitive", "flags", "max_determinized_states", "rewrite"]),
    ("fuzzy", &["value", "fuzziness", "prefix_length", "max_expansions", "transpositions", "rewrite"]),
    ("nested", &["path", "query", "score_mode", "ignore_unmapped", "inner_hits"]),
    ("constant_score", &["filter"]),
    ("dis_max", &["queries", "tie_breaker"]),
    ("boosting", &["positive", "negative", "negative_boost"]),
    ("script_score", &["query", "script", "min_score"]),
    (
        "function_score",
        &[
            "query",
            "functions",
            "weight",
            "field_value_factor",
            "random_score",
            "script_score",
            "gauss",
            "exp",
            "linear",
            "score_mode",
            "boost_mode",
            "max_boost",
            "min_score",
        ],
    ),
    (
        "query_string",
        &[
            "query",
            "default_field",
            "fields",
            "default_operator",
            "lenient",
            "analyzer",
            "analyze_wildcard",
            "auto_generate_synonyms_phrase_query",
            "enable_position_increments",
            "max_determinized_states",
            "rewrite",
            "allow_leading_wildcard",
            "escape",
            "fuzziness",
            "fuzzy_max_expansions",
            "fuzzy_prefix_length",
            "fuzzy_rewrite",
            "fuzzy_transpositions",
            "minimum_should_match",
            "phrase_slop",
            "quote_analyzer",
            "tie_breaker",
            "time_zone",
            "type",
        ],
    ),
    (
        "simple_query_string",
        &[
            "query",
            "fields",
            "default_operator",
            "lenient",
            "analyzer",
            "analyze_wildcard",
            "auto_generate_synonyms_phrase_query",
            "flags",
            "fuzzy_max_expansions",
            "fuzzy_prefix_length",
            "fuzzy_transpositions",
            "minimum_should_match",
        ],
    ),
];

/// Checks the members of a query.
///
/// # Errors
/// One of them is not known for this kind.
pub(crate) fn check(kind: &str, members: &Map<String, Value>) -> Result<(), Error> {
    let Some((_, known)) = MEMBERS.iter().find(|(name, _)| *name == kind) else { return Ok(()) };
    let is_known = |name: &str| ["boost", "_name"].contains(&name) || known.contains(&name);
    match members.keys().find(|name| !is_known(name)) {
        Some(unknown) => Err(Error::Parsing(format!("[{kind}] query does not support [{unknown}]"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::query::OF_ONE_FIELD;

    /// A query of a kind with some members.
    fn query(kind: &str, members: Value) -> Value {
        match OF_ONE_FIELD.contains(&kind) {
            true => json!({ kind: { "field": members } }),
            false => json!({ kind: members }),
        }
    }

    #[test]
    fn each_kind_takes_its_own_members() {
        for (kind, _) in MEMBERS {
            let mut members = json!({ "boost": 2.0 });
            for (name, value) in [
                ("query", json!("a")),
                ("value", json!("a")),
                ("field", json!("a")),
                ("filter", json!({ "match_all": {} })),
                ("queries", json!([{ "match_all": {} }])),
                ("values", json!(["1"])),
                ("path", json!("a")),
                ("positive", json!({ "match_all": {} })),
                ("negative", json!({ "match_none": {} })),
                ("negative_boost", json!(0.5)),
                ("origin", json!("now")),
                ("pivot", json!("1d")),
                ("script", json!("1")),
            ] {
                if MEMBERS.iter().any(|(other, known)| other == kind && known.contains(&name)) {
                    let has_query = ["nested", "function_score", "script_score"].contains(kind);
                    members[name] =
                        if has_query && name == "query" { json!({ "match_all": {} }) } else { value };
                }
            }
            let parsed = crate::query::parse(&query(kind, members.clone()));
            assert!(parsed.is_ok(), "{kind}: {:?}", parsed.err());
            members["surprise"] = json!(1);
            let refused = crate::query::parse(&query(kind, members)).err().map(|error| error.to_string());
            assert_eq!(refused, Some(format!("[{kind}] query does not support [surprise]")));
        }
    }
}
