//! Tables sent to one node: each row goes to the owner of its group.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::StreamWriter;
use hyper::Method;
use millrace_client::{HttpProtocol, OutgoingRequest};
use serde_json::Value;

use crate::nodes::{TestEtcd, count, node, services, until};
use crate::support::{NOTE, TestServer};

const ROWS: i64 = 500;
const GROUPS: i64 = 40;

/// A table of notes, in which two numbers are not those of an int.
fn table() -> Vec<u8> {
    let text = |text: &dyn Fn(i64) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..ROWS).map(text)))
    };
    let stars = (0..ROWS).map(|row| if row == 77 || row == 78 { 1 << 40 } else { row });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", text(&|row| format!("id:notes:note:g=g{}:{row}", row % GROUPS))),
        ("title", text(&|row| format!("note \"{row}\""))),
        ("stars", Arc::new(Int64Array::from_iter_values(stars))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a schema");
    writer.write(&batch).expect("a batch");
    writer.into_inner().expect("an end")
}

#[test]
fn rows_go_to_the_owners_of_their_groups() {
    let Some(etcd) = TestEtcd::start() else { return };
    let nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    until("deployed", &200, || {
        nodes[0].deploy(&[("services.xml", &services(2)), ("schemas/note.sd", NOTE)]).0
    });
    until("all nodes search", &true, || nodes.iter().all(|node| count(node) == Some(0)));
    let request = OutgoingRequest::new(Method::POST, "/feed/v1?type=note&timeout=60s")
        .body("application/vnd.apache.arrow.stream", table());
    let answer = nodes[1].send(&nodes[1].url(), HttpProtocol::Http1, request);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    let lines: Vec<String> = lines
        .filter(|line| line.get("through").is_none())
        .map(|line| match line.get("complete") {
            Some(_) => format!("complete={} ok={} failed={}", line["complete"], line["ok"], line["failed"]),
            None => format!("{}:{} {} {}", line["line"], line["column"], line["id"], line["message"]),
        })
        .collect();
    assert_eq!(
        lines,
        [
            "78:0 \"id:notes:note:g=g37:77\" \"column 'stars': 1099511627776 is out of range for int\"",
            "79:0 \"id:notes:note:g=g38:78\" \"column 'stars': 1099511627776 is out of range for int\"",
            "complete=true ok=498 failed=2",
        ]
    );
    for node in &nodes {
        until("all are found", &Some(498), || count(node));
        let (status, answer) = node.get("/document/v1/notes/note/group/g13/413");
        assert_eq!((status, answer["fields"]["title"].as_str()), (200, Some("note \"413\"")), "{answer}");
    }
}
