//! Data directories of earlier formats are read, and upgraded; those of later ones are refused.
//!
//! `tests/fixtures/format-1` to `-3` are data directories with segments of these versions, as each was first
//! written, with every type of value, segments, a tail, a removal and a dropped group; `expected.json` in
//! them lists the contents. `MILLRACE_WRITE_FIXTURE=1` writes the newest again, which is right only for a
//! format that no release has written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hyper::Method;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::support::{MILLRACE, TestServer, poll, write_files};

const SCHEMA: &str = include_str!("../fixtures/format.sd");
const VALUES: &str = include_str!("../fixtures/format.json");

const SERVICES: &str = "<services version='1.0'><container id='default' version='1.0'><search/><document-api/></container>
<content id='things' version='1.0'><documents><document type='thing' mode='streaming'/></documents></content></services>";

/// Versions of segments.
const FORMATS: [u8; 3] = [1, 2, 3];
const NEWEST: u8 = FORMATS[FORMATS.len() - 1];

fn fixture(format: u8) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-{format}"))
}

/// Copies a directory; logs without their trailing zeros.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("it can be listed") {
        let path = entry.expect("it can be listed").path();
        let target = to.join(path.file_name().expect("it has a name"));
        if path.is_dir() {
            copy(&path, &target);
            continue;
        }
        let mut bytes = fs::read(&path).expect("it can be read");
        if path.extension().is_some_and(|extension| extension == "jnl") {
            bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
        }
        fs::write(target, bytes).expect("it can be written");
    }
}

/// A server over a copy of a fixture.
fn over_a_copy(format: u8, change: impl Fn(&Path)) -> TestServer {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data_dir = directory.path().join("data");
    copy(&fixture(format), &data_dir);
    change(&data_dir);
    TestServer::start_in(directory, data_dir, &[])
}

/// Documents that the fixture has or had.
const PATHS: [&str; 7] = [
    "/document/v1/n/thing/group/ann/full",
    "/document/v1/n/thing/group/ann/updated",
    "/document/v1/n/thing/group/ann/removed",
    "/document/v1/n/thing/group/ann/late",
    "/document/v1/n/thing/number/7/full",
    "/document/v1/n/thing/docid/full",
    "/document/v1/n/thing/group/dropped/full",
];

/// Groups, and conditions to count by.
const QUERIES: [(&str, &str); 4] = [
    ("ann", "text contains 'water'"),
    ("ann", "count >= 42"),
    ("filler", "text contains phrase('number', '17')"),
    ("dropped", "true"),
];

fn look(server: &TestServer) -> Value {
    let documents: serde_json::Map<String, Value> =
        PATHS.iter().map(|path| ((*path).to_owned(), server.get(path).1["fields"].clone())).collect();
    let count = |(group, condition): &(&str, &str)| {
        let yql = format!("select * from thing where {condition}");
        let (_, answer) =
            server.query(&[("yql", &yql), ("streaming.groupname", group), ("hits", "0"), ("timeout", "20s")]);
        json!([group, condition, answer.pointer("/root/fields/totalCount")])
    };
    json!({ "documents": documents, "queries": QUERIES.iter().map(count).collect::<Vec<_>>() })
}

fn write_fixture() {
    let mut server = TestServer::start();
    let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/thing.sd", SCHEMA)]);
    assert_eq!(status, 200, "{answer}");
    let call = |method: Method, path: &str, body: &str| {
        let (status, answer) = server.call(method, path, body);
        assert_eq!(status, 200, "{path}: {answer}");
    };
    let put = |path: &str, body: &str| call(Method::POST, path, body);
    for path in PATHS.iter().filter(|path| !path.ends_with("late")) {
        put(path, VALUES);
    }
    for number in 0..70 {
        let text = format!("number {number} {}", "filler ".repeat(150));
        let body = json!({ "fields": { "text": text } }).to_string();
        put(&format!("/document/v1/n/thing/group/filler/{number}"), &body);
    }
    let segments = || fs::read_dir(server.data_dir().join("segments")).expect("there is one").count();
    poll("it is sealed", || segments() > 0);
    let update = json!({ "fields": {
        "count": { "increment": 1 },
        "sparse": { "modify": { "operation": "add", "cells": { "a": 1 } } },
    } });
    call(Method::PUT, PATHS[1], &update.to_string());
    call(Method::DELETE, PATHS[2], "");
    put(PATHS[3], VALUES);
    let all = "/document/v1/n/thing/group/dropped/?cluster=things&selection=true";
    call(Method::DELETE, all, "");
    let found = serde_json::to_string_pretty(&look(&server)).expect("values are written as JSON");
    let data_dir = server.data_dir();
    server.kill();
    // There is none the first time.
    let fixture = fixture(NEWEST);
    let _ = fs::remove_dir_all(&fixture);
    copy(&data_dir, &fixture);
    write_files(&fixture, &[("expected.json", &found)]);
    fs::remove_file(fixture.join("lock")).expect("there is a lock");
}

#[test]
fn all_formats_are_read() {
    if std::env::var_os("MILLRACE_WRITE_FIXTURE").is_some() {
        write_fixture();
    }
    for format in FORMATS {
        let expected =
            fs::read(fixture(format).join("expected.json")).expect("the fixture says what is in it");
        let expected: Value = serde_json::from_slice(&expected).expect("it is JSON");
        let server = over_a_copy(format, |data_dir| {
            segments(data_dir).iter().for_each(|(path, bytes)| assert_eq!(bytes[8], format, "{path:?}"));
        });
        assert_eq!(look(&server), expected);
        // Every field has a value, in a segment and in the tail.
        for path in [PATHS[0], PATHS[3]] {
            let fields = expected["documents"][path].as_object().expect("the document is there");
            assert!(fields.len() >= SCHEMA.matches("\n    field ").count(), "{path}: {}", fields.len());
        }
        let (status, _) = server.call(Method::POST, PATHS[0], "{\"fields\":{\"text\":\"written later\"}}");
        assert_eq!(status, 200);
    }
}

