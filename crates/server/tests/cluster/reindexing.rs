//! Stored documents are processed again by changed indexing statements, by the owners of their buckets: while
//! clients write, and across the loss of a node.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Method;
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use serde_json::{Value, json};

use crate::nodes::{TestEtcd, are_ideal, count, node, services, until};
use crate::support::{NOTE, TestServer};

const APPLICATION: &str = "/application/v2/tenant/default/application/default";

/// Documents of a group that is divided: more than the minimum of `bucket-splitting`.
const LARGE: u32 = 1300;

/// Documents of twenty other groups.
const OTHERS: u32 = 200;

/// The test schema, with a field that indexing statements compute.
fn shouting(word: &str) -> String {
    let field = format!(
        "field shout type string {{ indexing: input title . \" {word}\" | summary | index }}\n fieldset default"
    );
    NOTE.replace("fieldset default", &field)
}

fn deploy(server: &TestServer, schema: &str) {
    let services = services(2)
        .replace("</content>", "<tuning><bucket-splitting max-documents='1024'/></tuning></content>");
    let files = [("services.xml", &*services), ("schemas/note.sd", schema)];
    until("deployed", &200, || server.deploy(&files).0);
}

fn group_of(number: u32) -> u32 {
    if number < LARGE { 0 } else { 1 + number % 20 }
}

/// Feeds all documents.
fn feed(server: &TestServer) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let line = |number: u32| {
        let id = format!("id:notes:note:g=g{}:{number}", group_of(number));
        json!({ "put": id, "fields": { "title": format!("first {number}"), "stars": 0 } }).to_string()
    };
    let lines: Vec<String> = (0..LARGE + OTHERS).map(line).collect();
    let path = directory.path().join("all.jsonl");
    std::fs::write(&path, lines.join("\n")).expect("it can be written");
    let fed = server.millrace(&["feed", path.to_str().expect("a path")]);
    assert!(fed.status.success(), "{}", String::from_utf8_lossy(&fed.stderr));
}

/// Reindexing status of the type.
fn status(server: &TestServer) -> Value {
    let (code, answer) = server.config(Method::GET, &format!("{APPLICATION}/reindexing"));
    assert_eq!((code, &answer["enabled"]), (200, &json!(true)), "{answer}");
    answer["clusters"]["notes"].clone()
}

fn state(server: &TestServer) -> String {
    status(server)["ready"]["note"]["state"].as_str().unwrap_or("none").to_owned()
}

fn reindex(server: &TestServer, method: Method, parameters: &str) {
    let (code, answer) = server.config(method, &format!("{APPLICATION}/reindex{parameters}"));
    assert_eq!(code, 200, "{answer}");
}

/// All documents by their ids, as one node returns them.
fn documents(server: &TestServer) -> BTreeMap<String, Value> {
    let (mut found, mut next) = (BTreeMap::new(), String::new());
    loop {
        let path = format!(
            "/document/v1/?cluster=notes&wantedDocumentCount=1024&fieldSet=%5Ball%5D&timeout=120s{next}"
        );
        let (code, answer) = server.get(&path);
        assert_eq!(code, 200, "{answer}");
        for document in answer["documents"].as_array().into_iter().flatten() {
            let id = document["id"].as_str().unwrap_or_default().to_owned();
            found.insert(id, document["fields"].clone());
        }
        match answer["continuation"].as_str() {
            Some(token) => next = format!("&continuation={token}"),
            None => return found,
        }
    }
}

