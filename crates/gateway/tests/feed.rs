//! Streams of operations to one of several gateways: each operation is executed by the owner of its document.

mod support;

use std::sync::atomic::Ordering;

use hyper::Method;
use hyper::header::HeaderName;
use millrace_client::OutgoingRequest;
use serde_json::{Value, json};
use support::live::LiveStream;
use support::{TestNodes, wait_until};

const NOTE: &str = "schema note {
  document note {
    field title type string { indexing: summary | index }
    field stars type int { indexing: summary | attribute }
  }
  fieldset default { fields: title }
}";

/// Sends a stream to a node; returns its last line.
fn feed(nodes: &TestNodes, node: usize, body: &str) -> (Vec<Value>, Value) {
    let text = nodes.text(node, Method::POST, "/feed/v1", body);
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    let mut lines: Vec<Value> = lines.collect();
    let total = lines.pop().expect("every answer has totals");
    lines.retain(|line| line.get("through").is_none());
    (lines, total)
}

#[test]
fn operations_reach_the_owners_of_their_documents_in_order() {
    let nodes = TestNodes::start(3, NOTE);
    let groups = ["even", "odd", "x", "y", "z"];
    let mut body = String::new();
    for round in 0..20 {
        for group in groups {
            body += &match round % 4 {
                0 => format!("{{\"put\":\"id:n:note:g={group}:1\",\"fields\":{{\"stars\":{round}}}}}\n"),
                1 | 2 => format!(
                    "{{\"update\":\"id:n:note:g={group}:1\",\"fields\":{{\"stars\":{{\"increment\":1}}}}}}\n"
                ),
                _ => {
                    format!("{{\"remove\":\"id:n:note:g={group}:1\",\"condition\":\"note.stars > 1000\"}}\n")
                }
            };
        }
    }
    let (failures, total) = feed(&nodes, 1, &body);
    assert_eq!(total["ok"], 75, "{total}");
    assert_eq!(
        (&total["complete"], &total["conditionNotMet"], &total["failed"]),
        (&json!(true), &json!(25), &json!(0))
    );
    assert_eq!(failures.len(), 25);
    assert!(failures.iter().all(|line| line["status"] == 412), "{failures:?}");
    for (node, group) in groups.iter().enumerate() {
        let (status, answer) =
            nodes.call(node % 3, Method::GET, &format!("/document/v1/n/note/group/{group}/1"), "");
        assert_eq!((status, &answer["fields"]["stars"]), (200, &json!(18)), "{group}: {answer}");
    }
}

#[test]
fn a_bad_operation_is_placed_in_the_stream() {
    let nodes = TestNodes::start(3, NOTE);
    let put = |group: &str, field: &str| {
        format!("{{\"put\":\"id:n:note:g={group}:1\",\"fields\":{{\"{field}\":1}}}}\n")
    };
    let body: String = ["even", "odd", "x"].map(|group| put(group, "stars") + &put(group, "nosuch")).concat();
    let (failures, total) = feed(&nodes, 0, &body);
    assert_eq!((&total["ok"], &total["failed"]), (&json!(3), &json!(3)), "{total}");
    let places: Vec<(u64, u64)> = failures
        .iter()
        .map(|line| (line["line"].as_u64().unwrap(), line["column"].as_u64().unwrap()))
        .collect();
    assert_eq!(places.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4, 6], "{failures:?}");
    assert!(places.iter().all(|(_, column)| *column > 30), "{failures:?}");
}

/// An operation that may succeed later ends the stream there, so that it can be sent again from the last
/// progress.
#[test]
fn a_stream_ends_where_a_node_takes_no_more_writes() {
    let nodes = TestNodes::start(3, NOTE);
    nodes.world.writes_left.store(2, Ordering::SeqCst);
    let body: String = (0..5)
        .map(|round| format!("{{\"put\":\"id:n:note:g=even:1\",\"fields\":{{\"stars\":{round}}}}}\n"))
        .collect();
    let text = nodes.text(0, Method::POST, "/feed/v1?timeout=5", &body);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let total = lines.last().expect("totals");
    assert_eq!((&total["complete"], &total["ok"]), (&json!(false), &json!(2)), "{text}");
    assert_eq!(total["operations"], 2, "what follows is to be sent again: {text}");
    assert!(total["message"].as_str().is_some_and(|message| message.contains("operation 3")), "{text}");
}

/// Operations of a piece come to each owner together, from whichever node the client sends them to.
#[test]
fn owners_get_batches() {
    let nodes = TestNodes::start(3, NOTE);
    let put = |number: usize| {
        let group = ["even", "odd", "x", "y", "z"][number % 5];
        format!("{{\"put\":\"id:n:note:g={group}:{number}\",\"fields\":{{\"stars\":{number}}}}}\n")
    };
    let body: String = (0..600).map(put).collect();
    let (failures, total) = feed(&nodes, 2, &body);
    assert_eq!((failures.len(), &total["ok"]), (0, &json!(600)), "{total}");
    let batches = nodes.world.batches.load(Ordering::SeqCst);
    assert!((3..60).contains(&batches), "{batches} batches for 600 operations");
}

