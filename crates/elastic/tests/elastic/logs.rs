//! Data streams in `logs` mode, from request to answer: text in, text out.

use std::collections::BTreeSet;

use millrace_elastic::ElasticCaller;
use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Template of data streams in `logs` mode with some more settings.
pub(crate) fn template(settings: Value) -> String {
    let mut all = json!({ "index.mode": "logsdb" });
    all.as_object_mut().expect("an object").extend(settings.as_object().cloned().unwrap_or_default());
    json!({ "index_patterns": ["logs-*"], "data_stream": {}, "template": { "settings": all } }).to_string()
}

/// A bulk of `create` with these documents.
fn bulk(documents: &[Value]) -> String {
    documents.iter().map(|document| format!("{{\"create\":{{}}}}\n{document}\n")).collect()
}

/// Writes documents to a data stream; returns their ids.
#[track_caller]
pub(crate) fn write(service: &TestService, target: &str, documents: &[Value]) -> Vec<String> {
    let answer = service.get(&format!("POST /{target}"), &bulk(documents));
    assert_eq!(answer["errors"], false, "{answer}");
    let items = answer["items"].as_array().expect("items").iter();
    items.map(|item| item["create"]["_id"].as_str().expect("an id").to_owned()).collect()
}

/// A value of each hit that a search finds, in the order of their writes.
#[track_caller]
pub(crate) fn found(service: &TestService, target: &str, query: Value, member: &str) -> Vec<Value> {
    let body = json!({ "query": query, "size": 1000 }).to_string();
    let answer = service.get(&format!("GET /{target}/_search"), &body);
    let mut hits = answer["hits"]["hits"].as_array().expect("hits").clone();
    hits.sort_by_key(|hit| hit["_source"]["n"].as_i64());
    hits.iter().map(|hit| hit["_source"][member].clone()).collect()
}

/// Partitions of a search: all of them, and those that were not read.
fn partitions(answer: &Value) -> (u64, u64) {
    let of = |name: &str| answer["_shards"][name].as_u64().expect("a number");
    (of("total"), of("skipped"))
}

#[test]
fn no_value_and_no_field_refuses_a_document() {
    let directory = directory();
    let service = TestService::open(&directory);
    let mut body: Value = serde_json::from_str(&template(json!({}))).expect("JSON");
    body["template"]["mappings"] = json!({
        "dynamic": "strict", "properties": { "status": { "type": "long" }, "o": { "dynamic": true, "properties": {} } },
    });
    service.get("PUT /_index_template/strict", &body.to_string().replace("logs-*", "strict-*"));
    service.get("PUT /_index_template/logs", &template(json!({})));
    let cases = [
        json!({ "@timestamp": "2024-05-06T07:08:09Z", "n": 0, "status": 200, "a": 1, "o": { "p": 1 } }),
        json!({ "@timestamp": "2024-05-06T07:08:09Z", "n": 1, "status": "none", "a": "two words", "o": 3 }),
        json!({ "@timestamp": "yesterday", "n": 2, "a": { "b": [1, "x"] }, "status": { "code": 5 } }),
        json!({ "n": 3, "": 1, "o..p": 2, "a": [true, null], "status": [1, "2", "x"] }),
    ];
    for stream in ["logs-a", "strict-a"] {
        write(&service, &format!("{stream}/_bulk"), &cases);
        assert_eq!(found(&service, stream, json!({ "match_all": {} }), "n"), [0, 1, 2, 3]);
    }
    let answer = service.get("GET /logs-a/_search?sort=n", "");
    let ignored: Vec<&Value> =
        answer["hits"]["hits"].as_array().expect("hits").iter().map(|hit| &hit["_ignored"]).collect();
    assert_eq!(
        json!(ignored),
        json!([null, ["a", "o", "status"], ["@timestamp", "a", "status"], ["", "a", "o..p", "status"]])
    );
    // Each value is found, whatever the type of its field.
    for (query, expected) in [
        (json!({ "term": { "status": 200 } }), vec![0]),
        (json!({ "term": { "status": "none" } }), vec![1]),
        (json!({ "match": { "status": "x" } }), vec![3]),
        (json!({ "term": { "status.code": 5 } }), vec![2]),
        (json!({ "range": { "status": { "lt": 3 } } }), vec![3]),
        (json!({ "term": { "a": "two words" } }), vec![1]),
        (json!({ "term": { "a.b": "x" } }), vec![2]),
        (json!({ "exists": { "field": "a.b" } }), vec![2]),
        (json!({ "term": { "_ignored": "o" } }), vec![1]),
        (json!({ "match": { "_ignored": "o" } }), vec![1]),
        (json!({ "query_string": { "query": "_ignored:o" } }), vec![1]),
        (json!({ "exists": { "field": "_ignored" } }), vec![1, 2, 3]),
        (json!({ "range": { "@timestamp": { "gte": "2024" } } }), vec![0, 1]),
    ] {
        assert_eq!(found(&service, "logs-a", query.clone(), "n"), expected, "{query}");
    }
    let strict = service.get("GET /strict-a/_search?sort=_doc&q=a:1", "");
    assert_eq!(strict["hits"]["hits"][0]["_ignored"], json!(["a", "n"]), "{strict}");
    assert_eq!(service.metric("millrace.logs.documents_ignored"), 3 + 4);
    // What is no document cannot be kept as one.
    let (status, answer) = service.ask("POST /logs-a/_bulk", "{\"create\":{}}\n[1]\n");
    assert_eq!((status, &answer["items"][0]["create"]["status"]), (200, &json!(400)));
}

