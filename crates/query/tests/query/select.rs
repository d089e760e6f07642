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
