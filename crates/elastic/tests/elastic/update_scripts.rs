//! Scripts of updates: of single documents, in bulks, by queries, and of document types.

use millrace_access::{AccessRight, CallerGroups};
use serde_json::{Value, json};

use crate::service_support::{TestService, caller_with, directory};
use crate::types;

/// The update of a document by a script, which has parameters.
fn body_of(script: &str) -> String {
    let parameters = json!({ "n": 4, "tag": "x", "o": { "p": [1, 2] }, "none": null });
    json!({ "script": { "lang": "painless", "source": script, "params": parameters } }).to_string()
}

#[test]
fn scripts_change_documents() {
    let directory = directory();
    let service = TestService::open(&directory);
    let document = json!({ "n": 1, "f": 1.5, "s": "ab", "l": ["a", "b"], "o": { "k": 1 }, "t": true });
    let document = document.to_string();
    for (script, result, expected) in [
        ("ctx._source.n = params.n", "updated", json!({ "n": 4 })),
        ("ctx._source.n += params.n; ctx._source.n -= 2;", "updated", json!({ "n": 3 })),
        ("ctx._source.n++; ctx._source['n'] *= 5 // ten", "updated", json!({ "n": 10 })),
        ("ctx._source.n = 7 / 2; ctx._source.f /= 2", "updated", json!({ "n": 3, "f": 0.75 })),
        ("ctx._source.n = 7 % 4 + 2 * (1 - 3)", "updated", json!({ "n": -1 })),
        ("ctx._source.new = params.o", "updated", json!({ "new": { "p": [1, 2] } })),
        ("ctx._source.o.k = params['o'].p[1]", "updated", json!({ "o": { "k": 2 } })),
        ("ctx['_source']['o']['q'] = 'it\\'s'", "updated", json!({ "o": { "k": 1, "q": "it's" } })),
        ("ctx._source.remove('n')", "updated", json!({ "n": null })),
        ("ctx._source.m = ctx._source.remove(\"n\");", "updated", json!({ "m": 1, "n": null })),
        ("ctx._source.l.add(params.tag)", "updated", json!({ "l": ["a", "b", "x"] })),
        ("ctx._source.l.add(0, 'z'); ctx._source.l[-1] = 'y'", "updated", json!({ "l": ["z", "a", "y"] })),
        ("ctx._source.l.remove(ctx._source.l.indexOf('a'))", "updated", json!({ "l": ["b"] })),
        ("ctx._source.l.removeIf(t -> t == 'a' || t == params.tag)", "updated", json!({ "l": ["b"] })),
        (
            "ctx._source.l.addAll(['c', 1]); ctx._source.l.removeAll(['a'])",
            "updated",
            json!({ "l": ["b", "c", 1] }),
        ),
        (
            "ctx._source.l.clear(); ctx._source.o.putAll(['a': 1, 'b': [:]])",
            "updated",
            json!({ "l": [], "o": { "k": 1, "a": 1, "b": {} } }),
        ),
        (
            "ctx._source.o.put('k', null); ctx._source.o.putIfAbsent('k', 2)",
            "updated",
            json!({ "o": { "k": 2 } }),
        ),
        (
            "if (ctx._source.l.contains(params.tag)) { ctx.op = 'none' } else { ctx._source.n = 2 }",
            "updated",
            json!({ "n": 2 }),
        ),
        (
            "if (ctx._source.l.size() == 2 && !ctx._source.l.isEmpty()) ctx.op = \"noop\"; else ctx._source.n = 2",
            "noop",
            json!({}),
        ),
        ("ctx._source.s += '-' + ctx._source.n + params.none", "updated", json!({ "s": "ab-1null" })),
        (
            "def s = ctx._source.s.toUpperCase(); ctx._source.s = s.substring(1) + s.length()",
            "updated",
            json!({ "s": "B2" }),
        ),
        (
            "double d = ctx._source.n; int i = 3; d /= 2; ctx._source.f = d; i++; ctx._source.n = i",
            "updated",
            json!({ "f": 0.5, "n": 4 }),
        ),
        (
            "ctx._source.s = ctx._source.missing ?: params.tag; ctx._source.n = ctx._source.missing?.deep == null ? 5 : 6",
            "updated",
            json!({ "s": "x", "n": 5 }),
        ),
        (
            "ctx._source.n = ctx._source.l instanceof List && 1 <= 1.0 ? Math.max(2, 9) : 0",
            "updated",
            json!({ "n": 9 }),
        ),
        (
            "ctx._source.s = ctx._index + ctx._id + ctx._version + ctx.op",
            "updated",
            json!({ "s": "a11index" }),
        ),
        (
            "ctx._source.t = 9007199254740993 > 9007199254740992 && 2 < 2.5 && !(3 <= 2.5)",
            "updated",
            json!({ "t": true }),
        ),
        (
            "ctx._source.l.removeIf(t -> ctx._source.l.size() == 2 && t == 'b')",
            "updated",
            json!({ "l": ["a"] }),
        ),
        (
            "ctx._source.t = ctx._source.containsKey('n') && !ctx._source.o.containsKey('n')",
            "updated",
            json!({ "t": true }),
        ),
        (
            "ctx._source.l = 'a,b'.splitOnToken(','); ctx._source.s = 'aa'.replace('a', 'bc')",
            "updated",
            json!({ "s": "bcbc" }),
        ),
        ("ctx._source.n = ['k': [3, 4]].k[1] + ['a', 'b'].length", "updated", json!({ "n": 6 })),
        ("if (ctx._source.t) { return; } ctx._source.n = 9", "updated", json!({})),
        ("/* nothing */", "updated", json!({})),
        ("ctx.op = ctx._source.n > 0 ? 'delete' : 'none'", "deleted", Value::Null),
    ] {
        service.ask("DELETE /a", "");
        service.get("PUT /a/_doc/1", &document);
        let answer = service.get("POST /a/_update/1", &body_of(script));
        assert_eq!(answer["result"], result, "{script}: {answer}");
        let (status, found) = service.ask("GET /a/_doc/1", "");
        let Value::Object(changes) = expected else {
            assert_eq!(status, 404, "{script}: {found}");
            continue;
        };
        let mut wanted: Value = serde_json::from_str(&document).expect("it is JSON");
        for (name, value) in changes {
            let members = wanted.as_object_mut().expect("an object");
            // A null stands for a member that is removed.
            match value.is_null() {
                true => _ = members.remove(&name),
                false => _ = members.insert(name, value),
            }
        }
        assert_eq!(found["_source"], wanted, "{script}");
        // New fields are in the mapping.
        assert_eq!(service.get("GET /a/_count?q=_id:1", "")["count"], 1, "{script}");
    }
}

