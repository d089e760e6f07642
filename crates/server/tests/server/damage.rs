//! A bit flips in a file: requests that need the file get its name, the others are not affected, and the
//! doctor finds it.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{self, NOTE, SERVICES, TestServer, poll};

const GROUPS: usize = 8;
const DOCUMENTS: usize = 20;

/// A server whose documents are in segments.
fn sealed() -> TestServer {
    let server = TestServer::with_notes();
    for group in 0..GROUPS {
        for number in 0..DOCUMENTS {
            let title = format!("only{group} {}", "filler ".repeat(400));
            let fields = format!("{{\"title\":\"{title}\",\"stars\":{number}}}");
            server.put(&format!("/document/v1/n/note/group/g{group}/{number}"), &fields);
        }
    }
    let tail = || {
        let (_, metrics) = server.get("/metrics/v2/values");
        let value = "/nodes/0/services/0/metrics/0/values/millrace.store.tail_bytes.last";
        metrics.pointer(value).and_then(Value::as_f64)
    };
    poll("the tail is sealed", || tail() == Some(0.0));
    server
}

fn segments(server: &TestServer) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(server.data_dir().join("segments")).expect("there are segments");
    entries.map(|entry| entry.expect("it can be listed").path()).collect()
}

/// Number of documents of a group that have its word, or the error.
fn count(server: &TestServer, group: usize) -> Result<Value, String> {
    let yql = format!("select * from note where title contains 'only{group}'");
    let (_, answer) =
        server.query(&[("yql", &yql), ("streaming.groupname", &format!("g{group}")), ("hits", "0")]);
    match answer.pointer("/root/errors/0/message") {
        Some(message) => Err(message.to_string()),
        None => Ok(answer["root"]["fields"]["totalCount"].clone()),
    }
}