#[test]
fn all_of_json_is_kept_as_it_is_sent() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    let deep = format!("{}1{}", "[".repeat(2_000), "]".repeat(2_000));
    let documents = [
        (r#"{"n":0,"size":1e999,"text":"one word"}"#.to_owned(), json!(["size"])),
        (r#"{"n":1,"text":"\ud800","o":{"p":["\udfff","word"]}}"#.to_owned(), json!(["o.p", "text"])),
        (format!(r#"{{"n":2,"deep":{deep},"text":"word"}}"#), json!(["deep"])),
        (r#"{"\ud800":3}"#.to_owned(), json!(["_source"])),
        (r#"{"n":4,"size":5,"text":"word"}"#.to_owned(), Value::Null),
    ];
    let lines: String = documents.iter().map(|(text, _)| format!("{{\"create\":{{}}}}\n{text}\n")).collect();
    let answer = service.get("POST /logs-a/_bulk", &lines);
    assert_eq!(answer["errors"], false, "{answer}");
    let hits = service.get("GET /logs-a/_search?_source=n&sort=_doc", "");
    let hits = hits["hits"]["hits"].as_array().expect("hits");
    assert_eq!(hits.len(), documents.len(), "all are found");
    for (hit, (text, ignored)) in hits.iter().zip(&documents) {
        assert_eq!(hit["_ignored"], *ignored, "{hit}");
        let path = format!("GET /logs-a/_source/{}", hit["_id"].as_str().expect("an id"));
        let (status, shown) = service.text_as(ElasticCaller::default(), &path, "");
        assert_eq!(status, 200, "{shown}");
        assert!(shown == *text, "{}", &shown[..shown.len().min(80)]);
    }
    for (query, expected) in [
        (json!({ "match": { "text": "word" } }), vec![0, 2, 4]),
        (json!({ "term": { "o.p": "word" } }), vec![1]),
        (json!({ "range": { "size": { "gte": 1 } } }), vec![4]),
        (json!({ "term": { "_ignored": "size" } }), vec![0]),
    ] {
        let body = json!({ "query": query, "_source": "n" }).to_string();
        let answer = service.get("GET /logs-a/_search", &body);
        let mut numbers: Vec<Value> = answer["hits"]["hits"]
            .as_array()
            .expect("hits")
            .iter()
            .map(|hit| hit["_source"]["n"].clone())
            .collect();
        numbers.sort_by_key(Value::as_i64);
        assert_eq!(json!(numbers), json!(expected), "{query}");
    }
    assert_eq!(service.metric("millrace.logs.documents_ignored"), 4);
}

#[test]
fn parts_that_cannot_be_read_are_shown_as_they_were_sent_wherever_they_are_in() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    service.get("PUT /plain", r#"{"mappings":{"properties":{"n":{"type":"long"},"b":{"type":"boolean"}}}}"#);
    let part = r#"{"x":1e999}"#;
    let lines = format!("{{\"create\":{{}}}}\n{{\"j\":\"word\"}}\n{{\"create\":{{}}}}\n{{\"j\":{part}}}\n");
    let answer = service.get("POST /logs-a/_bulk", &lines);
    assert_eq!(answer["errors"], false, "{answer}");
    let escaped = part.replace('"', "\\\"");
    for (request, body, shown) in [
        ("GET /logs-a/_search", json!({ "sort": ["j.keyword"] }), Some(&escaped)),
        (
            "GET /logs-a/_search",
            json!({ "aggs": { "a": { "terms": { "field": "j.keyword" } } } }),
            Some(&escaped),
        ),
        (
            "GET /logs-a/_search",
            json!({ "aggs": { "a": { "composite": { "sources": [{ "j": { "terms": { "field": "j.keyword" } } }] } } } }),
            Some(&escaped),
        ),
        (
            "GET /logs-a/_search",
            json!({ "aggs": { "a": { "cardinality": { "field": "j.keyword" } } } }),
            None,
        ),
        ("GET /logs-a/_search", json!({ "fields": ["j*"], "_source": false }), None),
    ] {
        let (status, text) = service.text_as(ElasticCaller::default(), request, &body.to_string());
        assert_eq!(status, 200, "{body}: {text}");
        assert!(!text.contains("unread-"), "{body}: {text}");
        assert!(shown.is_none_or(|shown| text.contains(shown.as_str())), "{body}: {text}");
    }
    for document in [r#"{"b":{"x":1e999}}"#, r#"{"n":{"x":1e999}}"#, r#"{"b":1e999}"#] {
        let (status, text) = service.text_as(ElasticCaller::default(), "PUT /plain/_doc/1", document);
        assert!(status == 400 && !text.contains("unread-"), "{document}: {status} {text}");
    }
}

#[test]
fn logs_are_sorted_by_fields_whose_values_do_not_fit() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    write(&service, "logs-a/_bulk", &[json!({ "n": 1 })]);
    let odd = [json!("NaN"), json!("1e999"), json!({ "a": 1 }), json!(true), json!("x")];
    for (at, odd) in odd.iter().enumerate() {
        // Numbers in no order, with what is no number between them.
        let numbers = (0..200).map(|n| match (n * n * 7 + n) % 61 % 2 {
            0 => json!(10 + (n * n * 7 + n * 17) % 1009),
            _ => odd.clone(),
        });
        write(&service, "logs-a/_bulk", &[json!({ "n": numbers.collect::<Vec<_>>(), "at": at })]);
    }
    write(&service, "logs-a/_bulk", &[json!({ "n": "NaN" })]);
    for (order, first) in [("asc", 1), ("desc", 1010)] {
        let body = json!({ "sort": [{ "n": order }], "_source": false }).to_string();
        let answer = service.get("GET /logs-a/_search", &body);
        let hits = answer["hits"]["hits"].as_array().expect("hits");
        assert_eq!(hits.len(), odd.len() + 2, "{answer}");
        assert_eq!(hits[0]["sort"], json!([first]), "{order}: {answer}");
        assert_eq!(hits[odd.len() + 1]["sort"], json!([null]), "{order}: {answer}");
    }
}

#[test]
fn fields_beyond_the_limit_are_kept_and_found() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    let document = |number: i64| {
        let mut document = json!({ "n": number });
        for field in 0..600 {
            document[format!("f{number}_{field}")] = field.into();
        }
        document
    };
    write(&service, "logs-a/_bulk", &[document(0), document(1), document(2)]);
    let mapping = service.get("GET /logs-a/_mapping", "");
    let fields = mapping[".ds-logs-a-000001"]["mappings"]["properties"].as_object().expect("fields").len();
    assert_eq!(fields, 1000, "the mapping that is shown is bounded");
    assert_eq!(found(&service, "logs-a", json!({ "term": { "f2_599": 599 } }), "n"), [2]);
    let answer = service.get("GET /logs-a/_search?q=f2_7:7", "");
    let ignored = answer["hits"]["hits"][0]["_ignored"].as_array().expect("names").len();
    assert!(ignored >= 600, "{ignored}");
    let before = service.get("GET /logs-a/_search?q=f0_7:7", "");
    assert!(before["hits"]["hits"][0].get("_ignored").is_none(), "{before}");
}

/// The settings say how many fields there may be, those of dynamic templates among them; templates that do
/// not suit the values refuse no document.
#[test]
fn templates_of_fields_define_them_within_the_limit_of_the_settings() {
    let directory = directory();
    let service = TestService::open(&directory);
    let limit = json!({ "index.mapping.total_fields.limit": 6 });
    let mut body: Value = serde_json::from_str(&template(limit)).expect("JSON");
    let nested =
        json!({ "type": "object", "properties": { "x": { "type": "long" }, "y": { "type": "long" } } });
    body["template"]["mappings"] = json!({ "dynamic_templates": [
        { "objects": { "match": "o*", "mapping": nested } },
        { "numbers": { "match": "n_*", "mapping": { "type": "long" } } },
    ] });
    service.get("PUT /_index_template/logs", &body.to_string());
    let documents = [
        json!({ "n": 0, "n_a": "no number", "o1": { "x": 7 } }),
        json!({ "n": 1, "o2": { "x": 7 }, "o1": "no object" }),
        json!({ "n": 2, "n_b": 5, "n_c": 5 }),
    ];
    for document in documents {
        write(&service, "logs-a/_bulk", &[document]);
    }
    let mapping = service.get("GET /logs-a/_mapping", "");
    let fields = mapping[".ds-logs-a-000001"]["mappings"]["properties"].as_object().expect("fields");
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["@timestamp", "n", "n_a", "o1"], "{mapping}");
    let answer = service.get("GET /logs-a/_search?sort=n", "");
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    let ignored: Vec<&Value> = hits.map(|hit| &hit["_ignored"]).collect();
    assert_eq!(json!(ignored), json!([["n_a"], ["o1", "o2"], ["n_b", "n_c"]]));
}

#[test]
fn documents_are_never_changed() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    let ids = write(&service, "logs-a/_bulk", &[json!({ "n": 1 })]);
    let backing = ".ds-logs-a-000001";
    for (request, body) in [
        (format!("PUT /logs-a/_doc/{}", ids[0]), "{}"),
        ("POST /logs-a/_doc?op_type=index".to_owned(), "{}"),
        (format!("PUT /{backing}/_doc/{}", ids[0]), "{}"),
        (format!("POST /{backing}/_update/{}", ids[0]), r#"{"doc":{"n":2}}"#),
        (format!("DELETE /{backing}/_doc/{}", ids[0]), ""),
    ] {
        let (status, answer) = service.ask(&request, body);
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert_eq!(status, 400, "{request}: {answer}");
        assert!(
            reason.contains("only write ops with an op_type of create are allowed in data streams"),
            "{reason}"
        );
    }
    // A write without an id makes a document.
    let (status, answer) = service.ask("POST /logs-a/_doc", r#"{"n":1}"#);
    assert_eq!((status, &answer["result"]), (201, &json!("created")), "{answer}");
    // Ids of clients are taken once.
    let create = "{\"create\":{\"_id\":\"x\"}}\n{\"n\":2}\n";
    let of = |answer: Value| answer["items"][0]["create"]["status"].clone();
    assert_eq!(of(service.get("POST /logs-a/_bulk", create)), 201);
    assert_eq!(of(service.get("POST /logs-a/_bulk", create)), 409);
    assert_eq!(service.get(&format!("GET /{backing}/_doc/x"), "")["_source"]["n"], 2);
    // An index of its own has another mode.
    let (status, answer) = service.ask("PUT /plain", r#"{"settings":{"index.mode":"logsdb"}}"#);
    assert_eq!(status, 400, "{answer}");
}

#[test]
fn ids_of_clients_are_taken_once_in_all_slots() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (stream, shards, routing_size) in [("logs-a", 1, 1), ("logs-b", 4, 1), ("logs-c", 6, 2)] {
        let settings =
            json!({ "index.number_of_shards": shards, "index.number_of_routing_size": routing_size });
        service.get("PUT /_index_template/logs", &template(settings));
        for action in [json!({ "_id": "x" }), json!({ "_id": "y", "routing": "r" })] {
            let body = format!("{}\n{{\"n\":1}}\n", json!({ "create": action }));
            let statuses: Vec<Value> = (0..8)
                .map(|_| {
                    service.get(&format!("POST /{stream}/_bulk"), &body)["items"][0]["create"]["status"]
                        .clone()
                })
                .collect();
            let mut expected = vec![json!(409); 8];
            expected[0] = json!(201);
            assert_eq!(statuses, expected, "{stream} {action}");
        }
        assert_eq!(found(&service, stream, json!({ "match_all": {} }), "n").len(), 2, "{stream}");
    }
}

#[test]
fn ids_of_clients_are_looked_for_in_the_latest_partitions() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({ "index.partition.documents": 2 })));
    let create = |id: &str| {
        let body = format!("{}\n{{\"n\":0}}\n", json!({ "create": { "_id": id } }));
        service.get("POST /logs-a/_bulk", &body)["items"][0]["create"]["status"].clone()
    };
    // So many partitions are filled behind that of the document.
    for (filled, expected) in [(0, 409), (1, 409), (2, 409), (7, 409), (12, 201)] {
        let id = format!("after-{filled}");
        assert_eq!(create(&id), 201);
        for _ in 0..filled {
            write(&service, "logs-a/_bulk", &[json!({ "n": 1 }), json!({ "n": 2 })]);
        }
        assert_eq!(create(&id), expected, "{filled} partitions later");
        assert_eq!(create(&format!("other-{filled}")), 201, "another id is free");
    }
}

