//! Acknowledged writes are there after a restart, and after a crash.

mod support;

use serde_json::json;
use support::TestServer;

fn check(restart: impl Fn(&mut TestServer)) {
    let mut server = TestServer::with_notes();
    for number in 0..50 {
        server.put(&format!("/document/v1/n/note/group/ann/{number}"), &format!("{{\"stars\":{number}}}"));
    }
    restart(&mut server);
    assert_eq!(server.get("/document/v1/n/note/group/ann/7").1["fields"], json!({ "stars": 7 }));
    let yql = "select * from note where stars >= 25";
    let (_, answer) = server.query(&[("yql", yql), ("streaming.groupname", "ann")]);
    assert_eq!(answer.pointer("/root/fields/totalCount"), Some(&json!(25)), "{answer}");
    server.put("/document/v1/n/note/group/ann/50", "{\"stars\":50}");
}

#[test]
fn after_a_restart() {
    check(TestServer::restart);
}

#[test]
fn after_a_crash() {
    check(TestServer::kill_and_restart);
}
