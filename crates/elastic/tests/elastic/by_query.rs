//! Writes of the documents that a query finds: removals, documents that are written again, and copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use millrace_access::{AccessRight, CallerGroups};
use millrace_elastic::RewriteAdmission;
use millrace_store::WriterId;
use serde_json::{Value, json};

use crate::service_support::{TestService, caller, caller_with, counted, directory, of_groups};
use crate::types;

/// Writes documents `{"n": N, "k": N % 5}` with the ids N; every fifth has a routing value.
#[track_caller]
fn fill(service: &TestService, index: &str, count: usize) {
    let line = |n: usize| {
        let action = match n % 5 {
            0 => json!({ "index": { "_index": index, "_id": n.to_string(), "routing": "r" } }),
            _ => json!({ "index": { "_index": index, "_id": n.to_string() } }),
        };
        format!("{action}\n{}\n", json!({ "n": n, "k": n % 5 }))
    };
    let answer = service.get("POST /_bulk", &(0..count).map(line).collect::<String>());
    assert_eq!(answer["errors"], false, "{answer}");
}

fn count(service: &TestService, target: &str) -> u64 {
    service.get(&format!("GET /{target}"), "")["count"].as_u64().expect("a number")
}

/// The numbers of an answer that are named.
fn numbers<const N: usize>(answer: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| answer[name].as_u64().unwrap_or_else(|| panic!("{name}: {answer}")))
}

