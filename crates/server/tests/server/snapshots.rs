//! Snapshots of a server: made while it serves, listed, restored and deleted; and what erasures say of them.

use std::process::Output;

use hyper::Method;
use hyper::header::AUTHORIZATION;
use millrace_client::{HttpProtocol, OutgoingRequest};
use serde_json::{Value, json};

use crate::support::{self, TestServer, files_have};

/// A word of one document.
const WORD: &str = "zyxwvutsrqponm";

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn ran(output: Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn refused(output: Output) -> String {
    assert!(!output.status.success(), "{}", text(&output.stdout));
    text(&output.stderr)
}

fn put(server: &TestServer, path: &str, title: &str) {
    server.put(&format!("/document/v1/n/note/group/{path}"), &json!({ "title": title }).to_string());
}

fn title(server: &TestServer, path: &str) -> Value {
    server.get(&format!("/document/v1/n/note/group/{path}")).1["fields"]["title"].clone()
}

fn call(server: &TestServer, method: Method, path: &str) -> (u16, Value) {
    let request = OutgoingRequest::new(method, path);
    let answer = server.send(&server.config_url(), HttpProtocol::Http1, request);
    (answer.status.as_u16(), answer.json())
}

#[test]
fn a_snapshot_is_made_listed_restored_and_deleted() {
    let server = TestServer::with_notes();
    assert_eq!(
        call(&server, Method::GET, "/snapshot/v1/").1,
        json!({ "snapshots": [], "heldBytes": 0, "logBytes": 0 })
    );
    put(&server, "ann/1", WORD);
    put(&server, "bob/1", "before");
    assert!(ran(server.millrace(&["snapshot", "create", "first"])).starts_with("made first of 20"));
    put(&server, "bob/1", "after");
    put(&server, "bob/2", "after");
    for (method, path, status) in [
        (Method::POST, "/snapshot/v1/?name=first", 409),
        (Method::POST, "/snapshot/v1/?name=a.b", 400),
        (Method::POST, "/snapshot/v1/", 400),
        (Method::GET, "/snapshot/v1/second", 404),
        (Method::GET, "/snapshot/v1/..", 400),
        (Method::DELETE, "/snapshot/v1/second", 404),
        (Method::PUT, "/snapshot/v1/second", 405),
        (Method::DELETE, "/snapshot/v1/", 405),
    ] {
        let (found, answer) = call(&server, method.clone(), path);
        assert_eq!(found, status, "{method} {path}: {answer}");
    }
    let list = ran(server.millrace(&["snapshot", "list"]));
    assert!(list.lines().count() == 2 && list.contains("first"), "{list}");
    let shown = call(&server, Method::GET, "/snapshot/v1/first").1;
    assert_eq!((&shown["documents"], &shown["application"]), (&json!(2), &json!(1)), "{shown}");
    assert!(ran(server.millrace(&["snapshot", "show", "first"])).contains("2 documents"));

    // The group is erased from everything but the snapshot.
    let (_, receipt) = server.call(Method::DELETE, "/group/v1/ann?within=0&timeout=120s", "");
    assert_eq!((&receipt["erased"], &receipt["erasure"]["snapshots"]), (&json!(true), &json!(["first"])));
    let shown = text(&server.millrace(&["group", "show", "ann"]).stdout);
    assert!(shown.contains("snapshots   first (millrace snapshot delete NAME)"), "{shown}");
    for part in ["segments", "tail"] {
        assert!(!files_have(&server.data_dir().join(part), WORD), "{part}");
    }
    let snapshot = server.data_dir().join("snapshots/first");
    assert!(files_have(&snapshot, WORD));

    let directory = tempfile::tempdir().expect("a temporary directory");
    let (from, data) = (server.data_dir().display().to_string(), directory.path().join("data"));
    let to = data.display().to_string();
    let all = |name: &str, from: &str, to: &str| {
        server.millrace(&["snapshot", "restore", name, "--from", from, "--data-dir", to])
    };
    assert!(ran(all("first", &from, &to)).contains("2 documents in "));
    let error = refused(all("first", &from, &to));
    assert!(
        error.contains("into an empty directory only; name another directory, or stop its server"),
        "{error}"
    );
    let other = directory.path().join("other").display().to_string();
    assert!(refused(all("second", &from, &other)).contains("it is not a snapshot"));
    refused(server.millrace(&["snapshot", "restore", "first"]));
    let restored = TestServer::start_in(directory, data, &[]);
    assert_eq!((title(&restored, "ann/1"), title(&restored, "bob/1")), (json!(WORD), json!("before")));
    assert_eq!(restored.get("/document/v1/n/note/group/bob/2").0, 404);
    put(&restored, "bob/1", "elsewhere");
    assert_eq!(title(&server, "bob/1"), "after");

    ran(server.millrace(&["snapshot", "delete", "first"]));
    assert!(!files_have(&server.data_dir(), WORD));
    let (_, shown) = server.get("/group/v1/ann");
    assert_eq!(shown["erasure"]["snapshots"], json!([]), "{shown}");
    assert_eq!(title(&restored, "ann/1"), WORD);
}

#[test]
fn a_group_of_a_snapshot_is_restored_while_the_server_serves() {
    let mut server = TestServer::with_notes();
    for number in 0..30 {
        put(&server, &format!("ann/{number}"), &format!("before {number}"));
    }
    put(&server, "bob/1", "before");
    ran(server.millrace(&["snapshot", "create", "first"]));
    // Changed, removed and added since.
    put(&server, "ann/1", "after");
    assert_eq!(server.call(Method::DELETE, "/document/v1/n/note/group/ann/2", "").0, 200);
    put(&server, "ann/90", "after");
    put(&server, "bob/1", "after");
    server.restart();
    let count = |of: &str| server.get(&format!("/group/v1/{of}")).1["documents"].clone();
    let exported = server.call(Method::POST, "/group/v1/ann/export?snapshot=first", "").1;
    assert_eq!(exported, Value::Null, "many lines are not one JSON value");

    let missing = ["snapshot", "restore", "first", "--group", "ann", "--missing"];
    assert!(ran(server.millrace(&missing)).contains("1 operation, 0 failed"));
    assert_eq!((title(&server, "ann/1"), title(&server, "ann/2")), (json!("after"), json!("before 2")));
    assert_eq!(count("ann"), 31);
    let restored = ran(server.millrace(&["snapshot", "restore", "first", "--group", "ann"]));
    assert!(restored.contains("31 operations, 0 failed"), "{restored}");
    assert_eq!((title(&server, "ann/1"), title(&server, "ann/2")), (json!("before 1"), json!("before 2")));
    assert_eq!((count("ann"), server.get("/document/v1/n/note/group/ann/90").0), (json!(30), 404));
    assert_eq!(title(&server, "bob/1"), "after");
    // A group that was deleted as a whole.
    assert_eq!(server.call(Method::DELETE, "/group/v1/ann", "").0, 200);
    assert_eq!(server.get("/document/v1/n/note/group/ann/7").0, 404);
    ran(server.millrace(&["snapshot", "restore", "first", "--group", "ann"]));
    assert_eq!((count("ann"), title(&server, "ann/7")), (json!(30), json!("before 7")));
    // One that the snapshot lacks becomes empty.
    put(&server, "carl/1", "after");
    ran(server.millrace(&["snapshot", "restore", "first", "--group", "carl"]));
    assert_eq!(server.get("/document/v1/n/note/group/carl/1").0, 404);
    let error = refused(server.millrace(&["snapshot", "restore", "second", "--group", "ann"]));
    assert!(error.contains("the snapshot 'second' does not exist"), "{error}");
    let (status, answer) = server.call(Method::POST, "/group/v1/ann/export?snapshot=first&type=note", "");
    assert_eq!(status, 400, "{answer}");
}

/// Snapshots have documents of all groups, and those that were removed.
#[test]
fn a_group_of_a_snapshot_is_for_administrators() {
    let mut server = TestServer::with_notes();
    put(&server, "ann/1", "before");
    ran(server.millrace(&["snapshot", "create", "first"]));
    let data_dir = server.data_dir().display().to_string();
    let token = |name: &str, rights: &[&str]| -> &'static str {
        let arguments = ["--format", "json", "token", "create", name, "--data-dir", &data_dir];
        let made: Value =
            serde_json::from_str(&ran(server.millrace(&[&arguments, rights].concat()))).expect("JSON");
        format!("Bearer {}", made["token"].as_str().expect("a token")).leak()
    };
    let own = token("own", &["--group", "ann", "--read", "--write"]);
    let whole = token("whole", &["--read", "--write", "--admin"]);
    server.restart();
    let as_caller = |token: &'static str, path: &str| -> u16 {
        let request = OutgoingRequest::new(Method::POST, path).header(AUTHORIZATION, token);
        server.send(&server.url(), HttpProtocol::Http1, request).status.as_u16()
    };
    for path in ["/group/v1/ann/export?snapshot=first", "/group/v1/ann/restore?snapshot=first"] {
        assert_eq!((as_caller(own, path), as_caller(whole, path)), (403, 200), "{path}");
    }
    assert_eq!(as_caller(own, "/group/v1/ann/export"), 200);
}