#[test]
fn a_bulk_that_is_sent_again_at_once_is_written_once() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({ "index.partition.documents": 12 })));
    service.get("PUT /_data_stream/logs-a", "");
    let (rounds, senders) = (80, 4);
    let barrier = std::sync::Barrier::new(senders);
    let send = || {
        let mut created = Vec::new();
        for round in 0..rounds {
            let ids = [0, 1].map(|at| format!("{round}-{at}"));
            let lines = ids.map(|id| format!("{}\n{{\"n\":1}}\n", json!({ "create": { "_id": id } })));
            // All send the same documents, while partitions are closed behind them.
            barrier.wait();
            let answer = service.get("POST /logs-a/_bulk", &lines.concat());
            for item in answer["items"].as_array().expect("items") {
                let item = &item["create"];
                assert!(item["status"] == 201 || item["status"] == 409, "{item}");
                created.extend((item["status"] == 201).then(|| item["_id"].clone()));
            }
        }
        created
    };
    let created: Vec<Value> = std::thread::scope(|scope| {
        let sending: Vec<_> = (0..senders).map(|_| scope.spawn(send)).collect();
        sending.into_iter().flat_map(|sender| sender.join().expect("it sends all")).collect()
    });
    let unique: BTreeSet<String> = created.iter().map(Value::to_string).collect();
    assert_eq!((created.len(), unique.len()), (2 * rounds, 2 * rounds), "ids are taken once");
    assert_eq!(service.get("GET /logs-a/_count", "")["count"], 2 * rounds);
}

