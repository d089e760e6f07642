//! Columns of the fields of logs: searches that read them have the answers of those that read each document.

use millrace_fixtures::log_searches::{FIRST_MS, LEVELS, LogSearches, STREAMS, comparable, log_templates};
use millrace_node::Settings;
use serde_json::{Value, json};

use crate::logs::{template, write};
use crate::service_support::{TestService, directory};

/// Status of an answer, and what is compared of it.
fn answer(service: &TestService, stream: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = service.ask(&format!("GET /{stream}/_search"), &body.to_string());
    (status, comparable(answer))
}

/// Total of a scroll, and the hits of all of its pages; the last one is the error that ended it.
fn pages(service: &TestService, stream: &str, body: &Value) -> (Value, Vec<Value>) {
    let (mut status, mut page) = service.ask(&format!("POST /{stream}/_search?scroll=1m"), &body.to_string());
    let (total, mut all) = (page["hits"]["total"].clone(), Vec::new());
    while status == 200 {
        let hits = page["hits"]["hits"].as_array().expect("hits").clone();
        let next = json!({ "scroll_id": page["_scroll_id"] }).to_string();
        if hits.is_empty() {
            service.get("DELETE /_search/scroll", &next);
            return (total, all);
        }
        all.extend(hits);
        (status, page) = service.ask("POST /_search/scroll", &next);
    }
    all.push(page);
    (total, all)
}

#[test]
fn columns_answer_as_documents_do() {
    let directory = directory();
    let LogSearches { searches, scrolls, bulks } = LogSearches::new(180);
    let service = TestService::open(&directory);
    for (name, body) in log_templates(json!({ "index.partition.documents": 700 })) {
        service.get(&format!("PUT /_index_template/{name}"), &body.to_string());
    }
    for (number, events) in bulks.iter().enumerate() {
        for stream in STREAMS {
            write(&service, &format!("{stream}/_bulk"), events);
        }
        // The last bulk is not sealed.
        if number + 2 == bulks.len() {
            service.seal();
        }
    }
    let mapping = service.get("GET /logs-a/_mapping", "");
    let made = |service: &TestService| service.metric("millrace.logs.columns_made");
    let all = |service: &TestService| {
        searches.iter().map(|(stream, body)| answer(service, stream, body)).collect::<Vec<_>>()
    };
    let all_pages = |service: &TestService| {
        scrolls.iter().map(|(stream, body)| pages(service, stream, body)).collect::<Vec<_>>()
    };
    let by_columns = all(&service);
    let pages_by_columns = all_pages(&service);
    assert!(made(&service) > 0, "searches make columns");
    // Files that are merged meanwhile have other chunks.
    let are_kept = (0..10).any(|_| {
        let before = made(&service);
        assert!(all(&service) == by_columns, "kept columns answer as they did when they were made");
        made(&service) == before
    });
    assert!(are_kept, "columns are kept");
    drop(service);

    let settings = Settings::new(directory.path().join("data"));
    let service = TestService::open_with(Settings { plain_paths: true, ..settings });
    assert_eq!(service.get("GET /logs-a/_mapping", ""), mapping);
    let mut found = 0;
    for ((stream, body), by_columns) in searches.iter().zip(&by_columns) {
        let by_documents = answer(&service, stream, body);
        assert_eq!(*by_columns, by_documents, "{stream}: {body}");
        found += by_documents.1["hits"]["hits"].as_array().map_or(0, Vec::len);
    }
    assert!(found > searches.len(), "searches find events");
    for ((search, by_columns), by_documents) in scrolls.iter().zip(&pages_by_columns).zip(all_pages(&service))
    {
        assert_eq!(*by_columns, by_documents, "{search:?}");
    }
    assert_eq!(made(&service), 0, "plain paths make no columns");
}

