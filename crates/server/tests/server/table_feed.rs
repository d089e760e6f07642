//! Tables: Arrow streams at `/feed/v1` and from `/group/v1/NAME/export`, and files of Arrow and Parquet on
//! the command line.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, cast::AsArray};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use hyper::Method;
use hyper::header::{ACCEPT, HeaderName};
use millrace_client::{HttpProtocol, OutgoingRequest};
use serde_json::{Value, json};

use crate::support::TestServer;

const ARROW: &str = "application/vnd.apache.arrow.stream";

/// Notes of the numbers in `range`, with their tags.
fn notes(range: std::ops::Range<i64>) -> RecordBatch {
    let text = |text: &dyn Fn(i64) -> String| -> ArrayRef {
        Arc::new(range.clone().map(|number| Some(text(number))).collect::<StringArray>())
    };
    let tags =
        range.clone().map(|number| Some(vec![Some(format!("tag{}", number % 7)), Some("all".to_owned())]));
    let mut builder = arrow_array::builder::ListBuilder::new(arrow_array::builder::StringBuilder::new());
    tags.for_each(|tags| builder.append_option(tags));
    let tags: ListArray = builder.finish();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", text(&|number| number.to_string())),
        ("user", text(&|number| format!("user{}", number % 2))),
        ("title", text(&|number| format!("note {number}"))),
        ("stars", Arc::new(Int64Array::from_iter_values(range.clone()))),
        ("tags", Arc::new(tags)),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).expect("a schema");
    batches.iter().for_each(|batch| writer.write(batch).expect("a batch"));
    writer.into_inner().expect("an end")
}

fn rows(table: &[u8]) -> usize {
    let reader = StreamReader::try_new(table, None).expect("a table");
    reader.map(|batch| batch.expect("a batch").num_rows()).sum()
}

/// Sends a table; returns the lines of the answer without those of progress.
fn feed(server: &TestServer, path: &str, body: Vec<u8>) -> Vec<Value> {
    let request = OutgoingRequest::new(Method::POST, path).body(ARROW, body);
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(answer.status.as_u16(), 200, "{text}");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
    lines.filter(|line| line.get("through").is_none()).collect()
}

fn export(server: &TestServer, path: &str) -> (u16, Vec<u8>) {
    let request = OutgoingRequest::new(Method::POST, path).header(ACCEPT, ARROW);
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    (answer.status.as_u16(), answer.body.to_vec())
}

#[test]
fn rows_of_a_table_become_documents_and_come_back() {
    let server = TestServer::with_notes();
    let lines = feed(&server, "/feed/v1?type=note&namespace=n&groupname=ann", stream(&[notes(0..10)]));
    let refused = &lines[lines.len() - 1];
    assert_eq!(refused["complete"], false, "{refused}");
    let reason = "column 'user' is not a field of note; leave it out, or rename it";
    assert_eq!((&refused["status"], refused["message"].as_str()), (&json!(400), Some(reason)));
    // The same column says whose a row is. More rows than a piece has operations; the last batch has none.
    let lines = feed(&server, "/feed/v1?type=note&namespace=n&group=user", stream(&[notes(0..10)]));
    assert_eq!((lines.len(), &lines[0]["ok"]), (1, &json!(10)), "{lines:?}");
    let without = |batch: &RecordBatch| batch.project(&[0, 2, 3, 4]).expect("columns");
    let all: Vec<RecordBatch> = [notes(0..10), notes(10..5000), notes(0..0)].iter().map(without).collect();
    let lines = feed(&server, "/feed/v1?type=note&namespace=n&groupname=ann", stream(&all));
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((&lines[0]["complete"], &lines[0]["ok"]), (&json!(true), &json!(5000)), "{lines:?}");
    let (status, answer) = server.get("/document/v1/n/note/group/ann/4711");
    let fields = json!({ "title": "note 4711", "stars": 4711, "tags": ["tag0", "all"] });
    assert_eq!((status, &answer["fields"]), (200, &fields), "{answer}");

    let (status, exported) = export(&server, "/group/v1/ann/export?type=note");
    assert_eq!((status, rows(&exported)), (200, 5000));
    // What was exported says what it is.
    let other = TestServer::with_notes();
    let lines = feed(&other, "/group/v1/ann/restore", exported);
    assert_eq!((&lines[0]["complete"], &lines[0]["ok"]), (&json!(true), &json!(5000)), "{lines:?}");
    let (_, again) = other.get("/document/v1/n/note/group/ann/4711");
    assert_eq!(again["fields"], fields);
    let (status, message) = export(&server, "/group/v1/ann/export");
    let message: Value = serde_json::from_slice(&message).expect("JSON");
    let reason = "parameter 'type': is missing: a table has the documents of one type";
    assert_eq!((status, message["message"].as_str()), (400, Some(reason)));
}

