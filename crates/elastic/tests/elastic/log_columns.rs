//! Columns of the fields of logs: searches that read them have the answers of those that read each document.

use millrace_node::Settings;
use serde_json::{Map, Value, json};

use crate::logs::{template, write};
use crate::service_support::{TestService, directory};

/// Events of a stream, in bulks of the same size. The last bulk is not sealed.
const EVENTS: u64 = 1_400;
const BULKS: u64 = 4;
/// Events before the first that has fields of other shapes.
const REGULAR: u64 = 700;
const FIRST_MS: u64 = 1_700_000_000_000;

/// Streams: the mapping of one gets the fields of the events, that of the next has some and gets no more, and
/// that of the last has parameters by which values are read in another form.
const STREAMS: [&str; 3] = ["logs-a", "strict-a", "formed-a"];

/// Number of searches, or that of `MILLRACE_COLUMN_SEARCHES`.
fn searches() -> usize {
    let asked = std::env::var("MILLRACE_COLUMN_SEARCHES").ok();
    asked.map_or(180, |text| text.parse().expect("MILLRACE_COLUMN_SEARCHES is a number"))
}

/// Random choices from a seed.
struct EventChoice(u64);

impl EventChoice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

const LEVELS: [&str; 4] = ["debug", "info", "warn", "error"];
const WORDS: [&str; 8] = ["handled", "Request", "of", "client", "OVERFLOW", "für", "v1.5", "overflows"];

