//! Indexes that are document types, from request to answer: operations by the group that they name, values
//! by the fields of the schema, and what is refused.

use millrace_access::CallerGroups;
use millrace_document::DocumentGroup;
use millrace_store::ViewScope;
use serde_json::{Value, json};

use crate::service_support::{TestService, caller, directory, of_groups};

const SERVICES: &str = "<services version='1.0'>
  <container id='default' version='1.0'><search/><document-api/></container>
  <content id='notes' version='1.0'>
    <min-redundancy>1</min-redundancy>
    <documents>
      <document type='note' mode='streaming'/>
      <document type='Page' mode='index'/>
    </documents>
  </content>
</services>";

const NOTE: &str = "schema note {
  document note {
    struct person { field name type string {} field age type int {} }
    field title type string { indexing: index | summary }
    field tag type string { indexing: attribute | summary }
    field stars type int { indexing: attribute | summary }
    field score type double { indexing: attribute | summary }
    field read type bool { indexing: attribute | summary }
    field author type person { indexing: summary }
    field weights type weightedset<string> { indexing: attribute | summary }
    field lines type array<string> { indexing: index | summary }
    field place type position { indexing: attribute | summary }
    field vector type tensor<float>(x[2]) { indexing: attribute | summary }
  }
  field shout type string { indexing: input title | lowercase | summary }
}";

const PAGE: &str = "schema Page { document Page { field title type string { indexing: index | summary } } }";

/// A service with the types `note` and `Page`.
pub fn service(directory: &tempfile::TempDir) -> TestService {
    let service = TestService::open(directory);
    service.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", NOTE), ("schemas/Page.sd", PAGE)]);
    service
}

/// Status with the result, or the type of the error, of an answer or of the one item of a bulk.
fn brief((status, answer): (u16, Value)) -> String {
    let item = answer.pointer("/items/0").and_then(|item| item.as_object()?.values().next());
    let (status, answer) = match item {
        Some(item) => (item["status"].to_string(), item),
        None => (status.to_string(), &answer),
    };
    let first = |path: &str| answer.pointer(path).filter(|value| !value.is_null()).cloned();
    let shown = [
        "/error/type",
        "/docs/0/error/type",
        "/result",
        "/docs/0/found",
        "/found",
        "/hits/total/value",
        "/count",
    ]
    .into_iter()
    .find_map(first);
    let shown = match shown {
        Some(Value::String(text)) => text,
        Some(other) => other.to_string(),
        None => String::new(),
    };
    format!("{status} {shown}").trim().to_owned()
}

