//! Tables of `_cat`: their columns and forms.

use serde_json::{Value, json};

use crate::service_support::{TestService, directory};

/// Text of a table, with one space between the columns and none at the ends of lines.
fn table(service: &TestService, target: &str) -> String {
    let (status, text) = service.text_as(Default::default(), &format!("GET /_cat{target}"), "");
    assert_eq!(status, 200, "{target}: {text}");
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn tables_have_the_columns_that_are_asked_for() {
    let directory = directory();
    let service = TestService::open(&directory);
    service.get(
        "PUT /a",
        r#"{"settings":{"number_of_shards":3},"aliases":{"x":{"routing":"r","filter":{"match_all":{}}}}}"#,
    );
    service.get("PUT /b", r#"{"settings":{"index.hidden":true},"aliases":{"y":{"is_hidden":true}}}"#);
    service.get("PUT /c", r#"{"aliases":{"z":{"is_write_index":true}}}"#);
    service.get("POST /c/_close", "");
    service.get("PUT /a/_doc/1", "{}");
    service.get("PUT /_template/old", r#"{"index_patterns":["o*","p*"],"version":4,"order":2}"#);
    service.get("PUT /_component_template/part", r#"{"template":{}}"#);
    service.get("PUT /_index_template/new", r#"{"index_patterns":"n*","composed_of":["part"],"priority":7}"#);
    for (target, expected) in [
        ("/aliases", "x a * r r -\ny b - - - -\nz c - - - true"),
        ("/aliases/x,z?h=alias,i", "x a\nz c"),
        ("/aliases?expand_wildcards=open,closed&h=alias", "x\nz"),
        ("/aliases?expand_wildcards=open&h=alias", "x"),
        ("/aliases/none*", ""),
        ("/count/a?h=count&v", "count\n1"),
        ("/count?h=c*", "1"),
        ("/templates", "old [o*, p*] 2 4\nnew [n*] 7 [part]"),
        ("/templates/n*?h=name,order&v=true", "name order\nnew 7"),
        ("/health?ts=false", "millrace green 1 1 true 5 5 0 0 0 0 - 100.0%"),
        ("/health?h=cluster,status,shards", "millrace green 5"),
        ("/master?h=id,node", "millrace millrace"),
        ("/cluster_manager?h=node", "millrace"),
        ("/indices/a?h=idx,docs.*&v", "idx docs.count docs.deleted\na 1 0"),
        ("/count?help", "epoch | |\ntimestamp | |\ncount | |"),
    ] {
        assert_eq!(table(&service, target), expected, "{target}");
    }
    for target in ["/count", "/health"] {
        let row = table(&service, target);
        let [epoch, time] = [0, 1].map(|at| row.split(' ').nth(at).expect("a cell"));
        assert!(epoch.parse::<u64>().is_ok_and(|epoch| epoch > 1_700_000_000), "{row}");
        assert!(time.len() == 8 && time.split(':').all(|part| part.parse::<u8>().is_ok()), "{row}");
    }
    let listed = table(&service, "");
    assert!(listed.lines().all(|line| line.starts_with("/_cat/")), "{listed}");
    assert_eq!(service.get("GET /_cat/aliases/x?format=json&h=a,i", ""), json!([{ "a": "x", "i": "a" }]));
    let health: Value = service.get("GET /_cat/health?format=json", "");
    assert_eq!(health[0]["active_shards_percent"], "100.0%");
    assert_eq!(service.ask("GET /_cat/shards", "").0, 400);
}
