//! Pages of searches over more documents than a search keeps, and scrolls beside writes: text in, text out.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Writes documents of an index, from their ids to their texts.
#[track_caller]
fn write(service: &TestService, index: &str, documents: impl IntoIterator<Item = (String, Value)>) {
    let lines = documents.into_iter().map(|(id, document)| {
        let action = json!({ "index": { "_index": index, "_id": id } });
        format!("{action}\n{document}\n")
    });
    let answer = service.get("POST /_bulk", &lines.collect::<String>());
    assert_eq!(answer["errors"], false, "{answer}");
}

fn ids(answer: &Value) -> Vec<String> {
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    hits.map(|hit| hit["_id"].as_str().expect("an id").to_owned()).collect()
}

/// Ids of all pages of a scroll; `between` is called after each page.
#[track_caller]
fn scrolled(service: &TestService, target: &str, body: &str, mut between: impl FnMut(usize)) -> Vec<String> {
    let mut page = service.get(&format!("POST /{target}"), body);
    let mut seen = Vec::new();
    for number in 0.. {
        let found = ids(&page);
        if found.is_empty() {
            break;
        }
        seen.extend(found);
        between(number);
        page = service.get("POST /_search/scroll", &json!({ "scroll_id": page["_scroll_id"] }).to_string());
    }
    seen
}

#[test]
fn pages_are_parts_of_one_order() {
    let directory = directory();
    let service = TestService::open(&directory);
    // Written in another order than that of any key; those of `b` come after those of `a`.
    let numbers: Vec<usize> = (0..60).map(|at| at * 37 % 60).collect();
    for (index, half) in [("a", &numbers[..30]), ("b", &numbers[30..])] {
        write(&service, index, half.iter().map(|n| (n.to_string(), json!({ "n": n, "k": n % 4 }))));
    }
    let by_key = |key: &dyn Fn(usize) -> i64| -> Vec<String> {
        let mut sorted = numbers.clone();
        sorted.sort_by_key(|n| key(*n));
        sorted.iter().map(usize::to_string).collect()
    };
    for (sort, whole) in [
        ("", by_key(&|_| 0)),
        ("n", by_key(&|n| n as i64)),
        ("n:desc", by_key(&|n| -(n as i64))),
        ("k", by_key(&|n| (n % 4) as i64)),
        ("k:desc,n", by_key(&|n| -100 * (n % 4) as i64 + n as i64)),
    ] {
        let sort = if sort.is_empty() { String::new() } else { format!("&sort={sort}") };
        for (from, size) in [(0, 1), (0, 60), (0, 61), (7, 9), (29, 2), (59, 1), (60, 5), (3, 0), (0, 0)] {
            let found = service.get(&format!("GET /a,b/_search?from={from}&size={size}{sort}"), "");
            let expected = &whole[from.min(60)..(from + size).min(60)];
            assert_eq!(ids(&found), expected, "{sort} from {from}, {size}");
            assert_eq!(found["hits"]["total"]["value"], 60);
        }
    }
    // Each page begins after the last hit of the one before.
    let (mut seen, mut after) = (Vec::new(), Value::Null);
    loop {
        let mut body = json!({ "size": 7, "sort": ["k", { "n": "desc" }] });
        if !after.is_null() {
            body["search_after"] = after;
        }
        let page = service.get("GET /a,b/_search", &body.to_string());
        let Some(last) = page["hits"]["hits"].as_array().and_then(|hits| hits.last()) else { break };
        after = last["sort"].clone();
        seen.extend(ids(&page));
    }
    assert_eq!(seen, by_key(&|n| 100 * (n % 4) as i64 - n as i64));
    let (status, answer) = service.ask("GET /a/_search?from=9999&size=2", "");
    assert_eq!((status, &answer["error"]["type"]), (400, &json!("illegal_argument_exception")));
}