#[test]
fn aggregations_without_fields_count_all_rows() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    let events: Vec<Value> =
        (0..30).map(|n| json!({ "@timestamp": FIRST_MS + n, "level": LEVELS[(n % 4) as usize] })).collect();
    write(&service, "logs-a/_bulk", &events);
    let filters = json!({ "all": { "match_all": {} }, "none": { "match_none": {} } });
    for (query, expected) in
        [(json!({ "match_all": {} }), 30), (json!({ "term": { "level.keyword": "info" } }), 8)]
    {
        let body = json!({ "size": 0, "query": query, "aggs": {
            "all": { "filter": { "match_all": {} } },
            "parts": { "filters": { "filters": filters, "other_bucket": true } },
        } });
        let answer = service.get("GET /logs-a/_search", &body.to_string());
        let all = &answer["aggregations"]["all"]["doc_count"];
        let parts = &answer["aggregations"]["parts"]["buckets"];
        let counts =
            [all, &parts["all"]["doc_count"], &parts["none"]["doc_count"], &parts["_other_"]["doc_count"]];
        assert_eq!(counts, [&json!(expected), &json!(expected), &json!(0), &json!(0)], "{query}: {answer}");
    }
}

#[test]
fn kept_columns_are_read_by_the_mapping_of_the_moment() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    let events: Vec<Value> = (0..40)
        .map(|n| json!({ "@timestamp": FIRST_MS + n, "level": LEVELS[(n % 4) as usize], "seen": n * 10 }))
        .collect();
    write(&service, "logs-a/_bulk", &events);
    let late = json!({ "range": { "seen": {
        "gte": "1970-01-01T00:02:00Z", "format": "strict_date_optional_time",
    } } });
    let body = json!({ "size": 0, "query": { "exists": { "field": "level" } }, "aggs": {
        "levels": { "terms": { "field": "level" } }, "late": { "filter": late },
    } });
    for (longest, format, expected) in [
        (9, "epoch_second", (40, 4, 28)),
        (4, "epoch_millis", (20, 2, 0)),
        (5, "epoch_second", (40, 4, 28)),
        (4, "epoch_second", (20, 2, 14)),
    ] {
        let fields = json!({
            "level": { "type": "keyword", "ignore_above": longest }, "seen": { "type": "date", "format": format },
        });
        service.get("PUT /logs-a/_mapping", &json!({ "properties": fields }).to_string());
        for turn in 0..2 {
            let all = service.get("GET /logs-a/_count", &json!({ "query": late }).to_string());
            let expected_of_all = if format == "epoch_second" { 28 } else { 0 };
            assert_eq!(all["count"], expected_of_all, "{longest} {format}, {turn}");
            let answer = service.get("GET /logs-a/_search", &body.to_string());
            let levels = answer["aggregations"]["levels"]["buckets"].as_array().expect("buckets").len();
            let found = (answer["hits"]["total"]["value"].as_u64(), levels);
            assert_eq!(found, (Some(expected.0), expected.1), "{longest} {format}, {turn}");
            assert_eq!(answer["aggregations"]["late"]["doc_count"], expected.2, "{longest} {format}, {turn}");
        }
    }
    assert!(service.metric("millrace.logs.columns_made") > 0, "searches make columns");
}

#[test]
fn columns_are_those_of_the_documents_that_are_there() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    let levels = json!({ "size": 0, "track_total_hits": true, "aggs": { "l": { "terms": { "field": "level.keyword" } } } });
    let counted = || {
        let answer = service.get("GET /logs-a/_search", &levels.to_string());
        let buckets = answer["aggregations"]["l"]["buckets"].as_array().expect("buckets").clone();
        let counts = buckets.iter().map(|bucket| bucket["doc_count"].as_u64().expect("a number"));
        (answer["hits"]["total"]["value"].as_u64().expect("a number"), counts.sum::<u64>())
    };
    let newest =
        json!({ "size": 2, "sort": [{ "@timestamp": "desc" }], "query": { "match": { "message": "last" } } });
    for round in 1..=6 {
        let events: Vec<Value> = (0..40)
            .map(|n| {
                let message = if n % 20 == 19 { "the last" } else { "another" };
                json!({ "@timestamp": FIRST_MS + round * 100 + n, "level": LEVELS[(n % 4) as usize], "message": message })
            })
            .collect();
        write(&service, "logs-a/_bulk", &events);
        if round % 2 == 0 {
            service.seal();
        }
        assert_eq!(counted(), (round * 40, round * 40), "round {round}");
        assert_eq!(counted(), (round * 40, round * 40), "round {round}, again");
        let answer = service.get("GET /logs-a/_search", &newest.to_string());
        let times: Vec<u64> = answer["hits"]["hits"]
            .as_array()
            .expect("hits")
            .iter()
            .map(|hit| hit["_source"]["@timestamp"].as_u64().expect("a time"))
            .collect();
        assert_eq!(times, [FIRST_MS + round * 100 + 39, FIRST_MS + round * 100 + 19]);
    }
}

