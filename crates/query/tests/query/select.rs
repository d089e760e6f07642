//! JSON bodies: `select.txt`. Each body is one line; the output is its tree and grouping.

use millrace_fixtures::cases;
use millrace_query::{Query, QueryLimits, flatten};

#[test]
fn bodies_mean_what_the_table_says() {
    cases::check("tests/select.txt", |input, _| {
        let parameters = flatten(input.as_bytes(), 1000);
        match parameters.and_then(|parameters| Query::from_parameters(parameters, &QueryLimits::default())) {
            Ok(query) => {
                let mut lines = vec![query.root.to_string()];
                if !query.presentation.fields.is_empty() {
                    lines.push(format!("fields {}", query.presentation.fields.join(" ")));
                }
                lines.extend(query.grouping.iter().map(|request| format!("group {request}")));
                lines.join("\n")
            }
            Err(error) => format!("! {error}"),
        }
    });
}

#[test]
fn a_body_is_flattened_to_parameters() {
    let body = br#"{"yql": "select * from sources * where true", "ranking": {"profile": "bm25", "features": {"query(q)": [1, 2]}},
        "input.query(t)": {"a": 0.5}, "hits": 5, "presentation": {"bolding": false}, "streaming": {"groupname": ["a", "b"]},
        "tokens": {"x": 3}, "nothing": null}"#;
    let parameters = flatten(body, 1000).expect("the body is JSON");
    assert_eq!(parameters["ranking.profile"], "bm25");
    assert_eq!(parameters["ranking.features.query(q)"], "[1,2]");
    assert_eq!(parameters["input.query(t)"], r#"{"a":0.5}"#);
    assert_eq!(parameters["tokens"], r#"{"x":3}"#);
    assert!(!parameters.contains_key("nothing") && !parameters.contains_key("ranking"));
    let query = Query::from_parameters(parameters, &QueryLimits::default()).expect("the query is right");
    assert_eq!(query.hits, 5);
    assert!(!query.presentation.bolding);
    assert_eq!(query.streaming.groups, ["a", "b"]);
    assert_eq!(query.ranking.inputs["q"], "[1,2]");
}

/// Values that are lists or objects in JSON where requests have other texts for them.
#[test]
fn lists_and_schemas_of_a_body_are_values() {
    for (body, name, expected) in [
        (r#"{"sources": ["mail", "files"]}"#, "sources", "mail,files"),
        (r#"{"search": ["mail"]}"#, "search", "mail"),
        (r#"{"model": {"sources": ["mail", "files"]}}"#, "model.sources", "mail,files"),
        (r#"{"model.restrict": ["mail"]}"#, "model.restrict", "mail"),
        (r#"{"restrict": ["mail"]}"#, "restrict", "mail"),
        (r#"{"presentation.summaryFields": ["a", "b"]}"#, "presentation.summaryFields", "a,b"),
        (r#"{"collapsefield": ["a", "b"]}"#, "collapsefield", "a,b"),
        (r#"{"groupname": ["a,b", "c"]}"#, "streaming.groupnames", r#"["a,b","c"]"#),
        (r#"{"sources": []}"#, "sources", "[]"),
        (r#"{"sources": ["a,b"]}"#, "sources", r#"["a,b"]"#),
        (r#"{"sources": [1]}"#, "sources", "[1]"),
        (r#"{"words": ["a", "b"]}"#, "words", r#"["a","b"]"#),
        (r#"{"llm.json_schema": {"type": "object"}}"#, "llm.json_schema", r#"{"type":"object"}"#),
        (r#"{"llm": {"json_schema": {"type": "object"}}}"#, "llm.json_schema", r#"{"type":"object"}"#),
    ] {
        let parameters = flatten(body.as_bytes(), 1000).expect("the body is JSON");
        assert_eq!(parameters.get(name).map(String::as_str), Some(expected), "{body}");
    }
}