#[test]
fn a_search_keeps_its_page_alone() {
    let directory = directory();
    let service = TestService::open_small(&directory, 4 << 20);
    let text = "x".repeat(4_000);
    write(&service, "a", (0..400).map(|n| (n.to_string(), json!({ "n": n, "k": n % 7, "t": text }))));
    let found = service.get("GET /a/_search?sort=n:desc&size=3", "");
    assert_eq!(
        (ids(&found), &found["hits"]["total"]["value"]),
        (vec!["399".into(), "398".into(), "397".into()], &json!(400))
    );
    assert_eq!(service.get("GET /a/_count?q=k:3", "")["count"], 57);
    let collapsed = service.get("GET /a/_search?sort=n:desc&size=3", r#"{"collapse":{"field":"k"}}"#);
    assert_eq!(ids(&collapsed), ["399", "398", "397"]);
    // More than one search may keep can never be answered: this is no reason to try again.
    let (status, answer) = service.ask("GET /a/_search?size=400", "");
    assert_eq!((status, &answer["error"]["type"]), (400, &json!("illegal_argument_exception")), "{answer}");
    assert!(answer.to_string().contains("query-memory-max"), "{answer}");
    for sort in ["", "&sort=_doc", "&sort=k", "&sort=n:desc"] {
        let seen = scrolled(&service, &format!("a/_search?scroll=1m&size=20{sort}"), "", |_| {});
        assert_eq!(seen.len(), 400, "{sort}");
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), 400, "{sort}");
    }
}

#[test]
fn a_scroll_ends_after_the_documents_that_are_asked_for() {
    let directory = directory();
    let service = TestService::open(&directory);
    write(&service, "a", (0..60).map(|n| (n.to_string(), json!({ "n": n, "k": n % 2 }))));
    let aggregations = r#"{"aggs":{"k":{"terms":{"field":"k"}}}}"#;
    for sort in ["", "&sort=_doc", "&sort=n", "&sort=n:desc", "&track_total_hits=false"] {
        for (most, size, expected) in [(5, 2, 5), (4, 2, 4), (1, 7, 1), (60, 7, 60), (100, 7, 60)] {
            let target = format!("a/_search?scroll=1m&size={size}&terminate_after={most}{sort}");
            for body in ["", aggregations] {
                let seen = scrolled(&service, &target, body, |_| {});
                assert_eq!(seen.len(), expected, "{target} {body}");
                assert_eq!(seen.into_iter().collect::<BTreeSet<_>>().len(), expected, "{target} {body}");
            }
        }
    }
    let first = service.get("POST /a/_search?scroll=1m&size=2&terminate_after=5", "");
    assert_eq!((&first["hits"]["total"]["value"], &first["terminated_early"]), (&json!(5), &json!(true)));
    // Documents that `post_filter` leaves out count as found.
    let filter = r#"{"post_filter":{"term":{"k":1}},"sort":["_doc"]}"#;
    let whole = service.get("GET /a/_search?terminate_after=20&size=60", filter);
    let seen = scrolled(&service, "a/_search?scroll=1m&size=3&terminate_after=20", filter, |_| {});
    assert!(!seen.is_empty() && seen.len() < 20, "{seen:?}");
    let set = |ids: Vec<String>| ids.into_iter().collect::<BTreeSet<_>>();
    assert_eq!(set(seen), set(ids(&whole)), "a scroll has the hits of the search");
    // In each order they are the documents that the store has first.
    for sort in ["", "&sort=n"] {
        let target = format!("a/_search?scroll=1m&size=2&terminate_after=10{sort}");
        let ten: BTreeSet<String> =
            ids(&service.get("GET /a/_search?size=10&terminate_after=10", "")).into_iter().collect();
        let seen = scrolled(&service, &target, "", |_| {});
        assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), ten, "{target}");
    }
}

