//! Highlighting of hits: the words that a query finds, between tags.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};
use crate::types;

const LONG: &str = "It rained all night. In the morning the quick fox crossed the river, which had risen. \
                    Nobody saw the fox again until spring. Then it was old.";

fn filled() -> (tempfile::TempDir, TestService) {
    let directory = directory();
    let service = TestService::open(&directory);
    let mappings = json!({ "mappings": { "properties": { "tag": { "type": "keyword" } } } });
    service.get("PUT /a", &mappings.to_string());
    let document = json!({
        "title": "The Quick brown Fox <b>", "body": LONG, "tag": "Quick fox", "n": 5,
        "lines": ["no animals", "a fox, a fox", "one fox"], "o": { "p": "foxes and a fox" },
    });
    service.get("PUT /a/_doc/1", &document.to_string());
    (directory, service)
}

/// Member `highlight` of the one hit of a search; null if it has none.
#[track_caller]
fn highlighted(service: &TestService, query: &Value, highlight: &Value) -> Value {
    let body = json!({ "query": query, "highlight": highlight }).to_string();
    let answer = service.get("POST /a/_search", &body);
    assert_eq!(answer["hits"]["total"]["value"], 1, "{answer}");
    answer["hits"]["hits"][0]["highlight"].clone()
}

#[test]
fn words_are_found_as_the_query_finds_them() {
    let (_directory, service) = filled();
    for (query, expected) in [
        (json!({ "match": { "title": "fox QUICK" } }), "The <em>Quick</em> brown <em>Fox</em> <b>"),
        (json!({ "term": { "title": "quick" } }), "The <em>Quick</em> brown Fox <b>"),
        (
            json!({ "term": { "title": { "value": "QUICK", "case_insensitive": true } } }),
            "The <em>Quick</em> brown Fox <b>",
        ),
        (json!({ "prefix": { "title": "bro" } }), "The Quick <em>brown</em> Fox <b>"),
        (json!({ "wildcard": { "title": "f*x" } }), "The Quick brown <em>Fox</em> <b>"),
        (json!({ "regexp": { "title": "bro.*" } }), "The Quick <em>brown</em> Fox <b>"),
        (json!({ "fuzzy": { "title": "quikc" } }), "The <em>Quick</em> brown Fox <b>"),
        (
            json!({ "match": { "title": { "query": "brwon", "fuzziness": 1 } } }),
            "The Quick <em>brown</em> Fox <b>",
        ),
        (json!({ "match_phrase": { "title": "quick brown" } }), "The <em>Quick brown</em> Fox <b>"),
        (json!({ "match_phrase_prefix": { "title": "quick bro" } }), "The <em>Quick brown</em> Fox <b>"),
        (json!({ "match_bool_prefix": { "title": "fox bro" } }), "The Quick <em>brown</em> <em>Fox</em> <b>"),
        (
            json!({ "multi_match": { "query": "fox", "fields": ["t*", "body"] } }),
            "The Quick brown <em>Fox</em> <b>",
        ),
        (
            json!({ "query_string": { "query": "brown AND title:fox" } }),
            "The Quick <em>brown</em> <em>Fox</em> <b>",
        ),
        (
            json!({ "bool": {
                "filter": { "match": { "title": "fox" } }, "must_not": { "match": { "title": "hen" } },
                "should": { "constant_score": { "filter": { "term": { "title": "the" } } } },
            } }),
            "<em>The</em> Quick brown <em>Fox</em> <b>",
        ),
    ] {
        let shown = highlighted(&service, &query, &json!({ "fields": { "title": {} } }));
        assert_eq!(shown, json!({ "title": [expected] }), "{query}");
    }
    for query in [
        json!({ "match_all": {} }),
        json!({ "range": { "n": { "gte": 1 } } }),
        json!({ "term": { "tag": "Quick fox" } }),
    ] {
        let shown = highlighted(&service, &query, &json!({ "fields": { "title": {}, "what": {} } }));
        assert!(shown.is_null(), "{query}: {shown}");
    }
    // A keyword is one word.
    let keyword = json!({ "term": { "tag": "Quick fox" } });
    let shown = highlighted(&service, &keyword, &json!({ "fields": { "tag": {} } }));
    assert_eq!(shown, json!({ "tag": ["<em>Quick fox</em>"] }));
}

