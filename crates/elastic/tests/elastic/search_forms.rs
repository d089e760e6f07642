//! Searches of nested objects and ranges, and the forms of their hits: what is asked, and what is found.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

fn ids(hits: &Value) -> String {
    let hits = hits["hits"].as_array().expect("hits").iter();
    hits.map(|hit| hit["_id"].as_str().expect("an id")).collect::<Vec<_>>().join(" ")
}

#[test]
fn nested_objects_match_as_wholes() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"c":{"type":"nested","properties":{
            "who":{"type":"keyword"},"stars":{"type":"integer"},"deep":{"type":"nested"}}}}}}"#,
    );
    service
        .get("PUT /a/_doc/1", r#"{"c":[{"who":"ann","stars":5},{"who":"bob","stars":1,"deep":[{"x":1}]}]}"#);
    service.get("PUT /a/_doc/2", r#"{"c":{"who":"ann","stars":1}}"#);
    service.get("PUT /a/_doc/3", r#"{"n":1}"#);
    let both = r#"{"bool":{"must":[{"term":{"c.who":"ann"}},{"term":{"c.stars":1}}]}}"#;
    for (query, expected) in [
        (format!(r#"{{"nested":{{"path":"c","query":{both}}}}}"#), "2"),
        (both.to_owned(), "1 2"),
        (r#"{"nested":{"path":"c","query":{"range":{"c.stars":{"gte":1}}}}}"#.to_owned(), "1 2"),
        (r#"{"nested":{"path":"c.deep","query":{"term":{"c.deep.x":1}}}}"#.to_owned(), "1"),
        (
            r#"{"nested":{"path":"c","query":{"nested":{"path":"c.deep","query":{"term":{"c.deep.x":1}}}}}}"#
                .to_owned(),
            "1",
        ),
        (r#"{"nested":{"path":"d","query":{"match_all":{}},"ignore_unmapped":true}}"#.to_owned(), ""),
        (r#"{"bool":{"must_not":{"nested":{"path":"c","query":{"match_all":{}}}}}}"#.to_owned(), "3"),
    ] {
        let found = service.get("GET /a/_search?sort=_id", &format!(r#"{{"query":{query}}}"#));
        assert_eq!(ids(&found["hits"]), expected, "{query}");
    }
    let query = r#"{"query":{"nested":{"path":"c","query":{"term":{"c.who":"bob"}},"inner_hits":{}}}}"#;
    let found = &service.get("GET /a/_search", query)["hits"]["hits"][0];
    let inner = &found["inner_hits"]["c"]["hits"];
    assert_eq!(inner["total"]["value"], 1);
    assert_eq!(inner["hits"][0]["_nested"], json!({ "field": "c", "offset": 1 }));
    assert_eq!(inner["hits"][0]["_source"], json!({ "who": "bob", "stars": 1, "deep": [{ "x": 1 }] }));
    let aggregated = r#"{"size":0,"aggs":{"c":{"nested":{"path":"c"},"aggs":{
        "ann":{"filter":{"term":{"c.who":"ann"}},"aggs":{
            "stars":{"sum":{"field":"c.stars"}},"back":{"reverse_nested":{}}}}}}}}"#;
    let answer = &service.get("GET /a/_search", aggregated)["aggregations"]["c"];
    assert_eq!((&answer["doc_count"], &answer["ann"]["stars"]["value"]), (&json!(3), &json!(6.0)));
    assert_eq!(answer["ann"]["back"]["doc_count"], 2);
    for (body, reason) in [
        (
            r#"{"query":{"nested":{"path":"d","query":{"match_all":{}}}}}"#,
            "failed to find nested object under path [d]",
        ),
        (r#"{"query":{"nested":{"path":"c"}}}"#, "requires 'query' field"),
        (r#"{"query":{"nested":{"path":"c","query":{"match_all":{}},"score_mode":"best"}}}"#, "score mode"),
        (r#"{"aggs":{"r":{"reverse_nested":{}}}}"#, "can only be used inside"),
    ] {
        let (status, answer) = service.ask("GET /a/_search", body);
        assert!(status == 400 && answer.to_string().contains(reason), "{body}: {answer}");
    }
}

#[test]
fn ranges_of_documents_have_relations_to_those_of_queries() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"n":{"type":"integer_range"},"x":{"type":"double_range"},
            "d":{"type":"date_range"},"ip":{"type":"ip_range"}}}}"#,
    );
    service.get(
        "PUT /a/_doc/1",
        r#"{"n":{"gte":1,"lte":5},"x":{"gt":1,"lt":2},"d":{"gte":"2024-01-01","lt":"2024-02-01"}}"#,
    );
    service.get("PUT /a/_doc/2", r#"{"n":{"gte":4,"lt":7},"ip":"10.0.0.0/8"}"#);
    service.get("PUT /a/_doc/3", r#"{"n":{"gt":6},"ip":{"gte":"10.0.0.1","lte":"192.168.0.1"}}"#);
    for (query, expected) in [
        (r#"{"term":{"n":5}}"#, "1 2"),
        (r#"{"term":{"n":7}}"#, "3"),
        (r#"{"term":{"n":1000000}}"#, "3"),
        (r#"{"term":{"x":1}}"#, ""),
        (r#"{"term":{"x":1.5}}"#, "1"),
        (r#"{"term":{"ip":"10.1.2.3"}}"#, "2 3"),
        (r#"{"term":{"ip":"10.0.0.0"}}"#, "2"),
        (r#"{"term":{"d":"2024-01-31"}}"#, "1"),
        (r#"{"term":{"d":"2024-02-01"}}"#, ""),
        (r#"{"range":{"n":{"gte":5,"lte":6}}}"#, "1 2"),
        (r#"{"range":{"n":{"gt":5,"lte":6}}}"#, "2"),
        (r#"{"range":{"n":{"gte":1,"lte":6,"relation":"within"}}}"#, "1 2"),
        (r#"{"range":{"n":{"gte":5,"lt":7,"relation":"contains"}}}"#, "2"),
        (r#"{"range":{"n":{"gte":6,"relation":"disjoint"}}}"#, "1"),
        (r#"{"range":{"n":{"lte":5,"relation":"contains"}}}"#, ""),
        (r#"{"range":{"n":{"lte":6,"relation":"within"}}}"#, "1 2"),
        (r#"{"range":{"d":{"gte":"2024-01-31","lte":"2024-03","relation":"intersects"}}}"#, "1"),
    ] {
        let found = service.get("GET /a/_search?sort=_id", &format!(r#"{{"query":{query}}}"#));
        assert_eq!(ids(&found["hits"]), expected, "{query}");
    }
    service.get("PUT /a/_doc/4", r#"{"point":1}"#);
    for body in [
        r#"{"query":{"range":{"n":{"gte":1,"relation":"beside"}}}}"#,
        r#"{"query":{"range":{"point":{"gte":1,"relation":"disjoint"}}}}"#,
        r#"{"query":{"range":{"n":{"gte":"many"}}}}"#,
    ] {
        assert_eq!(service.ask("GET /a/_search", body).0, 400, "{body}");
    }
}

#[test]
fn hits_are_collapsed_by_a_value() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (id, document) in [
        ("1", r#"{"g":1,"n":5,"v":"x"}"#),
        ("2", r#"{"g":1,"n":9,"v":"y"}"#),
        ("3", r#"{"g":2,"n":7,"v":"x"}"#),
        ("4", r#"{"n":3}"#),
        ("5", r#"{"n":2}"#),
        ("6", r#"{"g":1,"n":1,"v":"x"}"#),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), document);
    }
    let body = r#"{"sort":[{"n":"desc"}],"collapse":{"field":"g","inner_hits":[
        {"name":"two","size":2,"sort":[{"n":"asc"}]},
        {"name":"kinds","collapse":{"field":"v.keyword"},"sort":[{"n":"asc"}]}]}}"#;
    let found = &service.get("GET /a/_search", body)["hits"];
    assert_eq!((ids(found).as_str(), &found["total"]["value"]), ("2 3 4", &json!(6)));
    let first = &found["hits"][0];
    assert_eq!(first["fields"]["g"], json!([1]));
    let inner = &first["inner_hits"]["two"]["hits"];
    assert_eq!((ids(inner).as_str(), &inner["total"]["value"]), ("6 1", &json!(3)));
    assert_eq!(ids(&first["inner_hits"]["kinds"]["hits"]), "6 2");
    let page = &service.get("GET /a/_search", r#"{"sort":["n"],"from":1,"size":1,"collapse":{"field":"g"}}"#)
        ["hits"];
    assert_eq!(ids(page), "5");
    for (request, body) in [
        ("GET /a/_search", r#"{"collapse":{"field":"v"}}"#),
        ("GET /a/_search", r#"{"collapse":{"field":"none"}}"#),
        ("GET /a/_search", r#"{"collapse":{}}"#),
        ("GET /a/_search", r#"{"collapse":{"field":"g","inner_hits":{"size":1}}}"#),
        ("GET /a/_search?scroll=1m", r#"{"collapse":{"field":"g"}}"#),
        ("GET /a/_search", r#"{"collapse":{"field":"g"},"sort":["n"],"search_after":[1]}"#),
    ] {
        assert_eq!(service.ask(request, body).0, 400, "{body}");
    }
    service.get("PUT /a/_doc/7", r#"{"g":[1,2]}"#);
    let (status, answer) = service.ask("GET /a/_search", r#"{"collapse":{"field":"g"}}"#);
    assert!(status == 400 && answer.to_string().contains("must be single valued"), "{answer}");
}

#[test]
fn pages_of_collapsed_hits_keep_what_they_reach() {
    let directory = directory();
    let service = TestService::open_small(&directory, 4 << 20);
    let text = "x".repeat(4_000);
    let lines = (0..600).map(|n| {
        let document = json!({ "n": n, "g": n % 5, "t": text });
        format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{document}\n")
    });
    assert_eq!(service.get("POST /a/_bulk", &lines.collect::<String>())["errors"], false);
    // In the order in which the documents come, and in the opposite one.
    for (order, heads) in [("asc", "0 1 2 3 4"), ("desc", "599 598 597 596 595")] {
        let body = json!({ "sort": [{ "n": order }], "collapse": { "field": "g", "inner_hits": [
            { "name": "low", "size": 2, "sort": [{ "n": "asc" }], "_source": false },
            { "name": "high", "from": 1, "size": 3, "sort": [{ "n": "desc" }], "_source": false },
            { "name": "best", "size": 1, "_source": false },
        ] } });
        let found = &service.get("GET /a/_search", &body.to_string())["hits"];
        assert_eq!((ids(found).as_str(), &found["total"]["value"]), (heads, &json!(600)), "{order}");
        for hit in found["hits"].as_array().expect("hits") {
            let group = hit["_source"]["g"].as_u64().expect("a number");
            let pages = &hit["inner_hits"];
            let high: Vec<String> = [590, 585, 580].iter().map(|n| (n + group).to_string()).collect();
            assert_eq!(ids(&pages["low"]["hits"]), format!("{group} {}", group + 5), "{order}");
            assert_eq!(ids(&pages["high"]["hits"]), high.join(" "), "{order}");
            assert_eq!(ids(&pages["best"]["hits"]), group.to_string(), "{order}");
            assert_eq!(pages["best"]["hits"]["max_score"], 1.0, "{order}");
            for name in ["low", "high", "best"] {
                assert_eq!(pages[name]["hits"]["total"]["value"], 120, "{order}: {name}");
            }
        }
    }
}

#[test]
fn terms_may_stand_in_another_document() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /lists/_doc/1", r#"{"of":{"ids":[2,3]}}"#);
    for number in 1..=3 {
        service.get(&format!("PUT /a/_doc/{number}"), &format!(r#"{{"n":{number}}}"#));
    }
    let terms = |id: &str, path: &str| {
        format!(r#"{{"query":{{"terms":{{"n":{{"index":"lists","id":"{id}","path":"{path}"}}}}}}}}"#)
    };
    for (body, expected) in
        [(terms("1", "of.ids"), "2 3"), (terms("1", "none"), ""), (terms("9", "of.ids"), "")]
    {
        assert_eq!(ids(&service.get("GET /a/_search?sort=_id", &body)["hits"]), expected, "{body}");
    }
    // A routing value is a value, whatever letters it has.
    service.get("PUT /lists/_doc/r?routing=a%26b%25", r#"{"of":{"ids":[1]}}"#);
    let routed = terms("r", "of.ids").replace(r#""path""#, r#""routing":"a&b%","path""#);
    assert_eq!(ids(&service.get("GET /a/_search", &routed)["hits"]), "1");
    assert_eq!(service.get("GET /a/_count", &terms("1", "of.ids"))["count"], 2);
    assert_eq!(service.ask("GET /a/_search", &terms("1", "of.ids").replace("lists", "none")).0, 404);
    assert_eq!(service.ask("GET /a/_search", r#"{"query":{"terms":{"n":{"index":"lists"}}}}"#).0, 400);
}

#[test]
fn what_is_not_searched_is_named() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"n":{"type":"long","ignore_malformed":true},
            "k":{"type":"keyword","ignore_above":3},"d":{"type":"date","ignore_malformed":true}}}}"#,
    );
    service.get("PUT /a/_doc/1", r#"{"n":1,"k":"abc","d":"2024-01-01"}"#);
    service.get("PUT /a/_doc/2", r#"{"n":"many","k":"abcd"}"#);
    service.get("PUT /a/_doc/3", r#"{"d":["2024-01-01","soon"]}"#);
    let found = &service.get("GET /a/_search?sort=_id", "")["hits"]["hits"];
    let named: Vec<&Value> = found.as_array().expect("hits").iter().map(|hit| &hit["_ignored"]).collect();
    assert_eq!(named, [&Value::Null, &json!(["k", "n"]), &json!(["d"])]);
    for (query, expected) in [
        (r#"{"exists":{"field":"_ignored"}}"#, "2 3"),
        (r#"{"term":{"_ignored":"n"}}"#, "2"),
        (r#"{"terms":{"_ignored":["d","k"]}}"#, "2 3"),
        (r#"{"prefix":{"_ignored":"d"}}"#, "3"),
    ] {
        let found = service.get("GET /a/_search?sort=_id", &format!(r#"{{"query":{query}}}"#));
        assert_eq!(ids(&found["hits"]), expected, "{query}");
    }
    let counted = service.get("GET /a/_search", r#"{"aggs":{"i":{"terms":{"field":"_ignored"}}}}"#);
    assert_eq!(counted["aggregations"]["i"]["buckets"].as_array().map(Vec::len), Some(3));
}

#[test]
fn boosts_and_names_stand_below_a_field_or_beside_it() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", r#"{"t":"one","k":"x"}"#);
    for query in [
        r#"{"term":{"k.keyword":{"value":"x","boost":3,"_name":"it"}}}"#,
        r#"{"terms":{"k.keyword":["x"],"boost":3,"_name":"it"}}"#,
        r#"{"prefix":{"k":{"value":"x","boost":"3","_name":"it"}}}"#,
        r#"{"range":{"k.keyword":{"gte":"x","boost":3,"_name":"it"}}}"#,
        r#"{"bool":{"filter":{"match_all":{}},"must":{"match_all":{}},"boost":3,"_name":"it"}}"#,
    ] {
        let found = &service.get("GET /a/_search", &format!(r#"{{"query":{query}}}"#))["hits"]["hits"][0];
        assert_eq!((&found["_score"], &found["matched_queries"]), (&json!(3.0), &json!(["it"])), "{query}");
    }
    let wrong = r#"{"query":{"term":{"k":{"value":"x","boost":"much"}}}}"#;
    assert_eq!(service.ask("GET /a/_search", wrong).0, 400);
}

#[test]
fn pages_go_on_after_dates_in_the_format_of_their_field() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"d":{"type":"date","format":"dd.MM.yyyy"}}}}"#);
    for (id, date) in [("1", "31.01.2024"), ("2", "01.02.2024"), ("3", "02.02.2024")] {
        service.get(&format!("PUT /a/_doc/{id}"), &format!(r#"{{"d":"{date}"}}"#));
    }
    for after in [r#""31.01.2024""#, "1706659200000", r#""2024-01-31""#] {
        let body = format!(r#"{{"sort":["d"],"search_after":[{after}]}}"#);
        assert_eq!(ids(&service.get("GET /a/_search", &body)["hits"]), "2 3", "{after}");
    }
}

#[test]
fn equal_hits_are_in_the_order_of_their_writes() {
    let directory = directory();
    let service = TestService::open(&directory);
    let expected: Vec<String> = (0..40).map(|number| format!("{}", number * 37 % 40)).collect();
    for id in &expected {
        service.get(&format!("PUT /a/_doc/{id}"), r#"{"n":1}"#);
    }
    for body in [r#"{"size":50}"#, r#"{"size":50,"sort":["n"]}"#] {
        assert_eq!(ids(&service.get("GET /a/_search", body)["hits"]), expected.join(" "), "{body}");
    }
    for page in [r#"{"size":40}"#, r#"{"size":40,"sort":["n"]}"#] {
        let body = format!(r#"{{"size":0,"aggs":{{"t":{{"top_hits":{page}}}}}}}"#);
        let found = service.get("GET /a/_search", &body);
        assert_eq!(ids(&found["aggregations"]["t"]["hits"]), expected.join(" "), "{page}");
        let body = format!(
            r#"{{"size":0,"aggs":{{"f":{{"filters":{{"filters":[{{"match_all":{{}}}}]}},
                "aggs":{{"t":{{"top_hits":{page}}}}}}}}}}}"#
        );
        let found = service.get("GET /a/_search", &body);
        let top = &found["aggregations"]["f"]["buckets"][0]["t"];
        assert_eq!(ids(&top["hits"]), expected.join(" "), "{page}");
    }
}

#[test]
fn hits_are_sorted_by_half_floats_as_these_are_kept() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"h":{"type":"half_float"}}}}"#);
    for (id, document) in [("1", r#"{"h":184.4}"#), ("2", r#"{"h":"194.4"}"#), ("3", r#"{"h":184.35}"#)] {
        service.get(&format!("PUT /a/_doc/{id}"), document);
    }
    let answer = service.get("GET /a/_search", r#"{"sort":["h","_id"]}"#);
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    let sorted: Vec<&Value> = hits.map(|hit| &hit["sort"]).collect();
    assert_eq!(json!(sorted), json!([[184.375, "1"], [184.375, "3"], [194.375, "2"]]));
    let after = r#"{"sort":["h"],"search_after":[184.375]}"#;
    assert_eq!(ids(&service.get("GET /a/_search", after)["hits"]), "2");
}

#[test]
fn pages_go_on_after_each_kind_of_values() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"n":{"type":"long"},"x":{"type":"double"},"b":{"type":"boolean"},
            "k":{"type":"keyword"},"ip":{"type":"ip"},"d":{"type":"date"}}}}"#,
    );
    for (id, document) in [
        ("1", r#"{"n":5,"x":-1.5,"b":false,"k":"10","ip":"10.0.0.1","d":1000}"#),
        ("2", r#"{"n":"9","x":9,"b":"true","k":"5","ip":"5.0.0.1","d":"1970-01-01T00:00:02Z"}"#),
        ("3", r#"{"n":10,"x":10.5,"b":true,"k":"a","ip":"::1","d":30000}"#),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), document);
    }
    for (sort, after, expected) in [
        (r#""n""#, "5", "2 3"),
        (r#""n""#, r#""5""#, "2 3"),
        (r#""n""#, r#""9""#, "3"),
        (r#""n""#, "9.0", "3"),
        (r#"{"n":"desc"}"#, r#""10""#, "2 1"),
        (r#""x""#, r#""-1.5""#, "2 3"),
        (r#""x""#, "9", "3"),
        (r#""b""#, "false", "2 3"),
        (r#""b""#, r#""false""#, "2 3"),
        (r#""b""#, "0", "2 3"),
        (r#""k""#, "10", "2 3"),
        (r#""k""#, r#""5""#, "3"),
        (r#""ip""#, r#""::1""#, "2 1"),
        (r#""ip""#, r#""5.0.0.1""#, "1"),
        (r#""d""#, "1000", "2 3"),
        (r#""d""#, r#""1970-01-01T00:00:02Z""#, "3"),
        (r#""_id""#, "1", "2 3"),
        (r#""_id""#, r#""2""#, "3"),
        (r#"{"none":{"missing":3,"unmapped_type":"long"}}"#, "2", "1 2 3"),
        (r#"{"none":{"missing":3,"unmapped_type":"long"}}"#, "3", ""),
        (r#"{"none":{"missing":"b","unmapped_type":"keyword"}}"#, r#""a""#, "1 2 3"),
    ] {
        let body = format!(r#"{{"sort":[{sort}],"search_after":[{after}]}}"#);
        assert_eq!(ids(&service.get("GET /a/_search", &body)["hits"]), expected, "{body}");
    }
    // The values that a page ends with lead to the next one.
    for field in ["n", "x", "k", "ip", "d", "_id", "_index", "_doc"] {
        let (mut seen, mut after) = (Vec::new(), Value::Null);
        loop {
            let mut body = json!({ "size": 1, "sort": [field, "_id"] });
            if !after.is_null() {
                body["search_after"] = after;
            }
            let page = service.get("GET /a/_search", &body.to_string());
            let Some(hit) = page["hits"]["hits"].get(0).filter(|_| seen.len() < 4) else { break };
            seen.push(hit["_id"].clone());
            after = hit["sort"].clone();
        }
        seen.sort_by_key(Value::to_string);
        assert_eq!(json!(seen), json!(["1", "2", "3"]), "{field}");
    }
    for (sort, after) in [
        (r#""n""#, r#""many""#),
        (r#""n""#, r#""NaN""#),
        (r#""n""#, "true"),
        (r#""n""#, "[5]"),
        (r#""k""#, r#"{"a":1}"#),
        (r#""ip""#, r#""10.0""#),
        (r#""d""#, r#""soon""#),
    ] {
        let body = format!(r#"{{"sort":[{sort}],"search_after":[{after}]}}"#);
        let (status, answer) = service.ask("GET /a/_search", &body);
        assert!(status == 400 && answer.to_string().contains("search_after value"), "{body}: {answer}");
    }
}

#[test]
fn values_of_several_kinds_have_one_order() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"mappings":{"properties":{"v":{"type":"long"}}}}"#);
    service.get("PUT /b", r#"{"mappings":{"properties":{"v":{"type":"keyword"}}}}"#);
    let numbers = (0..60).map(|at| at * 37 % 60 * 35);
    let lines = |index: &str, quote: &str| -> String {
        let line = |n: usize| {
            format!("{{\"index\":{{\"_index\":\"{index}\",\"_id\":\"{n}\"}}}}\n{{\"v\":{quote}{n}{quote}}}\n")
        };
        numbers.clone().map(line).collect()
    };
    service.get("POST /_bulk", &(lines("a", "") + &lines("b", "\"")));
    let mut sorted: Vec<usize> = numbers.clone().collect();
    sorted.sort_unstable();
    let mut expected: Vec<String> = sorted.iter().map(usize::to_string).collect();
    let mut texts = expected.clone();
    texts.sort_unstable();
    expected.extend(texts);
    let found = service.get("GET /a,b/_search", r#"{"size":200,"sort":["v"]}"#);
    assert_eq!(ids(&found["hits"]), expected.join(" "));
    let top = r#"{"size":0,"aggs":{"t":{"top_hits":{"size":100,"sort":["v"]}}}}"#;
    let found = service.get("GET /a,b/_search", top);
    assert_eq!(ids(&found["aggregations"]["t"]["hits"]), expected[..100].join(" "));
    let mut body = json!({ "size": 7, "sort": ["v"] });
    let mut seen = Vec::new();
    while seen.len() <= expected.len() {
        let page = service.get("GET /a,b/_search", &body.to_string());
        let Some(last) = page["hits"]["hits"].as_array().and_then(|hits| hits.last()) else { break };
        body["search_after"] = last["sort"].clone();
        seen.extend(ids(&page["hits"]).split(' ').map(str::to_owned));
    }
    assert_eq!(seen, expected);
    let by_keys = r#"{"size":0,"aggs":{"t":{"terms":{"field":"v","size":200},"aggs":{"s":{"bucket_sort":{"sort":["_key"]}}}}}}"#;
    let buckets = service.get("GET /b/_search", by_keys);
    let keys = buckets["aggregations"]["t"]["buckets"].as_array().expect("buckets").iter();
    assert_eq!(
        keys.map(|bucket| bucket["key"].as_str().expect("a text")).collect::<Vec<_>>(),
        expected[60..]
    );
}

#[test]
fn a_sort_without_keys_is_by_score() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", r#"{"t":"one"}"#);
    service.get("PUT /a/_doc/2", r#"{"t":"two"}"#);
    let query = r#""query":{"bool":{"should":[{"match_all":{}},{"term":{"t":{"value":"two","boost":5}}}]}}"#;
    for sort in ["", r#","sort":[]"#, r#","sort":{}"#] {
        let found = &service.get("GET /a/_search", &format!("{{{query}{sort}}}"))["hits"];
        assert_eq!(ids(found), "2 1", "{sort}");
        assert!(found["max_score"].as_f64() > Some(1.0), "{sort}: {found}");
        assert!(found["hits"][0].get("sort").is_none(), "{sort}: {found}");
    }
}

#[test]
fn words_of_texts_are_shown_as_searches_compare_them() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", r#"{"t":"x","n":1}"#);
    for (request, body, expected) in [
        ("POST /_analyze", json!({ "text": "The Quick-fox, 1.5!" }), "the@0-3 quick@4-9 fox@10-13 1.5@15-18"),
        ("GET /_analyze", json!({ "text": ["Ä😀 b", "c"] }), "ä@0-1 b@4-5 c@6-7"),
        ("POST /a/_analyze", json!({ "text": "A b", "field": "t" }), "a@0-1 b@2-3"),
        ("POST /a/_analyze", json!({ "text": "A b", "field": "t.keyword" }), "A b@0-3"),
        ("POST /a/_analyze", json!({ "text": "A b", "field": "what" }), "a@0-1 b@2-3"),
        ("POST /_analyze", json!({ "text": " A-b  C ", "analyzer": "whitespace" }), "A-b@1-4 C@6-7"),
        ("POST /_analyze", json!({ "text": "A b", "analyzer": "keyword" }), "A b@0-3"),
    ] {
        let answer = service.get(request, &body.to_string());
        let tokens = answer["tokens"].as_array().expect("tokens").iter();
        let shown = tokens.map(|token| {
            let word = token["token"].as_str().unwrap_or_default();
            format!("{word}@{}-{}", token["start_offset"], token["end_offset"])
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{request} {body}");
    }
    let answer = service.get("POST /_analyze", r#"{"text":["one two","3"]}"#);
    let last = &answer["tokens"][2];
    assert_eq!((&last["position"], &last["type"]), (&json!(102), &json!("<NUM>")), "{answer}");
    for (request, body) in [
        ("POST /_analyze", "{}"),
        ("POST /_analyze", r#"{"text":"a","explain":true}"#),
        ("POST /_analyze", r#"{"text":"a","analyzer":"none"}"#),
        ("POST /_analyze", r#"{"text":"a","tokenizer":"none"}"#),
        ("POST /_analyze", r#"{"text":"a","analyzer":"standard","filter":["lowercase"]}"#),
        ("POST /_analyze", r#"{"text":"a","field":"t"}"#),
    ] {
        assert_eq!(service.ask(request, body).0, 400, "{request} {body}");
    }
    assert_eq!(service.ask("POST /none/_analyze", r#"{"text":"a","field":"t"}"#).0, 404);
}

#[test]
fn hits_show_whole_documents_whatever_a_search_reads() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"mappings":{"properties":{"t":{"type":"text","fields":{"raw":{"type":"keyword"}}},
            "other":{"type":"alias","path":"o.p"},"short":{"type":"keyword","ignore_above":3},
            "c":{"type":"nested"}}}}"#,
    );
    let document = |n: i64| {
        json!({
            "t": "quick fox", "n": n, "o": { "p": -n }, "o.r": n, "short": "long", "c": [{ "q": n }],
            "_version": 10 - n,
        })
    };
    for n in 1..=4 {
        service.get(&format!("PUT /a/_doc/{n}"), &document(n).to_string());
    }
    let check = |answer: &Value, expected: &str, asked: &str| {
        assert_eq!(ids(&answer["hits"]), expected, "{asked}");
        for hit in answer["hits"]["hits"].as_array().expect("hits") {
            let n = hit["_id"].as_str().and_then(|id| id.parse().ok()).expect("a number");
            assert_eq!((&hit["_source"], &hit["_ignored"]), (&document(n), &json!(["short"])), "{asked}");
        }
    };
    for (body, expected) in [
        (json!({ "sort": "n", "size": 2 }), "1 2"),
        (json!({ "sort": "n", "from": 1, "size": 2 }), "2 3"),
        (json!({ "sort": "n", "from": 4, "size": 2 }), ""),
        (json!({ "sort": "other", "size": 2 }), "4 3"),
        (json!({ "sort": { "o.r": "desc" }, "size": 2 }), "4 3"),
        (json!({ "sort": "_version", "size": 2 }), "4 3"),
        (json!({ "sort": "_doc", "size": 2 }), "1 2"),
        (json!({ "sort": ["t.raw", { "n": "desc" }], "size": 1 }), "4"),
        (json!({ "sort": "n", "search_after": [3] }), "4"),
        (json!({ "sort": "n", "query": { "term": { "_version": 1 } } }), "1 2 3 4"),
        (json!({ "query": { "ids": { "values": ["2"] } } }), "2"),
        (json!({ "query": { "exists": { "field": "_ignored" } }, "sort": "n", "size": 1 }), "1"),
        (
            json!({ "query": { "term": { "t.raw": "quick fox" } },
            "post_filter": { "range": { "other": { "lte": -3 } } }, "sort": "n" }),
            "3 4",
        ),
        (json!({ "sort": "n", "size": 1, "aggs": { "m": { "max": { "field": "other" } } } }), "1"),
        (json!({ "sort": "n", "collapse": { "field": "t.raw" } }), "1"),
        (
            json!({ "query": { "nested": { "path": "c", "query": { "term": { "c.q": 2 } }, "inner_hits": {} } } }),
            "2",
        ),
    ] {
        check(&service.get("GET /a/_search", &body.to_string()), expected, &body.to_string());
    }
    let shown = r#"{"query":{"term":{"n":3}},"docvalue_fields":["other"],"fields":["t*"]}"#;
    let fields = &service.get("GET /a/_search", shown)["hits"]["hits"][0]["fields"];
    assert_eq!((&fields["other"], &fields["t.raw"]), (&json!([-3]), &json!(["quick fox"])));
    let first = service.get("GET /a/_search?scroll=1m&size=3&sort=n", "");
    check(&first, "1 2 3", "the first page of a scroll");
    let next = json!({ "scroll_id": first["_scroll_id"] }).to_string();
    check(&service.get("POST /_search/scroll", &next), "4", "the second one");
}

#[test]
fn values_of_lookups_take_memory() {
    let directory = directory();
    let service = TestService::open_small(&directory, 4 << 20);
    let values: Vec<String> = (0..2_000).map(|n| format!("{n:0>100}")).collect();
    service.get("PUT /a/_doc/1", &json!({ "k": values }).to_string());
    let one = json!({ "terms": { "k": { "index": "a", "id": "1", "path": "k" } } });
    let ask = |count: usize| {
        let body = json!({ "query": { "bool": { "should": vec![&one; count] } } });
        service.ask("POST /a/_search?size=0", &body.to_string())
    };
    let (status, answer) = ask(2);
    assert_eq!((status, &answer["hits"]["total"]["value"]), (200, &json!(1)), "{answer}");
    let (status, answer) = ask(60);
    assert_eq!(status, 400, "{answer}");
    assert!(answer.to_string().contains("take more than 4194304 bytes of memory"), "{answer}");
}
