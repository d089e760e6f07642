//! Answers of other nodes that are lost, or that are refusals: reads are sent again, or elsewhere; changes
//! are not, and an error says which of the two it is about.

use std::sync::atomic::Ordering;

use hyper::Method;
use millrace_bucket::BucketId;
use serde_json::json;

use crate::support::{TestNodes, low_bits};

const NOTE: &str = "schema note { document note { field title type string { indexing: summary | index } } }";

/// Owner of the catalog of Elasticsearch's interfaces among three nodes.
const HOME: usize = 1;

/// Text in the body of each request that is answered in the place of a node.
const MARK: &[u8] = b"meal";

/// Frame of HTTP/2 with the head of an answer without a body, whose status is 503.
const BUSY: &[u8] = &[0, 0, 5, 1, 5, 0, 0, 0, 1, 8, 3, b'5', b'0', b'3'];

#[test]
fn reads_of_elastic_are_sent_again_and_others_say_what_is_not_known() {
    let nodes = TestNodes::start(3, NOTE);
    let (status, answer) = nodes.call(0, Method::PUT, "/elastic/things/_doc/1", r#"{"a":"meal"}"#);
    assert_eq!(status, 201, "{answer}");
    let search = r#"{"query":{"match":{"a":"meal"}}}"#;
    for (method, path, body, expected, reason) in [
        (Method::POST, "/elastic/things/_search", search, 200, ""),
        (Method::POST, "/elastic/things/_count", search, 200, ""),
        (
            Method::PUT,
            "/elastic/things/_doc/2",
            r#"{"a":"meal"}"#,
            503,
            "whether it was written is not known",
        ),
        (Method::POST, "/elastic/_search/scroll", r#"{"scroll_id":"meal"}"#, 503, "did not answer"),
    ] {
        let ends = nodes.stand_in(HOME, MARK, &[]);
        let (status, answer) = nodes.call(0, method, path, body);
        ends.join().expect("it has ended");
        assert_eq!(status, expected, "{path}: {answer}");
        let told = answer["error"]["reason"].as_str().unwrap_or_default();
        assert!(told.contains(reason), "{path}: {told}");
        assert!(expected == 200 || told.starts_with("node 127.0.0.1:"), "{path}: {told}");
    }
}

#[test]
fn a_read_goes_past_a_node_that_has_no_room() {
    let nodes = TestNodes::start(3, NOTE);
    for bucket in (0..16).step_by(2) {
        nodes.world.placed.lock().insert(BucketId::new(4, bucket), vec![0, 2]);
    }
    let group = (0..).map(|number| format!("g{number}")).find(|group| low_bits(group).is_multiple_of(2));
    let group = group.expect("a group in an even bucket");
    nodes.put(0, &group, 1, &json!({ "title": "meal" }));
    // The owner is node 0, and names node 2 first.
    nodes.world.last_first.store(true, Ordering::SeqCst);
    let yql = "select * from note where title contains 'meal'";
    let query = json!({ "yql": yql, "streaming.groupname": group, "timeout": "20s" });
    for answer in [BUSY, &[]] {
        let ends = nodes.stand_in(2, MARK, answer);
        let (status, found) = nodes.query(1, &query);
        ends.join().expect("it has ended");
        assert_eq!((status, &found["root"]["fields"]["totalCount"]), (200, &json!(1)), "{found}");
    }
}
