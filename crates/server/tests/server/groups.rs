//! Groups as things: their sizes, export, restoration and deletion, over HTTP and from the command line.

use std::path::Path;
use std::process::Output;

use hyper::Method;
use millrace_client::{ClientAnswer, HttpProtocol, OutgoingRequest};
use serde_json::{Value, json};

use crate::support::{self, TestServer};

fn filled() -> TestServer {
    let server = TestServer::with_notes();
    for (path, stars) in
        [("group/ann/1", 1), ("group/ann/2", 2), ("group/a%2Fb%20c/1", 3), ("number/7/1", 4), ("docid/1", 5)]
    {
        server.put(
            &format!("/document/v1/n/note/{path}"),
            &format!("{{\"title\":\"word{stars}\",\"stars\":{stars}}}"),
        );
    }
    server.put("/document/v1/other/note/group/ann/1", "{\"title\":\"word6\"}");
    server
}

fn send(server: &TestServer, method: Method, path: &str, body: &str) -> ClientAnswer {
    let request = OutgoingRequest::new(method, path);
    let request = if body.is_empty() { request } else { request.body("application/jsonl", body.to_owned()) };
    server.send(&server.url(), HttpProtocol::Http1, request)
}

/// Names and numbers of documents of all groups, by pages of one.
fn listed(server: &TestServer) -> Vec<String> {
    let (mut found, mut rest) = (Vec::new(), String::new());
    loop {
        let (status, page) = server.get(&format!("/group/v1/?count=1{rest}"));
        assert_eq!(status, 200, "{page}");
        for group in page["groups"].as_array().expect("a list") {
            assert!(group["bytes"].as_u64() > Some(0) && group["lastWrite"].as_u64() > Some(0), "{group}");
            let name = group["name"].as_str().map_or_else(|| group["number"].to_string(), str::to_owned);
            found.push(format!("{name} {}", group["documents"]));
        }
        match page["continuation"].as_str() {
            Some(next) => rest = format!("&continuation={}", millrace_client::encoded(next)),
            None => break,
        }
    }
    found.sort();
    found
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ran(output: Output) -> String {
    assert!(output.status.success(), "{}{}", text_of(&output.stdout), text_of(&output.stderr));
    text_of(&output.stdout)
}

/// True if a file below a directory has these bytes.
fn has_bytes(directory: &Path, wanted: &[u8]) -> bool {
    // The server may remove a directory meanwhile, or a file.
    let mut entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| match entry.path() {
        path if path.is_dir() => has_bytes(&path, wanted),
        path => {
            std::fs::read(path).is_ok_and(|bytes| bytes.windows(wanted.len()).any(|window| window == wanted))
        }
    })
}

#[test]
fn groups_are_listed_and_shown() {
    let server = filled();
    assert_eq!(listed(&server), ["7 1", "a/b c 1", "ann 3"]);
    let (status, ann) = server.get("/group/v1/ann");
    assert_eq!((status, &ann["documents"], &ann["name"]), (200, &json!(3), &json!("ann")), "{ann}");
    assert_eq!(server.get("/group/v1/a%2Fb%20c").1["documents"], 1);
    assert_eq!(server.get("/group/v1/7?kind=number").1["number"], 7);
    for (method, path, status, message) in [
        (Method::GET, "/group/v1/7", 404, "there is nothing of the group '7' (g=7)"),
        (Method::GET, "/group/v1/8?kind=number", 404, "there is nothing of the group '8' (n=8)"),
        (Method::GET, "/group/v1/ann/dance", 404, "/group/v1/NAME/export"),
        (Method::GET, "/group/v1/x?kind=number", 400, "not a number"),
        (Method::GET, "/group/v1/x?kind=person", 400, "name or number"),
        (Method::GET, "/group/v1/a%00b", 400, "control character"),
        (Method::GET, "/group/v1/?count=0", 400, "count"),
        (Method::GET, "/group/v1/?continuation=x", 400, "continuation"),
        (Method::POST, "/group/v1/", 405, "use GET"),
        (Method::PUT, "/group/v1/ann", 405, "use GET, DELETE"),
        (Method::GET, "/group/v1/ann/export", 405, "use POST"),
        (Method::GET, "/person/bob/group/v1/ann", 403, "group"),
    ] {
        let answer = send(&server, method.clone(), path, "");
        let text = text_of(&answer.body);
        assert!(answer.status == status && text.contains(message), "{method} {path}: {text}");
    }
    assert_eq!(server.get("/person/ann/group/v1/").1["groups"].as_array().map(Vec::len), Some(1));
    let list = ran(server.millrace(&["groups"]));
    assert!(list.lines().count() == 4 && list.contains("g=a/b c") && list.contains("n=7"), "{list}");
    let shown = ran(server.millrace(&["group", "show", "ann"]));
    assert!(shown.contains("documents   3") && shown.contains("files       "), "{shown}");
    assert!(!server.millrace(&["group", "show", "nobody"]).status.success());
}

