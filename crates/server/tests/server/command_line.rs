//! The command line against a server: its output, and its exit status.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Method;
use millrace_client::{HttpProtocol, OutgoingRequest};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use crate::support::{MILLRACE, NOTE, SERVICES, TestServer, write_files};

fn stdout(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn deploy_feed_query_visit() {
    let server = TestServer::start();
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

    let asked = ["query", "select * from note where stars > 97", "streaming.groupname=ann", "timeout=60s"];
    assert!(stdout(&server.millrace(&asked)).contains("2 documents match"));
    let visited = server.millrace(&["visit", "--selection", "note.stars < 10"]);
    assert_eq!(stdout(&visited).lines().count(), 10);
}

#[test]
fn documents_one_by_one() {
    let server = TestServer::with_notes();
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
    let server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let good = r#"{"put":"id:n:note::1","fields":{"stars":1}}"#;
    let bad = r#"{"put":"id:n:note::2","fields":{"stars":"many"}}"#;
    write_files(directory.path(), &[("feed.json", &format!("[{bad},\n{good}]"))]);
    let path = directory.path().join("feed.json").display().to_string();
    let fed = server.millrace(&["feed", "--quiet", &path]);
    assert_eq!(fed.status.code(), Some(1));
    let printed = stdout(&fed);
    assert!(
        printed.contains("feed.json:1:47: id:n:note::2: field 'stars'")
            && !printed.contains("(line")
            && printed.contains("stars")
            && printed.contains("1 done, 1 failed"),
        "{printed}"
    );
}

/// The other lines are fed; the rest of a list is not, and that is reported.
#[test]
fn errors_of_operations_name_their_line() {
    let server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let put = |id: u32| format!("{{\"put\":\"id:n:note:g=ann:{id}\",\"fields\":{{\"stars\":{id}}}}}");
    let feed = |text: &str| {
        write_files(directory.path(), &[("feed", text)]);
        let path = directory.path().join("feed").display().to_string();
        let fed = server.millrace(&["feed", "--quiet", &path]);
        assert_eq!(fed.status.code(), Some(1), "{fed:?}");
        stdout(&fed).replace(&path, "FEED")
    };
    for bad in ["foo", "[1]", "{\"put\":\"id:n:note:g=ann:9"] {
        let printed = feed(&format!("{}\n{bad}\n{}\n{}\n", put(1), put(2), put(3)));
        assert!(
            printed.starts_with("failed: FEED:2:1: ") && printed.contains("3 done, 1 failed"),
            "{printed}"
        );
        assert!(!printed.contains("not read"), "{printed}");
    }
    let printed = feed(&format!("[{},\nfoo,\n{}]", put(4), put(5)));
    assert!(printed.starts_with("failed: FEED:2:1: ") && printed.contains("1 done, 1 failed"), "{printed}");
    assert!(printed.contains("FEED was not read from line 2 on"), "{printed}");
    let visited = server.millrace(&["visit", "--fields", "[id]"]);
    assert_eq!(stdout(&visited).lines().count(), 4, "{visited:?}");
}

/// Neither the file nor the one before it: one of them is not what was meant.
#[test]
fn a_file_that_is_not_a_feed_is_refused_before_anything_is_stored() {
    let server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let put = r#"{"put":"id:n:note:g=ann:1","fields":{"stars":1}}"#;
    write_files(directory.path(), &[("good.jsonl", put), ("bad.csv", &format!("id,stars\n{put}\n"))]);
    let path = |name: &str| directory.path().join(name).display().to_string();
    for files in [vec![path("bad.csv")], vec![path("good.jsonl"), path("bad.csv")]] {
        let arguments: Vec<&str> =
            ["feed", "--quiet"].into_iter().chain(files.iter().map(String::as_str)).collect();
        let printed = refusal(&server, &arguments);
        assert!(
            printed.contains("bad.csv, line 1, column 1: ") && printed.contains("Nothing of it was stored"),
            "{printed}"
        );
    }
    let visited = server.millrace(&["visit", "--fields", "[id]"]);
    assert_eq!(stdout(&visited), "");
}

#[test]
fn a_feed_goes_on_where_it_stopped() {
    let server = TestServer::with_notes();
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
    let arguments = ["--url", "http://127.0.0.1:1", "feed", "--patience", "0", "-"];
    let feed = run(&arguments);
    assert_eq!(feed.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&feed.stderr).contains("millrace serve"));
    let id = run(&["get", "id:n:note:G=ann:1"]);
    assert!(String::from_utf8_lossy(&id.stderr).contains("g= and n= are written in lower case"), "{id:?}");
    assert_eq!(run(&["serve", "--prot", "1"]).status.code(), Some(2));
    assert!(stdout(&run(&["completions", "bash"])).contains("millrace"));
    let settings = run(&["serve", "--config", "/nowhere/millrace.toml"]);
    assert!(String::from_utf8_lossy(&settings.stderr).contains("/nowhere/millrace.toml"));

    let server = TestServer::start();
    let data_dir = server.data_dir().display().to_string();
    let taken = refusal(&server, &["serve", "--data-dir", &data_dir, "--port", "0", "--config-port", "0"]);
    assert!(taken.contains("another process has it open") && !taken.contains("doctor"), "{taken}");
    let file = refusal(&server, &["serve", "--data-dir", env!("CARGO_MANIFEST_PATH")]);
    assert!(file.contains("choose another with --data-dir") && !file.contains("cluster"), "{file}");
    let directory = refusal(&server, &["feed", env!("CARGO_MANIFEST_DIR")]);
    assert!(directory.contains("it is a directory; name the files in it"), "{directory}");
}

