//! Requests whose answer can be many times larger than they are: each has a bound.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Memory that a request may take.
const MEMORY: usize = 1 << 20;

/// Items of a request: their answers take several times the memory.
const ITEMS: usize = 40;

#[test]
fn answers_of_many_documents_are_bounded() {
    let directory = directory();
    let service = TestService::open_small(&directory, MEMORY);
    service.get("PUT /a", r#"{"mappings":{"properties":{"parts":{"type":"nested"}}}}"#);
    let text = "x".repeat(64 << 10);
    let document = json!({ "t": text, "parts": [{ "t": text }] }).to_string();
    service.get("PUT /a/_doc/big", &document);
    let lines = |one: &dyn Fn(usize) -> String| (0..ITEMS).map(one).collect::<String>();

    let documents = |count: usize| json!({ "ids": vec!["big"; count] }).to_string();
    assert_eq!(service.get("POST /a/_mget", &documents(2))["docs"].as_array().map(Vec::len), Some(2));
    let nested = |name: usize| json!({ "nested": { "path": "parts", "query": { "match_all": {} }, "inner_hits": { "name": name.to_string() } } });
    let inner = json!({ "query": { "bool": { "should": (0..ITEMS).map(nested).collect::<Vec<Value>>() } } });
    for (request, body) in [("POST /a/_mget", documents(ITEMS)), ("POST /a/_search", inner.to_string())] {
        let (status, answer) = service.ask(request, &body);
        assert_eq!(status, 400, "{request}");
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("fewer documents") && reason.contains("query-memory-max"), "{reason}");
    }

    let searches = lines(&|_| "{}\n{\"size\":1}\n".to_owned());
    let (status, answer) = service.ask("POST /a/_msearch", &searches);
    let whole = answer["responses"].as_array().into_iter().flatten().filter(|one| one["status"] == 200);
    assert!([200, 400].contains(&status) && whole.count() < ITEMS, "{status}");
    assert!(answer.to_string().len() < MEMORY);

    let update = |number: usize| {
        let body = json!({ "doc": { "n": number }, "_source": true });
        format!("{{\"update\":{{\"_id\":\"big\"}}}}\n{body}\n")
    };
    let answer = service.get("POST /a/_bulk", &lines(&update));
    assert!(answer.to_string().len() < MEMORY);
    let items = answer["items"].as_array().into_iter().flatten();
    let items: Vec<&Value> = items.map(|item| &item["update"]).collect();
    let done = items.iter().filter(|item| item["status"] == 200).count();
    assert!(items.len() == ITEMS && (1..ITEMS).contains(&done), "{done} of {}", items.len());
    assert!(items.iter().all(|item| item["status"] == 200 || item["status"] == 400));
    // Refused operations were not done.
    assert_eq!(service.get("GET /a/_doc/big?_source=false", "")["_version"], 1 + done);
    assert_eq!(service.get("POST /a/_update/big?_source=true", r#"{"doc":{"n":-1}}"#)["get"]["found"], true);
}

#[test]
fn answers_about_many_indexes_are_bounded() {
    let directory = directory();
    let service = TestService::open_small(&directory, MEMORY);
    let text = "x".repeat(32 << 10);
    let body = json!({
        "mappings": { "_meta": { "t": text }, "properties": { "n": { "type": "long" } } },
        "aliases": { "a": { "filter": { "term": { "k": text } } } },
        "settings": { "index.analysis.t": text },
    });
    for number in 0..ITEMS {
        service.get(&format!("PUT /m{number}"), &body.to_string());
        let template = json!({ "index_patterns": [format!("t{number}")], "mappings": body["mappings"] });
        service.get(&format!("PUT /_template/t{number}"), &template.to_string());
    }
    for (all, one) in [
        ("GET /m*", "GET /m1"),
        ("GET /_mapping", "GET /m1/_mapping"),
        ("GET /_settings", "GET /m1/_settings"),
        ("GET /_alias", "GET /m1/_alias"),
        ("GET /_template", "GET /_template/t1"),
    ] {
        let (status, answer) = service.ask(all, "");
        assert!(status == 400 && answer.to_string().contains("query-memory-max"), "{all}: {status}");
        assert_eq!(service.ask(one, "").0, 200, "{one}");
    }
    assert_eq!(service.get("GET /_field_caps?fields=n", "")["fields"]["n"]["long"]["searchable"], true);
}

#[test]
fn answers_of_many_parts_end_when_their_client_has_left() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", r#"{"n":1}"#);
    for (request, body) in [("POST /a/_mget", r#"{"ids":["1"]}"#), ("POST /a/_msearch", "{}\n{}\n")] {
        assert_eq!(service.ask(request, body).0, 200, "{request}");
        assert_eq!(service.ask_gone(request, body).0, 408, "{request}");
    }
}

/// The form of the totals is that of all answers of a request.
#[test]
fn totals_are_plain_numbers_only_where_they_are_exact() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", "{}");
    for (body, plain, full) in [("{}", 200, 200), (r#"{"track_total_hits":1}"#, 400, 200)] {
        let lines = format!("{{}}\n{{}}\n{{}}\n{body}\n");
        for (parameter, expected) in [("?rest_total_hits_as_int=true", plain), ("", full)] {
            let (status, answer) = service.ask(&format!("POST /a/_msearch{parameter}"), &lines);
            assert_eq!(status, expected, "{body} {parameter}: {answer}");
            let (status, answer) = service.ask(&format!("POST /a/_search{parameter}"), body);
            assert_eq!(status, expected, "{body} {parameter}: {answer}");
        }
    }
    let answer = service.get("POST /a/_msearch?rest_total_hits_as_int=true", "{}\n{}\n");
    assert_eq!(answer["responses"][0]["hits"]["total"], 1);
}
