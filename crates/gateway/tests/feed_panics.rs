//! A panic in a step of a live stream ends that stream alone: the server, other streams, and what was
//! acknowledged stay.

mod support;

use hyper::Method;
use hyper::header::HeaderName;
use millrace_client::OutgoingRequest;
use serde_json::Value;
use support::TestNodes;
use support::faults::InjectedPanic;
use support::live::LiveStream;

const NOTE: &str = "schema note {
  document note {
    field stars type int { indexing: summary | attribute }
  }
}";

const GROUPS: [&str; 5] = ["even", "odd", "x", "y", "z"];

fn put(group: &str, name: &str) -> String {
    format!("{{\"put\":\"id:n:note:g={group}:{name}\",\"fields\":{{\"stars\":1}}}}\n")
}

#[test]
fn a_panic_ends_one_stream_and_nothing_else() {
    let nodes = TestNodes::start(3, NOTE);
    let is_there = |group: &str, name: &str| {
        nodes.call(1, Method::GET, &format!("/document/v1/n/note/group/{group}/{name}"), "").0 == 200
    };
    let mut neighbour = LiveStream::begin(&nodes, 0, "", "neighbour");
    let mut sent_beside = 0;
    // More often than there are slots for streams: each is given back.
    for round in 0..36 {
        // The steps that prepare, that commit, and that send to other nodes.
        let call = ["state", "write", "own"][round % 3];
        let key = format!("round-{round}");
        let name = |part: &str| format!("{round}-{part}");
        let mut stream = LiveStream::begin(&nodes, 0, "", &key);
        let first: String = GROUPS.map(|group| put(group, &name("first"))).concat();
        stream.send(&first);
        stream.read_until("\"through\":5").expect("the first part is acknowledged");

        *nodes.world.panics.lock() = Some(InjectedPanic { call, after: round % 2 });
        let second: String = GROUPS.map(|group| put(group, &name("second"))).concat();
        stream.send(&second);
        stream.end();
        let end = stream.read_until("\"complete\"");
        let said = end.as_deref().unwrap_or("no totals");
        assert!(!said.contains("\"complete\":true"), "{call}: {said}");
        assert!(nodes.world.panics.lock().is_none(), "{call} was not called");

        neighbour.send(&put("x", &name("beside")));
        sent_beside += 1;
        neighbour.read_until(&format!("\"through\":{sent_beside}")).expect("the other stream goes on");
        for group in GROUPS {
            assert!(is_there(group, &name("first")), "{call}: what was acknowledged is there");
        }
        assert!(is_there("x", &name("beside")));

        // The stream is sent again under its key, which nothing holds any more.
        let request = OutgoingRequest::new(Method::POST, "/feed/v1")
            .header(HeaderName::from_static("idempotency-key"), key.leak())
            .body("application/jsonl", first + &second);
        let answer = nodes.send(0, request);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let total: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        assert_eq!((answer.status.as_u16(), &total["ok"]), (200, &Value::from(10)), "{call}: {text}");
        assert!(answer.headers.get("idempotency-replayed").is_none(), "it was not answered before");
        assert!(GROUPS.iter().all(|group| is_there(group, &name("second"))));
    }
    neighbour.end();
    let total = neighbour.read_until("\"complete\"").expect("totals");
    assert!(
        total.contains("\"complete\":true") && total.contains(&format!("\"ok\":{sent_beside}")),
        "{total}"
    );
}
