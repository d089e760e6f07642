//! The command line against a server: what it prints, and its exit status.

mod support;

use std::process::Command;

use serde_json::{Value, json};
use support::{MILLRACE, NOTE, SERVICES, Server, write_files};

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn deploy_feed_query_visit() {
    let server = Server::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    write_files(directory.path(), &[("app/services.xml", SERVICES), ("app/schemas/note.sd", NOTE)]);
    assert!(!server.millrace(&["status"]).status.success(), "nothing is deployed yet");
    assert!(server.millrace(&["deploy", &path("app")]).status.success());
    assert!(server.millrace(&["status"]).status.success());

    let feed: String = (0..100)
        .map(|number| {
            format!(
                "{}\n",
                json!({ "put": format!("id:n:note:g=ann:{number}"), "fields": { "stars": number } })
            )
        })
        .collect();
    write_files(directory.path(), &[("feed.jsonl", &feed)]);
    let fed = server.millrace(&["--format", "json", "feed", &path("feed.jsonl")]);
    assert!(fed.status.success(), "{fed:?}");
    let report: Value = serde_json::from_slice(&fed.stdout).expect("JSON");
    assert_eq!((&report["done"], &report["failed"]), (&json!(100), &json!(0)));

    let asked = ["query", "select * from note where stars > 97", "streaming.groupname=ann"];
    assert!(stdout(&server.millrace(&asked)).contains("2 documents match"));
    let visited = server.millrace(&["visit", "--selection", "note.stars < 10"]);
    assert_eq!(stdout(&visited).lines().count(), 10);
}

#[test]
fn documents_one_by_one() {
    let server = Server::with_notes();
    const ID: &str = "id:n:note:g=ann:1";
    assert!(server.millrace(&["put", ID, r#"{"fields":{"stars":1}}"#]).status.success());
    assert!(server.millrace(&["update", ID, r#"{"fields":{"stars":{"increment":1}}}"#]).status.success());
    assert!(
        !server.millrace(&["update", ID, "{\"fields\":{}}", "--condition", "note.stars==9"]).status.success()
    );
    let got: Value = serde_json::from_str(&stdout(&server.millrace(&["get", ID]))).expect("JSON");
    assert_eq!(got, json!({ "id": ID, "fields": { "stars": 2 } }));
    assert!(server.millrace(&["remove", ID]).status.success());
    assert_eq!(server.millrace(&["get", ID]).status.code(), Some(1));
}

#[test]
fn a_feed_names_what_failed_and_goes_on() {
    let server = Server::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let good = r#"{"put":"id:n:note::1","fields":{"stars":1}}"#;
    let bad = r#"{"put":"id:n:note::2","fields":{"stars":"many"}}"#;
    write_files(directory.path(), &[("feed.json", &format!("[{bad},\n{good}]"))]);
    let path = directory.path().join("feed.json").display().to_string();
    let fed = server.millrace(&["feed", "--quiet", &path]);
    assert_eq!(fed.status.code(), Some(1));
    let told = stdout(&fed);
    assert!(
        told.contains("byte 1: id:n:note::2") && told.contains("stars") && told.contains("1 done, 1 failed"),
        "{told}"
    );
}

#[test]
fn a_feed_goes_on_where_it_stopped() {
    let server = Server::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let first = r#"{"put":"id:n:note::1","fields":{}}"#;
    let bad = r#"{"put":"id:n:nope::2","fields":{}}"#;
    let fixed = r#"{"put":"id:n:note::2","fields":{}}"#;
    write_files(directory.path(), &[("feed.jsonl", &format!("{first}\n{bad}\n"))]);
    let feed = path("feed.jsonl");
    let resume = path("resume");
    let arguments = ["--format", "json", "feed", "--resume", &resume, "--stop-at-failure", &feed];
    assert!(!server.millrace(&arguments).status.success());
    write_files(directory.path(), &[("feed.jsonl", &format!("{first}\n{bad}\n{fixed}\n"))]);
    let again = server.millrace(&arguments);
    let report: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    assert_eq!(report["done"], json!(1), "only what was not fed yet: {report}");
    assert!(!directory.path().join("resume").exists(), "a feed that ended needs no place to go on");
}

#[test]
fn errors_name_the_cure() {
    let run = |arguments: &[&str]| Command::new(MILLRACE).args(arguments).output().expect("the binary runs");
    let away = run(&["--url", "http://127.0.0.1:1", "get", "id:n:note::1"]);
    assert_eq!(away.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&away.stderr).contains("millrace serve"));
    let feed = run(&["--url", "http://127.0.0.1:1", "feed", env!("CARGO_MANIFEST_PATH")]);
    assert_eq!(feed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&feed.stderr).contains("millrace serve"));
    assert_eq!(run(&["serve", "--prot", "1"]).status.code(), Some(2));
    assert!(stdout(&run(&["completions", "bash"])).contains("millrace"));
    let settings = run(&["serve", "--config", "/nowhere/millrace.toml"]);
    assert!(String::from_utf8_lossy(&settings.stderr).contains("/nowhere/millrace.toml"));
}

#[test]
fn a_healthy_data_directory() {
    let mut server = Server::with_notes();
    server.put("/document/v1/n/note/docid/1", "{}");
    server.terminate();
    let checked = server.millrace(&["doctor", &server.data_dir().display().to_string()]);
    assert!(checked.status.success(), "{checked:?}");
    assert!(stdout(&checked).contains("all is well"));
}