#[test]
fn snapshots_are_whole_after_kills() {
    let mut server = TestServer::with_notes();
    for number in 0..40 {
        put(&server, &format!("ann/{number}"), &format!("note {number}"));
    }
    for round in 0..4 {
        let name = format!("round{round}");
        std::thread::scope(|scope| {
            let making = scope.spawn(|| server.millrace(&["snapshot", "create", &name]));
            std::thread::sleep(std::time::Duration::from_millis(10 + round * 25));
            let killed =
                std::process::Command::new("kill").args(["-9", &server.process_id().to_string()]).status();
            assert!(killed.expect("kill runs").success());
            drop(making.join());
        });
        server.kill_and_restart();
        let listed = call(&server, Method::GET, "/snapshot/v1/").1;
        for snapshot in listed["snapshots"].as_array().expect("a list") {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let (from, to) =
                (server.data_dir().display().to_string(), directory.path().display().to_string());
            let name = snapshot["name"].as_str().expect("a name");
            ran(server.millrace(&["snapshot", "restore", name, "--from", &from, "--data-dir", &to]));
        }
        let left = std::fs::read_dir(server.data_dir().join("snapshots")).into_iter().flatten().count();
        assert_eq!(left, listed["snapshots"].as_array().map_or(0, Vec::len), "leftovers are swept: {listed}");
    }
}