#[test]
fn hits_are_chosen_by_columns_as_they_are_written() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({ "index.partition.documents": 90 })));
    let events = |first: u64| -> Vec<Value> {
        // Times go backwards, and each level comes many times. A scroll has no room for all of them at once.
        let numbers = first..first + 100;
        let event = |n: u64| {
            let (level, pad) = (LEVELS[(n % 4) as usize], "x".repeat(15_000));
            json!({ "@timestamp": FIRST_MS - n * 1_000, "n": n, "level": level, "pad": pad })
        };
        numbers.map(event).collect()
    };
    let numbers = |hits: &[Value]| -> Vec<u64> {
        hits.iter().map(|hit| hit["_source"]["n"].as_u64().expect("a number")).collect()
    };
    let of_level = |level: u64| (0..50).map(move |n| n * 4 + level);
    let cases = [
        (json!(null), (0..200).collect()),
        (json!(["_doc"]), (0..200).collect()),
        (json!([{ "_doc": "desc" }]), (0..200).rev().collect()),
        (json!([{ "n": "desc" }]), (0..200).rev().collect()),
        (json!([{ "@timestamp": "desc" }]), (0..200).collect()),
        (json!([{ "@timestamp": "asc" }]), (0..200).rev().collect()),
        // Debug, error, info, warn.
        (
            json!([{ "level.keyword": "asc" }]),
            [0, 3, 1, 2].into_iter().flat_map(of_level).collect::<Vec<u64>>(),
        ),
    ];
    for (at, (sort, expected)) in cases.into_iter().enumerate() {
        let stream = format!("logs-{at}");
        write(&service, &format!("{stream}/_bulk"), &events(0));
        service.seal();
        write(&service, &format!("{stream}/_bulk"), &events(100));
        let search = format!("POST /{stream}/_search");
        let mut body = json!({ "size": 7, "query": { "exists": { "field": "level" } } });
        if !sort.is_null() {
            body["sort"] = sort.clone();
        }
        for from in [0, 60] {
            body["from"] = json!(from);
            let answer = service.get(&search, &body.to_string());
            let hits = answer["hits"]["hits"].as_array().expect("hits");
            assert_eq!(numbers(hits), expected[from..from + 7], "{sort} from {from}");
            if sort.is_null() {
                continue;
            }
            let last = &hits[6]["sort"];
            let mut after = body.clone();
            (after["from"], after["search_after"]) = (json!(0), last.clone());
            let answer = service.get(&search, &after.to_string());
            let next = answer["hits"]["hits"].as_array().expect("hits");
            // Hits with the same keys are not after it.
            let is_after = |hit: &&Value| hit["sort"] != *last;
            assert_eq!(next.iter().filter(is_after).count(), 7, "{sort} after {last}");
            if sort[0].get("level.keyword").is_none() {
                assert_eq!(numbers(next), expected[from + 7..from + 14], "{sort} after {last}");
            }
        }
        body["from"] = json!(0);
        // Events that come later are not in a scroll.
        let mut page = service.get(&format!("{search}?scroll=1m"), &body.to_string());
        assert_eq!(page["hits"]["total"]["value"], 200, "{sort}");
        write(&service, &format!("{stream}/_bulk"), &events(1_000));
        let mut all = Vec::new();
        while let Some(hits) = page["hits"]["hits"].as_array().filter(|hits| !hits.is_empty()) {
            all.extend(numbers(hits));
            let next = json!({ "scroll_id": page["_scroll_id"] }).to_string();
            page = service.get("POST /_search/scroll", &next);
        }
        if sort.is_null() || sort == json!(["_doc"]) {
            // They come in the order of the store.
            all.sort_unstable();
        }
        assert_eq!(all, expected, "{sort}");
    }
}