#[test]
fn a_row_that_is_no_document_fails_alone() {
    let server = TestServer::with_notes();
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "id",
            Arc::new(StringArray::from(vec![
                Some("1"),
                None,
                Some("id:n:other::x"),
                Some("id:n:note:g=b:4"),
            ])),
        ),
        ("stars", Arc::new(Int64Array::from(vec![1, 2, 3, 1 << 40]))),
    ];
    let more: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(StringArray::from(vec!["id:n:note:g=b:5"]))),
        ("stars", Arc::new(Int64Array::from(vec![5]))),
    ];
    let batches = [columns, more].map(|columns| {
        RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, column)| (name, column, true)),
        )
        .expect("columns")
    });
    let lines = feed(&server, "/feed/v1?type=note", stream(&batches));
    let shown: Vec<String> = lines
        .iter()
        .map(|line| match line.get("complete") {
            Some(_) => format!("complete={} ok={} failed={}", line["complete"], line["ok"], line["failed"]),
            None => format!("{} {}:{} {}", line["operation"], line["line"], line["column"], line["message"]),
        })
        .collect();
    assert_eq!(
        shown,
        [
            "2 2:0 \"the row has no id: its cell is null\"",
            "3 3:0 \"id:n:other::x is a document of another type than note\"",
            "4 4:0 \"column 'stars': 1099511627776 is out of range for int\"",
            "complete=true ok=2 failed=3",
        ]
    );
}

