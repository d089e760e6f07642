//! Options of queries as clients send them: what is asked, and what is found.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Ids of the documents that a query finds, or the reason for which it is refused.
fn found(service: &TestService, query: &Value) -> String {
    let body = json!({ "query": query, "sort": ["_id"] }).to_string();
    let (status, answer) = service.ask("POST /a/_search", &body);
    match status {
        200 => {
            let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
            hits.map(|hit| hit["_id"].as_str().expect("an id")).collect::<Vec<_>>().join(" ")
        }
        status => format!("{status} {}", answer["error"]["reason"]),
    }
}

/// Checks queries by the ids that they find; a text of an expected refusal begins with its status, and the
/// rest is in the reason.
#[track_caller]
fn check(service: &TestService, queries: &[(Value, &str)]) {
    for (query, expected) in queries {
        let found = found(service, query);
        match expected.strip_prefix("400 ") {
            Some(reason) => assert!(found.starts_with("400 ") && found.contains(reason), "{query}: {found}"),
            None => assert_eq!(found, *expected, "{query}"),
        }
    }
}

#[test]
fn words_of_texts_are_found_as_their_options_say() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (id, text) in [
        ("1", "The Quick Brown Fox"),
        ("2", "quick brown dogs and foxes"),
        ("3", "Brown bread"),
        ("4", "the wind rises"),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), &json!({ "t": text }).to_string());
    }
    let least = |minimum: &str| json!({ "match": { "t": { "query": "quick brown fox bread", "minimum_should_match": minimum } } });
    let phrase = |text: &str, slop: u8| json!({ "match_phrase": { "t": { "query": text, "slop": slop } } });
    let queries = [
        (least("2"), "1 2 3"),
        (least("75%"), "1"),
        (least("-25%"), "1"),
        (least("2<75%"), "1"),
        (least("2<-1 3<50%"), "1 2 3"),
        (least("many"), "400 [minimum_should_match] is [many]"),
        (
            json!({ "bool": { "should": [{ "term": { "t": "fox" } }, { "term": { "t": "quick" } }],
                "minimum_should_match": "1<-50%" } }),
            "1 2",
        ),
        (json!({ "bool": { "should": [], "minimum_should_match": "x" } }), "400 [minimum_should_match]"),
        (phrase("quick fox", 0), ""),
        (phrase("quick fox", 1), "1"),
        (phrase("fox brown", 1), ""),
        (phrase("fox brown", 2), "1"),
        (phrase("wind rises the", 2), ""),
        (phrase("wind rises the", 3), "4"),
        (phrase("quick quick", 50), ""),
    ];
    check(&service, &queries);
}

#[test]
fn dates_are_read_and_rounded_by_their_formats() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"d":{"type":"date"},
            "log":{"type":"date","format":"dd/MMM/yyyy:HH:mm:ss Z"},
            "zoned":{"type":"date","format":"yyyy-MM-dd'T'HH:mm:ss[.SSS]XXX"}}}}"#,
    );
    for (id, document) in [
        ("1", r#"{"d":"2024-01-01T00:30:00Z","log":"10/Oct/2000:13:55:36 -0700"}"#),
        ("2", r#"{"d":"2024-01-15T10:59:59.500Z","zoned":"2000-10-10T20:55:36Z"}"#),
        ("3", r#"{"d":"2024-02-15","zoned":"2000-10-10T22:55:36.250+01:00"}"#),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), document);
    }
    let until = |end: &str| json!({ "range": { "d": { "lte": end } } });
    let after = |end: &str| json!({ "range": { "d": { "gt": end } } });
    let queries = [
        (until("2024"), "1"),
        (until("2024-01"), "1"),
        (until("2024-01-01"), "1"),
        (until("2024-01-15T10"), "1 2"),
        (until("2024-01-15T10:59"), "1 2"),
        (until("2024-01-15T10:59:59"), "1 2"),
        (until("2024-01-15T10:59:59.499Z"), "1"),
        (after("2024-01-15T10"), "3"),
        (after("2024-01-15T10:59:59.4"), "2 3"),
        (json!({ "range": { "d": { "lte": "15/01/2024", "format": "dd/MM/yyyy" } } }), "1 2"),
        (json!({ "range": { "d": { "lt": "15/01/2024", "format": "dd/MM/yyyy" } } }), "1"),
        (json!({ "match": { "d": "2024-01" } }), "1"),
        (json!({ "term": { "d": "2024-01-15T10:59" } }), "2"),
        (json!({ "term": { "log": "10/Oct/2000:20:55:36 +0000" } }), "1"),
        (
            json!({ "range": { "zoned": { "gte": "2000-10-10T20:55:36Z", "lt": "2000-10-10T20:55:36.001Z" } } }),
            "2",
        ),
        (json!({ "range": { "zoned": { "gt": "2000-10-10T20:55:36.100Z" } } }), "3"),
    ];
    check(&service, &queries);
    let shown = r#"{"size":1,"sort":["_id"],"_source":false,"fields":["log",{"field":"d","format":"basic_date_time"}],
        "aggs":{"m":{"date_histogram":{"field":"d","calendar_interval":"month","format":"d/M/yy"}}}}"#;
    let answer = service.get("POST /a/_search", shown);
    assert_eq!(
        answer["hits"]["hits"][0]["fields"],
        json!({ "log": ["10/Oct/2000:20:55:36 +0000"], "d": ["20240101T003000.000Z"] })
    );
    assert_eq!(answer["aggregations"]["m"]["buckets"][1]["key_as_string"], "1/2/24");
}