#[test]
fn other_scripts_are_refused_and_change_nothing() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a/_doc/1", r#"{"n":1,"s":"ab","l":["a"]}"#);
    for (script, expected) in [
        ("ctx._source.n =", "[the end]"),
        ("ctx._source.n", "[the end]"),
        ("ctx._source.n = 1 ctx._source.n = 2", "[ctx]"),
        ("for (int i = 0; i < 9; ++i) {}", "[for]"),
        ("while (true) {}", "[while]"),
        ("ctx._source.n = doc['n'].value", "[doc]"),
        ("ctx._source.s = ctx._source.s.foo()", "[foo() with 0 values]"),
        ("ctx._source.s = ctx._source.s.replace('a')", "[replace() with 1 values]"),
        ("ctx._source.n = Math.random()", "Math.random()"),
        ("ctx._id = 'b'", "only ctx.op"),
        ("params.n = 1", "only ctx.op"),
        ("def l = ctx._source.l; l.add('b')", "only ctx.op"),
        ("ctx._source.n = ctx._source.l.add('b')", "a statement of its own"),
        ("def x = 1; def x = 2", "variable [x] is already defined"),
        ("if (true) { def x = 1; } ctx._source.n = x", "[x]"),
        ("ctx._source.s = 'a", "['a]"),
        ("ctx._source.n += ctx._source.s.length", "has no member [length]"),
        ("ctx._source.n = ctx._source.missing + 1", "[null] is not a number"),
        ("ctx._source.missing.deep = 1", "[missing] is missing"),
        ("ctx._source.n = ctx._source.missing.deep", "null has no [deep]"),
        ("ctx._source.l.remove(3)", "Index 3 out of bounds for length 1"),
        ("ctx._source.n.add(1)", "[1] is not a list"),
        ("ctx._source.n = 1 / 0", "divided by zero"),
        ("ctx._source.n = 1.0 / 0", "is not a number that a document can have"),
        ("ctx._source.n = 9223372036854775807 + 1", "64 bits"),
        ("if (ctx._source.n) { ctx.op = 'delete' }", "neither true nor false"),
        ("int x = 'a'", "is not of the type"),
        ("ctx.op = 'create_index'", "Operation type [\"create_index\"] not allowed"),
        ("ctx._source = 1", "ctx._source has to be an object"),
        ("ctx._source.s = ctx._source.l + 'x'", "has no text"),
        ("ctx._source.n = 'no number'", "failed to parse field [n]"),
    ] {
        let (status, answer) = service.ask("POST /a/_update/1", &body_of(script));
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert!(status == 400 && reason.contains(expected), "{script}: {answer}");
    }
    let doubled = format!("def s = 'abcdefgh'; {} ctx._source.s = s", "s += s; ".repeat(60));
    let (status, answer) = service.ask("POST /a/_update/1", &body_of(&doubled));
    assert!(status == 400 && answer.to_string().contains("more than 16 MB"), "{answer}");
    let nested = "ctx._source=['a':ctx._source];".repeat(130);
    let signs = format!("def x = {}true", "!".repeat(99));
    let members = format!("ctx._source.n = params{}", ".a".repeat(1_000));
    let tokens = format!(
        "def s = '{}'; {} ctx._source.l = s.splitOnToken(',')",
        ",".repeat(999),
        "s += s; ".repeat(11)
    );
    for (script, expected) in [
        (nested, "levels deep"),
        (signs, "deep in each other"),
        (members, "deep in each other"),
        (tokens, "would be too long"),
    ] {
        let (status, answer) = service.ask("POST /a/_update/1", &body_of(&script));
        assert!(status == 400 && answer.to_string().contains(expected), "{answer}");
    }
    for (body, expected) in [
        (json!({ "script": { "id": "stored" } }), "[id] of a script"),
        (json!({ "script": { "source": "return", "params": [1] } }), "[params] of a script is an object"),
        (json!({ "script": { "source": "1", "lang": "mustache" } }), "the language [mustache]"),
        (json!({ "script": "return", "doc": {} }), "can't provide both script and doc"),
    ] {
        let (status, answer) = service.ask("POST /a/_update/1", &body.to_string());
        assert!(status == 400 && answer.to_string().contains(expected), "{body}: {answer}");
    }
    let found = service.get("GET /a/_doc/1", "");
    assert_eq!((&found["_version"], &found["_source"]["n"]), (&json!(1), &json!(1)));
    // Operands side by side are not in each other.
    let sum = format!("ctx._source.n = 1{}", " + 1".repeat(900));
    service.get("POST /a/_update/1", &body_of(&sum));
    assert_eq!(service.get("GET /a/_doc/1", "")["_source"]["n"], 901);
}