#[test]
fn parameters_of_tables_are_checked() {
    let server = TestServer::with_notes();
    let table = stream(&[notes(0..1).project(&[0, 2]).expect("columns")]);
    let last = |path: &str| {
        let lines = feed(&server, path, table.clone());
        lines[lines.len() - 1]["message"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(last("/feed/v1"), "parameter 'type': is missing: it names the document type of the rows");
    assert!(last("/feed/v1?type=mail").contains("mail"), "{}", last("/feed/v1?type=mail"));
    assert!(last("/feed/v1?type=note&id=key").starts_with("the column 'key' for the id is missing"));
    let (status, answer) = server.call(Method::POST, "/feed/v1?groupname=a", "");
    let reason = format!("parameter 'groupname': is for tables, whose content-type is {ARROW}");
    assert_eq!((status, answer["message"].as_str()), (400, Some(reason.as_str())), "{answer}");
    // The columns of a document type, to which others can be cast.
    let (status, columns) = {
        let request = OutgoingRequest::new(Method::GET, "/feed/v1").parameter("type", "note");
        let answer = server.send(&server.url(), HttpProtocol::Http1, request);
        (answer.status.as_u16(), answer.body)
    };
    let schema = StreamReader::try_new(&columns[..], None).expect("a table").schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!((status, names), (200, vec!["id", "title", "stars", "tags"]));
    // The same key with the same bytes for another group is another stream.
    let keyed = |path: &str| {
        let key = HeaderName::from_static("idempotency-key");
        let request = OutgoingRequest::new(Method::POST, path).body(ARROW, table.clone()).header(key, "k");
        server.send(&server.url(), HttpProtocol::Http1, request).status.as_u16()
    };
    let statuses = ["a", "a", "b"].map(|group| keyed(&format!("/feed/v1?type=note&groupname={group}")));
    assert_eq!(statuses, [200, 200, 409]);
}

#[test]
fn files_of_tables_are_fed_and_written() {
    let server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str| directory.path().join(name).display().to_string();
    let notes = |range| notes(range).project(&[0, 2, 3, 4]).expect("columns");
    let mut feather = FileWriter::try_new(Vec::new(), &notes(0..1).schema()).expect("a schema");
    [notes(0..3000), notes(3000..3001)].iter().for_each(|batch| feather.write(batch).expect("a batch"));
    std::fs::write(file("notes.feather"), feather.into_inner().expect("an end")).expect("a file");
    let run = |arguments: &[&str]| {
        let output = server.millrace(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.success(), output.stdout, error)
    };
    let fed = |file: &str, arguments: &[&str]| -> Value {
        let mut command = vec!["--format", "json", "feed", "--quiet", file];
        command.extend(arguments);
        let (_, report, error) = run(&command);
        serde_json::from_slice(&report).unwrap_or_else(|_| panic!("{error}"))
    };
    let report = fed(&file("notes.feather"), &["--type", "note", "--namespace", "n", "--group", "ann"]);
    assert_eq!((&report["done"], &report["failed"]), (&json!(3001), &json!(0)), "{report}");
    let (status, answer) = server.get("/document/v1/n/note/group/ann/3000");
    assert_eq!((status, &answer["fields"]["stars"]), (200, &json!(3000)), "{answer}");

    for (format, name) in [("parquet", "notes.parquet"), ("arrow", "notes.arrow")] {
        let (ok, table, error) = run(&["visit", "--type", "note", "--table", format]);
        assert!(ok, "{error}");
        std::fs::write(file(name), table).expect("a file");
        let other = TestServer::with_notes();
        let output = other.millrace(&["--format", "json", "feed", "--quiet", &file(name)]);
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!((&report["done"], &report["failed"]), (&json!(3001), &json!(0)), "{format}: {report}");
        let (_, again) = other.get("/document/v1/n/note/group/ann/3000");
        assert_eq!(again["fields"], answer["fields"], "{format}");
    }
    // Some fields.
    let (ok, table, error) = run(&["visit", "--type", "note", "--fields", "note:stars", "--table", "arrow"]);
    assert!(ok, "{error}");
    let mut reader = StreamReader::try_new(&table[..], None).expect("a table");
    let batch = reader.next().expect("rows").expect("rows");
    assert_eq!(batch.num_columns(), 2);
    assert!(batch.column(0).as_string::<i32>().value(0).starts_with("id:n:note:g=ann:"));

    // A resumed feed begins behind the rows that were fed.
    let resume = file("resume.json");
    std::fs::write(&resume, json!({ file("notes.feather"): 2999 }).to_string()).expect("a file");
    let report = fed(&file("notes.feather"), &["--type", "note", "--group", "bob", "--resume", &resume]);
    assert_eq!((&report["done"], &report["failed"]), (&json!(2), &json!(0)), "{report}");
    // Columns that do not fit are refused before the first row.
    let (ok, _, error) = run(&["feed", "--quiet", &file("notes.feather"), "--type", "note", "--id", "key"]);
    assert!(!ok && error.contains("the column 'key' for the id is missing"), "{error}");
    // What is not read is told before anything is stored.
    let jsonl = file("notes.jsonl");
    std::fs::write(&jsonl, "{\"put\":\"id:n:note::first\",\"fields\":{}}\n").expect("a file");
    let packed = file("packed");
    for (bytes, reason) in [
        (&b"BZh91AY&SY"[..], "packed: it is packed by bzip2"),
        (&b"\xfd7zXZ\0"[..], "packed: it is packed by xz"),
        (&b"PK\x03\x04"[..], "packed: it is a zip archive"),
    ] {
        std::fs::write(&packed, bytes).expect("a file");
        let (ok, _, error) = run(&["feed", "--quiet", &jsonl, &packed]);
        assert!(!ok && error.contains(reason), "{error}");
    }
    let (ok, _, error) = run(&["feed", "--quiet", &jsonl, &file("none.jsonl")]);
    assert!(!ok && error.contains("none.jsonl: No such file"), "{error}");
    assert_eq!(server.get("/document/v1/n/note/docid/first").0, 404);
    // Damage is an error, and not the end.
    let whole = std::fs::read(file("notes.arrow")).expect("a file");
    std::fs::write(file("cut.arrow"), &whole[..whole.len() / 2]).expect("a file");
    let report = fed(&file("cut.arrow"), &[]);
    assert_eq!((&report["complete"], &report["failed"]), (&json!(false), &json!(1)), "{report}");
    let (_, text, _) = run(&["feed", "--quiet", &file("cut.arrow")]);
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains("the file is cut off here"), "{text}");
}

#[test]
fn damaged_files_of_tables_end_the_command_with_an_answer() {
    let server = TestServer::with_notes();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("damaged").display().to_string();
    let put = stream(&[notes(0..50)]);
    let lines = feed(&server, "/feed/v1?type=note&namespace=n&group=user&id=id", put);
    assert_eq!(lines.last().map(|line| &line["ok"]), Some(&json!(50)), "{lines:?}");
    let check = |bytes: &[u8], damage: &str| {
        std::fs::write(&path, bytes).expect("a file");
        let output = server.millrace(&["feed", "--quiet", &path]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        // A panic that nobody catches ends with 101, an abort without a code.
        assert!(output.status.code().is_some_and(|code| code <= 2), "{damage}: {:?} {error}", output.status);
    };
    for format in ["parquet", "arrow"] {
        let whole = server.millrace(&["visit", "--type", "note", "--table", format]).stdout;
        check(&whole, format);
        for part in 1..16 {
            let length = whole.len() * part / 16;
            check(&whole[..length], &format!("{format} cut at {length}"));
        }
        // The first half has the rows, behind the first bytes by which the format is known.
        for part in 0..8 {
            let (mut bytes, at) = (whole.clone(), 8 + whole.len() * part / 16);
            bytes[at] ^= 0xFF;
            check(&bytes, &format!("{format} with another byte at {at}"));
        }
    }
}