#[test]
fn a_group_is_exported_deleted_and_restored() {
    let server = filled();
    let exported = send(&server, Method::POST, "/group/v1/ann/export", "");
    assert_eq!(exported.status, 200);
    let lines = text_of(&exported.body);
    let operations: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON lines")).collect();
    assert_eq!(operations.len(), 3, "{lines}");
    assert!(operations.iter().all(|operation| operation["put"].as_str().is_some()), "{lines}");
    let receipt = send(&server, Method::DELETE, "/group/v1/ann", "").json();
    assert_eq!(receipt["documents"], 3, "{receipt}");
    assert_eq!(listed(&server), ["7 1", "a/b c 1"]);
    assert_eq!(send(&server, Method::POST, "/group/v1/ann/export", "").body.len(), 0);
    // What is of another group fails; ids without a group are of this one.
    let more = "{\"put\":\"id:n:note:g=bob:9\",\"fields\":{}}\n{\"put\":\"id:n:note::9\",\"fields\":{}}\n";
    let restored = send(&server, Method::POST, "/group/v1/ann/restore", &(lines.clone() + more));
    assert_eq!(text_of(&restored.body).matches("\"status\":403").count(), 1, "{}", text_of(&restored.body));
    assert_eq!(listed(&server), ["7 1", "a/b c 1", "ann 4"]);
    let (_, document) = server.get("/document/v1/n/note/group/ann/2");
    assert_eq!(document["fields"], json!({ "title": "word2", "stars": 2 }));
    // The same from the command line, for a group with another name and without groups in ids.
    let file = server.data_dir().join("../export.jsonl").display().to_string();
    ran(server.millrace(&["group", "export", "a/b c", "--to", &file]));
    let again = server.millrace(&["group", "export", "a/b c", "--to", &file]);
    let reason = text_of(&again.stderr);
    assert!(
        !again.status.success() && reason.contains("the file exists, and is not overwritten"),
        "{reason}"
    );
    let nothing = server.millrace(&["group", "export", "nosuch"]);
    let note = text_of(&nothing.stderr);
    assert!(nothing.status.success() && note.contains("the group 'nosuch' has no documents"), "{note}");
    assert!(nothing.stdout.is_empty());
    let deleted = ran(server.millrace(&["group", "delete", "a/b c"]));
    assert!(deleted.contains("deleted 1 document") && !deleted.contains("documents"), "{deleted}");
    ran(server.millrace(&["feed", "--quiet", &file, "--group", "a/b c"]));
    assert!(!server.millrace(&["feed", "--quiet", &file, "--group", "bob"]).status.success());
    ran(server.millrace(&["put", "id:n:note::2", "{\"fields\":{\"title\":\"x\"}}", "--group", "a/b c"]));
    assert!(ran(server.millrace(&["get", "id:n:note::2", "--group", "a/b c"])).contains("g=a/b c:2"));
    let line = server.data_dir().join("../line.jsonl");
    std::fs::write(&line, r#"{"put":"id:n:note::2","fields":{"title":"x"}}"#).expect("written");
    let fed = ran(server.millrace(&["feed", "--quiet", &line.display().to_string(), "--group", "a/b c"]));
    assert!(fed.contains("1 done") && !fed.contains("have no group"), "{fed}");
    let yql = "select * from note where true";
    let found = ran(server.millrace(&["--format", "json", "query", yql, "timeout=60s", "--group", "a/b c"]));
    let found: Value = serde_json::from_str(&found).expect("JSON");
    assert_eq!(found["root"]["fields"]["totalCount"], 2, "{found}");
    let words =
        ran(server.millrace(&["--format", "json", "query", "title:x", "timeout=60s", "--group", "a/b c"]));
    let found: Value = serde_json::from_str(&words).expect("JSON");
    assert_eq!(found["root"]["fields"]["totalCount"], 1, "{found}");
    let told = |again: &str| {
        let removed = server.millrace(&["remove", "id:n:note::2", "--group", "a/b c"]);
        assert!(removed.status.success(), "{again}");
        String::from_utf8_lossy(&removed.stderr).contains("did not exist")
    };
    assert_eq!(["first", "again"].map(told), [false, true]);
    assert_eq!(server.get("/group/v1/a%2Fb%20c").1["documents"], 1);
}

#[test]
fn a_full_group_takes_no_more() {
    let most = [("MILLRACE_GROUP_DOCUMENTS_MAX", "2"), ("MILLRACE_GROUP_BYTES_MAX", "20000")];
    let server = TestServer::start_with(&most).deploy_notes();
    let put = |path: &str, title: &str| {
        let body = json!({ "fields": { "title": title } }).to_string();
        let (status, answer) = server.call(Method::POST, &format!("/document/v1/n/note/{path}"), &body);
        (status, answer["message"].as_str().unwrap_or_default().to_owned())
    };
    for path in ["group/ann/1", "group/ann/1", "group/ann/2", "group/bob/1", "docid/1", "docid/2", "docid/3"]
    {
        assert_eq!(put(path, "x").0, 200, "{path}");
    }
    let (status, message) = put("group/ann/3", "x");
    assert_eq!(status, 507, "{message}");
    assert!(
        message.contains("group g=ann is full") && message.contains("--group-documents-max"),
        "{message}"
    );
    let operations = "{\"put\":\"id:n:note:g=ann:4\",\"fields\":{}}\n{\"remove\":\"id:n:note:g=ann:1\"}\n\
                      {\"put\":\"id:n:note:g=bob:2\",\"fields\":{}}\n";
    let fed = text_of(&send(&server, Method::POST, "/feed/v1", operations).body);
    assert_eq!(fed.matches("\"status\":507").count(), 1, "{fed}");
    assert_eq!(put("group/ann/3", "x").0, 200, "a removal makes room");
    assert_eq!(
        put(
            "group/carl/1",
            &(0..20_000_u32).map(|number| number.wrapping_mul(2_654_435_761).to_string()).collect::<String>()
        )
        .0,
        200
    );
    let (status, message) = put("group/carl/2", "x");
    assert!(status == 507 && message.contains("--group-bytes-max"), "{message}");
}

/// The erasure in an answer, with the times left out that differ from run to run.
fn receipt_of(answer: &Value) -> String {
    let erasure = &answer["erasure"];
    let [dropped, by] = ["dropped", "eraseBy"].map(|name| erasure[name].as_u64().expect("a time"));
    let erased = erasure["erased"].as_u64().map_or("not erased".to_owned(), |erased| {
        assert!(erased >= dropped, "{erasure}");
        "erased".to_owned()
    });
    let left = ["files", "logs", "indexes"].map(|name| format!(" {name}={}", erasure[name]));
    format!("within {}s, {erased}{}", (by - dropped) / 1_000_000, left.concat())
}

#[test]
fn an_erased_group_is_in_no_file() {
    let server = TestServer::with_notes();
    let marker = "zyxwvutsrqponm";
    server.put("/document/v1/n/note/group/ann/1", &format!("{{\"title\":\"{marker}\"}}"));
    server.put("/document/v1/n/note/group/bob/1", "{\"title\":\"kept\"}");
    assert!(has_bytes(&server.data_dir(), marker.as_bytes()));
    let mut receipt = send(&server, Method::DELETE, "/group/v1/ann?erase=true", "").json();
    assert_eq!(receipt_of(&receipt), "within 0s, erased files=null logs=null indexes=null");
    receipt["erasure"].take();
    let expected = json!({
        "name": "ann", "documents": 1, "bytes": 0, "files": 0, "erased": true, "erasure": null
    });
    assert_eq!(receipt, expected);
    assert!(!has_bytes(&server.data_dir(), marker.as_bytes()));
    let (status, shown) = server.get("/group/v1/ann");
    assert_eq!(status, 404, "{shown}");
    assert_eq!(receipt_of(&shown), "within 0s, erased files=null logs=null indexes=null");
    assert_eq!(listed(&server), ["bob 1"]);
}

#[test]
fn a_deleted_group_has_a_bound_and_a_receipt() {
    let mut server = TestServer::start_with(&[("MILLRACE_ERASE_WITHIN_S", "86400")]).deploy_notes();
    let marker = "zyxwvutsrqponm";
    for name in ["ann", "bob", "carl"] {
        server.put(
            &format!("/document/v1/n/note/group/{name}/1"),
            &format!("{{\"title\":\"{marker}{name}\"}}"),
        );
    }
    for (path, message) in [
        ("ann?within=2d", "at most 86400s"),
        ("ann?within=x", "d, h, m, s"),
        ("ann?within=1h&erase=true", "within=0"),
    ] {
        let answer = send(&server, Method::DELETE, &format!("/group/v1/{path}"), "");
        let text = text_of(&answer.body);
        assert!(answer.status == 400 && text.contains(message), "{path}: {text}");
    }
    let answer = send(&server, Method::DELETE, "/group/v1/ann", "").json();
    assert_eq!((&answer["documents"], &answer["erased"]), (&json!(1), &json!(false)), "{answer}");
    assert_eq!(receipt_of(&answer), "within 86400s, not erased files=0 logs=1 indexes=false");
    let answer = send(&server, Method::DELETE, "/group/v1/bob?within=3h", "").json();
    assert_eq!(receipt_of(&answer), "within 10800s, not erased files=0 logs=1 indexes=false");
    // Both bounds are still known after a kill, and the group is not there.
    server.kill_and_restart();
    for (name, within) in [("ann", 86400), ("bob", 10_800)] {
        let (status, shown) = server.get(&format!("/group/v1/{name}"));
        assert!(status == 200 && shown["documents"] == 0, "its rows are in the log: {shown}");
        assert!(receipt_of(&shown).starts_with(&format!("within {within}s, not erased")), "{shown}");
    }
    assert!(has_bytes(&server.data_dir(), format!("{marker}ann").as_bytes()));
    // A later deletion lowers the bound. It has to begin only; a kill comes between.
    let answer = send(&server, Method::DELETE, "/group/v1/ann?within=0&timeout=10ms", "").json();
    assert!(receipt_of(&answer).starts_with("within 0s"), "{answer}");
    server.kill_and_restart();
    support::poll("the group is erased", || !server.get("/group/v1/ann").1["erasure"]["erased"].is_null());
    for name in ["ann", "bob"] {
        let marker = format!("{marker}{name}");
        assert!(!has_bytes(&server.data_dir(), marker.as_bytes()), "{name}: one log has both");
    }
    assert!(has_bytes(&server.data_dir(), format!("{marker}carl").as_bytes()));
    assert_eq!(listed(&server), ["carl 1"]);
    let (_, all) = server.get("/group/v1/?erasures=true");
    let names: Vec<&Value> =
        all["erasures"].as_array().expect("a list").iter().map(|of| &of["name"]).collect();
    assert_eq!(names, ["ann", "bob"]);
    let own = server.get("/person/bob/group/v1/?erasures=true").1;
    assert_eq!(own["erasures"].as_array().map(Vec::len), Some(1), "{own}");
    let list = ran(server.millrace(&["group", "erasures"]));
    assert!(list.lines().count() == 3 && list.contains("g=ann"), "{list}");
    assert!(text_of(&server.millrace(&["group", "show", "ann"]).stdout).contains("erased      20"));
    let deleted = ran(server.millrace(&["group", "delete", "carl", "--within", "12h"]));
    assert!(deleted.contains("deleted 1 document") && deleted.contains("left in     "), "{deleted}");
    let text = text_of(
        &server.send(&server.url(), HttpProtocol::Http1, OutgoingRequest::new(Method::GET, "/metrics")).body,
    );
    assert!(text.contains("millrace_erasures_pending"), "{text}");
}

/// While documents are written all the time, an erasure ends: it does not wait for other merges.
#[test]
fn a_group_is_erased_under_load() {
    let server = TestServer::with_notes();
    let marker = "zyxwvutsrqponm";
    for number in 0..50 {
        let text = format!("{{\"title\":\"{marker}{number}\"}}");
        server.put(&format!("/document/v1/n/note/group/ann/{number}"), &text);
    }
    let (url, stop) = (server.url(), std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stop = &stop;
        for writer in 0..2 {
            let url = url.clone();
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.expect("a runtime");
                let client = millrace_client::NodeClient::new(&url, HttpProtocol::Http1).expect("an address");
                let mut number = 0_u64;
                while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                    let mut lines = String::new();
                    for _ in 0..500 {
                        number += 1;
                        let group = number % 97;
                        lines += &format!(
                            "{{\"put\":\"id:n:note:g=w{writer}x{group}:{number}\",\"fields\":{{\"title\":\"{}\"}}}}\n",
                            format!("text {number} ").repeat(20)
                        );
                    }
                    let request = OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", lines);
                    let answer = runtime.block_on(client.send(request)).expect("an answer");
                    assert!(answer.status == 200 || answer.status == 429, "{}", answer.status);
                }
            });
        }
        std::thread::sleep(std::time::Duration::from_millis(500));
        // A look can miss a file that takes the place of another.
        support::poll("it is written", || has_bytes(&server.data_dir(), marker.as_bytes()));
        let answer = send(&server, Method::DELETE, "/group/v1/ann?within=0&timeout=1s", "").json();
        assert!(receipt_of(&answer).starts_with("within 0s"), "{answer}");
        support::poll("the group is erased", || {
            !server.get("/group/v1/ann").1["erasure"]["erased"].is_null()
        });
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
    });
    assert!(!has_bytes(&server.data_dir(), marker.as_bytes()));
}
