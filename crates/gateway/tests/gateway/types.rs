//! Documents of types at Elasticsearch's interfaces of a cluster: a write has the outcome that it has on a
//! node that runs alone, whichever node is asked, and whichever owns the document.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hyper::Method;
use millrace_document::{Document, DocumentId, DocumentValue};
use millrace_elastic::{ElasticRequest, ElasticService};
use millrace_node::Node;
use millrace_schema::Application;
use serde_json::{Value, json};

use crate::support::applications::SERVICES;
use crate::support::{TestNodes, low_bits};

const NOTE: &str = "schema note { document note {
  field title type string { indexing: summary | index }
  field stars type int { indexing: summary | attribute }
  field a type int { indexing: summary | attribute }
  field b type int { indexing: summary | attribute }
  field c type int { indexing: summary | attribute }
  field d type int { indexing: summary | attribute }
} }";

const CONFLICT: &str = "409 version_conflict_engine_exception";
const MISSING: &str = "404 document_missing_exception";
const MISFIT: &str = "400 document_parsing_exception";
const UNKNOWN_FIELD: &str = "400 strict_dynamic_mapping_exception";
const VERSIONED: &str = "400 illegal_argument_exception";
const CONTRADICTORY: &str = "400 action_request_validation_exception";

/// Requests about the document `ID`, with their outcomes where it is stored and where it is not. `SEQ` stands
/// for the sequence number of the stored one, whose `stars` are 1.
const TABLE: &[(&str, &str, &str, &str)] = &[
    ("PUT /note/_doc/ID", r#"{"stars":2}"#, "200 updated", "201 created"),
    ("PUT /note/_doc/ID", r#"{"stars":"x"}"#, MISFIT, MISFIT),
    ("PUT /note/_doc/ID?op_type=create", r#"{"stars":2}"#, CONFLICT, "201 created"),
    ("PUT /note/_create/ID", r#"{"stars":2}"#, CONFLICT, "201 created"),
    (
        "PUT /note/_doc/ID?op_type=create&if_seq_no=SEQ&if_primary_term=1",
        r#"{"stars":2}"#,
        CONTRADICTORY,
        CONTRADICTORY,
    ),
    ("PUT /note/_doc/ID?if_seq_no=SEQ&if_primary_term=1", r#"{"stars":2}"#, "200 updated", CONFLICT),
    ("PUT /note/_doc/ID?if_seq_no=3&if_primary_term=1", r#"{"stars":2}"#, CONFLICT, CONFLICT),
    ("PUT /note/_doc/ID?if_seq_no=SEQ&if_primary_term=2", r#"{"stars":2}"#, CONFLICT, CONFLICT),
    ("PUT /note/_doc/ID?version=5&version_type=external", r#"{"stars":2}"#, VERSIONED, VERSIONED),
    ("DELETE /note/_doc/ID", "", "200 deleted", "404 not_found"),
    ("DELETE /note/_doc/ID?if_seq_no=SEQ&if_primary_term=1", "", "200 deleted", CONFLICT),
    ("DELETE /note/_doc/ID?if_seq_no=3&if_primary_term=1", "", CONFLICT, CONFLICT),
    ("DELETE /note/_doc/ID?if_seq_no=SEQ&if_primary_term=2", "", CONFLICT, CONFLICT),
    ("POST /note/_update/ID", r#"{"doc":{"stars":2}}"#, "200 updated", MISSING),
    ("POST /note/_update/ID?_source=true", r#"{"doc":{"stars":2}}"#, "200 updated", MISSING),
    ("POST /note/_update/ID?retry_on_conflict=3", r#"{"doc":{"stars":2}}"#, "200 updated", MISSING),
    ("POST /note/_update/ID", r#"{"doc":{"stars":1}}"#, "200 noop", MISSING),
    ("POST /note/_update/ID", r#"{"doc":{"stars":1},"detect_noop":false}"#, "200 updated", MISSING),
    ("POST /note/_update/ID", r#"{"doc":{"stars":2},"upsert":{"stars":3}}"#, "200 updated", "201 created"),
    ("POST /note/_update/ID", r#"{"doc":{"stars":2},"doc_as_upsert":true}"#, "200 updated", "201 created"),
    ("POST /note/_update/ID", r#"{"doc":{"stars":1},"doc_as_upsert":true}"#, "200 noop", "201 created"),
    ("POST /note/_update/ID", r#"{"doc":{"stars":"x"}}"#, MISFIT, MISSING),
    ("POST /note/_update/ID", r#"{"doc":{"other":1}}"#, UNKNOWN_FIELD, MISSING),
    (
        "POST /note/_update/ID?if_seq_no=SEQ&if_primary_term=1",
        r#"{"doc":{"stars":2}}"#,
        "200 updated",
        MISSING,
    ),
    ("POST /note/_update/ID?if_seq_no=3&if_primary_term=1", r#"{"doc":{"stars":2}}"#, CONFLICT, MISSING),
    (
        "POST /note/_update/ID?if_seq_no=3&if_primary_term=1",
        r#"{"doc":{"stars":2},"upsert":{"stars":3}}"#,
        CONTRADICTORY,
        CONTRADICTORY,
    ),
    ("POST /note/_bulk", "{\"index\":{\"_id\":\"ID\"}}\n{\"stars\":2}\n", "200 updated", "201 created"),
    ("POST /note/_bulk", "{\"create\":{\"_id\":\"ID\"}}\n{\"stars\":2}\n", CONFLICT, "201 created"),
    (
        "POST /note/_bulk",
        "{\"index\":{\"_id\":\"ID\",\"if_seq_no\":SEQ,\"if_primary_term\":1}}\n{\"stars\":2}\n",
        "200 updated",
        CONFLICT,
    ),
    ("POST /note/_bulk", "{\"delete\":{\"_id\":\"ID\"}}\n", "200 deleted", "404 not_found"),
    (
        "POST /note/_bulk",
        "{\"delete\":{\"_id\":\"ID\",\"if_seq_no\":3,\"if_primary_term\":1}}\n",
        CONFLICT,
        CONFLICT,
    ),
    ("POST /note/_bulk", "{\"update\":{\"_id\":\"ID\"}}\n{\"doc\":{\"stars\":2}}\n", "200 updated", MISSING),
    (
        "POST /note/_bulk",
        "{\"update\":{\"_id\":\"ID\",\"retry_on_conflict\":0}}\n{\"doc\":{\"stars\":2},\"doc_as_upsert\":true}\n",
        "200 updated",
        "201 created",
    ),
];

/// Status and answer to `METHOD PATH[?QUERY]`; the number chooses the node that is asked.
type Ask<'a> = &'a dyn Fn(usize, &str, &str) -> (u16, Value);

/// Status, and result or type of the error, of an answer or of the one item of a bulk; and that answer.
fn brief((status, answer): (u16, Value)) -> (String, Value) {
    let item = answer.pointer("/items/0").and_then(|item| item.as_object()?.values().next()).cloned();
    let (status, answer) = match item {
        Some(item) => (item["status"].to_string(), item),
        None => (status.to_string(), answer),
    };
    let shown = answer.pointer("/error/type").or(answer.pointer("/result")).and_then(Value::as_str);
    (format!("{status} {}", shown.unwrap_or_default()), answer)
}

/// The stored document, and its version.
fn stored(ask: Ask<'_>, number: usize, id: &str) -> Option<(Value, i64)> {
    let (status, answer) = ask(number, &format!("GET /note/_doc/{id}"), "");
    assert!(status == 200 || status == 404, "{answer}");
    let found = answer["found"] == true;
    found.then(|| (answer["_source"].clone(), answer["_version"].as_i64().expect("a version")))
}

/// Checks each operation of the table on a stored document and on none.
fn check_table(who: &str, ask: Ask<'_>, id: &str) {
    for (row, (request, body, where_stored, where_absent)) in TABLE.iter().enumerate() {
        for (is_stored, expected) in [(true, *where_stored), (false, *where_absent)] {
            let first = match is_stored {
                true => ask(row, &format!("PUT /note/_doc/{id}"), r#"{"title":"kept","stars":1}"#),
                false => ask(row, &format!("DELETE /note/_doc/{id}"), ""),
            };
            assert!([200, 201, 404].contains(&first.0), "{who}: {}", first.1);
            let before = stored(ask, row + 1, id);
            assert_eq!(before.is_some(), is_stored, "{who}");
            let version = before.as_ref().map_or(7, |(_, version)| *version);
            let filled = |text: &str| text.replace("ID", id).replace("SEQ", &version.to_string());
            let (shown, answer) = brief(ask(row + 2, &filled(request), &filled(body)));
            let context = format!("{who}: {request} {body}, stored: {is_stored}: {answer}");
            assert_eq!(shown, expected, "{context}");

            let after = stored(ask, row, id);
            let result = answer["result"].as_str().unwrap_or_default();
            if ["created", "updated"].contains(&result) {
                let (document, stored_version) = after.expect("it was written");
                assert!(!is_stored || stored_version > version, "{context}");
                for name in ["_version", "_seq_no"] {
                    assert_eq!(answer[name], json!(stored_version), "{name}: {context}");
                }
                assert_eq!(answer["_primary_term"], 1, "{context}");
                // Parts are merged into the stored document.
                let is_kept = document["title"] == "kept";
                assert_eq!(is_kept, is_stored && body.contains("\"doc\""), "{context}: {document}");
                if request.contains("_source=true") {
                    assert_eq!(answer["get"]["_source"], document, "{context}");
                    assert_eq!(answer["get"]["_seq_no"], stored_version, "{context}");
                }
            } else if ["deleted", "not_found"].contains(&result) {
                assert_eq!(after, None, "{context}");
            } else {
                assert_eq!(after, before, "{context}");
                assert!(result != "noop" || answer["_version"] == json!(version), "{context}");
            }
        }
    }
}

/// A group whose documents a node owns, of three.
fn group_of(owner: u32) -> String {
    let names = (0..).map(|number| format!("g{number}"));
    let mut owned = names.filter(|name| low_bits(name) % 16 % 3 == owner);
    owned.next().expect("each node owns groups")
}

/// The document `1` of a group.
fn id_in(group: &str) -> String {
    format!("id:note:note:g={group}:1")
}

fn ask_nodes(nodes: &TestNodes) -> impl Fn(usize, &str, &str) -> (u16, Value) {
    move |number: usize, request: &str, body: &str| {
        let (method, path) = request.split_once(' ').expect("a request has a method and a path");
        let method: Method = method.parse().expect("a method");
        nodes.call(number % 3, method, &format!("/elastic{path}"), body)
    }
}

#[test]
fn writes_on_a_node_that_runs_alone_have_their_outcomes() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let node = Node::open(millrace_node::Settings::new(directory.path().join("data"))).expect("a node");
    let files = [("services.xml", SERVICES), ("schemas/note.sd", NOTE)];
    let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    let application = Application::from_files(files.into_iter().collect()).expect("an application");
    node.deploy(application).expect("it is deployed");
    let service = ElasticService::new(Arc::clone(&node));
    let ask = |_: usize, request: &str, body: &str| {
        let (method, target) = request.split_once(' ').expect("a request has a method and a path");
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let answer = service.answer(&ElasticRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            body: body.as_bytes().to_vec(),
            ..ElasticRequest::default()
        });
        (answer.status, serde_json::from_slice(&answer.body).expect("the answer is JSON"))
    };
    for id in [id_in("ann"), "id:note:note::1".to_owned()] {
        check_table(&format!("alone, {id}"), &ask, &id);
    }
    node.close();
}

#[test]
fn writes_in_a_cluster_have_the_same_outcomes() {
    let nodes = TestNodes::start(3, NOTE);
    let ask = ask_nodes(&nodes);
    for owner in 0..3 {
        let id = id_in(&group_of(owner));
        check_table(&format!("owner {owner}, {id}"), &ask, &id);
    }
    check_table("no group", &ask, "id:note:note::1");
    nodes.divide("large", 2);
    for name in ["1", "2", "3"] {
        let id = format!("id:note:note:g=large:{name}");
        check_table(&format!("divided, {id}"), &ask, &id);
    }
}

#[test]
fn a_bulk_goes_to_all_owners_and_keeps_the_order_of_a_document() {
    let nodes = TestNodes::start(3, NOTE);
    let ask = ask_nodes(&nodes);
    let groups = [0, 1, 2].map(group_of);
    let line = |action: &str, group: &str, more: &str, document: &str| {
        format!("{{\"{action}\":{{\"_index\":\"note\",\"routing\":\"{group}\"{more}}}}}\n{document}")
    };
    for turn in 0..3 {
        let (one, two, three) = (&groups[turn % 3], &groups[(turn + 1) % 3], &groups[(turn + 2) % 3]);
        let id = format!(",\"_id\":\"turn{turn}\"");
        let body = [
            line("index", one, &id, "{\"stars\":1}\n"),
            line("create", two, &id, "{\"stars\":1}\n"),
            line("create", one, &id, "{\"stars\":2}\n"),
            line("update", one, &id, "{\"doc\":{\"a\":3}}\n"),
            line("delete", two, &id, ""),
            line("update", one, &id, "{\"doc\":{\"b\":4}}\n"),
            line("create", two, &id, "{\"stars\":5}\n"),
            line("update", three, &id, "{\"doc\":{\"a\":1}}\n"),
            line("index", three, "", "{\"stars\":6}\n"),
            line("index", three, &id, "{\"stars\":\"x\"}\n"),
        ]
        .concat();
        let (status, answer) = ask(turn, "POST /_bulk", &body);
        assert_eq!(status, 200, "{answer}");
        let items = answer["items"].as_array().expect("items").iter();
        let statuses: Vec<u64> =
            items.filter_map(|item| item.as_object()?.values().next()?["status"].as_u64()).collect();
        assert_eq!(statuses, [201, 201, 409, 200, 200, 200, 201, 404, 201, 400], "{answer}");
        let document = |group: &str| {
            ask(turn, &format!("GET /note/_doc/turn{turn}?routing={group}"), "").1["_source"].clone()
        };
        assert_eq!(document(one), json!({ "stars": 1, "a": 3, "b": 4 }));
        assert_eq!(document(two), json!({ "stars": 5 }));
    }
    let (_, found) = ask(0, &format!("GET /note/_count?routing={}", groups.join(",")), "");
    assert_eq!(found["count"], 9, "three documents of each bulk: {found}");
}

#[test]
fn updates_go_on_from_what_came_between() {
    let nodes = TestNodes::start(3, NOTE);
    let ask = ask_nodes(&nodes);
    for owner in 0..3 {
        let group = group_of(owner);
        let id = DocumentId::parse(&id_in(&group)).expect("an id");
        let written = |stars: i32| {
            let fields = vec![(Arc::from("stars"), DocumentValue::Int(stars))];
            vec![Document { id: id.clone(), fields }]
        };
        for (retries, between, expected) in [
            ("", 0, "200 updated"),
            ("", 1, "200 updated"),
            ("", 3, "200 updated"),
            ("&retry_on_conflict=0", 0, "200 updated"),
            ("&retry_on_conflict=0", 1, CONFLICT),
            ("&retry_on_conflict=1", 1, "200 updated"),
            ("&retry_on_conflict=1", 2, CONFLICT),
            ("&if_primary_term=1&if_seq_no=SEQ", 0, "200 updated"),
            ("&if_primary_term=1&if_seq_no=SEQ", 1, CONFLICT),
        ] {
            let (_, first) = ask(0, &format!("PUT /note/_doc/1?routing={group}"), r#"{"stars":0}"#);
            // The owner shows the document before any of these comes.
            let meanwhile = (1..=between).map(written);
            *nodes.world.before_modify.lock() = std::iter::once(Vec::new()).chain(meanwhile).collect();
            let update = format!("POST /note/_update/1?routing={group}{retries}");
            let update = update.replace("SEQ", &first["_seq_no"].to_string());
            let (shown, answer) = brief(ask(1, &update, r#"{"doc":{"a":7}}"#));
            assert_eq!(shown, expected, "{retries}, {between}: {answer}");
            let (_, found) = ask(2, &format!("GET /note/_doc/1?routing={group}"), "");
            let document = match expected == CONFLICT {
                true => json!({ "stars": between }),
                false => json!({ "stars": between, "a": 7 }),
            };
            assert_eq!(found["_source"], document, "{retries}, {between}: nothing is lost");
            nodes.world.before_modify.lock().clear();
        }
    }
}

#[test]
fn updates_of_many_at_once_are_all_kept() {
    let nodes = TestNodes::start(3, NOTE);
    let ask = ask_nodes(&nodes);
    let group = group_of(2);
    std::thread::scope(|scope| {
        for (node, field) in ["a", "b", "c", "d"].iter().enumerate() {
            let (ask, group) = (&ask, &group);
            scope.spawn(move || {
                for number in 1..=10 {
                    let body = format!("{{\"doc\":{{\"{field}\":{number}}},\"doc_as_upsert\":true}}");
                    let (status, answer) = ask(node, &format!("POST /note/_update/1?routing={group}"), &body);
                    assert!([200, 201].contains(&status), "{answer}");
                }
            });
        }
    });
    let (_, found) = ask(0, &format!("GET /note/_doc/1?routing={group}"), "");
    assert_eq!(found["_source"], json!({ "a": 10, "b": 10, "c": 10, "d": 10 }));
}

#[test]
fn a_write_that_an_owner_does_not_take_on_is_tried_again() {
    let nodes = TestNodes::start(3, NOTE);
    let ask = ask_nodes(&nodes);
    for owner in 0..3 {
        let path = format!("/note/_doc/1?routing={}", group_of(owner));
        nodes.world.refusals.store(2, Ordering::SeqCst);
        assert_eq!(brief(ask(0, &format!("PUT {path}"), r#"{"stars":1}"#)).0, "201 created", "{owner}");
        assert_eq!(nodes.world.refusals.load(Ordering::SeqCst), 0, "it was refused before");
    }
}

#[test]
fn a_write_whose_owner_is_silent_has_an_unknown_outcome() {
    let nodes = TestNodes::start(3, NOTE);
    let ask = ask_nodes(&nodes);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    nodes.world.addresses.lock()[2] = silent.local_addr().expect("it is bound").to_string();
    let line = |owner: u32| {
        let group = group_of(owner);
        format!("{{\"index\":{{\"_id\":\"1\",\"routing\":\"{group}\"}}}}\n{{\"stars\":1}}\n")
    };
    let (status, answer) = ask(0, "POST /note/_bulk?timeout=2m", &[0, 1, 2].map(line).concat());
    assert_eq!(status, 200, "{answer}");
    let item = |at: usize| answer["items"][at]["index"].clone();
    assert_eq!([0, 1, 2].map(|at| item(at)["status"].clone()), [json!(201), json!(201), json!(503)]);
    let reason = item(2)["error"]["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.contains("is not known"), "the write is not sent again: {reason}");
}

#[test]
fn nodes_of_earlier_versions_get_no_changes_from_others() {
    let nodes = TestNodes::start(3, NOTE);
    let ask = ask_nodes(&nodes);
    let put = |owner: u32| {
        let path = format!("PUT /note/_doc/1?routing={}", group_of(owner));
        ask(0, &path, r#"{"stars":1}"#)
    };
    nodes.world.protocol.store(2, Ordering::SeqCst);
    // The node that answers requests of these interfaces is an owner, too.
    assert_eq!(brief(put(1)).0, "201 created");
    let (status, answer) = put(2);
    let reason = answer["error"]["reason"].as_str().unwrap_or_default();
    assert!(status == 503 && reason.contains("protocol 3"), "shippers repeat the write: {status} {answer}");
    nodes.world.protocol.store(3, Ordering::SeqCst);
    assert_eq!(brief(put(2)).0, "201 created");
}

#[test]
fn the_owner_counts_the_sizes_of_groups() {
    let nodes = TestNodes::start_with(3, NOTE, &|settings| settings.group_documents_max = Some(2));
    let ask = ask_nodes(&nodes);
    for owner in 0..3 {
        let group = group_of(owner);
        let call = |method: &str, name: &str| {
            let body = if method == "PUT" { r#"{"stars":1}"# } else { "" };
            brief(ask(name.len(), &format!("{method} /note/_doc/{name}?routing={group}"), body)).0
        };
        assert_eq!([call("PUT", "1"), call("PUT", "2")], ["201 created", "201 created"], "{owner}");
        assert_eq!(call("PUT", "3"), "429 cluster_block_exception", "{owner}");
        // By the other interface, the owner says the same.
        let path = format!("/document/v1/note/note/group/{group}/4");
        let (status, answer) = nodes.call(0, Method::POST, &path, r#"{"fields":{"stars":1}}"#);
        assert_eq!(status, 507, "{answer}");
        assert_eq!(call("DELETE", "1"), "200 deleted", "{owner}");
        assert_eq!(call("PUT", "3"), "201 created", "removals make room");
    }
}