/// Commands that use no node have no options for its address.
#[test]
fn help_has_the_options_that_count() {
    let help = |command: &str| {
        let output = Command::new(MILLRACE).args([command, "--help"]).output().expect("the binary runs");
        assert!(output.status.success(), "{command}: {output:?}");
        stdout(&output)
    };
    for (command, talks) in [("get", true), ("feed", true), ("serve", false), ("doctor", false)] {
        assert_eq!(help(command).contains("--config-url"), talks, "{command}");
    }
}

/// Without a command, the commands are listed by topic, with nothing else to read before.
#[test]
fn commands_are_listed_by_topic() {
    let output =
        Command::new(MILLRACE).env("MILLRACE_URL", "http://search:8080").output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let printed = stdout(&output);
    let places =
        ["Start", "serve ", "Documents", "feed ", "Search", "query ", "Groups", "Operations", "doctor "];
    let found: Vec<Option<usize>> = places
        .iter()
        .map(|place| printed.find(&format!("\n{place}")).or_else(|| printed.find(&format!("\n  {place}"))))
        .collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{found:?} in {printed}");
}

/// Error message of a command, which must fail.
fn refusal(server: &TestServer, arguments: &[&str]) -> String {
    let output = server.millrace(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The server accepts connections, and never answers.
#[test]
fn no_command_waits_for_ever() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", silent.local_addr().expect("it is bound"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_files(directory.path(), &[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]);
    let application = directory.path().display().to_string();
    let commands: [&[&str]; 10] = [
        &["status"],
        &["cluster", "show"],
        &["node", "up", "n0"],
        &["deploy", &application],
        &["query", "select * from note where true"],
        &["get", "id:n:note::1"],
        &["put", "id:n:note::1", "{}"],
        &["update", "id:n:note::1", "{}"],
        &["remove", "id:n:note::1"],
        &["visit", "--cluster", "notes"],
    ];
    for command in commands {
        let output = Command::new(MILLRACE)
            .args(["--url", &url, "--config-url", &url])
            .args(command)
            .args(["--timeout", "0.2"])
            .output()
            .expect("the binary runs");
        let error = String::from_utf8_lossy(&output.stderr);
        let expected = format!("{url} did not answer within 0.2 seconds");
        assert!(output.status.code() == Some(1) && error.contains(&expected), "{command:?}: {error}");
    }
    let wrong = Command::new(MILLRACE).args(["status", "--timeout=-1"]).output().expect("it runs");
    assert!(
        String::from_utf8_lossy(&wrong.stderr).contains("is not a number of seconds above 0"),
        "{wrong:?}"
    );
}

#[test]
fn a_feed_without_an_application_is_not_begun() {
    let server = TestServer::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_files(directory.path(), &[("feed.jsonl", r#"{"put":"id:n:note::1","fields":{}}"#)]);
    let feed = directory.path().join("feed.jsonl").display().to_string();
    let error = refusal(&server, &["feed", &feed]);
    assert!(
        error.starts_with("error: no application is deployed: deploy one with 'millrace deploy DIR'"),
        "{error}"
    );
}

#[test]
fn a_feed_may_be_compressed() {
    let server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let packed = |number: u32| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        writeln!(packer, r#"{{"put":"id:n:note:g=ann:{number}","fields":{{}}}}"#)
            .expect("memory can be written");
        packer.finish().expect("memory can be written")
    };
    // Concatenated archives are one, as for zcat.
    let path = directory.path().join("feed.jsonl.gz");
    std::fs::write(&path, [packed(1), packed(2)].concat()).expect("a file");
    let fed = server.millrace(&["feed", &path.display().to_string()]);
    assert!(fed.status.success() && stdout(&fed).contains("2 done, 0 failed"), "{fed:?}");
    let mut feed = Command::new(MILLRACE)
        .args(["--url", &server.url(), "feed", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    feed.stdin.take().expect("it is piped").write_all(&packed(3)).expect("it reads");
    let fed = feed.wait_with_output().expect("it ends");
    assert!(fed.status.success() && stdout(&fed).contains("standard input: 1 done"), "{fed:?}");
    // Zstandard too; a frame of a tool's own may come first.
    let line = "{\"put\":\"id:n:note:g=ann:4\",\"fields\":{}}\n";
    let frame = compress_to_vec(line.as_bytes(), CompressionLevel::Fastest);
    let skipped = [&0x184D_2A50_u32.to_le_bytes()[..], &2_u32.to_le_bytes(), b"by"].concat();
    let path = directory.path().join("feed.jsonl.zst");
    for (bytes, done) in [(frame.clone(), 1), ([skipped, frame.clone(), frame.clone()].concat(), 2)] {
        std::fs::write(&path, bytes).expect("a file");
        let fed = server.millrace(&["feed", &path.display().to_string()]);
        assert!(fed.status.success() && stdout(&fed).contains(&format!("{done} done, 0 failed")), "{fed:?}");
    }
    std::fs::write(&path, &frame[..frame.len() - 1]).expect("a file");
    let fed = server.millrace(&["feed", &path.display().to_string()]);
    let printed = format!("{}{}", stdout(&fed), String::from_utf8_lossy(&fed.stderr));
    assert!(!fed.status.success() && printed.contains("it is not a whole zstd stream: "), "{printed}");
}

#[test]
fn failures_for_one_reason_are_listed_a_few_times() {
    let server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let line = |number| format!("{{\"put\":\"id:n:nope::{number}\",\"fields\":{{}}}}\n");
    write_files(directory.path(), &[("feed.jsonl", &(0..300).map(line).collect::<String>())]);
    let fed = server.millrace(&["feed", &directory.path().join("feed.jsonl").display().to_string()]);
    let printed = stdout(&fed);
    assert_eq!(printed.matches("Document type nope does not exist").count(), 3, "{printed}");
    assert!(printed.contains("… and 297 more") && printed.contains("0 done, 300 failed"), "{printed}");
}

#[test]
fn writes_outside_of_a_selection_are_reported_as_ignored() {
    let server = TestServer::start();
    let services = SERVICES.replace("mode='streaming'", "mode='streaming' selection='note.stars &lt; 5'");
    let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    let run = |arguments: &[&str]| {
        let output = server.millrace(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        stdout(&output)
    };
    let printed = run(&["put", "id:n:note:g=ann:1", r#"{"fields":{"stars":5}}"#]);
    assert!(
        printed.starts_with("ignored: id:n:note:g=ann:1: the selection of its document type"),
        "{printed}"
    );
    assert!(run(&["put", "id:n:note:g=ann:2", r#"{"fields":{"stars":4}}"#]).starts_with("done: "));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let line =
        |stars: u32| json!({ "put": format!("id:n:note:g=ann:{stars}"), "fields": { "stars": stars } });
    let lines: String = (3..8).map(|stars| format!("{}\n", line(stars))).collect();
    write_files(directory.path(), &[("feed.jsonl", &lines)]);
    let feed = directory.path().join("feed.jsonl").display().to_string();
    let printed = run(&["feed", &feed]);
    assert!(
        printed.contains("2 done, 0 failed, 3 ignored,") && printed.contains(": the selection"),
        "{printed}"
    );
    let report: Value = serde_json::from_str(&run(&["--format", "json", "feed", &feed])).expect("JSON");
    assert_eq!((&report["done"], &report["ignored"]), (&json!(2), &json!(3)), "{report}");
}

#[test]
fn a_feed_waits_for_its_node() {
    let mut server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_files(directory.path(), &[("feed.jsonl", r#"{"put":"id:n:note:g=ann:1","fields":{}}"#)]);
    server.kill();
    let mut feed = Command::new(MILLRACE)
        .args(["--url", &server.url(), "feed", &directory.path().join("feed.jsonl").display().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut note = String::new();
    let mut printed = BufReader::new(feed.stderr.take().expect("it is piped"));
    printed.read_line(&mut note).expect("it is told");
    assert!(note.starts_with("note: cannot reach") && note.contains("trying for 60 seconds"), "{note}");
    server.start_again();
    let fed = feed.wait_with_output().expect("it ends");
    assert!(fed.status.success() && stdout(&fed).contains("1 done, 0 failed"), "{fed:?}");
}

#[test]
fn a_write_without_a_document_names_both_ways_to_give_one() {
    for command in ["put", "update"] {
        let output = Command::new(MILLRACE).args([command, "id:n:note::1"]).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains("<JSON|--file <FILE>>"), "{error}");
    }
}

/// They are stored, and no query of a group finds them.
#[test]
fn documents_without_a_group_are_reported() {
    let server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let put = |id: &str| json!({ "put": id, "fields": { "stars": 1 } }).to_string();
    let remove = json!({ "remove": "id:n:note::3" }).to_string();
    let lines = [put("id:n:note::1"), put("id:n:note::2"), put("id:n:note:g=ann:1"), remove];
    write_files(directory.path(), &[("feed.jsonl", &lines.join("\n"))]);
    let fed = server.millrace(&["feed", &directory.path().join("feed.jsonl").display().to_string()]);
    assert!(fed.status.success(), "{fed:?}");
    let printed = stdout(&fed);
    assert!(
        printed.contains("note: 2 of them have no group") && printed.contains("streaming.selection=true"),
        "{printed}"
    );
    let over_all = ["query", "select * from note where true", "streaming.selection=true", "timeout=60s"];
    assert!(stdout(&server.millrace(&over_all)).contains("3 documents match"));
    let said = |id: &str| {
        let output = server.millrace(&["put", id, "{\"fields\":{}}"]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said("id:n:note::1").contains("without a group"));
    assert_eq!(said("id:n:note:g=ann:1"), "");
}

#[test]
fn a_visit_chooses_by_any_part_of_the_id() {
    let server = TestServer::with_notes();
    for id in ["id:n:note:g=ann:1", "id:m:note:g=ann:2", "id:n:note:g=bob:3", "id:n:note:g=a\"b:4"] {
        let stars = format!("{{\"fields\":{{\"stars\":{}}}}}", &id[id.len() - 1..]);
        assert!(server.millrace(&["put", id, &stars]).status.success(), "{id}");
    }
    let check = |arguments: &[&str], expected: usize| {
        let output = server.millrace(&[&["visit"], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        assert_eq!(stdout(&output).lines().count(), expected, "{arguments:?}: {}", stdout(&output));
    };
    check(&[], 4);
    check(&["--group", "ann"], 2);
    check(&["--group", "a\"b"], 1);
    check(&["--group", "ann", "--selection", "note.stars == 1 or note.stars == 3"], 1);
    check(&["--namespace", "n"], 3);
    check(&["--type", "note"], 4);
    check(&["--namespace", "n", "--type", "note", "--group", "ann"], 1);
    let unknown = refusal(&server, &["visit", "--type", "noet"]);
    assert!(
        unknown.starts_with("error: Document type noet does not exist; this application has note"),
        "{unknown}"
    );
}

#[test]
fn what_cannot_be_deployed_is_named() {
    let server = TestServer::start();
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_files(directory.path(), &[("app.zip", "")]);
    let path = |name: &str| directory.path().join(name).display().to_string();
    for (path, expected) in [
        (path("nope"), "nope: No such file or directory"),
        (path("app.zip"), "app.zip: it is a file; name the directory"),
        (path("."), "no services.xml in it"),
    ] {
        let error = refusal(&server, &["deploy", &path]);
        assert!(error.contains(expected), "{error}");
    }
    let request = OutgoingRequest::new(Method::POST, "/application/v2/tenant/default/prepareandactivate")
        .body("application/zip", "no archive");
    let message = server.send(&server.config_url(), HttpProtocol::Http1, request).message();
    assert!(
        message.contains("this is not a zip archive") && message.contains("millrace deploy"),
        "{message}"
    );
}

/// Neither values of variables nor the flags that they replace are part of the usage line.
#[test]
fn usage_is_the_same_whatever_the_environment() {
    let run = |variables: &[(&str, &str)], arguments: &[&str]| {
        let output = Command::new(MILLRACE)
            .env_remove("MILLRACE_URL")
            .envs(variables.iter().copied())
            .args(arguments)
            .output()
            .expect("the binary runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        text.lines().find(|line| line.starts_with("Usage:")).map(str::to_owned)
    };
    let set =
        [("MILLRACE_URL", "http://search:8080"), ("MILLRACE_FORMAT", "json"), ("MILLRACE_DATA_DIR", "/data")];
    for arguments in
        [&["get"][..], &["get", "--help"], &["feed"], &["serve", "--help"], &["serve", "--prot", "1"]]
    {
        let plain = run(&[], arguments);
        assert!(plain.is_some(), "{arguments:?}");
        assert_eq!(run(&set, arguments), plain, "{arguments:?}");
    }
}

#[test]
fn a_healthy_data_directory() {
    let mut server = TestServer::with_notes();
    server.put("/document/v1/n/note/docid/1", "{}");
    server.terminate();
    let checked = server.millrace(&["doctor", &server.data_dir().display().to_string()]);
    assert!(checked.status.success(), "{checked:?}");
    let printed = stdout(&checked);
    assert!(printed.contains("all is well") && printed.contains("1 document: 1 note"), "{printed}");
}

/// Replaced and removed documents are not counted, sealed or not.
#[test]
fn documents_are_counted_exactly() {
    let mut server = TestServer::with_notes();
    let path = |name: u32| format!("/document/v1/n/note/group/ann/{name}");
    for (name, stars) in [(1, 1), (2, 1), (3, 1), (1, 2), (2, 3)] {
        server.put(&path(name), &format!("{{\"stars\":{stars}}}"));
    }
    assert!(server.millrace(&["remove", "id:n:note:g=ann:3"]).status.success());
    let printed = stdout(&server.millrace(&["status"]));
    assert!(printed.contains("documents    2 documents: 2 note"), "{printed}");
    let yql = "select stars from note where stars == 3";
    let found = stdout(&server.millrace(&["query", yql, "streaming.groupname=ann", "timeout=60s"]));
    assert!(found.contains("1. id:n:note:g=ann:2  ("), "the id is one that get takes: {found}");
    server.terminate();
    let data_dir = server.data_dir().display().to_string();
    let printed = stdout(&server.millrace(&["doctor", &data_dir]));
    assert!(printed.contains("2 documents: 2 note"), "{printed}");
}

/// A slip in a name would change what is found without a trace.
#[test]
fn parameters_that_nothing_reads_are_refused() {
    let server = TestServer::with_notes();
    let profile = "<query-profile id='default'><field name='title'>%{subject}</field></query-profile>";
    let directory = tempfile::tempdir().expect("a temporary directory");
    let files = [
        ("services.xml", SERVICES),
        ("schemas/note.sd", NOTE),
        ("search/query-profiles/default.xml", profile),
    ];
    write_files(directory.path(), &files);
    assert!(server.millrace(&["deploy", &directory.path().display().to_string()]).status.success());
    let query = |parameter: &str| {
        let yql = "select * from note where userInput(@text)";
        // The last of the same name counts.
        server.millrace(&["query", yql, "text=x", "streaming.groupname=ann", "timeout=60s", parameter])
    };
    for known in
        ["hits=3", "Hits=3", "input.query(x)=1", "subject=x", "title=x", "title.part=x", "timeout=59s"]
    {
        assert!(query(known).status.success(), "{known}: {:?}", query(known));
    }
    for (unknown, hint) in [("hit=3", "(did you mean 'hits'?)"), ("subjct=x", "(did you mean 'subject'?)")] {
        let answer = query(unknown);
        let printed = String::from_utf8_lossy(&answer.stderr).into_owned();
        assert!(!answer.status.success() && printed.contains(hint), "{unknown}: {printed}");
    }
}

#[test]
fn answers_of_two_servers_are_compared() {
    let (server, other) = (TestServer::with_notes(), TestServer::with_notes());
    let put = |server: &TestServer, name: &str, stars: u32| {
        server.put(&format!("/document/v1/n/note/group/ann/{name}"), &format!("{{\"stars\":{stars}}}"));
    };
    for (name, stars) in [("a", 1), ("b", 2)] {
        put(&server, name, stars);
        put(&other, name, 3 - stars);
    }
    put(&other, "c", 9);
    let directory = tempfile::tempdir().expect("a temporary directory");
    // Without an order, hits of equal relevance come in any order.
    let queries = "select * from note where stars < 5 limit 0\n{\"yql\": \"select * from note where stars > 8\"}\n\n\
                   select * from note where stars < 5 order by stars\n";
    write_files(directory.path(), &[("queries", queries)]);
    let path = directory.path().join("queries").display().to_string();
    let compare = |url: &str| {
        server.millrace(&[
            "--format",
            "json",
            "compare",
            &path,
            "--with",
            url,
            "streaming.groupname=ann",
            "hits=5",
        ])
    };
    let same = compare(&server.url());
    assert!(same.status.success(), "{same:?}");
    let differ = compare(&other.url());
    assert!(!differ.status.success());
    let printed: Value = serde_json::from_slice(&differ.stdout).expect("JSON");
    assert_eq!(printed["queries"], json!(3), "{printed}");
    assert_eq!(printed["different"][0]["counts"], json!([0, 1]), "{printed}");
    assert_eq!(
        printed["different"][1]["order"],
        json!({ "at": 1, "here": "id:n:note:g=ann:a", "there": "id:n:note:g=ann:b" })
    );
    assert_eq!(printed["different"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_import_of_what_is_not_mail_says_so_in_a_sentence() {
    let server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_files(directory.path(), &[("page.md", "# A page\n\nIt is not a mail.\n"), ("empty.mbox", "")]);
    for (name, expected, succeeds) in [
        ("page.md", "page.md: nothing was imported: 1 message could not be used\n", false),
        ("empty.mbox", "empty.mbox: it has no messages, so nothing was imported\n", true),
    ] {
        let path = directory.path().join(name).display().to_string();
        let answer = server.millrace(&["import", "mbox", &path, "--group", "me"]);
        let shown = String::from_utf8_lossy(&answer.stdout).into_owned();
        assert!(shown.ends_with(expected) && shown.lines().count() == 1, "{shown}");
        assert_eq!(answer.status.success(), succeeds, "{shown}");
    }
}
