//! Streams of operations to one of several gateways: each operation is executed by the owner of its document.

mod support;

use hyper::Method;
use serde_json::{Value, json};
use support::TestNodes;

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

/// What may succeed later ends the stream there, so that it can be sent again from the last progress.
#[test]
fn a_stream_ends_where_a_node_takes_no_more_writes() {
    let nodes = TestNodes::start(3, NOTE);
    nodes.world.writes_left.store(2, std::sync::atomic::Ordering::SeqCst);
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
    let batches = nodes.world.batches.load(std::sync::atomic::Ordering::SeqCst);
    assert!((3..60).contains(&batches), "{batches} batches for 600 operations");
}

/// What an owner does not take now is tried again one by one, and by whichever node owns it then.
#[test]
fn what_an_owner_refuses_is_tried_again() {
    let nodes = TestNodes::start(3, NOTE);
    let body: String = (0..40)
        .map(|number| {
            let group = ["even", "odd"][number % 2];
            format!("{{\"put\":\"id:n:note:g={group}:{number}\",\"fields\":{{\"stars\":{number}}}}}\n")
        })
        .collect();
    nodes.world.refusals.store(25, std::sync::atomic::Ordering::SeqCst);
    let (failures, total) = feed(&nodes, 0, &body);
    assert_eq!((failures.len(), &total["ok"]), (0, &json!(40)), "{total}");
    assert_eq!(nodes.world.refusals.load(std::sync::atomic::Ordering::SeqCst), 0);
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
