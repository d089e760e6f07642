//! Traces of requests over several nodes, as a collector receives them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use hyper::Method;
use hyper::header::HeaderName;
use millrace_client::{HttpProtocol, OutgoingRequest};
use parking_lot::Mutex;

use crate::nodes::{TestEtcd, node_with, put, services, until};
use crate::support::NOTE;

/// A span that was received.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ReceivedSpan {
    instance: String,
    trace: String,
    id: String,
    parent: String,
    name: String,
}

/// A collector that keeps all spans.
struct TestCollector {
    url: String,
    spans: Arc<Mutex<Vec<ReceivedSpan>>>,
}

impl TestCollector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let spans = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&spans);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let kept = Arc::clone(&kept);
                std::thread::spawn(move || while receive(stream.as_ref().expect("a connection"), &kept) {});
            }
        });
        TestCollector { url, spans }
    }

    fn of_trace(&self, trace: &str) -> Vec<ReceivedSpan> {
        let spans = self.spans.lock();
        spans.iter().filter(|span| span.trace == trace).cloned().collect()
    }
}

/// Receives one request; false at the end of the connection.
fn receive(mut stream: &TcpStream, kept: &Mutex<Vec<ReceivedSpan>>) -> bool {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut first) = (String::new(), 0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        if first.is_empty() {
            first.clone_from(&line);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().expect("a number");
        }
        if line.trim().is_empty() {
            break;
        }
    }
    assert!(first.starts_with("POST /v1/traces "), "{first}");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("the whole body");
    kept.lock().extend(spans_of(&body));
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_ok()
}

/// Bytes of the fields of a message that have a length, by number.
fn fields(mut message: &[u8]) -> BTreeMap<u64, Vec<&[u8]>> {
    fn varint(message: &mut &[u8]) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = message[0];
            *message = &message[1..];
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }
    let mut found: BTreeMap<u64, Vec<&[u8]>> = BTreeMap::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        let length = match tag & 7 {
            0 => {
                varint(&mut message);
                continue;
            }
            1 => 8,
            2 => varint(&mut message) as usize,
            other => panic!("wire type {other}"),
        };
        found.entry(tag >> 3).or_default().push(&message[..length]);
        message = &message[length..];
    }
    found
}

fn spans_of(request: &[u8]) -> Vec<ReceivedSpan> {
    let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut spans = Vec::new();
    for of_resource in &fields(request)[&1] {
        let of_resource = fields(of_resource);
        let resource = fields(of_resource[&1][0]);
        let attributes = resource[&1].iter().map(|pair| {
            let pair = fields(pair);
            (text(pair[&1][0]), text(fields(pair[&2][0])[&1][0]))
        });
        let attributes: BTreeMap<String, String> = attributes.collect();
        assert_eq!(attributes["service.name"], "millrace");
        for of_scope in &of_resource[&2] {
            for span in &fields(of_scope)[&2] {
                let span = fields(span);
                spans.push(ReceivedSpan {
                    instance: attributes["service.instance.id"].clone(),
                    trace: hexadecimal(span[&1][0]),
                    id: hexadecimal(span[&2][0]),
                    parent: span.get(&4).map_or_else(String::new, |parent| hexadecimal(parent[0])),
                    name: text(span[&5][0]),
                });
            }
        }
    }
    spans
}

/// A query over all groups is answered by both nodes: one trace, which begins with the client's span, and in
/// which every other span has its parent.
#[test]
fn a_query_over_two_nodes_is_one_trace() {
    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const CLIENT: &str = "00f067aa0ba902b7";
    let Some(etcd) = TestEtcd::start() else { return };
    let collector = TestCollector::start();
    // Requests go to the first node, so that the second one has those that the first has forwarded.
    let nodes = [("a", "0"), ("b", "1")].map(|(name, sampled)| {
        let traced = [("MILLRACE_OTLP_ENDPOINT", collector.url.as_str()), ("MILLRACE_OTLP_SAMPLED", sampled)];
        node_with(&etcd, name, &traced)
    });
    until("deployed", &200, || {
        nodes[0].deploy(&[("services.xml", &services(1)), ("schemas/note.sd", NOTE)]).0
    });
    (0..20).for_each(|group| put(&nodes[0], group, 1));
    let query = |header: &'static str| {
        let request = OutgoingRequest::new(Method::GET, "/search/")
            .parameter("yql", "select * from note where true")
            .parameter("streaming.selection", "true")
            .parameter("timeout", "60s")
            .header(HeaderName::from_static("traceparent"), header);
        nodes[0].send(&nodes[0].url(), HttpProtocol::Http1, request).status.as_u16()
    };
    assert_eq!(
        query("00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"),
        200,
        "one that is not recorded"
    );
    let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    until("spans of both nodes", &both, || {
        assert_eq!(query("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), 200);
        std::thread::sleep(std::time::Duration::from_millis(1200));
        collector.of_trace(TRACE).into_iter().map(|span| span.instance).collect()
    });
    // The last spans of each node come in one batch.
    until("whole", &Vec::<ReceivedSpan>::new(), || {
        let spans = collector.of_trace(TRACE);
        let ids: BTreeSet<String> = spans.iter().map(|span| span.id.clone()).collect();
        spans.into_iter().filter(|span| span.parent != CLIENT && !ids.contains(&span.parent)).collect()
    });
    let spans = collector.of_trace(TRACE);
    let names = |instance: &str| -> BTreeSet<String> {
        spans.iter().filter(|span| span.instance == instance).map(|span| span.name.clone()).collect()
    };
    for (node, request) in [("a", "GET /search"), ("b", "POST /search")] {
        let names = names(node);
        let expected = [request, "share", "match"];
        assert!(expected.iter().all(|name| names.contains(*name)), "{node}: {names:?}");
    }
    let of_client = spans.iter().filter(|span| span.parent == CLIENT);
    assert!(of_client.into_iter().all(|span| span.instance == "a"), "only the node that was asked");
    let others = collector.spans.lock();
    assert!(others.iter().all(|span| span.trace == TRACE), "no other request is traced: {others:?}");
}
