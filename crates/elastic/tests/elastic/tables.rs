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
        ("/shards/a?h=index,shard,prirep,state", "a 0 p STARTED\na 1 p STARTED\na 2 p STARTED"),
        ("/shards/b?h=index,docs,node", "b 0 millrace"),
        ("/shards?h=index&s=index:desc", "c\na\na\na"),
        ("/allocation?h=shards,ip,node", "5 127.0.0.1 millrace"),
        ("/component_templates", "part 0 0 0 0 [new]"),
        ("/component_templates/none", ""),
        ("/pending_tasks?v", "insertOrder timeInQueue priority source"),
        ("/plugins", ""),
        ("/fielddata", ""),
        ("/nodeattrs", ""),
        ("/repositories", ""),
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
    let disk = service.get("GET /_cat/allocation?format=json&bytes=b", "");
    let [used, free, all] = ["disk.used", "disk.avail", "disk.total"].map(|column| {
        let cell = disk[0][column].as_str().unwrap_or_default();
        cell.parse::<u64>().unwrap_or_else(|_| panic!("{column} is a number of bytes: {disk}"))
    });
    assert!(all > 0 && used + free == all, "{disk}");
    for (table, expected) in [
        ("segments", "[_cat/segments] is not supported: indexes have no segments"),
        ("segments/a", "[_cat/segments] is not supported"),
        ("recovery", "replicas are moved in buckets"),
        ("tasks", "requests are not listed"),
        ("thread_pool/search", "thread pools"),
        ("snapshots/all", "data directories"),
        ("what", "no handler found"),
        ("allocation?bytes=x", "there are the units [b, kb"),
    ] {
        let (status, answer) = service.ask(&format!("GET /_cat/{table}"), "");
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert!(status == 400 && reason.contains(expected), "{table}: {answer}");
    }
}