#[test]
fn regular_expressions_take_memory_of_the_search() {
    let directory = directory();
    let service = TestService::open_small(&directory, 4 << 20);
    write(&service, "a", (0..4).map(|n| (n.to_string(), json!({ "k": format!("k{n}") }))));
    let regexps = |count: usize| {
        let one = |n: usize| json!({ "regexp": { "k": format!("k.*{}", n % 2) } });
        json!({ "bool": { "should": (0..count).map(one).collect::<Vec<_>>() } })
    };
    for (request, body) in [
        ("GET /a/_search", json!({ "query": regexps(2) })),
        ("GET /a/_count", json!({ "query": regexps(2) })),
        ("GET /a/_search", json!({ "post_filter": regexps(2) })),
        ("POST /a/_search?scroll=1m", json!({ "query": regexps(2) })),
        ("GET /a/_search", json!({ "aggs": { "f": { "filter": regexps(2) } } })),
        ("GET /a/_search", json!({ "aggs": { "f": { "filters": { "filters": [regexps(2)] } } } })),
        (
            "GET /a/_search",
            json!({ "aggs": { "t": { "terms": { "field": "k.keyword", "include": "k.*0" } } } }),
        ),
    ] {
        service.get(request, &body.to_string());
    }
    for (request, body) in [
        ("GET /a/_search", json!({ "query": regexps(40) })),
        ("GET /a/_count", json!({ "query": regexps(40) })),
        ("GET /a/_search", json!({ "post_filter": regexps(40) })),
        ("POST /a/_search?scroll=1m", json!({ "query": regexps(40) })),
        ("GET /a/_search", json!({ "aggs": { "f": { "filter": regexps(40) } } })),
        ("GET /a/_search", json!({ "aggs": { "f": { "filters": { "filters": [regexps(40)] } } } })),
    ] {
        let (status, answer) = service.ask(request, &body.to_string());
        assert_eq!(status, 400, "{request} {body}: {answer}");
        assert!(answer.to_string().contains("query-memory-max"), "{answer}");
    }
}

#[test]
fn hits_take_the_memory_of_their_values() {
    let directory = directory();
    let service = TestService::open_small(&directory, 4 << 20);
    // A number takes two letters of the text, and some 72 bytes as a value.
    let numbers = vec![1; 10_000];
    write(&service, "a", (0..10).map(|n| (n.to_string(), json!({ "n": n, "v": numbers }))));
    assert_eq!(service.get("GET /a/_search?size=2&sort=n", "")["hits"]["hits"][1]["_source"]["v"][9_999], 1);
    for body in [
        r#"{"size":10,"_source":false}"#,
        r#"{"size":0,"aggs":{"g":{"nested":{"path":"o"},"aggs":{"s":{"sampler":{},"aggs":{"b":{"reverse_nested":{}}}}}}}}"#,
        r#"{"size":0,"aggs":{"k":{"terms":{"field":"n"},"aggs":{"h":{"top_hits":{"size":1}}}}}}"#,
    ] {
        let (status, answer) = service.ask("GET /a/_search", body);
        assert_eq!(status, 400, "{body}: {answer}");
        assert!(answer.to_string().contains("query-memory-max"), "{answer}");
    }
    let seen = scrolled(&service, "a/_search?scroll=1m&size=2&sort=n", "", |_| {});
    assert_eq!(seen.len(), 10);
}

#[test]
fn scrolls_show_what_stays_as_it_is_once() {
    let directory = directory();
    let service = TestService::open(&directory);
    // More than a scroll keeps beside its place.
    let text = "x".repeat(30_000);
    let document = |n: i64| json!({ "n": n, "k": n % 5, "t": text });
    for (index, sort) in ["a", "b", "c", "d"].into_iter().zip(["", "&sort=_doc", "&sort=n:desc", "&sort=k"]) {
        write(&service, index, (0..200).map(|n| (n.to_string(), document(n))));
        let target = format!("{index}/_search?scroll=1m&size=9&_source=n{sort}");
        let mut changed = BTreeSet::new();
        let seen = scrolled(&service, &target, "", |page| {
            // From both ends: some were shown before, some will be after.
            let (updated, removed) = (3 * page, 199 - 3 * page);
            write(&service, index, [(updated.to_string(), document(1_000 - updated as i64))]);
            service.get(&format!("DELETE /{index}/_doc/{removed}"), "");
            write(&service, index, [(format!("new{page}"), document(page as i64 * 10))]);
            changed.extend([updated.to_string(), removed.to_string()]);
        });
        let once: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(once.len(), seen.len(), "none comes twice: {sort}");
        assert!(seen.iter().all(|id| !id.starts_with("new")), "{sort}: {seen:?}");
        let missing: Vec<i64> = (0..200)
            .filter(|n: &i64| !changed.contains(&n.to_string()) && !once.contains(&n.to_string()))
            .collect();
        assert_eq!(missing, Vec::<i64>::new(), "{sort}");
    }
}