#[test]
fn searches_pass_over_partitions_by_time() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({ "index.partition.documents": 10 })));
    let document = |n: i64| json!({ "@timestamp": 1_700_000_000_000_i64 + n * 1_000, "n": n });
    let mut ids = Vec::new();
    for first in (0..50).step_by(5) {
        ids.extend(write(&service, "logs-a/_bulk", &(first..first + 5).map(document).collect::<Vec<_>>()));
    }
    let range = |from: i64, to: i64| {
        let at = |n: i64| 1_700_000_000_000_i64 + n * 1_000;
        json!({ "query": { "range": { "@timestamp": { "gte": at(from), "lte": at(to) } } }, "size": 0 })
    };
    let search = |service: &TestService, body: &Value| {
        let before = service.metric("millrace.logs.documents_read");
        let answer = service.get("GET /logs-a/_search", &body.to_string());
        let total = answer["hits"]["total"]["value"].as_u64().expect("a number");
        (total, service.metric("millrace.logs.documents_read") - before, partitions(&answer))
    };
    // Five partitions are full, and the next is ready.
    assert_eq!(search(&service, &json!({ "size": 0 })), (50, 50, (6, 0)));
    assert_eq!(search(&service, &range(20, 29)), (10, 10, (6, 5)));
    assert_eq!(search(&service, &range(18, 21)), (4, 20, (6, 4)));
    assert_eq!(search(&service, &range(-9, -1)), (0, 0, (6, 6)));
    assert_eq!(service.get("GET /logs-a/_count?q=n:7", "")["count"], 1);
    // A field of the partition that takes writes alone.
    write(&service, "logs-a/_bulk", &[json!({ "@timestamp": 1_700_000_050_000_i64, "n": 50, "late": true })]);
    let mapping = service.get("GET /logs-a/_mapping", "");
    assert_eq!(mapping[".ds-logs-a-000001"]["mappings"]["properties"]["late"]["type"], "boolean");
    drop(service);
    // After a restart the catalog has the times of full partitions; those of the others are bounds.
    let service = TestService::open(&directory);
    assert_eq!(service.get("GET /logs-a/_mapping", ""), mapping);
    assert_eq!(search(&service, &range(0, 9)).0, 10);
    let (total, read, _) = search(&service, &range(-9_000, -8_000));
    assert_eq!((total, read), (0, 0));
    assert_eq!(found(&service, "logs-a", json!({ "match_all": {} }), "n"), (0..51).collect::<Vec<i64>>());
    for (n, id) in ids.iter().enumerate() {
        let stored = service.get(&format!("GET /.ds-logs-a-000001/_doc/{id}"), "");
        assert_eq!(stored["_source"]["n"], n, "{stored}");
    }
    let groups: BTreeSet<&str> = ids.iter().map(|id| &id[..6]).collect();
    assert_eq!(groups.len(), 5, "an id names its partition: {groups:?}");
    write(&service, "logs-a/_bulk", &[document(51)]);
    assert_eq!(search(&service, &range(50, 51)).0, 2);
}

