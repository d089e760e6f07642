//! Searches by aliases: their filters and routing values hold at all interfaces and in all expressions.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Path segment of a name.
fn encoded(name: &str) -> String {
    name.replace('/', "%2F")
        .replace('<', "%3C")
        .replace('>', "%3E")
        .replace('{', "%7B")
        .replace('}', "%7D")
        .replace('|', "%7C")
}

#[test]
fn filters_of_aliases_hold_in_all_expressions() {
    let directory = directory();
    let service = TestService::open(&directory);
    for n in 0..10 {
        service.get(&format!("PUT /al/_doc/{n}"), &format!(r#"{{"n":{n},"k":"{}"}}"#, ["b", "a"][n % 2]));
    }
    service.get("PUT /al2/_doc/x", r#"{"n":100,"k":"z"}"#);
    let add = |index: &str, alias: &str, filter: Value| json!({ "add": { "index": index, "alias": alias, "filter": filter } });
    let actions = json!({ "actions": [
        add("al", "only-a", json!({ "term": { "k.keyword": "a" } })),
        add("al", "only-low", json!({ "range": { "n": { "lt": 2 } } })),
        add("al", "day-2024.01.02", json!({ "range": { "n": { "lt": 3 } } })),
        add("al2", "both", json!({ "match_none": {} })),
        { "add": { "index": "al", "alias": "both" } },
    ] });
    service.get("POST /_aliases", &actions.to_string());
    for (expression, expected) in [
        ("al", 10),
        ("only-a", 5),
        ("<only-a>", 5),
        ("<day-{2024-01-02||/d}>", 3),
        ("only-a,al2", 6),
        ("al2,only-a", 6),
        ("only-*", 6),
        ("only-a,only-low", 6),
        ("only-l*,al2", 3),
        ("only-a,al", 10),
        ("al,only-a", 10),
        ("only-a,a*", 11),
        ("*", 11),
        ("_all", 11),
        ("both", 10),
        ("both,only-low", 10),
        ("both,al2", 11),
        ("*,-al2", 10),
    ] {
        let path = encoded(expression);
        assert_eq!(service.get(&format!("GET /{path}/_count"), "")["count"], expected, "{expression}");
        let found = service.get(&format!("GET /{path}/_search"), r#"{"size":20}"#);
        assert_eq!(found["hits"]["total"]["value"], expected, "{expression}");
        assert_eq!(found["hits"]["hits"].as_array().map(Vec::len), Some(expected), "{expression}");
        let lines = format!("{}\n{{}}\n", json!({ "index": expression.split(',').collect::<Vec<_>>() }));
        let several = service.get("POST /_msearch", &lines);
        assert_eq!(several["responses"][0]["hits"]["total"]["value"], expected, "{expression}");
        let scroll = service.get(&format!("GET /{path}/_search?scroll=1m"), r#"{"size":3}"#);
        assert_eq!(scroll["hits"]["total"]["value"], expected, "{expression}");
        let counted = r#"{"size":0,"aggs":{"c":{"value_count":{"field":"n"}}}}"#;
        let counted = service.get(&format!("GET /{path}/_search"), counted);
        assert_eq!(counted["aggregations"]["c"]["value"], expected, "{expression}");
    }
}

#[test]
fn routing_values_of_aliases_hold_for_their_indexes() {
    let directory = directory();
    let service = TestService::open(&directory);
    for index in ["a", "b"] {
        service.get(&format!("PUT /{index}"), r#"{"settings":{"number_of_shards":4}}"#);
        for routing in ["x", "y", "z"] {
            service.get(&format!("PUT /{index}/_doc/{routing}?routing={routing}"), r#"{"n":1}"#);
        }
    }
    service.get("PUT /a/_alias/ax", r#"{"routing":"x"}"#);
    service.get("PUT /b/_alias/byz", r#"{"search_routing":"y,z"}"#);
    for (target, expected) in [
        ("a/_count", 3),
        ("ax/_count", 1),
        ("byz/_count", 2),
        ("ax,byz/_count", 3),
        ("ax,b/_count", 4),
        ("a*/_count", 3),
        ("ax*/_count", 1),
        ("%3Cax%3E/_count", 1),
        ("ax,byz/_count?routing=z", 2),
    ] {
        assert_eq!(service.get(&format!("GET /{target}"), "")["count"], expected, "{target}");
    }
    let lines = format!("{}\n{{}}\n", json!({ "index": "<ax>" }));
    assert_eq!(service.get("POST /_msearch", &lines)["responses"][0]["hits"]["total"]["value"], 1);
}

#[test]
fn actions_are_done_all_or_none() {
    let directory = directory();
    let aliases = |service: &TestService| {
        let shown = service.get("GET /_alias", "");
        ["old", "new"].map(|index| {
            let of = shown[index]["aliases"].as_object();
            of.map(|of| of.keys().cloned().collect::<Vec<String>>())
        })
    };
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>());
    let remove = json!({ "remove": { "index": "old", "alias": "live" } });
    let add = |index: &str| json!({ "add": { "index": index, "alias": "live" } });
    {
        let service = TestService::open(&directory);
        service.get("PUT /old", r#"{"aliases":{"live":{}}}"#);
        service.get("PUT /new", "");
        service.get("PUT /gone", "");
        let before = [names(&["live"]), names(&[])];
        for (last, status) in [
            (add("missing"), 404),
            (json!({ "add": { "index": "new", "alias": "old" } }), 400),
            (json!({ "add": { "index": "new", "alias": "live", "filter": { "unknown": {} } } }), 400),
            (json!({ "remove": { "index": "new", "alias": "other" } }), 404),
            (json!({ "remove_index": { "index": "missing" } }), 404),
            (json!({ "rename": { "index": "new", "alias": "live" } }), 400),
        ] {
            let gone = json!({ "remove_index": { "index": "gone" } });
            let actions = json!({ "actions": [gone, remove, last] }).to_string();
            let (got, answer) = service.ask("POST /_aliases", &actions);
            assert_eq!(got, status, "{actions}: {answer}");
            assert_eq!(aliases(&service), before, "{actions}");
            assert_eq!(service.ask("HEAD /gone", "").0, 200, "{actions}");
        }
        let many: Vec<Value> = (0..600)
            .map(|number| json!({ "add": { "index": "new", "alias": format!("alias-{number:03}") } }))
            .collect();
        service.get("POST /_aliases", &json!({ "actions": many }).to_string());
        service.get("POST /_aliases", &json!({ "actions": many }).to_string());
        service.get("DELETE /new/_alias/alias-*", "");
        service.get("POST /_aliases", &json!({ "actions": [remove, add("new")] }).to_string());
        assert_eq!(aliases(&service), [names(&[]), names(&["live"])]);
    }
    assert_eq!(aliases(&TestService::open(&directory)), [names(&[]), names(&["live"])]);
}

/// Paths and bodies name an index and an alias; names in the body count.
#[test]
fn aliases_are_given_by_paths_and_bodies() {
    let directory = directory();
    let service = TestService::open(&directory);
    for index in ["a", "b"] {
        service.get(&format!("PUT /{index}"), "");
    }
    for (request, body, expected) in [
        ("PUT /a/_alias/x", "", "a:x"),
        ("POST /a,b/_aliases/x", "{}", "a:x b:x"),
        ("PUT /_all/_alias/x", "", "a:x b:x"),
        ("PUT /a/_alias", r#"{"alias":"x"}"#, "a:x"),
        ("PUT /a/_aliases", r#"{"alias":"x","routing":"r"}"#, "a:x"),
        ("PUT /_alias/x", r#"{"index":"b"}"#, "b:x"),
        ("POST /_aliases/x", r#"{"index":"a,b"}"#, "a:x b:x"),
        ("PUT /_alias", r#"{"index":["a","b"],"alias":"x"}"#, "a:x b:x"),
        ("PUT /none/_alias/x", r#"{"index":"b"}"#, "b:x"),
        ("PUT /a/_alias/y", r#"{"alias":"x"}"#, "a:x"),
        ("PUT /_alias", "", "400 illegal_argument_exception"),
        ("PUT /_alias/x", "", "400 illegal_argument_exception"),
        ("PUT /a/_alias", "{}", "400 illegal_argument_exception"),
        ("PUT /a/_alias/x", r#"{"abc":1}"#, "400 x_content_parse_exception"),
        ("PUT /none/_alias/x", "", "404 index_not_found_exception"),
    ] {
        let (status, answer) = service.ask(request, body);
        let given = match status {
            200 => {
                let shown = service.get("GET /_alias/*", "");
                let shown = shown.as_object().expect("indexes").iter().flat_map(|(index, of)| {
                    let aliases = of["aliases"].as_object().expect("aliases").keys();
                    aliases.map(move |alias| format!("{index}:{alias}"))
                });
                shown.collect::<Vec<String>>().join(" ")
            }
            _ => format!("{status} {}", answer["error"]["type"].as_str().unwrap_or_default()),
        };
        assert_eq!(given, expected, "{request} {body}");
        service.ask("DELETE /_all/_alias/_all", "");
    }
}

#[test]
fn aliases_that_are_asked_for_and_missing_are_named() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", r#"{"aliases":{"x1":{},"x2":{},"y1":{},"x":{}}}"#);
    service.get("PUT /b", r#"{"settings":{"index.hidden":true},"aliases":{"x1":{}}}"#);
    service.get("PUT /c", "");
    for (target, expected) in [
        ("_alias", "200 a:x,x1,x2,y1 b:x1 c:"),
        ("c/_alias", "200 c:"),
        ("_alias?expand_wildcards=open", "200 a:x,x1,x2,y1 c:"),
        ("_alias/_all", "200 a:x,x1,x2,y1 b:x1"),
        ("a/_alias/x1,y*", "200 a:x1,y1"),
        ("a/_alias/x*,-x1", "200 a:x,x2"),
        ("a/_alias/x1,y1,-x*", "200 a:y1"),
        ("a/_alias/x1,y1,-x*,-y1", "200"),
        ("c/_alias/x1", "404 alias [x1] missing"),
        ("a/_alias/x1,none,also", "404 aliases [also,none] missing a:x1"),
        ("a/_alias/-x1,x*,-x2", "404 alias [-x1] missing a:x,x1"),
        ("a/_alias/-x1,-no,x*,-x", "404 aliases [-no,-x1] missing a:x1,x2"),
        ("a/_alias/x1,none*", "200 a:x1"),
    ] {
        let (status, answer) = service.ask(&format!("GET /{target}"), "");
        let mut shown = vec![status.to_string()];
        shown.extend(answer["error"].as_str().map(str::to_owned));
        let mut indexes: Vec<(&String, &Value)> = answer.as_object().expect("an object").iter().collect();
        indexes.sort_by_key(|(name, _)| *name);
        for (name, of) in indexes.into_iter().filter(|(_, of)| of.is_object()) {
            let mut aliases: Vec<&str> =
                of["aliases"].as_object().expect("aliases").keys().map(String::as_str).collect();
            aliases.sort_unstable();
            shown.push(format!("{name}:{}", aliases.join(",")));
        }
        assert_eq!(shown.join(" "), expected, "{target}");
    }
    assert_eq!(service.ask("GET /none/_alias/x1", "").1["error"]["type"], "index_not_found_exception");
}

#[test]
fn removals_of_missing_aliases_are_refused_as_their_actions_say() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get("PUT /a", "");
    for (action, expected) in [
        (r#"{"remove":{"index":"a","aliases":["x","y"]}}"#, "200"),
        (r#"{"remove":{"index":"a","aliases":["x","y"],"must_exist":true}}"#, "404 aliases [y] missing"),
        (r#"{"remove":{"index":"a","alias":"y"}}"#, "404 aliases [y] missing"),
        (r#"{"remove":{"indices":["a"],"aliases":["y*","z"]}}"#, "404 aliases [y*,z] missing"),
        (r#"{"remove":{"index":"a","aliases":["y","z"],"must_exist":false}}"#, "200"),
        (r#"{"remove":{"index":"a","aliases":[]}}"#, "400 [aliases] can't be empty"),
        (r#"{"remove":{"index":"","alias":"x"}}"#, "400 [index] can't be empty"),
        (
            r#"{"remove":{"index":"a"}}"#,
            "400 Validation Failed: 1: [remove] One of [alias] or [aliases] is required;",
        ),
        (
            r#"{"add":{"index":"a"}}"#,
            "400 Validation Failed: 1: [add] One of [alias] or [aliases] is required;",
        ),
        (
            r#"{"add":{"alias":"x"}}"#,
            "400 Validation Failed: 1: [add] One of [index] or [indices] is required;",
        ),
    ] {
        service.get("PUT /a/_alias/x", "");
        let (status, answer) = service.ask("POST /_aliases", &format!(r#"{{"actions":[{action}]}}"#));
        let reason = answer["error"]["reason"].as_str().or(answer["error"].as_str()).unwrap_or_default();
        assert_eq!(format!("{status} {reason}").trim_end(), expected, "{action}");
    }
}