#[test]
fn documents_that_do_not_exist_are_inserted_as_the_update_says() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", "");
    let update = |id: &str, members: Value| {
        let mut body = json!({ "script": "ctx._source.n = (ctx._source.n ?: 0) + 1" });
        for (name, value) in members.as_object().expect("an object") {
            body[name] = value.clone();
        }
        let (status, answer) = service.ask(&format!("POST /a/_update/{id}"), &body.to_string());
        let source = service.ask(&format!("GET /a/_doc/{id}"), "").1["_source"].clone();
        (status, answer["result"].clone(), source)
    };
    let none = Value::Null;
    assert_eq!(update("1", json!({})), (404, none.clone(), none.clone()));
    assert_eq!(update("1", json!({ "upsert": { "n": 7 } })), (201, json!("created"), json!({ "n": 7 })));
    assert_eq!(update("1", json!({ "upsert": { "n": 7 } })), (200, json!("updated"), json!({ "n": 8 })));
    let scripted = json!({ "upsert": {}, "scripted_upsert": true });
    assert_eq!(update("2", scripted.clone()), (201, json!("created"), json!({ "n": 1 })));
    assert_eq!(update("2", scripted), (200, json!("updated"), json!({ "n": 2 })));
    let refused = json!({ "upsert": {}, "scripted_upsert": true, "script": "ctx.op = 'none'" });
    assert_eq!(update("3", refused), (200, json!("noop"), none));
    let op = json!({ "upsert": {}, "scripted_upsert": true, "script": "ctx._source.op = ctx.op" });
    assert_eq!(update("4", op), (201, json!("created"), json!({ "op": "create" })));
}