#[test]
fn routing_values_have_shards_of_their_own() {
    let directory = directory();
    let service = TestService::open(&directory);
    let settings = json!({ "index.number_of_shards": 8, "index.number_of_routing_size": 4 });
    service.get("PUT /_index_template/logs", &template(settings));
    let values = ["ann", "bob", "eve", "tim"];
    for round in 0..6 {
        for (at, value) in values.iter().enumerate() {
            let documents: Vec<Value> = (0..3).map(|n| json!({ "n": round * 100 + at * 10 + n })).collect();
            write(&service, &format!("logs-a/_bulk?routing={value}"), &documents);
        }
        // An odd number of bulks, so that each value has both slots.
        write(&service, "logs-a/_bulk", &[json!({ "n": 9_000 + round })]);
    }
    let all = service.get("GET /logs-a/_search?size=0", "");
    let (shards, skipped) = partitions(&all);
    assert_eq!((all["hits"]["total"]["value"].as_u64(), skipped), (Some(78), 0));
    for (at, value) in values.iter().enumerate() {
        let before = service.metric("millrace.logs.documents_read");
        let answer = service.get(&format!("GET /logs-a/_search?size=100&routing={value}"), "");
        let read = service.metric("millrace.logs.documents_read") - before;
        let hits = answer["hits"]["hits"].as_array().expect("hits");
        let is_own = |hit: &Value| hit["_source"]["n"].as_u64().is_some_and(|n| n as usize / 10 % 10 == at);
        assert!(hits.iter().all(|hit| hit["_routing"] == *value && is_own(hit)), "{answer}");
        assert_eq!(hits.len(), 18);
        assert!(read < 78 && partitions(&answer).1 >= shards / 2, "{read} documents read, {answer}");
        let id = hits[0]["_id"].as_str().expect("an id");
        let stored = service.get(&format!("GET /.ds-logs-a-000001/_doc/{id}?routing={value}"), "");
        assert_eq!(stored["found"], true);
    }
    let (status, answer) = service.ask(
        "PUT /_index_template/bad",
        &template(json!({ "index.number_of_routing_size": 3, "index.number_of_shards": 4 }))
            .replace("logs-*", "bad-*"),
    );
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = service.ask("PUT /_data_stream/bad-a", "");
    assert_eq!(status, 400, "{answer}");
}

