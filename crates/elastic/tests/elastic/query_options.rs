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

#[test]
fn typed_texts_have_the_options_of_both_languages() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"k":{"type":"keyword"},"d":{"type":"date"}}}}"#);
    for (id, document) in [
        ("1", json!({ "t": "the quick brown fox", "u": "lazy dog", "d": "2024-01-15T10:00:00Z" })),
        ("2", json!({ "t": "quick brown dogs", "u": "fox in the box", "d": "2024-02-15" })),
        ("3", json!({ "t": "brown bread", "k": "a*b" })),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), &document.to_string());
    }
    let of = |kind: &str, text: &str, options: &Value| {
        let mut members = options.as_object().expect("options").clone();
        members.insert("query".to_owned(), text.into());
        json!({ kind: members })
    };
    let typed = |text: &str, options: Value| of("query_string", text, &options);
    let simple = |text: &str, options: Value| of("simple_query_string", text, &options);
    let both = json!(["t", "u"]);
    let of_t = json!("t");
    let queries = [
        // Words beside each other are in one field, those of an operator in any.
        (typed("quick fox", json!({ "fields": both, "default_operator": "and" })), "1"),
        (typed("quick fox", json!({ "default_operator": "and" })), "1"),
        (typed("quick AND fox", json!({ "fields": both })), "1 2"),
        (
            typed("quick fox", json!({ "fields": both, "default_operator": "and", "type": "cross_fields" })),
            "1 2",
        ),
        (typed("quick fox t:dogs", json!({ "fields": both, "default_operator": "and" })), ""),
        (typed("brown fox box", json!({ "fields": both, "minimum_should_match": 2 })), "1 2"),
        (typed("brown OR fox OR bread", json!({ "fields": both, "minimum_should_match": 2 })), "1 2 3"),
        (typed("brown fox", json!({ "fields": both, "type": "phrase" })), "1"),
        (typed("brown do", json!({ "fields": both, "type": "phrase_prefix" })), "2"),
        (typed("fox", json!({ "fields": both, "type": "worst_fields" })), "400 unknown type"),
        (typed("quick OR bread", json!({ "fields": of_t, "default_operator": "and" })), "1 2 3"),
        (typed("quick fox", json!({ "default_field": "t", "minimum_should_match": "100%" })), "1"),
        (typed("\"quick fox\"", json!({ "default_field": "t" })), ""),
        (typed("\"quick fox\"", json!({ "default_field": "t", "phrase_slop": 1 })), "1"),
        (typed("\"quick fox\"~0", json!({ "default_field": "t", "phrase_slop": 1 })), ""),
        (typed("d:[2024-01-15T11:00 TO 2024-01-15T11:00]", json!({ "time_zone": "+01:00" })), "1"),
        (typed("d:<2024-01-16", json!({ "time_zone": "nowhere" })), "400 time-zone"),
        (typed("t:qiuck~", json!({})), "1 2"),
        (typed("t:qiuck~", json!({ "fuzziness": 0 })), ""),
        (typed("t:qiuck~", json!({ "fuzzy_transpositions": false, "fuzziness": 1 })), ""),
        (typed("t:auick~1", json!({})), "1 2"),
        (typed("t:auick~1", json!({ "fuzzy_prefix_length": 1 })), ""),
        (typed("t:*ick", json!({})), "1 2"),
        (typed("t:*ick", json!({ "allow_leading_wildcard": false })), "400 not allowed as first"),
        (typed("a*b", json!({ "default_field": "k", "escape": true })), "3"),
        (typed("t:(quick", json!({ "escape": true })), "1 2"),
        (typed("quick AND", json!({})), "400 Failed to parse"),
        (typed("quick OR AND fox", json!({})), "400 Failed to parse"),
        (typed("AND quick", json!({})), "400 Failed to parse"),
        (simple("quick fox", json!({ "fields": of_t, "minimum_should_match": "100%" })), "1"),
        (simple("quick bread", json!({ "fields": of_t, "minimum_should_match": 1 })), "1 2 3"),
        (simple("qui*", json!({ "fields": of_t, "flags": "ALL" })), "1 2"),
        (simple("qui*", json!({ "fields": of_t, "flags": "OR|AND|PREFIX" })), "1 2"),
        (simple("qui*", json!({ "fields": of_t, "flags": "NONE" })), ""),
        (simple("quick + -fox", json!({ "fields": of_t })), "2"),
        (simple("quick + -fox", json!({ "fields": of_t, "flags": "AND|WHITESPACE" })), "1"),
        (simple("bread|dogs", json!({ "fields": of_t, "flags": 4 })), "2 3"),
        (simple("quick", json!({ "flags": "OR|SOME" })), "400 unknown flag [SOME]"),
        (simple("auick~1", json!({ "fields": of_t, "fuzzy_prefix_length": 1 })), ""),
    ];
    check(&service, &queries);
}

