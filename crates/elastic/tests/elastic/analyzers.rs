//! Analyzers by their names, by the settings of an index, and by their parts.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Words of an answer of `_analyze` with their positions.
fn words(answer: &Value) -> String {
    let tokens = answer["tokens"].as_array().expect("tokens").iter();
    let shown =
        tokens.map(|token| format!("{}@{}", token["token"].as_str().unwrap_or_default(), token["position"]));
    shown.collect::<Vec<_>>().join(" ")
}

/// Ids of the hits of a query, sorted.
fn found(service: &TestService, query: &Value) -> String {
    let answer = service.get("POST /a/_search", &json!({ "query": query }).to_string());
    let hits = answer["hits"]["hits"].as_array().expect("hits").iter();
    let mut ids: Vec<&str> = hits.filter_map(|hit| hit["_id"].as_str()).collect();
    ids.sort_unstable();
    ids.join(" ")
}

#[test]
fn parts_of_analyzers_make_their_words() {
    let directory = directory();
    let service = TestService::open(&directory);
    for (body, text, expected) in [
        (
            json!({ "tokenizer": "standard", "filter": ["lowercase", "stop"] }),
            "The Fox and Hen",
            "fox@1 hen@3",
        ),
        (json!({ "tokenizer": "keyword", "filter": ["lowercase"] }), "A b", "a b@0"),
        (json!({ "filter": ["uppercase", "trim"] }), " a b ", "A B@0"),
        (json!({ "tokenizer": "lowercase" }), "A1b", "a@0 b@1"),
        (json!({ "tokenizer": { "type": "pattern", "pattern": "," } }), "a,b c,,d", "a@0 b c@1 d@2"),
        (
            json!({ "tokenizer": { "type": "pattern", "pattern": "\"([^\"]*)\"", "group": 1 } }),
            "say \"a b\" \"c\"",
            "a b@0 c@1",
        ),
        (json!({ "tokenizer": { "type": "simple_pattern", "pattern": "[0-9]{2}" } }), "12a345", "12@0 34@1"),
        (
            json!({ "tokenizer": { "type": "ngram", "min_gram": 2, "max_gram": 3, "token_chars": ["letter"] } }),
            "abc d",
            "ab@0 abc@1 bc@2",
        ),
        (
            json!({ "tokenizer": { "type": "edge_ngram", "min_gram": 1, "max_gram": 3 } }),
            "\u{e9}bcd",
            "\u{e9}@0 \u{e9}b@1 \u{e9}bc@2",
        ),
        (json!({ "tokenizer": "path_hierarchy" }), "/a/b", "/a@0 /a/b@0"),
        (json!({ "tokenizer": { "type": "path_hierarchy", "skip": 1 } }), "/a/b/c", "/b@0 /b/c@0"),
        (json!({ "tokenizer": { "type": "path_hierarchy", "reverse": true } }), "/a/b", "/a/b@0 a/b@0 b@0"),
        (
            json!({ "tokenizer": { "type": "char_group", "tokenize_on_chars": ["whitespace", "-"] } }),
            "a-b c",
            "a@0 b@1 c@2",
        ),
        (
            json!({ "tokenizer": { "type": "standard", "max_token_length": 3 } }),
            "abcdefg h",
            "abc@0 def@1 g@2 h@3",
        ),
        (
            json!({ "tokenizer": "keyword", "filter": [{ "type": "edge_ngram", "min_gram": 1, "max_gram": 2 }] }),
            "abc",
            "a@0 ab@0",
        ),
        (
            json!({ "tokenizer": "whitespace",
                "filter": [{ "type": "synonym", "synonyms": ["tv, telly", "usa => america", "a b => c"] }] }),
            "tv usa x a",
            "tv@0 telly@0 america@1 x@2 a@3",
        ),
        // The synonyms of several words stand at each of their positions.
        (
            json!({ "tokenizer": "whitespace",
                "filter": [{ "type": "synonym_graph", "synonyms": ["a b => c", "a b d, e", "f g => h i", "b => k"] }] }),
            "x a b a b d b a f g",
            "x@0 c@1 c@2 a@3 e@3 b@4 e@4 d@5 e@5 k@6 a@7 f@8 g@9",
        ),
        (
            json!({ "tokenizer": "standard", "filter": ["lowercase", { "type": "stemmer", "language": "english" }] }),
            "Running foxes",
            "run@0 fox@1",
        ),
        (
            json!({ "tokenizer": "standard",
                "filter": [{ "type": "keyword_marker", "keywords": ["running"] }, "porter_stem"] }),
            "running foxes",
            "running@0 fox@1",
        ),
        (
            json!({ "tokenizer": "standard", "filter": ["lowercase", "asciifolding"] }),
            "\u{c9}t\u{e9}",
            "ete@0",
        ),
        (
            json!({ "tokenizer": "whitespace", "filter": ["word_delimiter"] }),
            "WiFi-2go x",
            "Wi@0 Fi@1 2@2 go@3 x@4",
        ),
        (json!({ "tokenizer": "whitespace", "filter": [{ "type": "length", "min": 2 }] }), "a bc", "bc@1"),
        (json!({ "tokenizer": "whitespace", "filter": ["reverse", "unique"] }), "abc a abc", "cba@0 a@1"),
        (
            json!({ "tokenizer": "whitespace", "filter": [{ "type": "pattern_capture", "patterns": ["(\\d+)"] }] }),
            "ab12",
            "ab12@0 12@0",
        ),
        (json!({ "tokenizer": "whitespace", "filter": ["elision"] }), "L'avion", "avion@0"),
        (json!({ "tokenizer": "whitespace", "filter": ["shingle"] }), "a b c", "a@0 a b@0 b@1 b c@1 c@2"),
        (
            json!({ "tokenizer": "standard", "char_filter": ["html_strip"] }),
            "<p>A <b>b</b> &amp; c",
            "A@0 b@1 c@2",
        ),
        (
            json!({ "tokenizer": "whitespace", "char_filter": [{ "type": "mapping", "mappings": ["ph => f"] }] }),
            "photo",
            "foto@0",
        ),
        (
            json!({ "tokenizer": "whitespace", "char_filter": [
                { "type": "pattern_replace", "pattern": "(\\d)-(\\d)", "replacement": "$1_$2" },
            ] }),
            "1-2 a-b",
            "1_2@0 a-b@1",
        ),
        (json!({ "analyzer": "fingerprint" }), "b a B", "a b@0"),
        (json!({ "analyzer": "german" }), "H\u{e4}user", "haus@0"),
        (json!({ "analyzer": "german" }), "Das Haus und der", "haus@1"),
        (json!({ "analyzer": "french" }), "le chat", "chat@1"),
        (
            json!({ "tokenizer": "standard", "filter": ["lowercase", { "type": "stop", "stopwords": "_spanish_" }] }),
            "El perro de la casa",
            "perro@1 casa@4",
        ),
        (
            json!({ "tokenizer": "standard", "filter": [{ "type": "stop", "stopwords": ["_dutch_", "huis"] }] }),
            "het huis van jan",
            "jan@3",
        ),
        (
            json!({ "tokenizer": "standard", "filter": [{ "type": "stop", "stopwords": "_french_" }] }),
            "un \u{e9}t\u{e9} est avec nous",
            "\u{e9}t\u{e9}@1 est@2",
        ),
        (
            json!({ "tokenizer": "standard", "filter": [{ "type": "stop", "stopwords": "_brazilian_" }] }),
            "nao s\u{e3}o tudo",
            "s\u{e3}o@1",
        ),
        (json!({ "analyzer": "swedish" }), "det \u{e4}r en hund", "hund@3"),
        (json!({ "analyzer": "stop" }), "The 2 Foxes", "foxes@1"),
        (json!({ "analyzer": "pattern" }), "A-b_c", "a@0 b_c@1"),
        (
            json!({ "tokenizer": "whitespace", "filter": [{ "type": "stop", "stopwords_path": "own.txt" }] }),
            "the fox",
            "the@0 fox@1",
        ),
    ] {
        let mut asked = body.clone();
        asked["text"] = text.into();
        assert_eq!(words(&service.get("POST /_analyze", &asked.to_string())), expected, "{body}: {text}");
    }
    let shown = service.get(
        "POST /_analyze",
        r#"{"text":"<i>photo</i> x","tokenizer":"whitespace","char_filter":["html_strip",{"type":"mapping","mappings":["ph => f"]}]}"#,
    );
    let places: Vec<(u64, u64)> = shown["tokens"]
        .as_array()
        .expect("tokens")
        .iter()
        .filter_map(|token| Some((token["start_offset"].as_u64()?, token["end_offset"].as_u64()?)))
        .collect();
    assert_eq!(places, [(3, 8), (13, 14)], "places are those of the text as it was sent: {shown}");
}

