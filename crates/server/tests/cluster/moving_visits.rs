//! Visits and exports that are being sent while their group moves to another node.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Instant;

use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::{TestEtcd, are_ideal, node_with, services, until};
use crate::support::{NOTE, TestServer};

/// Documents of the group. Together they are larger than what a stream holds on its way.
const DOCUMENTS: usize = 500;

/// Condition on the last line of a stream.
type IsComplete<'a> = &'a dyn Fn(&Value) -> bool;

/// Opens a stream, and reads no more of it than its status.
fn open(server: &TestServer, (method, path): (&str, &str)) -> BufReader<TcpStream> {
    let mut connection = TcpStream::connect(("127.0.0.1", server.port())).expect("the node listens");
    // In this version the lines of the answer are not cut into chunks.
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAccept: application/jsonl\r\nContent-Length: 0\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).expect("the node reads");
    let mut stream = BufReader::new(connection);
    let mut status = String::new();
    stream.read_line(&mut status).expect("a status");
    assert!(status.contains(" 200 "), "{path}: {status}");
    stream
}

/// Ids of the documents of a stream, what it complains about, and its last line.
fn rest(stream: BufReader<TcpStream>) -> (Vec<String>, Vec<Value>, Value) {
    let (mut ids, mut messages, mut last) = (Vec::new(), Vec::new(), Value::Null);
    for line in stream.lines() {
        let line = line.expect("the stream goes on");
        last = serde_json::from_str(&line).unwrap_or_default();
        ids.extend(last["put"].as_str().map(str::to_owned));
        messages.extend(last.get("message").cloned());
    }
    (ids, messages, last)
}

fn documents_of(server: &TestServer) -> Option<u64> {
    server.get("/state/v1/cluster").1["documents"].as_u64()
}

#[test]
fn a_stream_has_all_documents_of_a_group_that_moves_meanwhile() {
    let Some(etcd) = TestEtcd::start() else { return };
    let names = ["a", "b", "c"];
    // The streams are not read while the group moves.
    let unread = [("MILLRACE_CONNECTION_IDLE_S", "900")];
    let nodes: Vec<TestServer> = names.iter().map(|name| node_with(&etcd, name, &unread)).collect();
    let services = services(1);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for number in 0..DOCUMENTS {
        let path = format!("/document/v1/notes/note/group/moving/{number}");
        let body = json!({ "fields": { "title": format!("note{number} ").repeat(8_000) } }).to_string();
        until(&path, &200, || nodes[0].call(Method::POST, &path, &body).0);
    }
    until("settled", &true, || are_ideal(&nodes));
    let owner = (0..3).find(|at| documents_of(&nodes[*at]).is_some_and(|count| count > 0));
    let owner = owner.expect("one node has the documents");
    let other = (owner + 1) % 3;

    let of_group = "/document/v1/notes/note/group/moving/?stream=true&timeout=900s";
    let selected =
        "/document/v1/?cluster=notes&selection=id.group%3D%3D%22moving%22&stream=true&timeout=900s";
    // A stream that ends with the last document says so; an export ends with a document.
    let is_complete = |last: &Value| last["continuation"]["percentFinished"] == 100.0;
    let is_exported = |last: &Value| last["put"].is_string();
    let table: [((&str, &str), IsComplete<'_>); 3] = [
        (("GET", of_group), &is_complete),
        (("GET", selected), &is_complete),
        (("POST", "/group/v1/moving/export"), &is_exported),
    ];
    let mut streams = Vec::new();
    let opened = Instant::now();
    for (request, is_complete) in table {
        for asked in [owner, other] {
            streams.push((request, asked == owner, is_complete, open(&nodes[asked], request)));
        }
    }
    let retired = nodes[other].millrace(&["node", "retire", names[owner]]);
    assert!(retired.status.success(), "{}", String::from_utf8_lossy(&retired.stderr));
    until("moved", &Some(0), || documents_of(&nodes[owner]));
    for (request, is_owner, is_complete, stream) in streams {
        let (ids, messages, last) = rest(stream);
        let distinct: BTreeSet<&String> = ids.iter().collect();
        let what = format!("{request:?}, of the owner: {is_owner}, {:?}", opened.elapsed());
        assert_eq!(messages, Vec::<Value>::new(), "{what}");
        assert_eq!((ids.len(), distinct.len()), (DOCUMENTS, DOCUMENTS), "{what}; it ends with {last}");
        assert!(is_complete(&last), "{what}; it ends with {last}");
    }
}
