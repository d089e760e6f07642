//! `millrace feed` over a stream, and with a request for each operation: both report the same, and both go on
//! after the server was away.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{self, TestServer, write_files};

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");

/// Feeds a text; returns the report without times and repetitions.
fn report(server: &TestServer, text: &str, arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_files(directory.path(), &[("feed", text)]);
    let path = directory.path().join("feed").display().to_string();
    let mut command = vec!["--format", "json", "feed", "--quiet"];
    command.extend(arguments);
    command.push(&path);
    let fed = server.millrace(&command);
    let mut report: Value = serde_json::from_slice(&fed.stdout).unwrap_or_else(|_| {
        panic!("{}{}", String::from_utf8_lossy(&fed.stdout), String::from_utf8_lossy(&fed.stderr))
    });
    let of_time = ["seconds", "documents_per_second", "latency_mean_ms", "latency_max_ms", "retried"];
    // A removal has no body in a request of its own.
    let others = ["bytes", "input"];
    let fields = report.as_object_mut().expect("a report");
    of_time.iter().chain(&others).for_each(|name| drop(fields.remove(*name)));
    for failure in fields["failures"].as_array_mut().expect("a list") {
        failure.as_object_mut().expect("a failure").remove("input");
    }
    report
}

#[test]
fn both_ways_of_feeding_report_the_same() {
    let server = TestServer::with_notes();
    let put = |name: &str| format!("{{\"put\":\"id:n:note:g=a:{name}\",\"fields\":{{\"stars\":1}}}}");
    let many: String = (0..3000).map(|number| put(&number.to_string()) + "\n").collect();
    let feeds = [
        String::new(),
        many,
        // Objects over several lines, and several on one.
        format!(
            "{} {}\n{{\"put\":\n \"id:n:note:g=a:3\",\n \"fields\": {{\"nosuch\":1}}}}\n",
            put("1"),
            put("2")
        ),
        format!(
            "[{},\n {{\"put\":\"id:n:note:g=a:2\",\n\"fields\":{{\"stars\":\"many\"}}}},{}]",
            put("1"),
            put("3")
        ),
        // Conditions, updates, removals.
        [
            put("1").as_str(),
            r#"{"update":"id:n:note:g=a:1","condition":"note.stars==1","fields":{"stars":{"increment":4}}}"#,
            r#"{"update":"id:n:note:g=a:1","condition":"note.stars==1","fields":{"stars":{"increment":4}}}"#,
            r#"{"update":"id:n:note:g=a:new","create":true,"fields":{"stars":{"assign":1}}}"#,
            r#"{"remove":"id:n:note:g=a:new","condition":"note.stars==5"}"#,
            r#"{"remove":"id:n:note:g=a:new"}"#,
            r#"{"remove":"id:n:nosuch::1"}"#,
        ]
        .join("\n"),
        // Without a group; not an id; not an operation.
        [r#"{"put":"id:n:note::1","fields":{}}"#, r#"{"put":"no id","fields":{}}"#, "rubbish", &put("1")]
            .join("\n"),
    ];
    for text in &feeds {
        let single = report(&server, text, &["--single-requests"]);
        assert_eq!(report(&server, text, &[]), single, "{:.300}", text);
    }
    let text = format!("{}\nrubbish\n{}\n", put("first"), put("last"));
    let stopped = report(&server, &text, &["--stop-at-failure"]);
    assert_eq!((&stopped["complete"], &stopped["done"]), (&json!(false), &json!(1)), "{stopped}");
    assert_eq!(server.get("/document/v1/n/note/group/a/last").0, 404);
    let (status, answer) = server.get("/document/v1/n/note/group/a/1");
    assert_eq!((status, &answer["fields"]["stars"]), (200, &json!(1)), "{answer}");
}

#[test]
fn any_number_of_connections_is_one_that_a_machine_has() {
    let server = TestServer::with_notes();
    let text = "{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"stars\":1}}\n";
    let expected = report(&server, text, &[]);
    for connections in ["0", "18446744073709551615"] {
        assert_eq!(report(&server, text, &["--connections", connections]), expected, "{connections}");
    }
}

#[test]
fn a_feed_goes_on_after_the_server_was_killed() {
    let mut server = TestServer::with_notes();
    let mut feed = Command::new(MILLRACE)
        .args(["--url", &server.url(), "--format", "json", "feed", "--quiet", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut input = feed.stdin.take().expect("it is piped");
    let mut write = |numbers: std::ops::Range<u32>| {
        for number in numbers {
            writeln!(input, "{{\"put\":\"id:n:note:g=a:{number}\",\"fields\":{{\"stars\":{number}}}}}")
                .expect("it reads");
        }
        input.flush().expect("it reads");
    };
    write(0..1000);
    support::poll("the first are there", || server.get("/document/v1/n/note/group/a/999").0 == 200);
    write(1000..2000);
    server.kill_and_restart();
    write(2000..3000);
    drop(input);
    let fed = feed.wait_with_output().expect("it ends");
    let report: Value = serde_json::from_slice(&fed.stdout).expect("a report");
    assert_eq!((&report["done"], &report["failed"]), (&json!(3000), &json!(0)), "{report}");
    for number in 0..3000 {
        let (status, answer) = server.get(&format!("/document/v1/n/note/group/a/{number}"));
        assert_eq!((status, &answer["fields"]["stars"]), (200, &json!(number)), "{answer}");
    }
}