#[test]
fn options_of_a_field_come_before_those_of_all() {
    let (_directory, service) = filled();
    let fox = json!({ "match": { "title": "fox" } });
    for (highlight, expected) in [
        (
            json!({ "pre_tags": ["<i>", "<u>"], "post_tags": ["</i>"], "fields": { "title": {}, "tag": {} } }),
            json!({ "title": ["The Quick brown <i>Fox</i> <b>"] }),
        ),
        (
            json!({ "tags_schema": "styled", "fields": [{ "title": { "encoder": "html" } }] }),
            json!({ "title": ["The Quick brown <em class=\"hlt1\">Fox</em> &lt;b&gt;"] }),
        ),
        (
            json!({ "require_field_match": false, "fields": { "o.*": {}, "title": { "require_field_match": true } } }),
            json!({ "o.p": ["foxes and a <em>fox</em>"], "title": ["The Quick brown <em>Fox</em> <b>"] }),
        ),
        (
            json!({ "fields": { "title": { "highlight_query": { "match": { "title": "brown" } } } } }),
            json!({ "title": ["The Quick <em>brown</em> Fox <b>"] }),
        ),
        (json!({ "fields": { "body": {} } }), Value::Null),
        (json!({ "fields": { "body": { "no_match_size": 12 } } }), json!({ "body": ["It rained"] })),
        (json!({ "fields": { "n": {} }, "require_field_match": false }), Value::Null),
        (
            json!({ "fields": { "lines": { "require_field_match": false, "type": "plain" } } }),
            json!({ "lines": ["a <em>fox</em>, a <em>fox</em>", "one <em>fox</em>"] }),
        ),
        (
            json!({ "fields": { "lines": { "require_field_match": false, "number_of_fragments": 1 } } }),
            json!({ "lines": ["a <em>fox</em>, a <em>fox</em>"] }),
        ),
    ] {
        assert_eq!(highlighted(&service, &fox, &highlight), expected, "{highlight}");
    }
    let body = json!({ "match": { "body": "fox old" } });
    for (options, expected) in [
        (
            json!({ "fragment_size": 40 }),
            json!([
                "morning the quick <em>fox</em> crossed the",
                "Nobody saw the <em>fox</em> again until spring.",
                "Then it was <em>old</em>.",
            ]),
        ),
        (
            json!({ "number_of_fragments": 0 }),
            json!([LONG.replace("fox", "<em>fox</em>").replace("old", "<em>old</em>"),]),
        ),
        (
            json!({ "fragment_size": 60, "number_of_fragments": 1, "order": "score" }),
            json!(["Nobody saw the <em>fox</em> again until spring. Then it was <em>old</em>.",]),
        ),
    ] {
        let shown = highlighted(&service, &body, &json!({ "fields": { "body": options } }));
        assert_eq!(shown, json!({ "body": expected }), "{options}");
    }
}

#[test]
fn malformed_highlighting_is_refused() {
    let (_directory, service) = filled();
    for highlight in [
        json!([]),
        json!({ "fields": 3 }),
        json!({ "fields": { "title": 1 } }),
        json!({ "what": 1, "fields": {} }),
        json!({ "pre_tags": ["x".repeat(1_001)], "fields": {} }),
        json!({ "fields": vec![json!({ "title": {} }); 1_001] }),
        json!({ "fields": { "title": { "matched_fields": ["a"] } } }),
        json!({ "fields": { "title": { "fragment_size": -1 } } }),
        json!({ "fields": { "title": { "highlight_query": { "what": {} } } } }),
    ] {
        let (status, answer) = service.ask("POST /a/_search", &json!({ "highlight": highlight }).to_string());
        assert_eq!(status, 400, "{highlight}: {answer}");
    }
}

