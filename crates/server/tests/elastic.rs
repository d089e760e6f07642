//! Elasticsearch's interfaces of a server: documents of a type, which are the same at all interfaces.

mod support;

use hyper::Method;
use serde_json::{Value, json};
use support::TestServer;

/// Titles that a query of a group finds.
fn titles(server: &TestServer, group: &str) -> Vec<String> {
    let (status, answer) = server
        .query(&[("yql", "select * from note where true order by stars"), ("streaming.groupname", group)]);
    assert_eq!(status, 200, "{answer}");
    let hits = answer["root"]["children"].as_array().cloned().unwrap_or_default();
    hits.iter().map(|hit| hit["fields"]["title"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Ids of the hits that a search at the door finds.
fn ids(answer: &Value) -> Vec<&str> {
    let hits = answer["hits"]["hits"].as_array().expect("hits");
    hits.iter().filter_map(|hit| hit["_id"].as_str()).collect()
}

#[test]
fn documents_are_the_same_at_both_interfaces() {
    let server = TestServer::with_notes();
    let bulk = r#"{"index":{"_index":"note","_id":"1","routing":"ann"}}
{"title":"first words","stars":1,"tags":["a","b"]}
{"create":{"_index":"note","_id":"1","routing":"bob"}}
{"title":"others","stars":2}
{"index":{"_index":"note","_id":"2"}}
{"title":"nowhere"}
"#;
    let (status, answer) = server.call(Method::POST, "/elastic/_bulk", bulk);
    assert_eq!(status, 200, "{answer}");
    let of = |number: usize, action: &str| answer["items"][number][action]["status"].clone();
    assert_eq!((of(0, "index"), of(1, "create"), of(2, "index")), (json!(201), json!(201), json!(400)));

    // By YQL, by a get, and changed there.
    assert_eq!(titles(&server, "ann"), ["first words"]);
    assert_eq!(titles(&server, "bob"), ["others"]);
    let (_, found) = server.query(&[
        ("yql", "select * from note where title contains \"words\""),
        ("streaming.groupname", "ann"),
    ]);
    assert_eq!(found["root"]["fields"]["totalCount"], 1, "{found}");
    let (status, found) = server.get("/document/v1/note/note/group/ann/1");
    assert_eq!((status, &found["fields"]["tags"]), (200, &json!(["a", "b"])), "{found}");
    let before = server.get("/elastic/note/_doc/1?routing=ann").1;
    let update = r#"{"fields":{"title":{"assign":"second words"}}}"#;
    assert_eq!(server.call(Method::PUT, "/document/v1/note/note/group/ann/1", update).0, 200);
    let after = server.get("/elastic/note/_doc/1?routing=ann").1;
    assert_eq!(after["_source"], json!({ "title": "second words", "stars": 1, "tags": ["a", "b"] }));
    assert!(after["_seq_no"].as_i64() > before["_seq_no"].as_i64(), "{before} {after}");

    // The other way round, in another namespace.
    server.put("/document/v1/mail/note/group/ann/7", r#"{"title":"third","stars":3}"#);
    let (_, found) = server.get("/elastic/note/_search?routing=ann&sort=stars");
    assert_eq!(ids(&found), ["1", "id:mail:note:g=ann:7"], "{found}");
    let update = r#"{"doc":{"stars":9}}"#;
    let (status, answer) = server.call(Method::POST, "/elastic/note/_update/id:mail:note:g=ann:7", update);
    assert_eq!((status, &answer["result"]), (200, &json!("updated")), "{answer}");
    assert_eq!(titles(&server, "ann"), ["second words", "third"]);
    let (status, answer) = server.call(Method::DELETE, "/elastic/note/_doc/1?routing=ann", "");
    assert_eq!((status, &answer["result"]), (200, &json!("deleted")), "{answer}");
    assert_eq!(server.get("/document/v1/note/note/group/ann/1").0, 404);
    assert_eq!(titles(&server, "ann"), ["third"]);

    // A query of no group is refused at both.
    let (status, answer) = server.get("/elastic/note/_search");
    assert_eq!((status, &answer["error"]["type"]), (400, &json!("routing_missing_exception")), "{answer}");
    assert!(answer["error"]["reason"].as_str().is_some_and(|reason| reason.contains("routing")), "{answer}");
}