#[test]
fn capitals_of_typed_patterns_are_those_of_the_field() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"k":{"type":"keyword"},"w":{"type":"text","analyzer":"whitespace"}}}}"#,
    );
    for (id, document) in [
        ("1", r#"{"t":"The Quick Fox","k":"Alpha","w":"Upper word"}"#),
        ("2", r#"{"t":"slow","k":"alpha","w":"upper word"}"#),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), document);
    }
    let typed = |text: &str| json!({ "query_string": { "query": text } });
    let simple =
        |text: &str, field: &str| json!({ "simple_query_string": { "query": text, "fields": [field] } });
    let queries = [
        (typed("t:QUI*"), "1"),
        (typed("t:Qu?ck"), "1"),
        (typed("t:QUIKC~1"), "1"),
        (typed("k:Al*"), "1"),
        (typed("k:al*"), "2"),
        (typed("k:AL*"), ""),
        (typed("k:Alphx~1"), "1"),
        (typed("w:Up*"), "1"),
        (typed("w:up*"), "2"),
        (simple("QUI*", "t"), "1"),
        (simple("Al*", "k"), "1"),
        (simple("alphx~1", "k"), "2"),
        (json!({ "wildcard": { "t": "QUI*" } }), ""),
        // A pattern finds the values of the fields inside of another as they are.
        (json!({ "multi_match": { "query": "quick", "fields": ["t.*"] } }), ""),
        (json!({ "multi_match": { "query": "The Quick Fox", "fields": ["t.*"] } }), "1"),
        (json!({ "multi_match": { "query": "The Qu", "fields": ["t.*"], "type": "phrase_prefix" } }), "1"),
        (json!({ "multi_match": { "query": "quick", "fields": ["t*"] } }), "1"),
        (json!({ "wildcard": { "k": { "value": "AL*", "case_insensitive": true } } }), "1 2"),
        (json!({ "prefix": { "k": { "value": "AL", "case_insensitive": true } } }), "1 2"),
    ];
    check(&service, &queries);
    let body = r#"{"query":{"query_string":{"query":"QUI* k:Al*"}},"highlight":{"fields":{"t":{},"k":{}}}}"#;
    let hit = service.get("POST /a/_search", body)["hits"]["hits"][0].take();
    assert_eq!(
        hit["highlight"],
        json!({ "t": ["The <em>Quick</em> Fox"], "k": ["<em>Alpha</em>"] }),
        "{hit}"
    );
}

#[test]
fn regular_expressions_have_the_signs_of_lucene() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"k":{"type":"keyword"}}}}"#);
    for (id, value) in [("1", "error450"), ("2", "error550"), ("3", "a&b"), ("4", "two\nlines")] {
        service.get(&format!("PUT /a/_doc/{id}"), &json!({ "k": value }).to_string());
    }
    let regexp = |value: &str| json!({ "regexp": { "k": value } });
    let with = |value: &str, flags: &str| json!({ "regexp": { "k": { "value": value, "flags": flags } } });
    let queries = [
        (regexp("error<400-500>"), "1"),
        (with("error<400-500>", "ANYSTRING"), ""),
        (regexp("err@"), "1 2"),
        (regexp("two.*"), "4"),
        (regexp("a\\&b"), "3"),
        (regexp("a&b"), "400 [&] in the regular expression [a&b]"),
        (with("a&b", "NONE"), "3"),
        (with("a&b", "SOME"), "400 Unknown regexp flag [SOME]"),
    ];
    check(&service, &queries);
    let body = r#"{"size":0,"aggs":{"k":{"terms":{"field":"k","include":"error<500-599>"}}}}"#;
    let buckets = &service.get("POST /a/_search", body)["aggregations"]["k"]["buckets"];
    assert_eq!(buckets, &json!([{ "key": "error550", "doc_count": 1 }]));
}