#[test]
fn pages_of_scrolls_and_documents_of_types_are_highlighted() {
    let (_directory, service) = filled();
    let body = json!({ "query": { "match": { "title": "fox" } }, "highlight": { "fields": { "title": {} } }, "size": 1 });
    service.get("PUT /a/_doc/2", r#"{"title":"one fox"}"#);
    let first = service.get("POST /a/_search?scroll=1m&sort=_doc", &body.to_string());
    let next = json!({ "scroll_id": first["_scroll_id"] }).to_string();
    let second = service.get("POST /_search/scroll", &next);
    for page in [first, second] {
        let shown = page["hits"]["hits"][0]["highlight"]["title"][0].as_str().unwrap_or_default();
        assert!(shown.to_lowercase().contains("<em>fox</em>"), "{page}");
    }
    let types_directory = directory();
    let service = types::service(&types_directory);
    service.get("PUT /note/_doc/1?routing=ann", r#"{"title":"Hello there"}"#);
    let body = json!({ "query": { "match": { "title": "hello" } }, "highlight": { "fields": { "*": {} } } });
    let answer = service.get("POST /note/_search?routing=ann", &body.to_string());
    assert_eq!(
        answer["hits"]["hits"][0]["highlight"],
        json!({ "title": ["<em>Hello</em> there"] }),
        "{answer}"
    );
}

#[test]
fn hits_inside_of_answers_are_highlighted_by_the_query_that_found_them() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"k":{"type":"keyword"},"t":{"type":"text"},
            "c":{"type":"nested","properties":{"w":{"type":"text"}}}}}}"#,
    );
    service.get("PUT /a/_doc/1", r#"{"k":"x","t":"red fox","c":[{"w":"old fox"},{"w":"new dog"}]}"#);
    service.get("PUT /a/_doc/2", r#"{"k":"x","t":"blue fox","c":[{"w":"new fox"}]}"#);
    let found = json!({ "match": { "t": "fox" } });
    let highlight = json!({ "fields": { "*": {} } });
    let top = json!({ "top_hits": { "size": 1, "sort": [{ "_doc": "desc" }], "highlight": highlight } });
    let filters = json!({ "filters": { "filters": { "all": { "match_all": {} } } }, "aggs": { "h": top } });
    let nested = json!({ "nested": { "path": "c", "query": { "match": { "c.w": "fox" } }, "inner_hits": { "highlight": highlight } } });
    for (body, pointer, expected) in [
        (
            json!({ "query": found, "aggs": { "h": top } }),
            "/aggregations/h/hits/hits/0/highlight",
            json!({ "t": ["blue <em>fox</em>"] }),
        ),
        (
            json!({ "query": found, "aggs": { "k": { "terms": { "field": "k" }, "aggs": { "h": top } } } }),
            "/aggregations/k/buckets/0/h/hits/hits/0/highlight",
            json!({ "t": ["blue <em>fox</em>"] }),
        ),
        (
            json!({ "query": found, "aggs": { "f": filters } }),
            "/aggregations/f/buckets/all/h/hits/hits/0/highlight",
            json!({ "t": ["blue <em>fox</em>"] }),
        ),
        (
            json!({ "query": found, "sort": ["_doc"],
                "collapse": { "field": "k", "inner_hits": { "name": "g", "sort": ["_doc"], "highlight": highlight } } }),
            "/hits/hits/0/inner_hits/g/hits/hits/1/highlight",
            json!({ "t": ["blue <em>fox</em>"] }),
        ),
        (
            json!({ "query": nested, "sort": ["_doc"] }),
            "/hits/hits/0/inner_hits/c/hits/hits/0/highlight",
            json!({ "c.w": ["old <em>fox</em>"] }),
        ),
    ] {
        let answer = service.get("POST /a/_search", &body.to_string());
        assert_eq!(answer.pointer(pointer), Some(&expected), "{body}: {answer}");
    }
    let regexp = json!({ "fields": { "t": {} }, "highlight_query": { "regexp": { "t": "f.*" } } });
    let body = json!({ "aggs": { "h": { "top_hits": { "highlight": regexp } } } }).to_string();
    let (status, answer) = service.ask("POST /a/_search", &body);
    assert!(status == 400 && answer.to_string().contains("[highlight_query]"), "{answer}");
}