#[test]
fn a_time_between_snapshots_is_restored() {
    let server = TestServer::start_with(&[("MILLRACE_KEEP_LOGS_S", "3600")]).deploy_notes();
    put(&server, "ann/1", "first");
    ran(server.millrace(&["snapshot", "create", "base"]));
    put(&server, "ann/1", "second");
    let between = support::time_passed();
    put(&server, "ann/1", "third");
    assert_eq!(server.call(Method::DELETE, "/document/v1/n/note/group/ann/2", "").0, 200);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (from, data) = (server.data_dir().display().to_string(), directory.path().join("data"));
    let to = data.display().to_string();
    let point = |at: &str, to: &str| {
        server.millrace(&["snapshot", "restore", "--at", at, "--from", &from, "--data-dir", to])
    };
    assert!(refused(point("yesterday", &to)).contains("is not a time such as"));
    assert!(refused(point("2020-01-01T00:00:00Z", &to)).contains("no such snapshot of a time before"));
    let restored = ran(point(&between, &to));
    assert!(
        restored.contains("restored base of") && restored.contains("writes after it until"),
        "{restored}"
    );
    let restored = TestServer::start_in(directory, data, &[]);
    assert_eq!((title(&restored, "ann/1"), title(&server, "ann/1")), (json!("second"), json!("third")));
}