/// A value that no other event has.
fn trace(n: u64) -> String {
    format!("{:016X}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn event(choice: &mut EventChoice, n: u64) -> Value {
    let time = FIRST_MS + n * 1_000;
    let text: Vec<&str> = (0..3).map(|_| choice.one(&WORDS)).collect();
    let mut event = json!({
        "@timestamp": time, "n": n, "level": choice.one(&LEVELS), "took": choice.below(90) * 10, "rate": 0.5,
        "message": format!("{} {n}", text.join(" ")), "trace": trace(n),
        "k8s": { "pod": format!("pod-{}", choice.below(9)), "ns": "main", "ip": "10.0.0.1" }, "flag": n.is_multiple_of(3),
        "seen": time + 5,
    });
    let members = event.as_object_mut().expect("an object");
    if n >= REGULAR {
        for _ in 0..choice.below(4) {
            let (name, value) = odd_member(choice, n);
            members.remove(name);
            members.extend(value.map(|value| (name.to_owned(), value)));
        }
    }
    event
}

/// A member of an unusual shape, or none.
fn odd_member(choice: &mut EventChoice, n: u64) -> (&'static str, Option<Value>) {
    let pod = json!(format!("pod-{}", n % 11));
    let (name, values) = match choice.below(9) {
        0 => (
            "@timestamp",
            vec![json!("2023-11-14T23:00:00Z"), json!("soon"), json!([FIRST_MS, FIRST_MS + 1]), json!(2024)],
        ),
        1 => (
            "level",
            vec![
                json!(["info", "warn"]),
                json!({ "x": 1 }),
                json!(null),
                json!(5),
                json!("Info"),
                json!("ÏNFO"),
            ],
        ),
        2 => (
            "took",
            vec![
                json!(12.5),
                json!("120"),
                json!([1, null]),
                json!("none"),
                json!(1_u64 << 60),
                json!(u64::MAX),
            ],
        ),
        3 => (
            "message",
            vec![json!(["one", "overflow two"]), json!(7), json!(""), json!({ "text": "client" })],
        ),
        4 => {
            ("k8s", vec![json!([{ "pod": pod }, { "ns": "other" }]), json!("text"), json!({ "pod": [pod] })])
        }
        5 => ("k8s.pod", vec![pod.clone(), json!([pod, "pod-1"])]),
        6 => ("flag", vec![json!("true"), json!([true, false]), json!("maybe"), json!(null), json!([])]),
        7 => ("seen", vec![json!(-86_400_000), json!("soon"), json!(["2023-11-14", -5]), json!(1e30)]),
        _ => ("late", vec![json!(n), json!(n + 1), json!({ "x": n }), json!([{ "x": n }, n])]),
    };
    let values: Vec<Option<Value>> = values.into_iter().map(Some).chain([None]).collect();
    (name, choice.one(&values))
}

fn condition(choice: &mut EventChoice) -> Value {
    let level = choice.one(&LEVELS);
    let words = format!("{} {}", choice.one(&WORDS), choice.one(&WORDS));
    let word = choice.one(&WORDS);
    let pod = format!("pod-{}", choice.below(11));
    let took = choice.below(900);
    let n = choice.below(EVENTS);
    let time = FIRST_MS + n * 1_000;
    let until = time + choice.below(900_000);
    let field = choice.one(&[
        "level",
        "k8s",
        "k8s.pod",
        "late",
        "late.keyword",
        "level.x",
        "level.raw",
        "missing",
        "took",
        "@timestamp",
        "n",
        "seen",
        "severity",
        "tags",
        "kind",
        "words",
        "flag",
    ]);
    choice.one(&[
        json!({ "range": { "@timestamp": { "gte": time, "lt": until } } }),
        json!({ "range": { "@timestamp": { "gt": "2023-11-14T22:20:00Z" } } }),
        json!({ "range": { "@timestamp": { "lte": time } } }),
        json!({ "term": { "@timestamp": time } }),
        json!({ "term": { "level": level } }),
        json!({ "term": { "level": { "value": "INFO", "case_insensitive": true } } }),
        json!({ "terms": { "level": [level, "info", 5] } }),
        json!({ "term": { "level.keyword": level } }),
        json!({ "range": { "level": { "gte": "f" } } }),
        json!({ "regexp": { "level": "(in|er).*" } }),
        json!({ "term": { "k8s.pod": pod } }),
        json!({ "prefix": { "k8s.pod.keyword": "pod-1" } }),
        json!({ "exists": { "field": field } }),
        json!({ "match": { "message": words } }),
        json!({ "match": { "message": { "query": words, "operator": "and" } } }),
        json!({ "match": { "message": { "query": "overflwo", "fuzziness": 1 } } }),
        json!({ "match_phrase": { "message": words } }),
        json!({ "match_phrase_prefix": { "message": format!("{word} ov") } }),
        json!({ "term": { "message": word.to_lowercase() } }),
        json!({ "term": { "message.keyword": format!("{words} {n}") } }),
        json!({ "prefix": { "trace": format!("{:X}", n % 16) } }),
        json!({ "term": { "trace": trace(n) } }),
        json!({ "wildcard": { "trace": "*A?" } }),
        json!({ "range": { "took": { "gte": took, "lt": took + 200 } } }),
        json!({ "range": { "took": { "lt": "x" } } }),
        json!({ "term": { "took": 120 } }),
        json!({ "match": { "took": "none" } }),
        json!({ "term": { "flag": true } }),
        json!({ "term": { "rate": 0.5 } }),
        json!({ "range": { "n": { "lt": n } } }),
        json!({ "query_string": { "query": format!("message:{word} AND NOT level:{level}") } }),
        json!({ "term": { "tags": level.to_uppercase() } }),
        json!({ "prefix": { "tags": "POD-1" } }),
        json!({ "term": { "severity": level } }),
        json!({ "term": { "level": "INFO" } }),
        json!({ "range": { "level": { "gt": "Info" } } }),
        json!({ "match": { "level.text": level } }),
        json!({ "term": { "kind": "log" } }),
        json!({ "match": { "words": words } }),
        json!({ "match_phrase": { "words": words } }),
        json!({ "match": { "message": { "query": words, "analyzer": "whitespace" } } }),
        json!({ "intervals": { "words": { "match": { "query": words, "max_gaps": 1 } } } }),
        json!({ "multi_match": { "query": word, "fields": ["words", "level.text", "message"] } }),
        json!({ "range": { "seen": { "lt": time } } }),
        json!({ "range": { "seen": { "gte": until } } }),
        json!({ "range": { "at": { "gte": time } } }),
        json!({ "range": { "@timestamp": { "lt": "2023-11-14T23:25", "time_zone": "+01:00" } } }),
        json!({ "range": { "@timestamp": { "gte": "14/11/2023 22", "format": "dd/MM/yyyy HH" } } }),
        json!({ "distance_feature": { "field": "@timestamp", "origin": "2023-11-14T22:20:00Z", "pivot": "1h" } }),
        json!({ "range": { "rate": { "gt": 0.7 } } }),
        json!({ "term": { "took": 7 } }),
        json!({ "range": { "took": { "gte": 1_u64 << 59 } } }),
        json!({ "wildcard": { "late.keyword": "*x*" } }),
        json!({ "term": { "_ignored": "took" } }),
        json!({ "exists": { "field": "_ignored" } }),
        json!({ "ids": { "values": ["none"] } }),
        json!({ "match_all": {} }),
        json!({ "match_none": {} }),
    ])
}

fn query(choice: &mut EventChoice, depth: u64) -> Value {
    if depth > 2 || choice.below(3) == 0 {
        return condition(choice);
    }
    match choice.below(4) {
        0 => json!({ "dis_max": { "queries": [condition(choice), condition(choice)], "tie_breaker": 0.5 } }),
        1 => json!({ "constant_score": { "filter": condition(choice), "boost": 2, "_name": "c" } }),
        _ => {
            let mut clauses = json!({
                "must": queries(choice, depth, 2), "filter": queries(choice, depth, 3),
                "must_not": queries(choice, depth, 2), "should": queries(choice, depth, 4),
            });
            if choice.below(3) == 0 {
                clauses["minimum_should_match"] = choice.one(&[json!(0), json!(1), json!(2)]);
            }
            json!({ "bool": clauses })
        }
    }
}

/// Clauses of a query, fewer than so many.
fn queries(choice: &mut EventChoice, depth: u64, end: u64) -> Vec<Value> {
    (0..choice.below(end)).map(|_| query(choice, depth + 1)).collect()
}

fn aggregations(choice: &mut EventChoice) -> Value {
    let levels = json!({ "terms": { "field": "level", "size": 3 } });
    let took = json!({ "stats": { "field": "took" } });
    let all = [
        ("levels", levels.clone()),
        ("unmapped", json!({ "terms": { "field": "late", "missing": 0 } })),
        ("times", json!({ "date_histogram": { "field": "@timestamp", "fixed_interval": "1m" } })),
        (
            "levels_by_time",
            json!({
                "date_histogram": { "field": "@timestamp", "fixed_interval": "5m", "min_doc_count": 1 },
                "aggs": { "level": levels, "took": took, "most": { "max": { "field": "took" } } },
            }),
        ),
        (
            "by_level",
            json!({
                "terms": { "field": "level", "order": { "took.sum": "desc" } },
                "aggs": { "took": took, "pods": { "cardinality": { "field": "k8s.pod.keyword" } } },
            }),
        ),
        ("took", took.clone()),
        ("tags", json!({ "terms": { "field": "tags", "order": { "_key": "asc" } } })),
        ("severities", json!({ "terms": { "field": "severity", "missing": "long" } })),
        ("kinds", json!({ "terms": { "field": "kind" } })),
        ("texts", json!({ "terms": { "field": "message.keyword", "size": 4, "order": { "_key": "desc" } } })),
        ("rates", json!({ "terms": { "field": "rate", "min_doc_count": 0 } })),
        (
            "years",
            json!({ "date_histogram": { "field": "seen", "calendar_interval": "year", "min_doc_count": 1 } }),
        ),
        (
            "local",
            json!({ "date_histogram": {
                "field": "@timestamp", "calendar_interval": "hour", "offset": "+20m", "time_zone": "Europe/Berlin",
                "min_doc_count": 1,
            } }),
        ),
        (
            "shifted",
            json!({
                "date_histogram": { "field": "at", "fixed_interval": "7m", "offset": "-90s", "min_doc_count": 1 },
                "aggs": { "first": { "min": { "field": "@timestamp" } } },
            }),
        ),
        (
            "chosen_tags",
            json!({ "filters": { "other_bucket": true, "filters": {
                "tag": { "term": { "tags": "main" } }, "word": { "match": { "words": "overflow" } },
                "kind": { "term": { "kind": "log" } },
            } } }),
        ),
        ("spread", json!({ "percentiles": { "field": "took" } })),
        ("traces", json!({ "value_count": { "field": "trace" } })),
        ("without", json!({ "missing": { "field": "level" } })),
        ("slow", json!({ "range": { "field": "took", "ranges": [{ "to": 100 }, { "from": 100 }] } })),
        ("steps", json!({ "histogram": { "field": "took", "interval": 200 } })),
        ("pairs", json!({ "multi_terms": { "terms": [{ "field": "level" }, { "field": "flag" }] } })),
        (
            "pages",
            json!({ "composite": { "size": 3, "sources": [
                { "p": { "terms": { "field": "k8s.pod.keyword" } } }, { "l": { "terms": { "field": "level" } } },
            ] } }),
        ),
        ("weighted", json!({ "weighted_avg": { "value": { "field": "rate" }, "weight": { "field": "n" } } })),
        ("rare", json!({ "rare_terms": { "field": "took", "max_doc_count": 3 } })),
        ("errors", json!({ "filter": { "term": { "level": "error" } }, "aggs": { "took": took } })),
        ("all", json!({ "filter": { "match_all": {} } })),
        (
            "chosen",
            json!({ "filters": { "filters": {
                "slow": { "range": { "took": { "gte": 500 } } }, "text": { "match": { "message": "client" } },
                "other": { "bool": { "must_not": [{ "exists": { "field": "level" } }, { "term": { "flag": true } }] } },
            } } }),
        ),
        ("best", json!({ "top_hits": { "size": 1, "sort": [{ "n": "desc" }] } })),
    ];
    // The last one needs documents: all others in the request then read them, too.
    let most = if choice.below(4) == 0 { all.len() } else { all.len() - 1 };
    let chosen = (0..choice.below(4)).map(|_| choice.one(&all[..most]));
    Value::Object(chosen.map(|(name, asked)| (name.to_owned(), asked)).collect::<Map<String, Value>>())
}

fn search(choice: &mut EventChoice) -> Value {
    let mut body = json!({ "query": query(choice, 0), "size": choice.one(&[0, 3, 40]) });
    let sorts = [
        json!([{ "@timestamp": "desc" }]),
        json!([{ "@timestamp": "asc" }, { "n": "asc" }]),
        json!([{ "took": "asc" }, { "n": "desc" }]),
        json!([{ "seen": "desc" }, { "n": "asc" }]),
        json!([{ "level": "asc" }, { "n": "desc" }]),
        json!([{ "at": "desc" }, { "tags": "asc" }]),
        json!(["_score", { "n": "asc" }]),
    ];
    if choice.below(4) > 0 {
        body["sort"] = choice.one(&sorts);
    }
    if choice.below(2) == 0 {
        body["track_total_hits"] = choice.one(&[json!(true), json!(false), json!(10)]);
    }
    let aggregations = aggregations(choice);
    if aggregations.as_object().is_some_and(|asked| !asked.is_empty()) {
        body["aggs"] = aggregations;
    }
    match choice.below(12) {
        0 => body["post_filter"] = condition(choice),
        1 => body["min_score"] = json!(0.5),
        2 => body["terminate_after"] = json!(100_000),
        3 if body["sort"][0]["@timestamp"] == "desc" => body["search_after"] = json!([FIRST_MS + 400_000]),
        _ => {}
    }
    body
}

/// Mapping with parameters by which values are read in another form, or left out.
fn formed_mapping() -> Value {
    json!({ "properties": {
        "@timestamp": { "type": "date", "format": "strict_date_optional_time||epoch_millis" },
        "at": { "type": "alias", "path": "@timestamp" },
        "level": {
            "type": "keyword", "normalizer": "plain", "null_value": "None", "copy_to": ["words", "tags"],
            "fields": {
                "raw": { "type": "keyword", "ignore_above": 4 }, "text": { "type": "text", "analyzer": "simple" },
            },
        },
        "severity": { "type": "alias", "path": "level.raw" },
        "message": {
            "type": "text", "analyzer": "whitespace", "search_analyzer": "standard", "copy_to": "words",
            "fields": { "keyword": { "type": "keyword", "normalizer": "plain" } },
        },
        "words": { "type": "text" },
        "tags": { "type": "keyword", "normalizer": "lowercase" },
        "took": { "type": "long", "coerce": false, "null_value": 7, "ignore_malformed": true },
        "rate": { "type": "scaled_float", "scaling_factor": 1 },
        "seen": { "type": "date_nanos", "ignore_malformed": true },
        "flag": { "type": "boolean", "ignore_malformed": true, "null_value": true },
        "kind": { "type": "constant_keyword", "value": "log" },
        "k8s": { "properties": {
            "pod": { "type": "keyword", "ignore_above": 5, "copy_to": "tags" },
            "ns": { "type": "keyword", "copy_to": "tags" },
        } },
        "trace": { "type": "keyword" },
    } })
}

/// Status of an answer, and all of it that does not depend on the time.
fn answer(service: &TestService, stream: &str, body: &Value) -> (u16, Value) {
    let (status, mut answer) = service.ask(&format!("GET /{stream}/_search"), &body.to_string());
    if let Some(members) = answer.as_object_mut() {
        members.remove("took");
        // After a restart, the times of partitions are bounds.
        members.remove("_shards");
    }
    (status, answer)
}

#[test]
fn columns_answer_as_documents_do() {
    let directory = directory();
    let mut choice = EventChoice(0x2545_f491_4f6c_dd1d);
    let searches: Vec<(&str, Value)> =
        (0..searches()).map(|at| (STREAMS[at % STREAMS.len()], search(&mut choice))).collect();
    let service = TestService::open(&directory);
    let mut body: Value =
        serde_json::from_str(&template(json!({ "index.partition.documents": EVENTS / 2 }))).expect("JSON");
    body["template"]["mappings"] = json!({ "properties": {
        "level": { "type": "keyword" }, "message": { "type": "text" }, "took": { "type": "long" }, "trace": { "type": "keyword" },
    } });
    service.get("PUT /_index_template/logs", &body.to_string());
    body["template"]["mappings"] = json!({
        "dynamic": "strict", "properties": { "took": { "type": "long" }, "level": { "type": "keyword" } },
    });
    service.get("PUT /_index_template/strict", &body.to_string().replace("logs-*", "strict-*"));
    body["template"]["mappings"] = formed_mapping();
    body["template"]["settings"]["analysis"] =
        json!({ "normalizer": { "plain": { "type": "custom", "filter": ["lowercase", "asciifolding"] } } });
    service.get("PUT /_index_template/formed", &body.to_string().replace("logs-*", "formed-*"));
    for bulk in 0..BULKS {
        let of_bulk = bulk * EVENTS / BULKS..(bulk + 1) * EVENTS / BULKS;
        let events: Vec<Value> = of_bulk.map(|n| event(&mut choice, n)).collect();
        for stream in STREAMS {
            write(&service, &format!("{stream}/_bulk"), &events);
        }
        if bulk + 2 == BULKS {
            service.seal();
        }
    }
    let mapping = service.get("GET /logs-a/_mapping", "");
    let made = |service: &TestService| service.metric("millrace.logs.columns_made");
    let all = |service: &TestService| {
        searches.iter().map(|(stream, body)| answer(service, stream, body)).collect::<Vec<_>>()
    };
    let by_columns = all(&service);
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
