//! Sorts by several values of a hit: the modes, and the values of nested objects.

use serde_json::json;

use crate::service_support::{TestService, directory};

#[test]
fn hits_are_sorted_by_one_of_their_values_or_by_all_of_them() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"n":{"type":"long"},"x":{"type":"double"},"d":{"type":"date"},
            "k":{"type":"keyword"},"u":{"type":"nested","properties":{"age":{"type":"integer"}}}}}}"#,
    );
    for (id, document) in [
        (
            "1",
            r#"{"n":[1,50],"x":[1,10],"d":["1970-01-01","1970-01-03"],"k":"a","u":[{"age":30},{"age":41}]}"#,
        ),
        ("2", r#"{"n":[20,21,22],"x":4,"d":"1970-01-03","k":"b","u":{"age":20}}"#),
        ("3", r#"{"k":"c"}"#),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), document);
    }
    let day = 86_400_000;
    for (sort, ids, keys) in [
        (json!({ "n": "asc" }), "1 2 3", json!([1, 20, null])),
        (json!({ "n": { "order": "asc", "mode": "max" } }), "2 1 3", json!([22, 50, null])),
        (json!({ "n": { "order": "asc", "mode": "sum" } }), "1 2 3", json!([51, 63, null])),
        (json!({ "n": { "order": "asc", "mode": "avg" } }), "2 1 3", json!([21, 26, null])),
        (json!({ "n": { "order": "desc", "mode": "median" } }), "1 2 3", json!([26, 21, null])),
        (json!({ "n": { "mode": "AVG", "missing": 23 } }), "2 3 1", json!([21, 23, 26])),
        (json!({ "x": { "order": "asc", "mode": "avg" } }), "2 1 3", json!([4.0, 5.5, null])),
        (json!({ "x": "desc" }), "1 2 3", json!([10.0, 4.0, null])),
        (json!({ "d": { "order": "asc", "mode": "avg" } }), "1 2 3", json!([day, 2 * day, null])),
        (
            json!({ "d": { "order": "desc", "mode": "avg", "format": "yyyy-MM-dd" } }),
            "2 1 3",
            json!(["1970-01-03", "1970-01-02", null]),
        ),
        (json!({ "u.age": { "order": "asc", "nested": { "path": "u" } } }), "2 1 3", json!([20, 30, null])),
        (
            json!({ "u.age": { "order": "desc", "mode": "avg", "nested": { "path": "u" } } }),
            "1 2 3",
            json!([36, 20, null]),
        ),
    ] {
        let answer = service.get("POST /a/_search", &json!({ "sort": [sort] }).to_string());
        let hits = answer["hits"]["hits"].as_array().expect("hits");
        let found: Vec<&str> = hits.iter().filter_map(|hit| hit["_id"].as_str()).collect();
        assert_eq!(found.join(" "), ids, "{sort}");
        let found: Vec<_> = hits.iter().map(|hit| hit["sort"][0].clone()).collect();
        assert_eq!(json!(found), keys, "{sort}");
    }
    // Of the nested objects those that match a filter count.
    for (filter, order, ids, keys) in [
        (json!({ "range": { "u.age": { "gt": 30 } } }), "asc", "1 2 3", json!([41, null, null])),
        (json!({ "range": { "u.age": { "lt": 40 } } }), "desc", "1 2 3", json!([30, 20, null])),
        (json!({ "term": { "u.age": 20 } }), "desc", "2 1 3", json!([20, null, null])),
    ] {
        let sort =
            json!([{ "u.age": { "order": order, "nested": { "path": "u", "filter": filter } } }, "_doc"]);
        let answer = service.get("POST /a/_search", &json!({ "sort": sort }).to_string());
        let hits = answer["hits"]["hits"].as_array().expect("hits");
        let found: Vec<&str> = hits.iter().filter_map(|hit| hit["_id"].as_str()).collect();
        assert_eq!(found.join(" "), ids, "{sort}");
        let found: Vec<_> = hits.iter().map(|hit| hit["sort"][0].clone()).collect();
        assert_eq!(json!(found), keys, "{sort}");
    }
    for (sort, reason) in [
        (json!({ "n": { "mode": "best" } }), "Unknown SortMode [best]"),
        (json!({ "k": { "mode": "sum" } }), "Cannot sort by the sum, average or median of [k]"),
        (json!({ "u.age": { "nested": { "path": "v" } } }), "needs the [path] of an object around it"),
        (json!({ "u.age": { "nested": {} } }), "needs the [path] of an object around it"),
        (json!({ "u.age": { "nested": { "path": "u", "filter": {} } } }), "empty clause found"),
        (
            json!({ "u.age": { "nested": { "path": "u", "filter": { "match": { "k": { "query": "a", "analyzer": "x" } } } } } }),
            "[x]",
        ),
        (json!({ "u.age": { "nested": { "path": "u", "max_children": 1 } } }), "[max_children] in [nested]"),
        (json!({ "u.age": { "nested": { "path": "u", "most": 1 } } }), "unknown field [most]"),
        // It is found where the objects are compared.
        (
            json!({ "u.age": { "nested": { "path": "u", "filter": { "term": { "u.age": "old" } } } } }),
            "For input string",
        ),
        (
            json!({ "u.age": { "nested": { "path": "u", "filter": { "regexp": { "u.k": "a.*" } } } } }),
            "[regexp in filter] in [nested]",
        ),
    ] {
        let (status, answer) = service.ask("POST /a/_search", &json!({ "sort": [sort] }).to_string());
        assert!(status == 400 && answer.to_string().contains(reason), "{sort}: {answer}");
    }
}