/// Upgrades the segments of a data directory by the doctor; returns its answer, and its errors.
fn upgraded(data_dir: &Path, options: &[&str]) -> Result<Value, String> {
    let output = Command::new(MILLRACE)
        .args(["--format", "json", "doctor", "--upgrade"])
        .args(options)
        .arg(data_dir)
        .output()
        .expect("the binary runs");
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout).expect("it is JSON")),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

#[test]
fn all_formats_are_upgraded_at_once() {
    for format in FORMATS {
        let expected = fs::read(fixture(format).join("expected.json")).expect("the contents are listed");
        let expected: Value = serde_json::from_slice(&expected).expect("it is JSON");
        let mut server = over_a_copy(format, |data_dir| {
            // A crash can have left an unfinished one.
            let is_whole = |path: &Path| path.extension().is_some_and(|extension| extension == "seg");
            let files = segments(data_dir).iter().filter(|(path, _)| is_whole(path)).count();
            let of = if format == NEWEST { [0, files] } else { [files, 0] };
            let report = upgraded(data_dir, &[]).expect("upgraded");
            assert_eq!([&report["upgraded"], &report["current"]], of, "{report}");
            segments(data_dir).iter().for_each(|(path, bytes)| assert_eq!(bytes[8], NEWEST, "{path:?}"));
            let again = upgraded(data_dir, &[]).expect("there is nothing to do");
            assert_eq!([&again["upgraded"], &again["current"]], [0, files], "{again}");
        });
        assert_eq!(look(&server), expected, "{format}");
        let refused = upgraded(&server.data_dir(), &[]).expect_err("a server has it open");
        assert!(refused.contains("another process has it open"), "{refused}");
        server.terminate();
        let checked = server.millrace(&["doctor", &server.data_dir().display().to_string()]);
        assert!(checked.status.success(), "{checked:?}");
    }
}

#[test]
fn a_node_of_a_cluster_is_upgraded_where_all_nodes_know_the_format() {
    let state = |protocol: u16| {
        json!({
            "version": 10, "protocol": protocol,
            "nodes": { "0": {
                "name": "a", "address": "127.0.0.1:1", "state": "up", "capacity": 1.0, "incarnation": 5, "lease_ended": false,
            } },
            "distribution": { "bits": 8, "redundancy": 1, "layout": { "nodes": [0] } },
        })
        .to_string()
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data_dir = directory.path();
    copy(&fixture(1), data_dir);
    write_files(data_dir, &[("cluster/name", "a")]);
    let refuse = |named: &str| {
        let refused = upgraded(data_dir, &[]).expect_err("older nodes could not read the files");
        assert!(refused.contains(named) && refused.contains("--force-protocol"), "{refused}");
        segments(data_dir).iter().for_each(|(path, bytes)| assert_eq!(bytes[8], 1, "{path:?}"));
    };
    refuse("names none");
    write_files(data_dir, &[("cluster/state", &state(3))]);
    refuse("names protocol 3");
    write_files(data_dir, &[("cluster/state", &state(4))]);
    let report = upgraded(data_dir, &[]).expect("all nodes know the format");
    assert_eq!(report["upgraded"], segments(data_dir).len(), "{report}");

    let forced = tempfile::tempdir().expect("a temporary directory");
    copy(&fixture(2), forced.path());
    write_files(forced.path(), &[("cluster/name", "a"), ("cluster/state", &state(3))]);
    let report = upgraded(forced.path(), &["--force-protocol"]).expect("the operator says so");
    assert_eq!(report["upgraded"], segments(forced.path()).len(), "{report}");
}

/// The segment files of a data directory with their contents; at least one.
fn segments(data_dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(data_dir.join("segments")).expect("there are segments");
    let files = entries.map(|entry| {
        let path = entry.expect("it can be listed").path();
        let bytes = fs::read(&path).expect("it can be read");
        (path, bytes)
    });
    let files: Vec<_> = files.collect();
    assert!(!files.is_empty(), "there is a segment");
    files
}

#[test]
fn a_manifest_of_a_later_format_is_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    copy(&fixture(NEWEST), directory.path());
    let path = directory.path().join("manifest");
    let mut bytes = fs::read(&path).expect("there is a manifest");
    bytes[8] = 4;
    let body = bytes.len() - 8;
    let checksum = xxh3_64(&bytes[..body]);
    bytes[body..].copy_from_slice(&checksum.to_le_bytes());
    fs::write(&path, bytes).expect("it can be written");
    let started = Command::new(MILLRACE)
        .args(["serve", "--port", "0", "--config-port", "0", "--data-dir"])
        .arg(directory.path())
        .output()
        .expect("the binary runs");
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(!started.status.success() && said.contains("format version is 4"), "{said}");
    assert!(said.contains("use the program that wrote it"), "{said}");
}

#[test]
fn a_segment_of_a_later_format_is_refused() {
    let server = over_a_copy(NEWEST, |data_dir| {
        for (path, mut bytes) in segments(data_dir) {
            let trailer = bytes.len() - 64;
            (bytes[8], bytes[trailer + 8]) = (NEWEST + 1, NEWEST + 1);
            fs::write(&path, bytes).expect("it can be written");
        }
    });
    let (status, answer) = server.get(PATHS[0]);
    let message = answer["message"].as_str().unwrap_or("");
    let newer = format!("format version {} is newer", NEWEST + 1);
    assert!(status == 500 && message.contains(&newer), "{status} {answer}");
    assert!(message.contains("use the program that wrote it"), "{answer}");
}