#[test]
fn scrolls_go_through_all_indexes_slices_and_filters() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /hidden", r#"{"settings":{"index.refresh_interval":"-1"}}"#);
    for index in ["a", "b", "hidden"] {
        write(&service, index, (0..25).map(|n| (format!("{index}{n}"), json!({ "n": n, "t": "one two" }))));
    }
    service.get("POST /hidden/_refresh", "");
    service.get("DELETE /hidden/_doc/hidden3", "");
    let all = |seen: Vec<String>| (seen.len(), seen.into_iter().collect::<BTreeSet<_>>().len());
    for (query, of_each) in [
        (json!({ "match_all": {} }), 25),
        (json!({ "range": { "n": { "lt": 10 } } }), 10),
        // By its scores, in the order of those.
        (json!({ "match": { "t": "two" } }), 25),
    ] {
        let body = json!({ "query": query });
        for (indexes, expected) in [("_all", 3 * of_each), ("a,b", 2 * of_each)] {
            let target = format!("{indexes}/_search?scroll=1m&size=4");
            let first = service.get(&format!("POST /{target}"), &body.to_string());
            assert_eq!((&first["hits"]["total"]["value"], ids(&first).len()), (&json!(expected), 4));
            for sort in ["", "&sort=_doc", "&sort=n"] {
                let target = format!("{target}{sort}");
                let seen = scrolled(&service, &target, &body.to_string(), |_| {});
                assert_eq!(all(seen), (expected, expected), "{body} {target}");
                let slices = (0..3).flat_map(|id| {
                    let mut body = body.clone();
                    body["slice"] = json!({ "id": id, "max": 3 });
                    scrolled(&service, &target, &body.to_string(), |_| {})
                });
                assert_eq!(all(slices.collect()), (expected, expected), "{body} {target}");
            }
        }
    }
    let filtered = r#"{"post_filter":{"term":{"n":4}},"aggs":{"n":{"sum":{"field":"n"}}}}"#;
    let first = service.get("POST /a,b/_search?scroll=1m&size=1", filtered);
    assert_eq!(first["aggregations"]["n"]["value"], 600.0);
    let next = service.get("POST /_search/scroll", &json!({ "scroll_id": first["_scroll_id"] }).to_string());
    assert_eq!((ids(&next), next.get("aggregations")), (vec!["b4".to_owned()], None));
}

#[test]
fn the_latest_logs_are_found_without_reading_all() {
    let directory = directory();
    let service = TestService::open(&directory);
    let settings = json!({ "index.mode": "logsdb", "index.partition.documents": "50" });
    let template =
        json!({ "index_patterns": ["logs-*"], "data_stream": {}, "template": { "settings": settings } });
    service.get("PUT /_index_template/logs", &template.to_string());
    let hour = |n: i64| json!({ "@timestamp": 1_700_000_000_000_i64 + n * 3_600_000, "n": n });
    for batch in 0..20 {
        let lines = (0..25).map(|at| format!("{{\"create\":{{}}}}\n{}\n", hour(batch * 25 + at)));
        assert_eq!(service.get("POST /logs-a/_bulk", &lines.collect::<String>())["errors"], false);
        if batch == 9 {
            service.get("POST /logs-a/_rollover", "");
        }
    }
    let latest = |body: Value| {
        let before = service.metric("millrace.logs.documents_read");
        let answer = service.get("GET /logs-a/_search", &body.to_string());
        let numbers = answer["hits"]["hits"].as_array().expect("hits").iter();
        let numbers: Vec<Value> = numbers.map(|hit| hit["_source"]["n"].clone()).collect();
        (numbers, service.metric("millrace.logs.documents_read") - before, answer)
    };
    let sort = json!([{ "@timestamp": "desc" }]);
    let (numbers, read, answer) = latest(json!({ "size": 3, "sort": sort, "track_total_hits": false }));
    assert_eq!(numbers, [499, 498, 497]);
    assert!(read <= 100, "{read} documents were read: {answer}");
    assert!(answer["_shards"]["skipped"].as_u64() > Some(5), "{answer}");
    let (numbers, read, answer) = latest(json!({ "size": 3, "sort": sort, "track_total_hits": 40 }));
    assert_eq!(numbers, [499, 498, 497]);
    assert!(read <= 200, "{read} documents were read: {answer}");
    assert_eq!(answer["hits"]["total"], json!({ "value": 40, "relation": "gte" }));
    let after = json!([1_700_000_000_000_i64 + 300 * 3_600_000]);
    let (numbers, read, _) =
        latest(json!({ "size": 2, "sort": sort, "track_total_hits": false, "search_after": after }));
    assert_eq!(numbers, [299, 298]);
    assert!(read < 500, "{read} documents were read");
    // All are counted, and all count in aggregations.
    let (numbers, read, answer) = latest(json!({ "size": 1, "sort": sort }));
    assert_eq!((numbers, read, &answer["hits"]["total"]["value"]), (vec![json!(499)], 500, &json!(500)));
    let sum = json!({ "n": { "sum": { "field": "n" } } });
    let (_, _, answer) = latest(json!({ "size": 1, "sort": sort, "track_total_hits": false, "aggs": sum }));
    assert_eq!(answer["aggregations"]["n"]["value"], 124_750.0);
    let oldest = json!([{ "@timestamp": "asc" }]);
    let (numbers, read, _) = latest(json!({ "size": 2, "sort": oldest, "track_total_hits": false }));
    assert_eq!(numbers, [0, 1]);
    assert!(read <= 100, "{read} documents were read");
    for sort in ["", "&sort=_doc", "&sort=@timestamp:desc", "&sort=n"] {
        let seen = scrolled(&service, &format!("logs-a/_search?scroll=1m&size=30{sort}"), "", |page| {
            let line = format!("{{\"create\":{{}}}}\n{}\n", hour(page as i64));
            assert_eq!(service.get("POST /logs-a/_bulk", &line)["errors"], false);
        });
        let once: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(once.len(), seen.len(), "{sort}");
        assert!(seen.len() >= 500, "{sort}: {}", seen.len());
    }
}

