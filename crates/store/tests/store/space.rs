//! The log finds no space for a write, with a part of it written: a client that gets this error does not find
//! the write at a later start.

use std::process::{Command, Stdio};

use millrace_document::Document;
use millrace_store::{Error, Store, StoreChange, StoreModification};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::common::{document, get, id, number, open, options, write};

const DIRECTORY: &str = "MILLRACE_SPACE_CHILD";
/// At which byte the log may not be written on.
const LIMIT: &str = "MILLRACE_SPACE_LIMIT";
/// End of the process: `close` or `abort`.
const ENDS: &str = "MILLRACE_SPACE_ENDS";

const COUNTER: &str = "id:n:mail:g=ann:counter";

/// Adds one. The document is as long as a page, so that a part of it fits where the whole does not.
fn increment(store: &Store) -> Result<(), Error> {
    let modify = |found: Option<(Document, _)>| {
        let number = found.map_or(0, |(found, _)| number(&found));
        Ok(StoreModification::Put(document(COUNTER, &"padding ".repeat(600), number + 1)))
    };
    write(store, &id(COUNTER), StoreChange::Modify(Box::new(modify))).map(drop)
}

/// Not a test of its own: increments until the log finds no space, tells how often it was acknowledged, and
/// goes on to the end.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let limit: u64 = std::env::var(LIMIT).ok().and_then(|limit| limit.parse().ok()).expect("a limit");
    let mut acknowledged = 0;
    let store = open(options(directory.as_ref()));
    // Files cannot grow beyond it; what is there of them already can be read and cut.
    setrlimit(Resource::Fsize, Rlimit { current: Some(limit), maximum: None }).expect("the limit is taken");
    let refused = loop {
        match increment(&store) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    println!("acknowledged {acknowledged}");
    // There is space again, for what the embedded store still has in a buffer and writes out when it is
    // closed.
    setrlimit(Resource::Fsize, Rlimit { current: None, maximum: None }).expect("the limit is taken");
    match std::env::var(ENDS).as_deref() {
        Ok("close") => store.close(),
        _ => std::process::abort(),
    }
}

fn run(limit: u64, ends: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    // A shell passes on that the signal is ignored, so that the write fails instead.
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().expect("the test knows itself"))
        .args(["--exact", "space::child", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory.path())
        .env(LIMIT, limit.to_string())
        .env(ENDS, ends)
        .stderr(Stdio::piped())
        .output()
        .expect("the child runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let acknowledged =
        said.split("acknowledged ").nth(1).and_then(|rest| rest.lines().next()?.parse::<i64>().ok());
    let acknowledged = acknowledged.unwrap_or_else(|| {
        panic!("limit {limit}, {ends}: {said} {}", String::from_utf8_lossy(&output.stderr))
    });
    assert!(acknowledged > 0);
    for start in 1..=2 {
        let store = open(options(directory.path()));
        assert_eq!(get(&store, COUNTER), Some(acknowledged), "limit {limit}, {ends}, start {start}");
        store.close();
    }
    let store = open(options(directory.path()));
    increment(&store).expect("acknowledged");
    assert_eq!(get(&store, COUNTER), Some(acknowledged + 1));
    drop(store);
    let report = millrace_store::check(directory.path()).expect("checked");
    assert_eq!(report.findings, []);
}

#[test]
fn a_write_that_was_refused_for_space_never_comes_back() {
    // At the edge of a page, within one, and where only the end of a batch is missing.
    for limit in [20 << 10, (20 << 10) + 100, (20 << 10) + 4000] {
        for ends in ["close", "abort"] {
            run(limit, ends);
        }
    }
}
