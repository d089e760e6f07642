//! Searches by aliases: their filters and routing values hold at all interfaces and in all expressions.

use serde_json::{Value, json};

use crate::door_support::{TestDoor, directory};

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
    let door = TestDoor::open(&directory);
    for n in 0..10 {
        door.get(&format!("PUT /al/_doc/{n}"), &format!(r#"{{"n":{n},"k":"{}"}}"#, ["b", "a"][n % 2]));
    }
    door.get("PUT /al2/_doc/x", r#"{"n":100,"k":"z"}"#);
    let add = |index: &str, alias: &str, filter: Value| json!({ "add": { "index": index, "alias": alias, "filter": filter } });
    let actions = json!({ "actions": [
        add("al", "only-a", json!({ "term": { "k.keyword": "a" } })),
        add("al", "only-low", json!({ "range": { "n": { "lt": 2 } } })),
        add("al", "day-2024.01.02", json!({ "range": { "n": { "lt": 3 } } })),
        add("al2", "both", json!({ "match_none": {} })),
        { "add": { "index": "al", "alias": "both" } },
    ] });
    door.get("POST /_aliases", &actions.to_string());
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
        assert_eq!(door.get(&format!("GET /{path}/_count"), "")["count"], expected, "{expression}");
        let found = door.get(&format!("GET /{path}/_search"), r#"{"size":20}"#);
        assert_eq!(found["hits"]["total"]["value"], expected, "{expression}");
        assert_eq!(found["hits"]["hits"].as_array().map(Vec::len), Some(expected), "{expression}");
        let lines = format!("{}\n{{}}\n", json!({ "index": expression.split(',').collect::<Vec<_>>() }));
        let several = door.get("POST /_msearch", &lines);
        assert_eq!(several["responses"][0]["hits"]["total"]["value"], expected, "{expression}");
        let scroll = door.get(&format!("GET /{path}/_search?scroll=1m"), r#"{"size":3}"#);
        assert_eq!(scroll["hits"]["total"]["value"], expected, "{expression}");
        let counted = r#"{"size":0,"aggs":{"c":{"value_count":{"field":"n"}}}}"#;
        let counted = door.get(&format!("GET /{path}/_search"), counted);
        assert_eq!(counted["aggregations"]["c"]["value"], expected, "{expression}");
    }
}

#[test]
fn routing_values_of_aliases_hold_for_their_indexes() {
    let directory = directory();
    let door = TestDoor::open(&directory);
    for index in ["a", "b"] {
        door.get(&format!("PUT /{index}"), r#"{"settings":{"number_of_shards":4}}"#);
        for routing in ["x", "y", "z"] {
            door.get(&format!("PUT /{index}/_doc/{routing}?routing={routing}"), r#"{"n":1}"#);
        }
    }
    door.get("PUT /a/_alias/ax", r#"{"routing":"x"}"#);
    door.get("PUT /b/_alias/byz", r#"{"search_routing":"y,z"}"#);
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
        assert_eq!(door.get(&format!("GET /{target}"), "")["count"], expected, "{target}");
    }
    let lines = format!("{}\n{{}}\n", json!({ "index": "<ax>" }));
    assert_eq!(door.get("POST /_msearch", &lines)["responses"][0]["hits"]["total"]["value"], 1);
}

#[test]
fn actions_are_done_all_or_none() {
    let directory = directory();
    let aliases = |door: &TestDoor| {
        let shown = door.get("GET /_alias", "");
        ["old", "new"].map(|index| {
            let of = shown[index]["aliases"].as_object();
            of.map(|of| of.keys().cloned().collect::<Vec<String>>())
        })
    };
    let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<String>>());
    let remove = json!({ "remove": { "index": "old", "alias": "live" } });
    let add = |index: &str| json!({ "add": { "index": index, "alias": "live" } });
    {
        let door = TestDoor::open(&directory);
        door.get("PUT /old", r#"{"aliases":{"live":{}}}"#);
        door.get("PUT /new", "");
        door.get("PUT /gone", "");
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
            let (got, answer) = door.ask("POST /_aliases", &actions);
            assert_eq!(got, status, "{actions}: {answer}");
            assert_eq!(aliases(&door), before, "{actions}");
            assert_eq!(door.ask("HEAD /gone", "").0, 200, "{actions}");
        }
        let many: Vec<Value> = (0..600)
            .map(|number| json!({ "add": { "index": "new", "alias": format!("alias-{number:03}") } }))
            .collect();
        door.get("POST /_aliases", &json!({ "actions": many }).to_string());
        door.get("POST /_aliases", &json!({ "actions": many }).to_string());
        door.get("DELETE /new/_alias/alias-*", "");
        door.get("POST /_aliases", &json!({ "actions": [remove, add("new")] }).to_string());
        assert_eq!(aliases(&door), [names(&[]), names(&["live"])]);
    }
    assert_eq!(aliases(&TestDoor::open(&directory)), [names(&[]), names(&["live"])]);
}