/// The group of a running server becomes what it was at times between snapshots, before and after removals
/// and the removal of the whole group.
#[test]
fn a_group_is_restored_to_a_time_while_the_server_serves() {
    let mut server = TestServer::start_with(&[("MILLRACE_KEEP_LOGS_S", "3600")]).deploy_notes();
    put(&server, "ann/1", "first");
    put(&server, "ann/3", "first");
    let early = support::time_passed();
    ran(server.millrace(&["snapshot", "create", "base"]));
    put(&server, "ann/1", "second");
    put(&server, "ann/2", "second");
    put(&server, "bob/1", "second");
    assert_eq!(server.call(Method::DELETE, "/document/v1/n/note/group/ann/3", "").0, 200);
    let between = support::time_passed();
    put(&server, "ann/1", "third");
    assert_eq!(server.call(Method::DELETE, "/document/v1/n/note/group/ann/2", "").0, 200);
    put(&server, "ann/3", "third");
    put(&server, "bob/1", "third");
    server.restart();
    let full = support::time_passed();
    assert_eq!(server.call(Method::DELETE, "/group/v1/ann", "").0, 200);
    let empty = support::time_passed();
    put(&server, "ann/4", "fourth");
    let at = |time: &str, more: &[&str]| {
        let arguments = ["snapshot", "restore", "--group", "ann", "--at", time];
        server.millrace(&[&arguments, more].concat())
    };
    let shown = || ["ann/1", "ann/2", "ann/3", "ann/4", "bob/1"].map(|path| title(&server, path));
    let titles = |expected: [Option<&str>; 5]| expected.map(|title| json!(title));
    // Exported as of a time, without a change.
    let lines = server.call(Method::POST, &format!("/group/v1/ann/export?at={full}"), "");
    assert_eq!(lines.0, 200, "{}", lines.1);
    assert_eq!(shown(), titles([None, None, None, Some("fourth"), Some("third")]));
    let restored = ran(at(&between, &[]));
    assert!(restored.contains(&format!("restored group ann as of {}", &between[..19])), "{restored}");
    assert_eq!(shown(), titles([Some("second"), Some("second"), None, None, Some("third")]));
    ran(at(&full, &["base"]));
    assert_eq!(shown(), titles([Some("third"), None, Some("third"), None, Some("third")]));
    // What does not exist comes back, and nothing else changes.
    ran(at(&between, &["--missing"]));
    assert_eq!(shown(), titles([Some("third"), Some("second"), Some("third"), None, Some("third")]));
    ran(at(&empty, &[]));
    assert_eq!(shown(), titles([None, None, None, None, Some("third")]));
    let error = refused(at(&early, &[]));
    assert!(error.contains("no snapshot is of a time before"), "{error}");
    let error = refused(at("2100-01-01T00:00:00Z", &[]));
    assert!(error.contains("has not passed yet"), "{error}");
    let (status, answer) = server.call(Method::POST, "/group/v1/ann/restore?at=yesterday", "");
    assert!(status == 400 && answer.to_string().contains("is not a time such as"), "{answer}");
    let (status, answer) =
        server.call(Method::POST, &format!("/group/v1/ann/restore?at={full}&snapshot=no"), "");
    assert_eq!(status, 404, "{answer}");
    // Without kept logs, a snapshot alone remains.
    let mut server = server;
    server.set_environment(&[("MILLRACE_KEEP_LOGS_S", "0")]);
    server.restart();
    let (status, answer) = server.call(Method::POST, &format!("/group/v1/ann/restore?at={full}"), "");
    assert!(
        status == 400 && answer.to_string().contains("the logs of writes after the snapshot"),
        "{answer}"
    );
}