#[test]
fn values_that_a_query_cannot_have_are_refused() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", r#"{"t":"a fox","b":true}"#);
    let queries = [
        (json!({ "match": { "t": ["a"] } }), "400 needs a text"),
        (json!({ "match_phrase": { "t": { "query": { "a": 1 } } } }), "400 needs a text"),
        (json!({ "dis_max": {} }), "400 at least one clause"),
        (json!({ "dis_max": { "queries": [] } }), "400 at least one clause"),
        (json!({ "ids": { "values": "1" } }), "1"),
        (json!({ "ids": { "values": { "a": 1 } } }), "400 [values]"),
        (json!({ "term": { "b": "maybe" } }), "400 boolean value [maybe]"),
        (json!({ "match": { "b": { "query": "maybe", "lenient": true } } }), ""),
        (
            json!({ "multi_match": { "query": "fxo", "fields": ["t"], "type": "phrase", "fuzziness": 1 } }),
            "400 Fuzziness not allowed for type [phrase]",
        ),
        (json!({ "multi_match": { "query": "fxo", "fields": ["t"], "fuzziness": 1 } }), "1"),
        (
            json!({ "match": { "t": { "query": "a", "analyzer": "a".repeat(1_001) } } }),
            "400 a name in a query for words has 1001 bytes",
        ),
        (
            json!({ "multi_match": { "query": "a".repeat(100_000), "fields": vec!["t"; 200] } }),
            "400 has 100000 bytes and 200 fields",
        ),
    ];
    check(&service, &queries);
    let body = json!({ "fields": vec!["t"; 1_001] });
    let (status, answer) = service.ask("POST /a/_search", &body.to_string());
    assert!(status == 400 && answer.to_string().contains("[fields] may have 1000 names"), "{answer}");
}

#[test]
fn texts_may_have_regular_expressions_between_slashes() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"k":{"type":"keyword"},"t":{"type":"text"}}}}"#);
    service.get("PUT /a/_doc/1", r#"{"k":"a/b","t":"quick fox"}"#);
    service.get("PUT /a/_doc/2", r#"{"k":"acb","t":"lazy dog"}"#);
    for (text, expected) in [
        ("t:/qu.ck/", "1"),
        ("/(quick|lazy)/", "1 2"),
        (r"k:/a\/b/", "1"),
        ("k:/a.b/ -t:/f[aeo]x/", "2"),
        ("k:(/a.*/ AND /.*c.*/)", "2"),
        ("t:/quic/", ""),
        (r"k:a\/b", "1"),
    ] {
        let body = json!({ "query": { "query_string": { "query": text } }, "sort": ["_id"] }).to_string();
        let answer = service.get("POST /a/_search", &body);
        let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
        let found: Vec<&str> = hits.filter_map(|hit| hit["_id"].as_str()).collect();
        assert_eq!(found.join(" "), expected, "{text}: {answer}");
    }
    // They have the bounds of the other regular expressions of a query.
    let many = (0..1_000).map(|n| format!("t:/x.*{n}/")).collect::<Vec<_>>().join(" ");
    let body = json!({ "query": { "query_string": { "query": many } } }).to_string();
    let (status, answer) = service.ask("POST /a/_search", &body);
    assert!(status == 400 && answer.to_string().contains("name fewer"), "{answer}");
}