#[test]
fn searches_compare_texts_as_the_analyzers_of_settings_do() {
    let directory = directory();
    let service = TestService::open(&directory);
    let custom = |filters: &[&str]| json!({ "tokenizer": "standard", "filter": filters });
    let body = json!({
        "settings": { "analysis": {
            "filter": {
                "edges": { "type": "edge_ngram", "min_gram": 1, "max_gram": 10 },
                "same": { "type": "synonym", "synonyms": ["tv, telly, television set"] },
            },
            "analyzer": {
                "default": { "type": "whitespace" },
                "stopped": custom(&["lowercase", "stop"]),
                "auto": custom(&["lowercase", "edges"]),
                "same": custom(&["lowercase", "same"]),
                "html": { "tokenizer": "standard", "filter": "lowercase", "char_filter": ["html_strip"] },
            },
        } },
        "mappings": { "properties": {
            "stopped": { "type": "text", "analyzer": "stopped" },
            "auto": { "type": "text", "analyzer": "auto", "search_analyzer": "standard" },
            "grams": { "type": "text", "analyzer": "auto" },
            "same": { "type": "text", "analyzer": "standard", "search_analyzer": "same" },
            "quoted": { "type": "text", "analyzer": "english", "search_quote_analyzer": "standard" },
            "html": { "type": "text", "analyzer": "html" },
            "plain": { "type": "text" },
        } },
    });
    service.get("PUT /a", &body.to_string());
    for (id, document) in [
        (
            "1",
            json!({ "stopped": "the quick and brown fox", "auto": "Elasticity", "grams": "abc", "same": "Telly on",
                "quoted": "running", "html": "<b>bold</b> text", "plain": "A-b" }),
        ),
        (
            "2",
            json!({ "stopped": "quick brown", "auto": "Last", "grams": "xbc", "same": "tv off", "quoted": "run",
                "html": "b", "plain": "a-b c" }),
        ),
    ] {
        service.get(&format!("PUT /a/_doc/{id}"), &document.to_string());
    }
    let typed = |text: &str| json!({ "query_string": { "query": text, "default_field": "stopped", "default_operator": "and" } });
    let cross = |text: &str| {
        json!({ "multi_match": {
            "query": text, "fields": ["stopped", "html"], "type": "cross_fields", "operator": "and",
        } })
    };
    for (query, expected) in [
        (json!({ "match_phrase": { "stopped": "quick or brown" } }), "1"),
        (json!({ "match_phrase": { "stopped": "the quick brown" } }), "2"),
        (json!({ "match_phrase": { "stopped": { "query": "quick fox", "slop": 2 } } }), "1"),
        (json!({ "match": { "stopped": { "query": "the fox", "operator": "and" } } }), "1"),
        (json!({ "match": { "stopped": "the" } }), ""),
        (typed("the fox"), "1"),
        (typed("fox the (and brown)"), "1"),
        (typed("the and"), ""),
        (json!({ "query_string": { "query": "the OR cat", "default_field": "stopped" } }), ""),
        (json!({ "simple_query_string": { "query": "the + fox", "fields": ["stopped"] } }), "1"),
        (cross("the fox"), "1"),
        (cross("the cat"), ""),
        (cross("the"), ""),
        (json!({ "match": { "auto": "elast" } }), "1"),
        (json!({ "match": { "auto": "last" } }), "2"),
        (json!({ "match": { "auto": { "query": "last", "analyzer": "auto" } } }), "2"),
        // Of the beginnings of a word one is enough.
        (json!({ "match": { "grams": { "query": "axy", "operator": "and" } } }), "1"),
        (json!({ "match": { "same": "tv" } }), "1 2"),
        (json!({ "match_phrase": { "same": "tv on" } }), "1"),
        (json!({ "match": { "same": { "query": "television set", "operator": "and" } } }), "1 2"),
        (json!({ "match": { "quoted": "runs" } }), "1 2"),
        (json!({ "match_phrase": { "quoted": "runs" } }), ""),
        (json!({ "query_string": { "query": "quoted:\"run\"" } }), "1 2"),
        (json!({ "match": { "html": "b" } }), "2"),
        (json!({ "match": { "plain": "A-b" } }), "1"),
        (json!({ "match": { "plain": "a" } }), ""),
        (json!({ "multi_match": { "query": "a-b", "fields": ["plain"] } }), "2"),
        (
            json!({ "intervals": { "stopped": { "match": { "query": "the brown fox", "ordered": true } } } }),
            "1",
        ),
    ] {
        assert_eq!(found(&service, &query), expected, "{query}");
    }
    let body = json!({
        "query": { "bool": { "should": [{ "match": { "html": "bold" } }, { "match_phrase": { "stopped": "quick or brown" } }] } },
        "highlight": { "fields": { "html": {}, "stopped": {} } },
    });
    let marked = service.get("POST /a/_search", &body.to_string());
    assert_eq!(
        marked["hits"]["hits"][0]["highlight"],
        json!({ "html": ["<b><em>bold</em></b> text"], "stopped": ["the <em>quick and brown</em> fox"] })
    );
    assert_eq!(words(&service.get("POST /a/_analyze", r#"{"text":"ab","field":"auto"}"#)), "a@0 ab@0");
    let answer =
        service.get("POST /a/_analyze", r#"{"text":"ab tv","tokenizer":"standard","filter":["same"]}"#);
    assert_eq!(words(&answer), "ab@0 tv@1 telly@1");
    let long = json!({ "query": { "match": { "grams": "abcdefghij ".repeat(500) } } });
    assert_eq!(service.ask("POST /a/_search", &long.to_string()).0, 400, "an analyzer makes too many words");
}

#[test]
fn templates_of_shippers_are_taken_and_differences_are_told() {
    let directory = directory();
    let service = TestService::open(&directory);
    // As Winlogbeat's and Graylog's have them.
    let pattern = json!({ "type": "pattern", "pattern": "[\\W&&[^-]]+" });
    let keyword = json!({ "tokenizer": "keyword", "filter": "lowercase" });
    for (name, analyzer) in [("script", pattern), ("lowered", keyword)] {
        let settings = json!({ "analysis": { "analyzer": { name: analyzer } } });
        let fields = json!({ "t": { "type": "text", "analyzer": name } });
        let template = json!({ "settings": settings, "mappings": { "properties": fields } });
        let body = json!({ "index_patterns": [name], "data_stream": {}, "template": template }).to_string();
        let warnings = service.warnings(&format!("PUT /_index_template/{name}"), &body);
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
        let event = json!({ "@timestamp": "2026-01-31T12:00:00Z", "t": "Get-Item C:\\x" }).to_string();
        service.get(&format!("POST /{name}/_doc"), &event);
        let query = json!({ "query": { "match": { "t": "get-item" } } }).to_string();
        let expected = if name == "script" { 1 } else { 0 };
        assert_eq!(service.get(&format!("POST /{name}/_count"), &query)["count"], expected, "{name}");
    }
    let settings = json!({ "analysis": {
        "filter": { "two": { "type": "phonetic" } },
        "analyzer": { "mine": { "tokenizer": "uax_url_email", "filter": ["lowercase", "two"] } },
    } });
    let fields =
        json!({ "t": { "type": "text", "analyzer": "mine" }, "d": { "type": "text", "analyzer": "thai" } });
    let body = json!({ "settings": settings, "mappings": { "properties": fields } });
    let template = json!({ "index_patterns": ["b*"], "template": body });
    for (request, body) in [("PUT /a", &body), ("PUT /_index_template/b", &template)] {
        let warnings = service.warnings(request, &body.to_string());
        for (at, expected) in [
            "in the analyzer [mine], the tokenizer [uax_url_email] splits as [standard]",
            "in the analyzer [mine], the token filter [two] of type [phonetic] is passed over",
            "the analyzer [thai] has neither stems nor stop words",
        ]
        .into_iter()
        .enumerate()
        {
            let wanted = format!("299 Elasticsearch-8.19.0 \"{expected}\"");
            assert_eq!(warnings.get(at), Some(&wanted), "{request}: {warnings:?}");
        }
    }
    let shown = service.get("GET /a/_migration/deprecations", "");
    let noted = shown["index_settings"]["a"].as_array().map_or(0, Vec::len);
    assert_eq!(noted, 3, "{shown}");
    assert!(service.warnings("PUT /c", "{}").is_empty());
}

#[test]
fn definitions_that_are_malformed_are_refused() {
    let directory = directory();
    let service = TestService::open(&directory);
    let analyzers = (0..201).map(|at| (format!("a{at}"), json!({ "type": "stop" })));
    let many: Value = Value::Object(analyzers.collect());
    let costly = json!({ "tokenizer": "keyword", "filter": vec!["drop"; 50] });
    let costly = json!({ "a": costly, "b": costly, "c": costly });
    for (analysis, expected) in [
        (json!({ "analyzer": many }), "defines 201 analyzers, and may define 200"),
        (
            json!({ "analyzer": costly, "filter": { "drop": { "type": "pattern_replace", "pattern": "x" } } }),
            "and may have 33554432: each expression counts 262144",
        ),
        (
            json!({ "analyzer": { "x": { "tokenizer": "p" } },
                "tokenizer": { "p": { "type": "path_hierarchy", "replacement": "--" } } }),
            "[replacement] is [--], and has to be one character",
        ),
        (json!({ "analyzer": { "x": { "type": "what" } } }), "Unknown analyzer type [what] for [x]"),
        (
            json!({ "analyzer": { "x": { "type": "custom" } } }),
            "must specify either an analyzer type, or a tokenizer",
        ),
        (
            json!({ "analyzer": { "x": { "tokenizer": "what" } } }),
            "failed to find global tokenizer under [what]",
        ),
        (
            json!({ "analyzer": { "x": { "tokenizer": "standard", "filter": ["what"] } } }),
            "failed to find global token filter under [what]",
        ),
        (
            json!({ "analyzer": { "x": { "tokenizer": "standard", "char_filter": ["m"] } },
                "char_filter": { "m": { "type": "mapping", "mappings": ["a"] } } }),
            "Invalid Mapping Rule : [a]",
        ),
        (
            json!({ "analyzer": { "x": { "tokenizer": "g" } },
                "tokenizer": { "g": { "type": "ngram", "min_gram": 3, "max_gram": 2 } } }),
            "[min_gram] is [3]",
        ),
        (
            json!({ "analyzer": { "x": { "tokenizer": "standard", "filter": ["l"] } },
                "filter": { "l": { "type": "limit", "max_token_count": "few" } } }),
            "[max_token_count] is [few]",
        ),
    ] {
        let settings = json!({ "settings": { "analysis": analysis } });
        let template = json!({ "index_patterns": ["t"], "template": settings });
        let legacy = json!({ "index_patterns": ["l"], "settings": settings["settings"], "mappings": {} });
        for (request, body) in
            [("PUT /a", &settings), ("PUT /_index_template/t", &template), ("PUT /_template/l", &legacy)]
        {
            let (status, answer) = service.ask(request, &body.to_string());
            let reason = answer["error"]["reason"].as_str().unwrap_or_default();
            assert!(status == 400 && reason.contains(expected), "{request} {body}: {answer}");
        }
    }
}

#[test]
fn filters_that_multiply_words_are_bounded() {
    let directory = directory();
    let service = TestService::open(&directory);
    // Each would double the words of the one before: without a bound this test would not end.
    let twice = vec!["keyword_repeat"; 50];
    let rule = format!("a => {}", "x".repeat(40_000));
    let analysis = json!({ "analyzer": {
        "many": { "tokenizer": "keyword", "filter": twice },
        "long": { "tokenizer": "keyword", "filter": ["longer", "longer", "longer", "longer"] },
        "other": { "tokenizer": "whitespace", "filter": ["other"] },
    }, "filter": {
        "longer": { "type": "pattern_replace", "pattern": "(.+)", "replacement": "$1$1$1$1$1$1$1$1" },
        "other": { "type": "stemmer_override", "rules": [rule] },
    } });
    let fields = json!({
        "other": { "type": "text", "analyzer": "other" },
        "many": { "type": "text", "analyzer": "many", "search_analyzer": "keyword" },
        "long": { "type": "text", "analyzer": "long", "search_analyzer": "keyword" },
    });
    let body = json!({ "settings": { "analysis": analysis }, "mappings": { "properties": fields } });
    service.get("PUT /a", &body.to_string());
    service.get("PUT /a/_doc/1", &json!({ "many": "a", "long": "b".repeat(1_000) }).to_string());
    assert_eq!(found(&service, &json!({ "match": { "many": "a" } })), "1");
    // 512,000 letters, which would be four millions after the last step.
    assert_eq!(found(&service, &json!({ "prefix": { "long": "b" } })), "1");
    // 16 MB have the first 420 words of the one text, and all of the other.
    for (id, count) in [("2", 1_000), ("3", 400)] {
        service.get(&format!("PUT /a/_doc/{id}"), &json!({ "other": "a ".repeat(count) + "z" }).to_string());
    }
    assert_eq!(found(&service, &json!({ "term": { "other": "z" } })), "3");
    // Each of the groups has the whole word.
    let nested = format!("{}.*{}", "(".repeat(100), ")".repeat(100));
    let body = json!({ "text": "b".repeat(100_000), "tokenizer": "keyword",
        "filter": [{ "type": "pattern_capture", "patterns": [nested] }] });
    let tokens = service.get("POST /_analyze", &body.to_string());
    assert_eq!(tokens["tokens"].as_array().map(Vec::len), Some(11), "1 MB beside the word");
    // The first filter replaces 500,000 letters, and the second one has none left.
    let swap =
        |from: &str, to: &str| json!({ "type": "pattern_replace", "pattern": from, "replacement": to });
    let body = json!({ "text": "b".repeat(500_000) + " b", "tokenizer": "whitespace",
        "char_filter": [swap("b", "c"), swap("b", "d"), swap("c", "e")], "filter": ["truncate"] });
    assert_eq!(words(&service.get("POST /_analyze", &body.to_string())), "cccccccccc@0 b@1");
    let too_many = json!({ "analyzer": { "x": { "tokenizer": "keyword", "filter": vec!["trim"; 51] } } });
    let (status, answer) =
        service.ask("PUT /b", &json!({ "settings": { "analysis": too_many } }).to_string());
    assert_eq!(status, 400, "{answer}");
}