#[test]
fn times_may_have_nanoseconds() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (pattern, mode) in [("logs-*", "logsdb"), ("plain-*", "standard")] {
        let body = json!({
            "index_patterns": [pattern], "data_stream": {},
            "template": {
                "settings": { "index.mode": mode },
                "mappings": { "properties": { "@timestamp": { "type": "date_nanos" } } },
            },
        });
        let (name, stream) = (pattern.replace("-*", ""), pattern.replace('*', "a"));
        service.get(&format!("PUT /_index_template/{name}"), &body.to_string());
        let times =
            ["2024-05-06T07:08:09.000000001Z", "2024-05-06T07:08:10.123456789Z", "2024-05-07T00:00:00Z"];
        let documents: Vec<Value> =
            times.iter().enumerate().map(|(n, time)| json!({ "@timestamp": time, "n": n })).collect();
        write(&service, &format!("{stream}/_bulk"), &documents);
        service.get(&format!("POST /{stream}/_rollover"), "");
        write(
            &service,
            &format!("{stream}/_bulk"),
            &[json!({ "@timestamp": "2024-05-08T00:00:00.5Z", "n": 3 })],
        );
        for (range, expected) in [
            (json!({ "gte": "2024-05-06T07:08:10Z", "lt": "2024-05-08" }), vec![1, 2]),
            (json!({ "gte": "2024-05-08" }), vec![3]),
        ] {
            let query = json!({ "range": { "@timestamp": range } });
            assert_eq!(found(&service, &stream, query, "n"), expected, "{stream}: {range}");
        }
        let mapping = service.get(&format!("GET /{stream}/_mapping"), "");
        let types = mapping.as_object().expect("indexes").values();
        let types: Vec<&Value> =
            types.map(|index| &index["mappings"]["properties"]["@timestamp"]["type"]).collect();
        assert_eq!(types, ["date_nanos", "date_nanos"], "{mapping}");
    }
}