#[test]
fn columns_that_were_read_are_made_ahead_for_new_files() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    let write_all = |stream: &str, count: u64| {
        let event = |n: u64| json!({ "@timestamp": FIRST_MS + n, "level": LEVELS[(n % 4) as usize], "n": n });
        write(&service, &format!("{stream}/_bulk"), &(0..count).map(event).collect::<Vec<Value>>());
        service.seal();
    };
    let search = json!({
        "size": 1, "track_total_hits": true, "sort": [{ "n": "desc" }], "query": { "range": { "n": { "gte": 10 } } },
        "aggs": { "l": { "terms": { "field": "level.keyword" } } },
    })
    .to_string();
    let found = || service.get("GET /logs-a/_search", &search)["hits"]["total"]["value"].as_u64();
    let made = || service.metric("millrace.logs.columns_made");
    write_all("logs-a", 1_500);
    assert_eq!((service.prepare_log_columns(), made()), (0, 0), "no search has read a column");
    assert_eq!(found(), Some(1_490));
    write_all("logs-a", 300);
    write_all("logs-b", 300);
    assert!(service.prepare_log_columns() > 0, "columns are made of the new file");
    // Files that are merged meanwhile have other chunks.
    let is_prepared = (0..10).any(|_| {
        service.prepare_log_columns();
        let before = made();
        assert_eq!(found(), Some(1_490 + 290));
        made() == before
    });
    assert!(is_prepared, "a search makes no column of a file that was prepared");
    let before = made();
    service.get("GET /logs-b/_search", &search);
    assert!(made() > before, "files of an index that no search has read are not prepared");
}

#[test]
fn columns_are_made_ahead_once_also_while_there_is_no_room() {
    const FIELDS: u64 = 28;
    let directory = directory();
    let settings = Settings::new(directory.path().join("data"));
    // Room for some of the columns of the first search.
    let service = TestService::open_with(Settings { cache_bytes: 1 << 20, ..settings });
    service.get("PUT /_index_template/logs", &template(json!({ "index.partition.documents": 300 })));
    let write_file = |number: u64| {
        let event = |n: u64| {
            let mut event = json!({ "@timestamp": FIRST_MS + n });
            (0..FIELDS).for_each(|field| event[format!("f{field}")] = json!(n * FIELDS + field));
            event
        };
        let events: Vec<Value> = (number * 300..(number + 1) * 300).map(event).collect();
        write(&service, "logs-a/_bulk", &events);
        service.seal();
    };
    let made = || service.metric("millrace.logs.columns_made");
    (0..6).for_each(write_file);
    let exist: Vec<Value> =
        (0..FIELDS).map(|field| json!({ "exists": { "field": format!("f{field}") } })).collect();
    let search = json!({ "size": 0, "track_total_hits": true, "query": { "bool": { "filter": exist } } });
    let answer = service.get("GET /logs-a/_search", &search.to_string());
    assert_eq!(answer["hits"]["total"]["value"], 1_800);
    assert!(made() >= FIELDS, "the search makes columns");
    // Files that are merged meanwhile have other chunks.
    let is_done = || (0..20).any(|_| service.prepare_log_columns() == 0);
    assert!(is_done(), "columns that have no room are not made again and again");
    write_file(6);
    assert!(service.prepare_log_columns() > 0, "those of a new file are made");
    assert!(is_done(), "and once");
    write_file(7);
    service.end_waits();
    assert_eq!(service.prepare_log_columns(), 0, "nothing is made while the node is being stopped");
}

#[test]
fn scrolls_that_columns_do_not_serve_read_each_document_once() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /_index_template/logs", &template(json!({})));
    let events: Vec<Value> = (0..200).map(|n| json!({ "@timestamp": FIRST_MS + n, "n": n })).collect();
    write(&service, "logs-a/_bulk", &events);
    let read = || service.metric("millrace.logs.documents_read");
    for (name, value, total) in [
        ("slice", json!({ "id": 0, "max": 2 }), None),
        ("min_score", json!(0.5), Some(200)),
        ("post_filter", json!({ "range": { "n": { "lt": 150 } } }), Some(150)),
    ] {
        let mut body = json!({ "size": 10 });
        body[name] = value;
        let before = read();
        let page = service.get("POST /logs-a/_search?scroll=1m", &body.to_string());
        assert_eq!(read() - before, 200, "{body}");
        assert_eq!(page["hits"]["hits"].as_array().map(Vec::len), Some(10), "{body}: {page}");
        let found = page["hits"]["total"]["value"].as_u64();
        assert!(total.is_none() || found == total, "{body}: {page}");
    }
}