#[test]
fn searches_end_when_their_client_has_left() {
    let directory = directory();
    let service = TestService::open(&directory);
    assert_eq!(service.ask_gone("PUT /a/_doc/1", r#"{"n":1}"#).0, 201, "a write is done");
    let scroll = service.get("GET /a/_search?scroll=1m&sort=n", "");
    let next = json!({ "scroll_id": scroll["_scroll_id"] }).to_string();
    for (request, body) in [
        ("GET /a/_search", ""),
        ("GET /a/_search", r#"{"size":0,"aggs":{"n":{"sum":{"field":"n"}}}}"#),
        ("GET /a/_search", r#"{"size":0,"aggs":{"n":{"sampler":{}}}}"#),
        ("GET /a/_search", r#"{"size":0,"aggs":{"n":{"global":{}}}}"#),
        ("GET /a/_search?scroll=1m", ""),
        ("GET /a/_count", ""),
        ("GET /_cat/count", ""),
    ] {
        assert_eq!(service.ask_gone(request, body).0, 408, "{request} {body}");
    }
    // All its hits were kept, so that nothing is read.
    assert_eq!(service.ask_gone("POST /_search/scroll", &next).0, 200);
    assert_eq!(service.get("GET /a/_count", "")["count"], 1);
}

#[test]
fn a_page_of_a_scroll_that_is_refused_comes_again() {
    let directory = directory();
    let service = TestService::open(&directory);
    write(&service, "a", (0..30).map(|n| (n.to_string(), json!({ "n": n }))));
    for sort in ["", "&sort=n"] {
        let first = service.get(&format!("GET /a/_search?scroll=1m&size=10{sort}"), "");
        let next = json!({ "scroll_id": first["_scroll_id"] }).to_string();
        let mut seen = ids(&first);
        for _ in 0..2 {
            let (status, answer) = service.ask("POST /_search/scroll?rest_total_hits_as_int=x", &next);
            assert_eq!(status, 400, "{answer}");
            let page = service.get("POST /_search/scroll?rest_total_hits_as_int=true", &next);
            assert_eq!(page["hits"]["total"], 30, "{page}");
            seen.extend(ids(&page));
        }
        // Without an order they come as they are stored.
        seen.sort_by_key(|id| id.parse::<u32>().ok());
        assert_eq!(seen, (0..30).map(|n| n.to_string()).collect::<Vec<_>>(), "{sort}");
    }
}

#[test]
fn scrolls_end_with_the_last_of_their_indexes() {
    let directory = directory();
    let service = TestService::open(&directory);
    for index in ["a", "b"] {
        write(&service, index, (0..9).map(|n| (n.to_string(), json!({ "n": n }))));
    }
    for sort in ["", "&sort=n"] {
        let open = |target: &str| {
            let first = service.get(&format!("GET /{target}/_search?scroll=1m&size=4{sort}"), "");
            json!({ "scroll_id": first["_scroll_id"] }).to_string()
        };
        write(&service, "gone", (0..9).map(|n| (n.to_string(), json!({ "n": n }))));
        let (one, several, none) = (open("gone"), open("gone,a,b"), open("none*"));
        service.get("DELETE /gone", "");
        let (status, answer) = service.ask("POST /_search/scroll", &one);
        assert_eq!(
            (status, &answer["error"]["type"]),
            (404, &json!("resource_not_found_exception")),
            "{sort}"
        );
        // An index of the same name is another one.
        write(&service, "gone", [("1".to_owned(), json!({ "n": 1 }))]);
        assert_eq!(service.ask("POST /_search/scroll", &one).0, 404, "{sort}");
        assert_eq!(service.ask("POST /_search/scroll", &several).0, 200, "{sort}: others are there");
        assert_eq!(service.ask("POST /_search/scroll", &none).0, 200, "{sort}: it had none");
        service.get("DELETE /gone", "");
    }
}

#[test]
fn names_of_queries_and_keys_of_sorts_take_memory() {
    let directory = directory();
    let service = TestService::open_small(&directory, 4 << 20);
    service.get("PUT /a", r#"{"mappings":{"properties":{"k":{"type":"keyword"}}}}"#);
    write(&service, "a", (0..400).map(|n| (n.to_string(), json!({ "n": n }))));
    let long = "x".repeat(20_000);
    // All hits before the one that is shown are kept.
    for (body, expected) in [
        (json!({ "query": { "match_all": { "_name": "all" } }, "sort": ["k", "n"] }), 200),
        (json!({ "query": { "match_all": { "_name": long } } }), 400),
        (json!({ "sort": [{ "k": { "missing": long } }] }), 400),
        (json!({ "sort": vec!["n"; 1_000] }), 400),
    ] {
        let (status, answer) = service.ask("GET /a/_search?from=399&size=1", &body.to_string());
        let answer: String = answer.to_string().chars().take(300).collect();
        assert_eq!(status, expected, "{answer}");
    }
}

#[test]
fn documents_are_counted_with_and_without_their_texts() {
    let directory = directory();
    let service = TestService::open(&directory);
    for number in 1..=4 {
        service.get(&format!("PUT /a/_doc/{number}"), &json!({ "n": number }).to_string());
    }
    service.get("DELETE /a/_doc/4", "");
    service.get("POST /a/_refresh", "");
    for sealed in [false, true] {
        if sealed {
            service.seal();
        }
        for (query, expected) in [
            (json!({ "match_all": {} }), 3),
            (json!({ "ids": { "values": ["1", "9"] } }), 1),
            (json!({ "bool": { "must_not": { "ids": { "values": ["1"] } } } }), 2),
            (json!({ "term": { "_version": 1 } }), 3),
            (json!({ "exists": { "field": "n" } }), 3),
            (json!({ "range": { "n": { "gt": 2 } } }), 1),
        ] {
            let counted = service.get("POST /a/_count", &json!({ "query": query }).to_string());
            assert_eq!(counted["count"], expected, "{query}, sealed: {sealed}");
            let filtered = json!({ "size": 0, "post_filter": query }).to_string();
            let total = &service.get("POST /a/_search", &filtered)["hits"]["total"]["value"];
            assert_eq!(*total, expected, "{query} as a filter, sealed: {sealed}");
        }
        let summed = json!({ "size": 0, "aggs": { "s": { "sum": { "field": "n" } } } }).to_string();
        assert_eq!(service.get("POST /a/_search", &summed)["aggregations"]["s"]["value"], 6.0);
        let hits = &service.get("POST /a/_search", r#"{"size":1}"#)["hits"]["hits"];
        assert!(hits[0]["_source"]["n"].is_number(), "{hits}");
    }
}
