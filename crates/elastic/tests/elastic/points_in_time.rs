//! Points in time: searches go on as if nothing had been written since.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

fn ids(answer: &Value) -> Vec<String> {
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    hits.map(|hit| hit["_id"].as_str().expect("an id").to_owned()).collect()
}

/// Opens a point in time of indexes, in the form of Elasticsearch or of OpenSearch.
fn open(service: &TestService, path: &str) -> Value {
    let answer = service.get(&format!("POST {path}?keep_alive=1m"), "");
    let id = answer.get("id").or(answer.get("pit_id")).unwrap_or_else(|| panic!("{path}: {answer}"));
    id.clone()
}

/// Documents `FIRST` to `LAST` of an index, all with the same key.
fn write(service: &TestService, index: &str, numbers: std::ops::Range<usize>) {
    for n in numbers {
        service.get(&format!("PUT /{index}/_doc/{index}{n:02}"), &json!({ "n": n, "k": 1 }).to_string());
    }
}

#[test]
fn pages_have_each_document_of_the_point_once() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (path, names) in
        [("/a/_pit", "a"), ("/a,b/_pit", "ab"), ("/*/_pit", "ab"), ("/a/_search/point_in_time", "a")]
    {
        for sort in [json!(["_shard_doc"]), json!(["k"]), json!([{ "n": "desc" }]), json!(["_doc"])] {
            for name in ["a", "b"] {
                service.ask(&format!("DELETE /{name}"), "");
                write(&service, name, 0..20);
            }
            let id = open(&service, path);
            let mut body = json!({ "size": 3, "sort": sort, "pit": { "id": id, "keep_alive": "1m" } });
            let mut seen = Vec::new();
            loop {
                let page = service.get("POST /_search", &body.to_string());
                assert_eq!(page["pit_id"], id, "{path} {sort}: {page}");
                let Some(last) = page["hits"]["hits"].as_array().and_then(|hits| hits.last()) else { break };
                seen.extend(ids(&page));
                body["search_after"] = last["sort"].clone();
                // What is written later is of a later time.
                let next = 20 + seen.len();
                write(&service, "a", next..next + 1);
            }
            let mut expected: Vec<String> =
                names.chars().flat_map(|name| (0..20).map(move |n| format!("{name}{n:02}"))).collect();
            expected.sort_unstable();
            seen.sort_unstable();
            assert_eq!(seen, expected, "{path} {sort}");
        }
    }
}

#[test]
fn a_point_holds_for_all_of_a_search() {
    let directory = directory();
    let service = TestService::open(&directory);
    write(&service, "a", 0..4);
    let filter = r#"{"actions":[{"add":{"index":"a","alias":"few","filter":{"range":{"n":{"lt":2}}}}}]}"#;
    service.get("POST /_aliases", filter);
    let (all, few) = (open(&service, "/a/_pit"), open(&service, "/few/_pit"));
    write(&service, "a", 4..9);
    service.get("PUT /a/_doc/a03", r#"{"n":3,"k":2}"#);
    let asked = |id: &Value, more: Value| {
        let mut body = json!({ "size": 10, "pit": { "id": id } });
        for (name, value) in more.as_object().expect("an object") {
            body[name] = value.clone();
        }
        service.get("POST /_search", &body.to_string())
    };
    // A document that was changed since is not as it was: it is left out.
    for (id, expected) in [(&all, "a00 a01 a02"), (&few, "a00 a01")] {
        let answer = asked(id, json!({ "aggs": { "n": { "value_count": { "field": "n" } } } }));
        assert_eq!(ids(&answer).join(" "), expected);
        assert_eq!(answer["hits"]["total"]["value"], ids(&answer).len(), "{answer}");
        assert_eq!(answer["aggregations"]["n"]["value"], ids(&answer).len(), "{answer}");
    }
    let slices = [0, 1].map(|slice| ids(&asked(&all, json!({ "slice": { "id": slice, "max": 2 } }))));
    assert_eq!(slices.iter().map(Vec::len).sum::<usize>(), 3, "{slices:?}");
    let lines = format!("{{}}\n{}\n", json!({ "pit": { "id": few } }));
    let answer = service.get("POST /_msearch", &lines);
    assert_eq!(ids(&answer["responses"][0]).join(" "), "a00 a01");
    // Without the alias, the filter of the point is gone.
    service.get("POST /_aliases", r#"{"actions":[{"remove":{"index":"a","alias":"few"}}]}"#);
    let (status, answer) = service.ask("POST /_search", &json!({ "pit": { "id": few } }).to_string());
    assert!(status == 404 && answer.to_string().contains("not behind [few] any more"), "{answer}");
    assert_eq!(ids(&asked(&all, json!({}))).join(" "), "a00 a01 a02");
}

#[test]
fn points_are_opened_and_closed_in_both_forms() {
    let directory = directory();
    let service = TestService::open(&directory);
    write(&service, "a", 0..2);
    let opened = service.get("POST /a/_pit?keep_alive=1m", "");
    assert_eq!(opened["_shards"], json!({ "total": 1, "successful": 1, "skipped": 0, "failed": 0 }));
    let (id, other) = (opened["id"].clone(), open(&service, "/a/_search/point_in_time"));
    let search = json!({ "pit": { "id": id } }).to_string();
    for (request, body, status, reason) in [
        ("POST /a/_pit", String::new(), 400, "[keep_alive] is not specified"),
        ("POST /a/_pit?keep_alive=long", String::new(), 400, "long"),
        ("POST /none/_pit?keep_alive=1m", String::new(), 404, "no such index [none]"),
        ("POST /a/_pit?keep_alive=1m", r#"{"index_filter":{}}"#.to_owned(), 400, "[index_filter]"),
        ("POST /a/_search", search.clone(), 400, "Do not specify any index"),
        ("POST /_search?scroll=1m", search.clone(), 400, "[scroll] cannot be used"),
        ("POST /_search?routing=x", search.clone(), 400, "[routing] cannot be used"),
        ("POST /_search", r#"{"pit":{"id":"what"}}"#.to_owned(), 400, "invalid id"),
        ("POST /_search", r#"{"pit":{}}"#.to_owned(), 400, "needs the [id]"),
        ("POST /_search", r#"{"slice":{"id":0,"max":2}}"#.to_owned(), 400, "[slice] can only be used"),
        ("DELETE /_pit", "{}".to_owned(), 400, "is missing"),
        ("DELETE /_pit", json!({ "id": id }).to_string(), 200, r#""num_freed":1"#),
        ("GET /_search/point_in_time/_all", String::new(), 200, r#"{"pits":[]}"#),
        (
            "DELETE /_search/point_in_time",
            json!({ "pit_id": [other] }).to_string(),
            200,
            r#""successful":true"#,
        ),
        ("DELETE /_search/point_in_time/_all", String::new(), 200, r#"{"pits":[]}"#),
    ] {
        let (answered, answer) = service.ask(request, &body);
        assert_eq!(answered, status, "{request} {body}: {answer}");
        assert!(answer.to_string().contains(reason), "{request} {body}: {answer}");
    }
    // An index of the same name is another one.
    service.get("DELETE /a", "");
    assert_eq!(service.ask("POST /_search", &search).0, 404);
    write(&service, "a", 0..2);
    assert_eq!(service.ask("POST /_search", &search).0, 404);
}