/// Writes as fast as possible until stopped: titles, and increments that reveal a lost one. Returns the last
/// acknowledged write of each document, and the writes sent after that, which may have been applied.
fn write(url: &str, stop: &AtomicBool) -> BTreeMap<u32, (Option<String>, Vec<String>, u32, u32)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let client = NodeClient::new(url, HttpProtocol::Http1).expect("an address");
    let mut known: BTreeMap<u32, (Option<String>, Vec<String>, u32, u32)> = BTreeMap::new();
    for round in 0_u32.. {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let number = round.wrapping_mul(7919) % (LARGE + OTHERS);
        let title = format!("written {round}");
        let body = json!({ "fields": { "title": { "assign": title }, "stars": { "increment": 1 } } });
        let path = format!("/document/v1/notes/note/group/g{}/{number}?timeout=20s", group_of(number));
        let request = OutgoingRequest::new(Method::PUT, &path).body("application/json", body.to_string());
        let answer = runtime.block_on(client.send(request));
        let (sure, perhaps, least, most) = known.entry(number).or_default();
        *most += 1;
        if answer.is_ok_and(|answer| answer.status == 200) {
            *least += 1;
            *sure = Some(title);
            perhaps.clear();
        } else {
            perhaps.push(title);
        }
    }
    known
}

#[test]
fn every_document_is_done_while_clients_write_and_nodes_come_and_go() {
    let Some(etcd) = TestEtcd::start() else { return };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    deploy(&nodes[0], NOTE);
    until("an empty cluster", &Some(0), || count(&nodes[0]));
    feed(&nodes[0]);
    for server in &nodes {
        until("divided", &Some(1), || server.get("/state/v1/cluster").1["divided_groups"].as_u64());
    }
    until("settled", &true, || are_ideal(&nodes));

    deploy(&nodes[1], &shouting("again"));
    for server in &nodes {
        until("it is told", &json!({ "note": 2 }), || status(server)["pending"].clone());
    }
    reindex(&nodes[2], Method::POST, "?speed=0.01");
    for server in &nodes {
        until("it is marked", &"pending".to_owned(), || state(server));
    }
    let before = documents(&nodes[0]);
    assert!(before.values().all(|fields| fields["shout"].is_null()), "the next deployment begins it");
    deploy(&nodes[0], &shouting("again"));

    let (stop, url) = (AtomicBool::new(false), nodes[0].url());
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&url, &stop));
        until("it is in flight", &true, || {
            nodes.iter().all(|server| status(server)["ready"]["note"]["progress"].as_f64() > Some(0.1))
        });
        nodes[1].kill();
        let at = status(&nodes[0])["ready"]["note"].clone();
        assert_eq!(at["state"], "running", "{at}");
        nodes[1].start_again();
        until("what was done stays done", &true, || {
            status(&nodes[1])["ready"]["note"]["progress"].as_f64() > at["progress"].as_f64()
        });
        reindex(&nodes[1], Method::PUT, "?speed=10");
        deploy(&nodes[2], &shouting("again"));
        for server in &nodes {
            until("it ends", &"successful".to_owned(), || state(server));
        }
        stop.store(true, Ordering::SeqCst);
        writer.join().expect("the writer ends")
    });
    until("all say the same", &true, || {
        let ended = status(&nodes[0]);
        nodes.iter().all(|server| status(server) == ended)
    });

    assert!(!written.is_empty());
    // Each replica is queried: any node alone has the same documents when another is gone.
    for gone in 0..3 {
        until("ideal", &true, || are_ideal(&nodes));
        nodes[gone].kill();
        let server = &nodes[(gone + 1) % 3];
        until("without one", &Some(u64::from(LARGE + OTHERS)), || count(server));
        for (id, fields) in documents(server) {
            let title = fields["title"].as_str().unwrap_or_default();
            assert_eq!(fields["shout"], format!("{title} again"), "{id} is not reindexed: {fields}");
            let number: u32 = id.rsplit(':').next().and_then(|number| number.parse().ok()).expect("a number");
            let Some((sure, perhaps, least, most)) = written.get(&number) else {
                assert_eq!(title, format!("first {number}"), "{id}");
                continue;
            };
            let first = format!("first {number}");
            let known =
                sure.as_deref().unwrap_or(&first) == title || perhaps.iter().any(|other| other == title);
            assert!(known, "{id}: {title} is not what was written last: {sure:?} {perhaps:?}");
            let stars = fields["stars"].as_u64().unwrap_or_default();
            assert!((u64::from(*least)..=u64::from(*most)).contains(&stars), "{id}: {stars} {least} {most}");
        }
        nodes[gone].start_again();
    }
}