/// Operations that an owner does not take now are tried again one by one, and by whichever node owns it then.
#[test]
fn what_an_owner_refuses_is_tried_again() {
    let nodes = TestNodes::start(3, NOTE);
    let body: String = (0..40)
        .map(|number| {
            let group = ["even", "odd"][number % 2];
            format!("{{\"put\":\"id:n:note:g={group}:{number}\",\"fields\":{{\"stars\":{number}}}}}\n")
        })
        .collect();
    nodes.world.refusals.store(25, Ordering::SeqCst);
    let (failures, total) = feed(&nodes, 0, &body);
    assert_eq!((failures.len(), &total["ok"]), (0, &json!(40)), "{total}");
    assert_eq!(nodes.world.refusals.load(Ordering::SeqCst), 0);
}

/// The owner lists the failures of all operations that another node has sent to it, however many there are:
/// an operation without a line would be unknown, and end the stream.
#[test]
fn each_failure_at_an_owner_is_known() {
    let nodes = TestNodes::start(3, NOTE);
    let put = |number: usize| {
        // One of a hundred has a field that exists.
        let field = if number.is_multiple_of(100) { "stars" } else { "nosuch" };
        let id = format!("id:n:note:g=even:{number}{}", "x".repeat(120));
        format!("{{\"put\":\"{id}\",\"fields\":{{\"{field}\":1}}}}\n")
    };
    let body: String = (0..2000).map(put).collect();
    // Two of the three nodes send them to the owner.
    for node in 0..3 {
        let (failures, total) = feed(&nodes, node, &body);
        assert_eq!((&total["complete"], &total["operations"]), (&json!(true), &json!(2000)), "{total}");
        assert_eq!((&total["ok"], &total["failed"]), (&json!(20), &json!(1980)), "{total}");
        assert!(failures.iter().all(|line| line["status"] == 400), "{:?}", failures.first());
    }
}

/// Documents of a piece are in the next one, too: the operation that comes last counts.
#[test]
fn operations_keep_their_order_over_many_pieces() {
    const DOCUMENTS: usize = 2500;
    const GROUPS: [&str; 5] = ["even", "odd", "x", "y", "z"];
    let nodes = TestNodes::start(3, NOTE);
    let put = |number: usize| {
        let (group, name) = (GROUPS[number % GROUPS.len()], number % DOCUMENTS);
        format!("{{\"put\":\"id:n:note:g={group}:{name}\",\"fields\":{{\"stars\":{number}}}}}\n")
    };
    let body: String = (0..2 * DOCUMENTS).map(put).collect();
    let (failures, total) = feed(&nodes, 1, &body);
    assert!(failures.is_empty() && total["complete"] == true, "{total}");
    assert_eq!(
        [&total["operations"], &total["ok"], &total["bytes"]],
        [&json!(2 * DOCUMENTS), &json!(2 * DOCUMENTS), &json!(body.trim_end().len())]
    );
    for name in (0..DOCUMENTS).step_by(59) {
        let group = GROUPS[name % GROUPS.len()];
        let path = format!("/document/v1/n/note/group/{group}/{name}");
        let (status, answer) = nodes.call(name % 3, Method::GET, &path, "");
        assert_eq!((status, &answer["fields"]["stars"]), (200, &json!(DOCUMENTS + name)), "{path}: {answer}");
    }
}

/// An operation that is to be sent again stops the stream. Those that were in flight with it were executed,
/// and do not count: the client sends them again, too.
#[test]
fn nothing_counts_after_an_operation_that_is_to_be_sent_again() {
    let nodes = TestNodes::start(3, NOTE);
    // The owner of the documents, and two nodes that send them to it.
    for node in 0..3 {
        let put = |number: usize| {
            format!("{{\"put\":\"id:n:note:g=even:{node}-{number}\",\"fields\":{{\"stars\":{number}}}}}\n")
        };
        let is_there = |number: usize| {
            let path = format!("/document/v1/n/note/group/even/{node}-{number}");
            nodes.call(0, Method::GET, &path, "").0 == 200
        };
        let key = format!("from-{node}");
        let mut stream = LiveStream::begin(&nodes, node, "timeout=2", &key);
        stream.send(&put(1));
        stream.read_until("\"through\":1").expect("it is answered before more of the body comes");
        nodes.hold_writes();
        for (held, number) in [(1, 2), (2, 3)] {
            stream.send(&put(number));
            nodes.await_held(held);
        }
        stream.send(&put(4));
        nodes.begin_held(1);
        wait_until("the third document is written", || is_there(3));
        nodes.world.writes_left.store(0, Ordering::SeqCst);
        nodes.begin_all_held();
        let total = stream.read_until("\"complete\"").expect("the body has no end, and the answer has");
        let total: Value = serde_json::from_str(&total).expect("JSON");
        let counts = ["complete", "operations", "ok", "failed"].map(|name| &total[name]);
        assert_eq!(counts, [&json!(false), &json!(1), &json!(1), &json!(0)], "{total}");
        assert!(total["message"].as_str().is_some_and(|message| message.contains("operation 2 ")), "{total}");
        nodes.world.writes_left.store(usize::MAX, Ordering::SeqCst);
        assert_eq!([1, 2, 3, 4].map(is_there), [true, false, true, false]);

        // Nothing holds the key any more, and it has no answer.
        let request = OutgoingRequest::new(Method::POST, "/feed/v1")
            .header(HeaderName::from_static("idempotency-key"), key.leak())
            .body("application/jsonl", (1..=4).map(put).collect::<String>());
        let answer = nodes.send(node, request);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let total: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        assert_eq!((answer.status.as_u16(), &total["ok"]), (200, &json!(4)), "{text}");
        assert!(answer.headers.get("idempotency-replayed").is_none(), "it was executed");
        assert!((1..=4).all(is_there));
    }
}