/// Operations on the document `1` of the group `ann`, which is there, and the answers to callers: with
/// `routing=ann`, without, without but with a credential for `ann` alone, for `ann` and `bob`, and for `bob`
/// with `routing=ann`. Searches without a group, of a caller for all, also find the document of `bob`.
#[test]
fn the_group_is_named_or_that_of_the_credential() {
    const MISSING: &str = "400 routing_missing_exception";
    const REFUSED: &str = "403 security_exception";
    let bulk = |line: &str| format!("POST /_bulk {line}");
    let mut table: Vec<(String, &str)> = [
        ("PUT /note/_doc/1 {\"stars\":2}", "200 updated"),
        ("POST /note/_doc {\"stars\":2}", "201 created"),
        ("PUT /note/_create/1 {\"stars\":2}", "409 version_conflict_engine_exception"),
        ("PUT /note/_create/2 {\"stars\":2}", "201 created"),
        ("POST /note/_update/1 {\"doc\":{\"stars\":3}}", "200 updated"),
        ("POST /note/_update/1 {\"doc\":{\"stars\":1}}", "200 noop"),
        ("POST /note/_update/3 {\"doc\":{\"stars\":1},\"doc_as_upsert\":true}", "201 created"),
        ("POST /note/_update/3 {\"doc\":{\"stars\":1},\"upsert\":{\"stars\":0}}", "201 created"),
        ("POST /note/_update/3 {\"doc\":{\"stars\":1}}", "404 document_missing_exception"),
        ("GET /note/_doc/1", "200 true"),
        ("GET /note/_doc/3", "404 false"),
        ("GET /note/_source/1", "200"),
        ("POST /note/_mget {\"ids\":[\"1\"]}", "200 true"),
        ("POST /_mget {\"docs\":[{\"_index\":\"note\",\"_id\":\"1\"}]}", "200 true"),
        ("POST /note/_search {}", "200 1"),
        ("GET /note/_count", "200 1"),
        ("GET /note/_search?q=title:hello", "200 1"),
        ("DELETE /note/_doc/1", "200 deleted"),
        ("DELETE /note/_doc/3", "404 not_found"),
    ]
    .map(|(request, expected)| (request.to_owned(), expected))
    .into();
    table.extend([
        (bulk("{\"index\":{\"_index\":\"note\",\"_id\":\"1\"}}\n{\"stars\":2}\n"), "200 updated"),
        (bulk("{\"index\":{\"_index\":\"note\"}}\n{\"stars\":2}\n"), "201 created"),
        (
            bulk("{\"create\":{\"_index\":\"note\",\"_id\":\"1\"}}\n{}\n"),
            "409 version_conflict_engine_exception",
        ),
        (bulk("{\"update\":{\"_index\":\"note\",\"_id\":\"1\"}}\n{\"doc\":{\"stars\":9}}\n"), "200 updated"),
        (bulk("{\"delete\":{\"_index\":\"note\",\"_id\":\"1\"}}\n"), "200 deleted"),
    ]);
    let directory = directory();
    let service = service(&directory);
    service.get("PUT /note/_doc/1?routing=bob", r#"{"title":"Hello Bob","stars":1}"#);
    for (request, expected) in &table {
        let (head, body) = match request.match_indices(' ').nth(1) {
            Some((at, _)) => (&request[..at], &request[at + 1..]),
            None => (request.as_str(), ""),
        };
        let joined = if head.contains('?') { '&' } else { '?' };
        let named = format!("{head}{joined}routing=ann");
        let expected = *expected;
        // A get of several documents answers for each.
        let (missing, refused) = match head.contains("_mget") {
            true => ("200 routing_missing_exception", "200 security_exception"),
            false => (MISSING, REFUSED),
        };
        let is_search = ["_search", "_count"].iter().any(|route| head.contains(route));
        let of_all = if is_search { "200 2" } else { missing };
        for (who, caller, request, expected) in [
            ("all", caller(CallerGroups::All), named.as_str(), expected),
            ("all", caller(CallerGroups::All), head, of_all),
            ("ann", of_groups(&["ann"]), head, expected),
            ("ann", of_groups(&["ann"]), named.as_str(), expected),
            ("ann and bob", of_groups(&["ann", "bob"]), head, missing),
            ("ann and bob", of_groups(&["ann", "bob"]), named.as_str(), expected),
            ("bob", of_groups(&["bob"]), named.as_str(), refused),
        ] {
            for id in ["2", "3"] {
                service.ask(&format!("DELETE /note/_doc/{id}?routing=ann"), "");
            }
            let found = service.get("POST /note/_search?routing=ann", "{}");
            for hit in found["hits"]["hits"].as_array().expect("hits") {
                let id = hit["_id"].as_str().expect("an id");
                service.get(&format!("DELETE /note/_doc/{id}?routing=ann"), "");
            }
            service.get("PUT /note/_doc/1?routing=ann", r#"{"title":"Hello there","stars":1}"#);
            let answer = brief(service.ask_as(caller, request, body));
            assert_eq!(answer, expected, "{who}: {request} {body}");
        }
    }
}

#[test]
fn values_have_the_types_of_the_schema() {
    let directory = directory();
    let service = service(&directory);
    let reason = |(status, answer): (u16, Value)| {
        let error = &answer["error"];
        match error.get("type").and_then(Value::as_str) {
            Some(kind) => format!("{status} {kind}: {}", error["reason"].as_str().unwrap_or_default()),
            None => format!("{status} {}", answer["result"].as_str().unwrap_or_default()),
        }
    };
    for (document, expected) in [
        (r#"{"stars":1,"title":"a","read":true,"score":1.5}"#, "201 created"),
        (r#"{"stars":"7"}"#, "201 created"),
        (r#"{"author":{"name":"b","age":3},"weights":{"x":2},"lines":["a","b"]}"#, "201 created"),
        (r#"{"vector":[1,2],"place":{"lat":1.5,"lng":2}}"#, "201 created"),
        ("{}", "201 created"),
        (r#"{"stars":"many"}"#, "400 document_parsing_exception: [1:"),
        (r#"{"stars":99999999999}"#, "400 document_parsing_exception: [1:"),
        (r#"{"read":"perhaps"}"#, "400 document_parsing_exception: [1:"),
        (r#"{"vector":[1]}"#, "400 document_parsing_exception: [1:"),
        (
            r#"{"new":1}"#,
            "400 strict_dynamic_mapping_exception: mapping set to strict, dynamic introduction of [new] within [_doc] is not allowed",
        ),
        (r#"{"shout":"x"}"#, "400 strict_dynamic_mapping_exception: mapping set to strict"),
        (r#"{"stars":1"#, "400 document_parsing_exception: failed to parse: "),
        ("[1]", "400 document_parsing_exception: failed to parse: a document is a JSON object"),
        // A second object would be a part of the operation around the document.
        (r#"{"stars":1},"condition":"x""#, "400 document_parsing_exception: failed to parse: "),
    ] {
        let answer = reason(service.ask("POST /note/_doc?routing=types", document));
        assert!(answer.starts_with(expected), "{document}: {answer}");
    }
    let item =
        |name: &str, value: &str| format!("{{\"index\":{{\"routing\":\"ann\"}}}}\n{{\"{name}\":{value}}}\n");
    let body = [item("stars", "1"), item("stars", "\"x\""), item("new", "1"), item("stars", "2")].concat();
    let answer = service.get("POST /note/_bulk", &body);
    let items = answer["items"].as_array().expect("items").iter();
    let statuses: Vec<_> = items.map(|item| item["index"]["status"].clone()).collect();
    assert_eq!(json!(statuses), json!([201, 400, 400, 201]), "an item that does not fit is refused alone");
    assert_eq!(service.get("GET /note/_count?routing=ann", "")["count"], 2);
}

#[test]
fn documents_are_found_and_shown_with_their_fields() {
    let directory = directory();
    let service = service(&directory);
    let document = json!({
        "title": "Hello there", "tag": "red", "stars": 3, "read": true, "score": 0.5,
        "author": { "name": "Ann", "age": 30 }, "weights": { "x": 2 }, "lines": ["one", "two"],
    });
    let made = service.get("PUT /note/_doc/1?routing=ann", &document.to_string());
    let stamp = made["_seq_no"].as_i64().expect("a number");
    assert_eq!(
        (&made["_version"], &made["_index"], &made["_id"]),
        (&json!(stamp), &json!("note"), &json!("1"))
    );
    let found = service.get("GET /note/_doc/1?routing=ann", "");
    assert_eq!(found["_source"], document);
    assert_eq!((&found["_routing"], &found["_seq_no"]), (&json!("ann"), &json!(stamp)));
    service.get("PUT /note/_doc/2?routing=ann", r#"{"title":"Bye","stars":5}"#);
    service.get("PUT /note/_doc/3?routing=bob", r#"{"title":"Hello bob","stars":7}"#);
    for (query, expected) in [
        (r#"{"match_all":{}}"#, "1 2"),
        (r#"{"match":{"title":"HELLO"}}"#, "1"),
        (r#"{"term":{"tag":"red"}}"#, "1"),
        (r#"{"range":{"stars":{"gte":4}}}"#, "2"),
        (r#"{"exists":{"field":"tag"}}"#, "1"),
        (r#"{"exists":{"field":"author.name"}}"#, "1"),
        (r#"{"exists":{"field":"weights.x"}}"#, "1"),
        (r#"{"exists":{"field":"shout"}}"#, ""),
        (r#"{"term":{"author.age":30}}"#, "1"),
        (r#"{"term":{"lines":"two"}}"#, "1"),
        (r#"{"ids":{"values":["2"]}}"#, "2"),
    ] {
        let body = format!("{{\"query\":{query},\"sort\":\"stars\"}}");
        let answer = service.get("POST /note/_search?routing=ann", &body);
        let hits = answer["hits"]["hits"].as_array().expect("hits");
        let ids: Vec<&str> = hits.iter().filter_map(|hit| hit["_id"].as_str()).collect();
        assert_eq!(ids.join(" "), expected, "{query}");
        for (id, hit) in ids.iter().zip(hits) {
            let whole = service.get(&format!("GET /note/_doc/{id}?routing=ann"), "");
            assert_eq!(hit["_source"], whole["_source"], "{query}");
        }
    }
    let of = |path: &str| service.get(path, "")["hits"]["total"]["value"].clone();
    assert_eq!(of("GET /note/_search?routing=ann,bob"), 3, "several groups");
    let sums = r#"{"size":0,"aggs":{"s":{"sum":{"field":"stars"}},"t":{"terms":{"field":"tag"}}}}"#;
    let answer = service.get("POST /note/_search?routing=ann", sums);
    assert_eq!(
        (&answer["aggregations"]["s"]["value"], &answer["aggregations"]["t"]["buckets"][0]["key"]),
        (&json!(8.0), &json!("red"))
    );

    // Parts of objects are merged, other values replaced; what nothing changes is not written.
    let update = r#"{"doc":{"author":{"age":31},"tag":null,"stars":3},"_source":true}"#;
    let updated = service.get("POST /note/_update/1?routing=ann", update);
    assert_eq!(updated["get"]["_source"]["author"], json!({ "name": "Ann", "age": 31 }));
    assert_eq!(updated["get"]["_seq_no"], updated["_seq_no"]);
    assert!(updated["get"]["_source"].get("tag").is_none(), "{updated}");
    assert!(updated["_seq_no"].as_i64() > Some(stamp), "{updated}");
    let stale = format!("PUT /note/_doc/1?routing=ann&if_primary_term=1&if_seq_no={stamp}");
    assert_eq!(service.ask(&stale, "{}").0, 409);
    let newest = format!("PUT /note/_doc/1?routing=ann&if_primary_term=1&if_seq_no={}", updated["_seq_no"]);
    assert_eq!(service.get(&newest, "{}")["result"], "updated");
}

#[test]
fn whole_ids_reach_documents_of_all_namespaces() {
    let directory = directory();
    let service = service(&directory);
    for (request, expected) in [
        ("PUT /note/_doc/id:mail:note:g=ann:1", "201 created"),
        ("GET /note/_doc/id:mail:note:g=ann:1", "200 true"),
        ("GET /note/_doc/id:mail:note:g=ann:1?routing=ann", "200 true"),
        ("GET /note/_doc/id:mail:note:g=ann:1?routing=bob", "400 illegal_argument_exception"),
        ("PUT /note/_doc/id:mail:note:n=7:1", "201 created"),
        ("GET /note/_count?routing=n=7", "200 1"),
        ("PUT /note/_doc/x?routing=n=7", "201 created"),
        ("GET /note/_count?routing=n=7", "200 2"),
        ("PUT /note/_doc/id:mail:note::1", "201 created"),
        ("GET /note/_doc/id:mail:note::1", "200 true"),
        ("GET /note/_doc/1?routing=ann", "404 false"),
        ("PUT /note/_doc/x?routing=a:b", "400 illegal_argument_exception"),
        ("PUT /note/_doc/x%0a?routing=ann", "400 illegal_argument_exception"),
        ("PUT /note/_doc/x?routing=ann&version=3&version_type=external", "400 illegal_argument_exception"),
        ("PUT /note/_doc/x?routing=full", "429 cluster_block_exception"),
        ("PUT /note/_doc/x?routing=busy", "429 es_rejected_execution_exception"),
        ("GET /note/_search?routing=busy", "429 es_rejected_execution_exception"),
        ("PUT /note/_doc/x?routing=crowded", "201 created"),
        ("GET /note/_search?routing=crowded", "429 es_rejected_execution_exception"),
        ("GET /note/_count?routing=ann,crowded", "429 es_rejected_execution_exception"),
    ] {
        let body = if request.starts_with("PUT") { "{\"stars\":1}" } else { "" };
        assert_eq!(brief(service.ask_as(caller(CallerGroups::All), request, body)), expected, "{request}");
    }
    let found = service.get("GET /note/_search?routing=ann,n=7", "");
    let hits = found["hits"]["hits"].as_array().expect("hits").iter();
    let mut shown: Vec<String> = hits.map(|hit| format!("{} {}", hit["_id"], hit["_routing"])).collect();
    shown.sort();
    assert_eq!(shown, [r#""id:mail:note:g=ann:1" "ann""#, r#""id:mail:note:n=7:1" "n=7""#, r#""x" "n=7""#]);
}

#[test]
fn types_are_changed_by_deployments_alone() {
    let directory = directory();
    let service = service(&directory);
    service.get("PUT /logs/_doc/1", r#"{"a":1}"#);
    for (request, body, expected) in [
        ("HEAD /note", "", "200"),
        ("PUT /note", "{}", "400 resource_already_exists_exception"),
        ("DELETE /note", "", "403 security_exception"),
        ("DELETE /no*", "", "403 security_exception"),
        ("DELETE /logs,note", "", "403 security_exception"),
        ("POST /_aliases", r#"{"actions":[{"remove_index":{"index":"note"}}]}"#, "403 security_exception"),
        ("PUT /note/_mapping", r#"{"properties":{"new":{"type":"long"}}}"#, "403 security_exception"),
        ("PUT /note/_mapping", r#"{"properties":{"stars":{"type":"integer"}}}"#, "200"),
        (
            "PUT /note/_mapping",
            r#"{"properties":{"stars":{"type":"text"}}}"#,
            "400 illegal_argument_exception",
        ),
        ("PUT /note/_settings", r#"{"index.refresh_interval":"-1"}"#, "403 security_exception"),
        ("POST /note/_close", "", "403 security_exception"),
        ("PUT /logs/_alias/note", "", "400 invalid_alias_name_exception"),
        ("POST /note/_refresh", "", "200"),
        ("GET /_cat/indices/note?format=json", "", "200"),
        ("GET /Page/_search", "", "200 1"),
        ("GET /*/_count", "", "200 1"),
    ] {
        if request.contains("Page") {
            service.get("PUT /Page/_doc/1?routing=ann", r#"{"title":"x"}"#);
        }
        assert_eq!(brief(service.ask(request, body)), expected, "{request}");
    }
    let fields = &service.get("GET /note/_mapping", "")["note"]["mappings"]["properties"];
    let mut types: Vec<String> = fields
        .as_object()
        .expect("fields")
        .iter()
        .map(|(name, field)| format!("{name}:{}", field["type"].as_str().unwrap_or("object")))
        .collect();
    types.sort();
    assert_eq!(
        types.join(" "),
        "author:object lines:text place:geo_point read:boolean score:double stars:integer tag:keyword title:text vector:object \
         weights:flattened"
    );
    let capabilities = service.get("GET /note/_field_caps?fields=stars", "");
    assert_eq!(capabilities["fields"]["stars"]["integer"]["type"], "integer");

    // Aliases are kept, with the groups that they name.
    service.get("PUT /note/_doc/1?routing=ann", r#"{"stars":1}"#);
    service.get("PUT /note/_alias/anns", r#"{"routing":"ann"}"#);
    assert_eq!(service.get("GET /anns/_count", "")["count"], 1);
    assert_eq!(service.get("PUT /anns/_doc/2", r#"{"stars":2}"#)["_index"], "note");
    drop(service);
    let service = TestService::open(&directory);
    assert_eq!(service.get("GET /anns/_search", "")["hits"]["total"]["value"], 2);
    assert_eq!(brief(service.ask_as(of_groups(&["bob"]), "GET /anns/_search", "")), "403 security_exception");
}

/// A caller of some groups reaches the documents of types, and nothing else.
#[test]
fn callers_of_groups_reach_types_alone() {
    let directory = directory();
    let service = service(&directory);
    service.get("PUT /logs/_doc/1", r#"{"ids":["1"]}"#);
    service.get("PUT /note/_doc/1?routing=ann", "{}");
    service.get("PUT /hidden", r#"{"settings":{"index.hidden":true}}"#);
    service.get("PUT /closed", "{}");
    service.get("POST /closed/_close", "");
    let lookup = r#"{"query":{"terms":{"stars":{"index":"logs","id":"1","path":"ids"}}}}"#;
    for (request, body, expected) in [
        ("GET /note/_mapping", "", "200"),
        ("GET /note/_field_caps?fields=*", "", "200"),
        ("GET /note/_search", "", "200 1"),
        ("GET /note/_mappings", "", "200"),
        ("GET /note/_settings", "", "200"),
        ("POST /note/_field_caps?fields=*", "", "200"),
        ("POST /note/_refresh", "", "200"),
        ("GET /", "", "200"),
        ("HEAD /", "", "200"),
        ("GET /_license", "", "200"),
        ("GET /note", "", "200"),
        ("HEAD /note", "", "200"),
        ("POST /note/_msearch", "{}\n{}\n", "200"),
        ("POST /_msearch", "{\"index\":\"note\"}\n{}\n", "200"),
        ("POST /_search/scroll", "{}", "400"),
        ("GET /_cat/indices", "", "403"),
        ("GET /logs", "", "403"),
        ("HEAD /logs", "", "403"),
        ("HEAD /nothing", "", "403"),
        ("GET /*", "", "403"),
        ("GET /note/_mapping/field/*", "", "200"),
        ("GET /note,hid*/_mapping?expand_wildcards=all", "", "403"),
        ("GET /note,hid*/_mapping/field/*?expand_wildcards=all", "", "403"),
        ("GET /note,clo*/_settings", "", "403"),
        ("GET /note/_alias", "", "403"),
        ("PUT /note/_block/write", "", "403"),
        ("POST /note/_rollover", "", "403"),
        ("POST /_index_template/_simulate_index/x", "", "403"),
        ("GET /note/_explain/1?q=*", "", "403"),
        ("GET /logs/_explain/1?q=*", "", "403"),
        ("POST /note/_terms_enum", "{\"field\":\"title\"}", "403"),
        ("GET /logs/_terms_enum", "", "403"),
        ("GET /_stats", "", "403"),
        ("GET /note/_stats", "", "403"),
        ("GET /_cluster/state", "", "403"),
        ("GET /_cluster/state/metadata/note", "", "403"),
        ("GET /_search/pipeline", "", "403"),
        ("PUT /_search/pipeline/p", "{}", "403"),
        ("DELETE /_search/pipeline/p", "", "403"),
        ("GET /logs/_settings", "", "403"),
        ("PUT /note/_settings", "{}", "403"),
        ("POST /logs/_refresh", "", "403"),
        ("POST /_refresh", "", "403"),
        ("DELETE /note", "", "403"),
        ("PUT /note", "{}", "403"),
        ("PUT /note/_mapping", "{}", "403"),
        ("PUT /note/_alias/x", "{}", "403"),
        ("GET /logs/_search", "", "403"),
        ("GET /_search", "", "403"),
        ("GET /note,logs/_search", "", "403"),
        ("GET /*/_search", "", "403"),
        ("GET /logs/_doc/1", "", "403"),
        ("PUT /logs/_doc/2", "{}", "403"),
        ("PUT /new/_doc/2", "{}", "403"),
        ("POST /logs/_bulk", "{\"index\":{}}\n{}\n", "403"),
        ("POST /_bulk", "{\"index\":{\"_index\":\"logs\"}}\n{}\n", "403 security_exception"),
        ("POST /_bulk", "{\"index\":{\"_index\":\"new\"}}\n{}\n", "403 security_exception"),
        ("POST /_mget", r#"{"docs":[{"_index":"logs","_id":"1"}]}"#, "200 security_exception"),
        ("POST /note/_mget", r#"{"docs":[{"_index":"logs","_id":"1"}]}"#, "200 security_exception"),
        ("POST /note/_search", lookup, "403 security_exception"),
    ] {
        let answer = brief(service.ask_as(of_groups(&["ann"]), request, body));
        assert!(answer.starts_with(expected), "{request} {body}: {answer}");
    }
    let search = "{}\n{}\n{\"index\":\"logs\"}\n{}\n{\"index\":[\"note\",\"logs\"]}\n{}\n{\"index\":\"*\"}\n{}\n{\"index\":\"note\",\"routing\":\"bob\"}\n{}\n";
    let (status, several) = service.ask_as(of_groups(&["ann"]), "POST /note/_msearch", search);
    let statuses: Vec<&Value> =
        several["responses"].as_array().expect("answers").iter().map(|answer| &answer["status"]).collect();
    assert_eq!(
        (status, statuses),
        (200, vec![&json!(200), &json!(403), &json!(403), &json!(403), &json!(403)]),
        "{several}"
    );
    service.get("PUT /note/_alias/bobs", r#"{"routing":"bob"}"#);
    let (_, shown) = service.ask_as(of_groups(&["ann"]), "GET /note", "");
    assert!(!shown.to_string().contains("bob"), "an alias tells of another group: {shown}");
    assert!(service.get("GET /note", "").to_string().contains("bobs"));
    assert_eq!(service.get("GET /logs/_count", "")["count"], 1);
    assert_eq!(service.ask("GET /new", "").0, 404, "nothing was made");
}

/// Scrolls are those of their caller, and one that has many does not keep others from theirs.
#[test]
fn scrolls_are_each_callers_own() {
    let directory = directory();
    let service = service(&directory);
    for name in ["1", "2", "3"] {
        service.get(&format!("PUT /note/_doc/{name}?routing=ann"), "{}");
    }
    service.get("PUT /note/_doc/1?routing=bob", "{}");
    let open = |groups: &[&str]| {
        let (status, answer) = service.ask_as(of_groups(groups), "POST /note/_search?scroll=1m&size=1", "{}");
        assert_eq!(status, 200, "{answer}");
        answer["_scroll_id"].as_str().expect("an id").to_owned()
    };
    let with = |id: &str| json!({ "scroll_id": id }).to_string();
    let next =
        |groups: &[&str], id: &str| service.ask_as(of_groups(groups), "POST /_search/scroll", &with(id)).0;
    let clear = |groups: &[&str], id: &str| {
        let (_, answer) = service.ask_as(of_groups(groups), "DELETE /_search/scroll", &with(id));
        answer["num_freed"].as_u64().expect("a number")
    };
    let (ann, bob) = (open(&["ann"]), open(&["bob"]));
    assert_eq!((next(&["ann"], &ann), next(&["bob"], &bob)), (200, 200));
    assert_eq!((next(&["bob"], &ann), next(&["ann"], &bob)), (404, 404), "scrolls of others");
    assert_eq!((clear(&["bob"], &ann), clear(&["bob"], "_all")), (0, 1), "what bob can free");
    assert_eq!((next(&["ann"], &ann), next(&["bob"], &bob)), (200, 404));
    assert_eq!(clear(&["ann"], &ann), 1);

    // One caller takes as many places as it leaves free; others get theirs, and none loses any.
    let taken: Vec<String> = (0..250).map(|_| open(&["ann"])).collect();
    let (status, answer) = service.ask_as(of_groups(&["ann"]), "POST /note/_search?scroll=1m&size=1", "{}");
    assert_eq!(status, 429, "{answer}");
    let bob = [open(&["bob"]), open(&["bob"])];
    let whole = service.get("POST /note/_search?scroll=1m&size=1&routing=ann", "{}");
    assert!(whole["_scroll_id"].is_string());
    assert!(bob.iter().all(|id| next(&["bob"], id) == 200));
    let left = taken.iter().filter(|id| next(&["ann"], id) == 200).count();
    assert_eq!(left, 250);
    let (status, _) = service.ask_as(of_groups(&["ann"]), "POST /note/_search?scroll=1m&size=1", "{}");
    assert_eq!(status, 429);
    assert_eq!(clear(&["ann"], "_all"), 250);
}

/// The searches of open scrolls have memory together, and a caller with long ones does not keep others from
/// theirs.
#[test]
fn searches_of_scrolls_take_memory() {
    let directory = directory();
    let service = service(&directory);
    service.get("PUT /note/_doc/1?routing=ann", "{}");
    let ids = vec!["x".repeat(1 << 20); 10];
    let long = json!({ "query": { "bool": { "must_not": { "ids": { "values": ids } } } } });
    let long = long.to_string();
    let open = |group: &str, body: &str| {
        let (status, answer) = service.ask_as(of_groups(&[group]), "POST /note/_search?scroll=1m", body);
        (status, answer["_scroll_id"].as_str().unwrap_or_default().to_owned())
    };
    let taken: Vec<(u16, String)> = (0..3).map(|_| open("ann", &long)).collect();
    assert!(taken.iter().all(|(status, _)| *status == 200));
    assert_eq!(open("ann", &long).0, 429, "it would have more than it leaves free");
    assert_eq!(open("ann", "{}").0, 200, "there is some for a short one");
    assert_eq!(open("bob", &long).0, 200, "there is memory for others");
    let next = |id: &str| {
        let body = json!({ "scroll_id": id }).to_string();
        service.ask_as(of_groups(&["ann"]), "POST /_search/scroll", &body).0
    };
    assert_eq!(taken.iter().filter(|(_, id)| next(id) == 200).count(), 3);
    assert_eq!(open("ann", &long).0, 429);
}

#[test]
fn searches_have_the_turns_of_the_groups_that_they_name() {
    let directory = directory();
    let service = service(&directory);
    let groups = |names: &[&str]| {
        let groups = names.iter().map(|name| DocumentGroup::Name((*name).to_owned()));
        Some(ViewScope::Groups(groups.collect()))
    };
    let (all, whole) = (|| caller(CallerGroups::All), Some(ViewScope::All));
    for (caller, request, expected) in [
        (all(), "POST /note/_search", whole.clone()),
        (all(), "POST /note/_search?routing=ann", groups(&["ann"])),
        (all(), "GET /note/_count?routing=ann,g=bob", groups(&["ann", "bob"])),
        (all(), "POST /note,Page/_search?routing=ann", groups(&["ann"])),
        (all(), "POST /note/_search?routing=", whole.clone()),
        // An index has documents of any group.
        (all(), "POST /orders/_search?routing=ann", whole.clone()),
        (all(), "POST /note,orders/_search?routing=ann", whole.clone()),
        (all(), "POST /_search?routing=ann", whole.clone()),
        // Each search of several has its own routing value.
        (all(), "POST /note/_msearch?routing=ann", whole.clone()),
        (of_groups(&["ann"]), "POST /note/_search", groups(&["ann"])),
        (of_groups(&["ann", "bob"]), "POST /note/_search?routing=bob", groups(&["bob"])),
        (all(), "PUT /note/_doc/1?routing=ann", None),
    ] {
        assert_eq!(service.search_scope(caller, request), expected, "{request}");
    }
}

/// In the tree, a value of two bytes takes many times its size.
#[test]
fn a_body_has_so_many_values() {
    let directory = tempfile::tempdir().expect("a directory");
    let service = service(&directory);
    let terms = |count: usize| {
        let values = vec!["1"; count].join(",");
        format!("{{\"query\":{{\"terms\":{{\"stars\":[{values}]}}}}}}")
    };
    let ids = |count: usize| format!("{{\"ids\":[{}]}}", vec!["\"1\""; count].join(","));
    let ask = |request: &str, body: &str| service.ask_as(caller(CallerGroups::All), request, body);
    for (request, few, many) in [
        ("POST /note/_search", terms(900), terms(1_001)),
        ("POST /note/_count", terms(900), terms(1_001)),
        ("POST /note/_mget", ids(900), ids(1_001)),
        ("POST /_msearch", format!("{{}}\n{}\n", terms(900)).repeat(3), format!("{{}}\n{}\n", terms(1_001))),
    ] {
        let (status, answer) = ask(request, &few);
        assert!(!answer.to_string().contains("query-values-max"), "{request}: {status} {answer}");
        let (status, answer) = ask(request, &many);
        assert_eq!(status, 400, "{request}: {answer}");
        assert!(answer.to_string().contains("query-values-max"), "{request}: {answer}");
    }
}