#[test]
fn scripts_in_bulks_are_executed_in_their_order() {
    let directory = directory();
    let service = TestService::open(&directory);
    let lines = [
        r#"{"index":{"_id":"1"}}"#,
        r#"{"n":1}"#,
        r#"{"update":{"_id":"1"}}"#,
        r#"{"script":{"source":"ctx._source.by_script = ctx._source.n"}}"#,
        r#"{"update":{"_id":"1"}}"#,
        r#"{"doc":{"n":5}}"#,
        r#"{"update":{"_id":"1"}}"#,
        r#"{"script":{"source":"ctx._source.n += ctx._source.by_script; ctx._source.later = 'x'"}}"#,
        r#"{"index":{"_id":"2"}}"#,
        r#"{"n":1}"#,
        r#"{"update":{"_id":"2"}}"#,
        r#"{"script":"ctx.op = 'delete'"}"#,
        r#"{"update":{"_id":"1"}}"#,
        r#"{"script":"ctx.op = 'nothing'"}"#,
    ];
    let answer = service.get("POST /a/_bulk", &(lines.join("\n") + "\n"));
    let items = answer["items"].as_array().expect("a list");
    let results: Vec<&Value> = items
        .iter()
        .map(|item| item.as_object().and_then(|item| item.values().next()).expect("a result"))
        .collect();
    let found: Vec<&str> = results.iter().filter_map(|item| item["result"].as_str()).collect();
    assert_eq!(found, ["created", "updated", "updated", "updated", "created", "deleted"], "{answer}");
    assert_eq!(results[6]["status"], 400, "{answer}");
    let source = service.get("GET /a/_doc/1", "")["_source"].clone();
    assert_eq!(source, json!({ "n": 6, "by_script": 1, "later": "x" }));
    assert_eq!(service.ask("GET /a/_doc/2", "").0, 404);
    let mapping = service.get("GET /a/_mapping", "")["a"]["mappings"]["properties"].clone();
    assert_eq!((&mapping["by_script"]["type"], &mapping["later"]["type"]), (&json!("long"), &json!("text")));
    // A strict mapping takes no fields from scripts.
    service.get("PUT /b", r#"{"mappings":{"dynamic":"strict","properties":{"n":{"type":"long"}}}}"#);
    service.get("PUT /b/_doc/1", r#"{"n":1}"#);
    let (status, answer) = service.ask("POST /b/_update/1", &body_of("ctx._source.other = 1"));
    assert_eq!(
        (status, &answer["error"]["type"]),
        (400, &json!("strict_dynamic_mapping_exception")),
        "{answer}"
    );
}

/// Documents that scripts make long are written in several parts, of which none is lost.
#[test]
fn long_results_of_scripts_are_all_written() {
    let directory = directory();
    let service = TestService::open(&directory);
    let lines = (0..70).map(|n| format!("{{\"index\":{{\"_id\":\"{n}\"}}}}\n{{\"n\":{n}}}\n"));
    service.get("POST /a/_bulk?refresh=true", &lines.collect::<String>());
    let text = "x y ".repeat(25_000);
    let script = "if (ctx._source.n % 2 == 0) { ctx.op = 'noop' } else { ctx._source.s = params.s }";
    let body = json!({ "script": { "source": script, "params": { "s": text } } });
    let answer = service.get("POST /a/_update_by_query?refresh=true", &body.to_string());
    let numbers = ["total", "updated", "noops", "batches"].map(|name| answer[name].as_u64());
    assert_eq!(numbers, [Some(70), Some(35), Some(35), Some(1)], "{answer}");
    let lines = (0..70).map(|n| {
        let script = "ctx._source.n = (ctx._source.s?.length() ?: 0) + ctx._source.n";
        format!("{{\"update\":{{\"_id\":\"{n}\"}}}}\n{{\"script\":\"{script}\"}}\n")
    });
    let answer = service.get("POST /a/_bulk?refresh=true", &lines.collect::<String>());
    assert_eq!((&answer["errors"], answer["items"].as_array().map(Vec::len)), (&json!(false), Some(70)));
    for n in 0..70 {
        let found = service.get(&format!("GET /a/_doc/{n}?_source=n"), "");
        assert_eq!(found["_source"]["n"], if n % 2 == 0 { n } else { 100_000 + n }, "{found}");
    }
}

#[test]
fn scripts_change_what_a_query_finds() {
    let directory = directory();
    let service = TestService::open(&directory);
    for n in 0..10 {
        service.get(&format!("PUT /a/_doc/{n}"), &json!({ "n": n }).to_string());
    }
    let by_query = |source: &str| {
        let body = json!({ "query": { "range": { "n": { "lt": 6 } } }, "script": { "source": source, "params": { "x": 3 } } });
        service.ask("POST /a/_update_by_query?refresh=true", &body.to_string())
    };
    let script = "if (ctx._source.n == 0) { ctx.op = 'delete' } else if (ctx._source.n < params.x) { ctx.op = 'noop' } \
                  else { ctx._source.m = ctx._source.remove('n') }";
    let (status, answer) = by_query(script);
    let names = ["total", "updated", "deleted", "noops"];
    let numbers = names.map(|name| answer[name].as_u64().unwrap_or(99));
    assert_eq!((status, numbers), (200, [6, 3, 1, 2]), "{answer}");
    assert_eq!(service.get("GET /a/_count?q=_exists_:m", "")["count"], 3);
    assert_eq!(service.get("GET /a/_doc/3", "")["_source"], json!({ "m": 3 }));
    // A script that fails ends the request.
    let (status, answer) = by_query("ctx._source.n = ctx._source.missing + 1");
    assert_eq!((status, &answer["failures"][0]["status"]), (400, &json!(400)), "{answer}");
    let (status, answer) = by_query("ctx._source.n =");
    assert!(
        status == 400 && answer["error"]["reason"].as_str().is_some_and(|it| it.contains("compile error"))
    );

    let copy = json!({
        "source": { "index": "a", "_source": ["n"] }, "dest": { "index": "b" },
        "script": "if (ctx._source.n == null) { ctx.op = 'noop' } else { ctx._source.from = ctx._index + ctx._id }",
    });
    let answer = service.get("POST /_reindex?refresh=true", &copy.to_string());
    assert_eq!(
        (&answer["total"], &answer["created"], &answer["noops"]),
        (&json!(9), &json!(6), &json!(3)),
        "{answer}"
    );
    assert_eq!(service.get("GET /b/_doc/7", "")["_source"], json!({ "n": 7, "from": "a7" }));
    let removal =
        json!({ "source": { "index": "a" }, "dest": { "index": "b" }, "script": "ctx.op = 'delete'" });
    let answer = service.get("POST /_reindex?refresh=true", &removal.to_string());
    assert_eq!(answer["deleted"], 6, "{answer}");
    assert_eq!(service.get("GET /b/_count", "")["count"], 0);
}

#[test]
fn scripts_change_documents_of_types() {
    let directory = directory();
    let service = types::service(&directory);
    service.get("PUT /note/_doc/1?routing=ann", r#"{"title":"Hello","stars":1}"#);
    let update = |script: &str| service.ask("POST /note/_update/1?routing=ann", &body_of(script));
    let source = || service.ask("GET /note/_doc/1?routing=ann", "").1["_source"].clone();
    let (status, answer) = update("ctx._source.stars += params.n; ctx._source.title = ctx._routing");
    assert_eq!((status, &answer["result"]), (200, &json!("updated")), "{answer}");
    assert_eq!((&source()["stars"], &source()["title"]), (&json!(5), &json!("ann")));
    let (status, answer) = update("ctx._source.remove('title')");
    assert_eq!((status, source().get("title")), (200, None), "{answer}");
    assert_eq!(update("ctx._source.stars = 'x'").0, 400);
    assert_eq!(update("ctx._source.unknown = 1").0, 400);
    assert_eq!(update("ctx.op = 'none'").1["result"], "noop");
    let body = r#"{"script":"ctx._source.stars = 9"}"#;
    let answer = service.get("POST /note/_update_by_query?routing=ann", body);
    assert_eq!((&answer["updated"], &source()["stars"]), (&json!(1), &json!(9)), "{answer}");
    assert_eq!(update("ctx.op = 'delete'").1["result"], "deleted");
    assert_eq!(source(), Value::Null);
    assert_eq!(update("ctx._source.stars = 1").0, 404);
    let upsert = r#"{"script":"ctx._source.stars = 2","scripted_upsert":true,"upsert":{"title":"New"}}"#;
    assert_eq!(service.get("POST /note/_update/1?routing=ann", upsert)["result"], "created");
    assert_eq!(source()["stars"], 2);
    // The script fails without a document, and does for a stored one.
    let upsert = r#"{"script":"ctx._source.stars += 1","scripted_upsert":true,"upsert":{}}"#;
    assert_eq!(service.get("POST /note/_update/1?routing=ann", upsert)["result"], "updated");
    assert_eq!(source()["stars"], 3);
    assert_eq!(service.ask("POST /note/_update/2?routing=ann", upsert).0, 400);
    assert_eq!(service.ask("GET /note/_doc/2?routing=ann", "").0, 404);
}

/// What a script does, and its errors, tell what the document has.
#[test]
fn scripts_need_the_right_to_read() {
    let directory = directory();
    let service = types::service(&directory);
    service.get("PUT /a/_doc/1", r#"{"secret":"abc"}"#);
    service.get("PUT /note/_doc/1?routing=ann", r#"{"title":"abc"}"#);
    let blind = || caller_with(CallerGroups::All, vec![AccessRight::Write].into());
    let script = body_of("if (ctx._source.secret ?: ctx._source.title) {}");
    for path in ["/a/_update/1", "/note/_update/1?routing=ann"] {
        let (status, answer) = service.ask_as(blind(), &format!("POST {path}"), &script);
        assert!(status == 403 && !answer.to_string().contains("abc"), "{path}: {answer}");
        let plain = service.ask_as(blind(), &format!("POST {path}"), r#"{"doc":{}}"#);
        assert_eq!(plain.0, 200, "{path}: {}", plain.1);
    }
    let lines = format!("{{\"update\":{{\"_index\":\"a\",\"_id\":\"1\"}}}}\n{script}\n");
    let (_, answer) = service.ask_as(blind(), "POST /_bulk", &lines);
    assert_eq!(answer["items"][0]["update"]["status"], 403, "{answer}");
}