#[test]
fn the_documents_of_all_pages_are_removed() {
    let directory = directory();
    let service = TestService::open(&directory);
    fill(&service, "a", 2_500);
    fill(&service, "b", 10);
    let body = json!({ "query": { "range": { "n": { "lt": 2_200 } } } }).to_string();
    let answer = service.get("POST /a,b/_delete_by_query?refresh=true", &body);
    let names = ["total", "deleted", "batches", "version_conflicts", "created", "updated"];
    assert_eq!(numbers(&answer, names), [2_210, 2_210, 3, 0, 0, 0], "{answer}");
    assert_eq!((&answer["failures"], &answer["timed_out"]), (&json!([]), &json!(false)));
    assert_eq!((count(&service, "a/_count"), count(&service, "b/_count")), (300, 0));
    let answer = service.get("POST /a/_delete_by_query?q=k:3&max_docs=7", "");
    assert_eq!(numbers(&answer, ["total", "deleted"]), [7, 7]);
    assert_eq!(count(&service, "a/_count?q=k:3"), 53);
    let answer = service.get("POST /a/_delete_by_query", r#"{"query":{"match_none":{}}}"#);
    assert_eq!(numbers(&answer, ["total", "deleted", "batches"]), [0, 0, 0]);
    // The filter of an alias is part of the query.
    service.get("PUT /a/_alias/ones", r#"{"filter":{"term":{"k":1}}}"#);
    service.get("POST /ones/_delete_by_query", r#"{"query":{"match_all":{}}}"#);
    assert_eq!((count(&service, "a/_count?q=k:1"), count(&service, "a/_count")), (0, 233));
}

#[test]
fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let directory = directory();
    let service = TestService::open(&directory);
    fill(&service, "a", 10);
    let logs = json!({
        "index_patterns": ["logs-*"], "data_stream": {}, "template": { "settings": { "index.mode": "logsdb" } },
    });
    service.get("PUT /_index_template/logs", &logs.to_string());
    service.get("POST /logs-a/_doc", r#"{"@timestamp":"2024-05-06"}"#);
    let all = r#"{"query":{"match_all":{}}}"#;
    for (request, body, expected) in [
        ("POST /a/_delete_by_query", "", "query is missing"),
        ("POST /a/_delete_by_query", r#"{"query":{"match_all":{}},"script":{}}"#, "[script] in the body"),
        ("POST /a/_delete_by_query?conflicts=ask", all, "but was [ask]"),
        ("POST /a/_delete_by_query?max_docs=0", all, "[max_docs] must be greater than 0"),
        ("POST /a/_delete_by_query?wait_for_completion=false", all, "a task that goes on"),
        ("POST /a/_delete_by_query?requests_per_second=5", all, "requests_per_second"),
        ("POST /a/_delete_by_query?what=5", all, "unrecognized parameter: [what]"),
        ("POST /logs-a/_delete_by_query", all, "never changed"),
        ("POST /a/_update_by_query", r#"{"script":{"source":"x"}}"#, "[x] is not supported"),
        ("POST /_reindex", r#"{"source":{"index":"a"}}"#, "[dest] is missing"),
        ("POST /_reindex", r#"{"source":{},"dest":{"index":"b"}}"#, "use _all"),
        ("POST /_reindex", r#"{"source":{"index":"a"},"dest":{}}"#, "index is missing"),
        ("POST /_reindex", r#"{"source":{"index":"a","remote":{}},"dest":{"index":"b"}}"#, "[remote]"),
        ("POST /_reindex", r#"{"source":{"index":"a","_source":false},"dest":{"index":"b"}}"#, "[_source]"),
        ("POST /_reindex", r#"{"source":{"index":"a"},"dest":{"index":"b","routing":"x"}}"#, "routing must"),
        ("POST /_reindex", r#"{"source":{"index":"a"},"dest":{"index":"b","pipeline":"p"}}"#, "pipeline"),
        ("POST /_reindex", r#"{"source":{"index":"a"},"dest":{"index":"a"}}"#, "cannot write into an index"),
    ] {
        let (status, answer) = service.ask(request, body);
        assert_eq!(status, 400, "{request} {body}: {answer}");
        let reason = answer["error"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(expected), "{request} {body}: {answer}");
    }
    assert_eq!((count(&service, "a/_count"), count(&service, "logs-a/_count")), (10, 1));
    assert_eq!(service.ask("HEAD /b", "").0, 404);
}

#[test]
fn documents_are_copied_to_another_index() {
    let directory = directory();
    let service = TestService::open(&directory);
    fill(&service, "a", 1_100);
    service.get("PUT /a/_doc/1", r#"{"n":1,"k":1}"#);
    let whole = r#"{"source":{"index":"a"},"dest":{"index":"b","version_type":"external"}}"#;
    let answer = service.get("POST /_reindex?refresh=true", whole);
    assert_eq!(
        numbers(&answer, ["total", "created", "updated", "batches"]),
        [1_100, 1_100, 0, 2],
        "{answer}"
    );
    let copy = service.get("GET /b/_doc/1", "");
    assert_eq!((&copy["_version"], &copy["_source"]), (&json!(2), &json!({ "n": 1, "k": 1 })));
    assert_eq!(service.get("GET /b/_doc/5?routing=r", "")["_routing"], "r");

    let parts = r#"{"source":{"index":["a"],"query":{"term":{"k":0}},"_source":["n"]},
        "dest":{"index":"c","routing":"=x"},"max_docs":100}"#;
    let answer = service.get("POST /_reindex", parts);
    assert_eq!(numbers(&answer, ["total", "created"]), [100, 100], "{answer}");
    let answer = service.get("GET /c/_search?routing=x&size=1&track_total_hits=true", "");
    assert_eq!(answer["hits"]["total"]["value"], 100);
    let hit = &answer["hits"]["hits"][0];
    assert_eq!((&hit["_routing"], hit["_source"].get("k")), (&json!("x"), None), "{hit}");

    // What is there already is a conflict.
    service.get("PUT /d/_doc/3", "{}");
    let create = |conflicts: &str| {
        format!(
            r#"{{"source":{{"index":"a","query":{{"range":{{"n":{{"lt":9}}}}}}}},
            "dest":{{"index":"d","op_type":"create"}},"conflicts":"{conflicts}"}}"#
        )
    };
    let (status, answer) = service.ask("POST /_reindex", &create("abort"));
    assert_eq!((status, numbers(&answer, ["version_conflicts", "created"])), (409, [1, 8]), "{answer}");
    let failure = &answer["failures"][0];
    assert_eq!(
        (&failure["index"], &failure["id"], &failure["status"], &failure["cause"]["type"]),
        (&json!("d"), &json!("3"), &json!(409), &json!("version_conflict_engine_exception"))
    );
    let (status, answer) = service.ask("POST /_reindex", &create("proceed"));
    assert_eq!((status, numbers(&answer, ["version_conflicts", "total"])), (200, [9, 9]), "{answer}");
}

#[test]
fn documents_are_written_again_by_the_mapping_as_it_is() {
    let directory = directory();
    let service = TestService::open(&directory);
    fill(&service, "a", 20);
    let answer = service.get("POST /a/_update_by_query?conflicts=proceed", r#"{"query":{"term":{"k":2}}}"#);
    assert_eq!(numbers(&answer, ["total", "updated", "version_conflicts"]), [4, 4, 0], "{answer}");
    let version = |id: &str| service.get(&format!("GET /a/_doc/{id}"), "")["_version"].clone();
    assert_eq!((version("2"), version("3")), (json!(2), json!(1)));
    assert_eq!(service.get("GET /a/_doc/7", "")["_source"], json!({ "n": 7, "k": 2 }));
}

#[test]
fn documents_of_types_are_changed_by_their_groups() {
    let directory = directory();
    let service = types::service(&directory);
    for (group, ids) in [("ann", ["1", "2"]), ("bob", ["1", "3"])] {
        for id in ids {
            service.get(&format!("PUT /note/_doc/{id}?routing={group}"), r#"{"title":"Hello","stars":1}"#);
        }
    }
    let of_ann = "GET /note/_doc/2?routing=ann";
    let before = service.get(of_ann, "")["_seq_no"].as_i64();
    let answer = service.get("POST /note/_update_by_query?routing=ann", "");
    assert_eq!(numbers(&answer, ["total", "updated"]), [2, 2], "{answer}");
    assert!(service.get(of_ann, "")["_seq_no"].as_i64() > before, "the numbers of a document ascend");
    let all = r#"{"query":{"match":{"title":"hello"}}}"#;
    let answer = service.get("POST /note/_delete_by_query?routing=ann", all);
    assert_eq!(numbers(&answer, ["total", "deleted"]), [2, 2], "{answer}");
    assert_eq!(
        (count(&service, "note/_count?routing=ann"), count(&service, "note/_count?routing=bob")),
        (0, 2)
    );
    service.get("PUT /plain/_doc/9", r#"{"title":"Copied"}"#);
    let copy = r#"{"source":{"index":"plain"},"dest":{"index":"note","routing":"=ann"}}"#;
    assert_eq!(numbers(&service.get("POST /_reindex", copy), ["created"]), [1]);
    assert_eq!(service.get("GET /note/_doc/9?routing=ann", "")["_source"]["title"], "Copied");
    // Without a group, the copy has no place.
    let (status, answer) = service.ask("POST /_reindex", &copy.replace(r#","routing":"=ann""#, ""));
    assert_eq!(status, 400, "{answer}");
    assert_eq!(answer["failures"][0]["cause"]["type"], "routing_missing_exception");
}

#[test]
fn both_rights_and_all_groups_are_needed() {
    let directory = directory();
    let service = types::service(&directory);
    fill(&service, "a", 3);
    let body = r#"{"query":{"match_all":{}}}"#;
    let copy = r#"{"source":{"index":"a"},"dest":{"index":"b"}}"#;
    let blind = || caller_with(CallerGroups::All, vec![AccessRight::Write].into());
    for (request, body) in
        [("POST /a/_delete_by_query", body), ("POST /a/_update_by_query", body), ("POST /_reindex", copy)]
    {
        for (who, caller) in [("cannot read", blind()), ("one group", of_groups(&["ann"]))] {
            let (status, answer) = service.ask_as(caller, request, body);
            assert_eq!(status, 403, "{who}: {request}: {answer}");
        }
    }
    assert_eq!(count(&service, "a/_count"), 3);
    let (status, answer) = service.ask_as(caller(CallerGroups::All), "POST /a/_delete_by_query", body);
    assert_eq!((status, &answer["deleted"]), (200, &json!(3)), "{answer}");
}

/// Counter of a caller that owes what it has written, until it is let off.
#[derive(Default)]
struct OwedBytes {
    bytes: AtomicUsize,
    is_let_off: AtomicBool,
    /// Number of waits that were not over.
    waits: AtomicUsize,
}

impl RewriteAdmission for OwedBytes {
    fn admit(&self, _: usize, _: usize) -> Result<(), millrace_node::Error> {
        Ok(())
    }

    fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }

    fn wait(&self) -> Duration {
        if self.bytes.load(Ordering::SeqCst) == 0 || self.is_let_off.load(Ordering::SeqCst) {
            return Duration::ZERO;
        }
        self.waits.fetch_add(1, Ordering::SeqCst);
        Duration::from_millis(1)
    }
}

#[test]
fn one_request_of_a_client_waits_for_its_allowance() {
    let directory = directory();
    let service = TestService::open(&directory);
    fill(&service, "a", 1_001);
    fill(&service, "b", 10);
    let ask = |client: WriterId, owed: &Arc<OwedBytes>, request: &str, body: &str| {
        let caller = counted(Arc::<OwedBytes>::clone(owed)).by_client(client);
        service.ask_as(caller, request, body)
    };
    let copy = r#"{"source":{"index":"b"},"dest":{"index":"c"}}"#;
    let (one, other) = (WriterId(u64::MAX), WriterId(u64::MAX - 1));
    let [owed, owed_by_other] = [(); 2].map(|()| Arc::<OwedBytes>::default());
    owed_by_other.count(1);
    // The first look is before its turn, and the second in it.
    let until_waiting = |owed: &OwedBytes| {
        while owed.waits.load(Ordering::SeqCst) < 2 {
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(one, &owed, "POST /a/_update_by_query", "{}"));
        until_waiting(&owed);
        let refused = ask(one, &owed, "POST /_reindex", copy);
        let removal = r#"{"query":{"term":{"n":3}}}"#;
        let removed = ask(one, &owed, "POST /b/_delete_by_query?refresh=true", removal);
        let copying = scope.spawn(|| ask(other, &owed_by_other, "POST /_reindex", copy));
        until_waiting(&owed_by_other);
        for owed in [&owed, &owed_by_other] {
            owed.is_let_off.store(true, Ordering::SeqCst);
        }
        let [updated, copied] = [waiting, copying].map(|request| request.join().expect("it is answered"));
        assert_eq!(refused.0, 429, "its first request waits before the second page: {}", refused.1);
        assert_eq!((removed.0, &removed.1["deleted"]), (200, &json!(1)), "removals make room: {}", removed.1);
        assert_eq!((copied.0, &copied.1["created"]), (200, &json!(9)), "another client: {}", copied.1);
        assert_eq!(updated.0, 200, "{}", updated.1);
        assert_eq!(numbers(&updated.1, ["total", "batches"]), [1_001, 2], "{}", updated.1);
        let (status, answer) = ask(one, &owed, "POST /_reindex", copy);
        assert_eq!(status, 200, "its turn has ended: {answer}");
    });
}

#[test]
fn sequence_numbers_of_a_document_of_a_type_ascend() {
    let directory = directory();
    let service = types::service(&directory);
    let mut last = 0;
    let mut check = |request: &str, body: &str| {
        let answer = service.get(request, body);
        let item = answer.pointer("/items/0/index").unwrap_or(&answer);
        let seq_no = item["_seq_no"].as_i64().expect("a number");
        assert!(seq_no > last, "{request}: {answer}");
        last = seq_no;
    };
    check("PUT /note/_doc/1?routing=ann", "{}");
    check("PUT /note/_doc/1?routing=ann", "{}");
    check("POST /note/_update/1?routing=ann", r#"{"doc":{"stars":2}}"#);
    check("DELETE /note/_doc/1?routing=ann", "");
    check("PUT /note/_doc/1?routing=ann", "{}");
    let bulk = "{\"index\":{\"_id\":\"1\",\"routing\":\"ann\"}}\n{\"stars\":5}\n";
    check("POST /note/_bulk", bulk);
    let condition = format!("if_primary_term=1&if_seq_no={last}");
    let found = service.get("GET /note/_doc/1?routing=ann", "");
    assert_eq!(found["_seq_no"], last, "a read shows the number of the last write");
    service.get(&format!("PUT /note/_doc/1?routing=ann&{condition}"), "{}");
    assert_eq!(service.ask(&format!("PUT /note/_doc/1?routing=ann&{condition}"), "{}").0, 409);
}