#[test]
fn a_bit_in_the_words_of_one_group() {
    let mut server = sealed();
    server.terminate();
    let (path, at) = segments(&server)
        .into_iter()
        .find_map(|path| {
            let bytes = std::fs::read(&path).expect("a segment");
            // Two words that follow each other in the dictionary of the group's chunk, the second after its
            // length.
            let at = bytes.windows(12).position(|window| window == b"filler\x05only7")?;
            Some((path, at))
        })
        .expect("the word is in a segment");
    let mut bytes = std::fs::read(&path).expect("a segment");
    bytes[at] ^= 4;
    std::fs::write(&path, bytes).expect("the segment can be written");

    let checked = server.millrace(&["doctor", server.data_dir().to_str().expect("a path of text")]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(!checked.status.success() && said.contains(&*path.to_string_lossy()), "{said}");

    server.start_again();
    let mut damaged = 0;
    for group in 0..GROUPS {
        match count(&server, group) {
            Ok(count) => assert_eq!(count, json!(DOCUMENTS), "group {group}"),
            Err(message) => {
                assert!(message.contains(".seg") && message.contains("doctor"), "{message}");
                damaged += 1;
            }
        }
    }
    assert_eq!(damaged, 1, "one group needs the byte");
    poll("an operator is told, and the server serves", || {
        let status = server.millrace(&["status"]);
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        status.status.success()
            && said.contains("health       up: ")
            && said.contains(".seg: damaged at byte")
    });
}

#[test]
fn a_bit_in_the_manifest_or_in_the_log_keeps_the_server_from_starting() {
    let mut server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", "{\"stars\":1}");
    server.put("/document/v1/n/note/group/ann/2", "{\"stars\":2}");
    server.kill();
    let log = std::fs::read_dir(server.data_dir().join("tail"))
        .expect("there is a tail")
        .map(|entry| entry.expect("it can be listed").path().join("0.jnl"))
        .next()
        .expect("a generation");
    for path in [server.data_dir().join("manifest"), log] {
        let good = std::fs::read(&path).expect("the file is there");
        let mut bad = good.clone();
        bad[40] ^= 1;
        std::fs::write(&path, &bad).expect("the file can be written");
        let started = std::process::Command::new(support::MILLRACE)
            .args(["serve", "--port", "0", "--config-port", "0", "--data-dir"])
            .arg(server.data_dir())
            .output()
            .expect("the binary runs");
        let said = String::from_utf8_lossy(&started.stderr).into_owned();
        assert!(!started.status.success() && said.contains("doctor"), "{}: {said}", path.display());
        let checked = server.millrace(&["doctor", server.data_dir().to_str().expect("a path of text")]);
        let said = String::from_utf8_lossy(&checked.stdout).into_owned();
        assert!(!checked.status.success() && said.contains("damage") || said.contains("checksum"), "{said}");
        std::fs::write(&path, &good).expect("the file can be written");
    }
    server.start_again();
    assert_eq!(server.get("/document/v1/n/note/group/ann/2").1["fields"]["stars"], 2);
}

#[test]
fn an_index_that_cannot_be_read_is_opened_later() {
    let mut server = TestServer::start();
    let index =
        "<index-service><index name='by-stars' document='note'><key field='stars'/></index></index-service>";
    let services = SERVICES.replace("</documents>", &format!("</documents>{index}"));
    let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    server.put("/document/v1/n/note/group/ann/1", "{\"stars\":1}");
    assert!(server.millrace(&["index", "wait"]).status.success());
    server.terminate();
    let entries = std::fs::read_dir(server.data_dir().join("indexes")).expect("there are indexes");
    let manifest = entries
        .map(|entry| entry.expect("it can be listed").path().join("manifest"))
        .find(|manifest| manifest.is_file())
        .expect("an index");
    let kept = server.data_dir().join("kept");
    std::fs::rename(&manifest, &kept).expect("it is there");
    std::fs::create_dir(&manifest).expect("reading it fails, as on a disk with errors");
    server.start_again();
    let list = String::from_utf8_lossy(&server.millrace(&["index", "list"]).stdout).into_owned();
    assert!(list.contains("failed"), "{list}");
    std::fs::remove_dir(&manifest).expect("it is empty");
    std::fs::rename(&kept, &manifest).expect("it is there");
    assert!(server.millrace(&["index", "wait"]).status.success());
    let asked = [
        ("yql", "select * from note where stars = 1"),
        ("streaming.selection", "true"),
        ("index.use", "by-stars"),
        ("timeout", "60s"),
    ];
    let (_, answer) = server.query(&asked);
    assert_eq!(answer["root"]["fields"]["totalCount"], json!(1), "{answer}");
}

/// Documents of one type cannot be read; the index of the other type is built all the same.
#[test]
fn an_index_that_fails_keeps_no_other_from_being_built() {
    let mut server = TestServer::start();
    let memo = NOTE.replace("note", "memo");
    let indexes = "<document type='memo' mode='streaming'/></documents><index-service>\
                   <index name='by-memo' document='memo'><key field='stars'/></index>\
                   <index name='by-note' document='note'><key field='stars'/></index></index-service>";
    let services = SERVICES.replace("</documents>", indexes);
    let files = [("services.xml", &*services), ("schemas/note.sd", NOTE), ("schemas/memo.sd", &*memo)];
    let (status, answer) = server.deploy(&files);
    assert_eq!(status, 200, "{answer}");
    for document_type in ["memo", "note"] {
        server.put(&format!("/document/v1/n/{document_type}/group/ann/1"), "{\"stars\":1}");
    }
    // Both are in one file from then on.
    assert!(server.millrace(&["snapshot", "create", "sealed"]).status.success());
    server.terminate();
    std::fs::remove_dir_all(server.data_dir().join("indexes")).expect("they are built again");
    for path in segments(&server) {
        let mut bytes = std::fs::read(&path).expect("a segment");
        // The first byte of the first type.
        bytes[64] ^= 1;
        std::fs::write(&path, bytes).expect("the segment can be written");
    }
    server.start_again();
    let shown = |arguments: &[&str]| String::from_utf8_lossy(&server.millrace(arguments).stdout).into_owned();
    let line = |name: &str| {
        let list = shown(&["index", "list"]);
        list.lines().find(|line| line.starts_with(name)).map(str::to_owned).unwrap_or_default()
    };
    poll("the other is built", || line("by-note").contains("ready") && line("by-memo").contains("failed"));
    let waited = shown(&["index", "wait", "--timeout", "0.01"]);
    assert!(waited.contains("not ready yet: by-memo\nby-memo: "), "{waited}");
    assert!(waited.contains(".seg: damaged at byte 64"), "{waited}");
}

#[test]
fn the_doctor_finds_what_keeps_the_application_from_starting() {
    let mut server = TestServer::with_notes();
    server.terminate();
    let application = server.data_dir().join("application");
    for (name, cure) in [
        ("active", "deploy the application again"),
        ("1.zip", "deploy the application again"),
        ("1.drops", "or {} in it"),
        ("reindexing", "remove the file"),
    ] {
        let path = application.join(name);
        let good = std::fs::read(&path).expect("the file is there");
        std::fs::write(&path, &good[..good.len() / 2]).expect("the file can be written");
        let refused = std::process::Command::new(support::MILLRACE)
            .args(["serve", "--port", "0", "--config-port", "0", "--data-dir"])
            .arg(server.data_dir())
            .output()
            .expect("the binary runs");
        let checked = server.millrace(&["doctor", server.data_dir().to_str().expect("a path of text")]);
        for (output, said) in [(&refused, &refused.stderr), (&checked, &checked.stdout)] {
            let said = String::from_utf8_lossy(said);
            assert_eq!(output.status.code(), Some(1), "{name}: {said}");
            assert!(said.contains(&*path.to_string_lossy()) && said.contains(cure), "{name}: {said}");
        }
        std::fs::write(&path, &good).expect("the file can be written");
    }
    server.start_again();
}
