//! Each sync fails in turn, on all ways that a write takes: what was acknowledged is there after a restart;
//! what was refused for lack of space is not; and an answer that says neither is followed by the end of
//! writing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;

use millrace_document::Document;
use millrace_store::{
    DocumentWrite, Error, Store, StoreChange, StoreModification, StoreOptions, WriteDurability, WriterId,
};

use crate::common::{document, get, id, number, open, options};

const DIRECTORY: &str = "MILLRACE_SYNCS_CHILD";
/// File whose existence makes the shim count syncs.
const ARMED: &str = "MILLRACE_SYNCS_ARMED";
/// Number of the first sync that fails, the number of syncs that fail, and their error number.
const FAILURE: &str = "MILLRACE_SYNCS_FAILURE";
/// Step between the syncs that fail; 1 tries all of them.
const STEP: &str = "MILLRACE_SYNCS_STEP";

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// Overrides functions of the system. Says at the end how many syncs there were.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int count = 0;

static int fails(void) {
    int first = 0, many = 0, number = 0;
    const char *armed = getenv("MILLRACE_SYNCS_ARMED"), *failure = getenv("MILLRACE_SYNCS_FAILURE");
    if (!armed || !failure || access(armed, F_OK) != 0) return 0;
    if (sscanf(failure, "%d %d %d", &first, &many, &number) != 3) return 0;
    int at = __sync_add_and_fetch(&count, 1);
    if (at < first || at >= first + many) return 0;
    dprintf(1, "sync %d fails\n", at);
    errno = number;
    return 1;
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    return fails() ? -1 : real(fd);
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    return fails() ? -1 : real(fd);
}
"#;

/// Compiles the shim; `None` if there is no C compiler.
fn shim(directory: &Path) -> Option<PathBuf> {
    let (source, library) = (directory.join("shim.c"), directory.join("shim.so"));
    std::fs::write(&source, SHIM).expect("a file");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    compiler.output().is_ok_and(|output| output.status.success()).then_some(library)
}

fn small(directory: &Path) -> StoreOptions {
    StoreOptions { tail_bytes: 4 << 10, ..options(directory) }
}

/// Documents, each with another way of the writes around it.
const COUNTERS: [&str; 3] = ["id:n:mail:n=1:a", "id:n:mail:n=2:b", "id:n:mail:n=3:c"];

/// Number of increments that are begun at once: two are always committed together.
const TOGETHER: usize = 2;

/// Increments a counter twice. The second increment is made of the result of the first, and both are
/// committed together.
fn increment(store: &Store, counter: &str) -> Vec<Result<(), Error>> {
    let write = |_| {
        let text = counter.to_owned();
        let modify = move |found: Option<Document>| {
            let number = found.map_or(0, |found| number(&found));
            Ok(StoreModification::Put(document(&text, &"padding ".repeat(105), number + 1)))
        };
        DocumentWrite { id: id(counter), change: StoreChange::ModifyContent(Box::new(modify)) }
    };
    let (sender, outcomes) = mpsc::channel();
    let done = move |outcomes: Vec<Result<_, _>>| drop(sender.send(outcomes));
    let writes = (0..TOGETHER).map(write).collect();
    match store.write_batch(writes, WriterId::default(), WriteDurability::Synced, done) {
        Ok(_) => {
            let outcomes = outcomes.recv().expect("every batch is answered");
            outcomes.into_iter().map(|outcome| outcome.map(drop)).collect()
        }
        Err(refused) => vec![Err(refused.error); TOGETHER],
    }
}

/// Not a test of its own: writes in several ways while syncs fail, and prints the outcome of each write.
#[test]
fn child() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = open(small(directory.as_ref()));
    // The test harness has begun a line.
    println!();
    std::fs::write(std::env::var(ARMED).expect("a path"), "").expect("a file");
    for round in 0..12 {
        let counter = COUNTERS[round % COUNTERS.len()];
        for outcome in increment(&store, counter) {
            let said = match outcome {
                Ok(()) => "acknowledged",
                Err(Error::DiskFull { .. } | Error::NoSpace { .. } | Error::Overloaded) => "refused",
                Err(Error::Poisoned { .. }) => "unknown",
                Err(other) => panic!("{other}"),
            };
            println!("{said} {counter}");
        }
        // These acknowledge nothing new, and lose nothing where they fail.
        let _ = match round % 4 {
            1 => store.seal(),
            3 => store.maintain(),
            _ => Ok(()),
        };
    }
    match std::env::var(FAILURE).is_ok_and(|failure| failure.ends_with('5')) {
        true => store.close(),
        false => std::process::abort(),
    }
}

/// Numbers of increments of a counter.
#[derive(Debug, Default, Clone, Copy)]
struct IncrementCounts {
    acknowledged: i64,
    unknown: i64,
}

/// Runs a child whose syncs fail, and checks what it leaves. Returns false if it has fewer syncs.
fn run(library: &Path, first: usize, many: usize, error: i32) -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let output = Command::new(std::env::current_exe().expect("the test knows itself"))
        .args(["--exact", "syncs::child", "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", library)
        .env(DIRECTORY, &data)
        .env(ARMED, directory.path().join("armed"))
        .env(FAILURE, format!("{first} {many} {error}"))
        .output()
        .expect("the child runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let name = format!("sync {first}, {many} of them, error {error}");
    let mut counts: BTreeMap<&str, IncrementCounts> = BTreeMap::new();
    for (outcome, counter) in said.lines().filter_map(|line| line.split_once(' ')) {
        let Some(counter) = COUNTERS.into_iter().find(|known| *known == counter) else { continue };
        let counts = counts.entry(counter).or_default();
        match outcome {
            "acknowledged" => counts.acknowledged += 1,
            "unknown" => counts.unknown += 1,
            "refused" => {}
            _ => panic!("{name}: {said}"),
        }
    }
    assert_eq!(counts.len(), COUNTERS.len(), "{name}: {said}{}", String::from_utf8_lossy(&output.stderr));
    for start in 1..=2 {
        let store = open(small(&data));
        for (counter, counts) in &counts {
            let found = get(&store, counter).unwrap_or(0);
            let possible = counts.acknowledged..=counts.acknowledged + counts.unknown;
            assert_eq!(found % TOGETHER as i64, 0, "{name}, start {start}: a part of {counts:?}: {said}");
            assert!(possible.contains(&found), "{name}, start {start}: {found} of {counts:?}: {said}");
        }
        store.close();
    }
    let report = millrace_store::check(&data).expect("checked");
    assert_eq!(report.findings, [], "{name}: {said}");
    said.contains("fails")
}

#[test]
fn a_sync_that_fails_anywhere_brings_back_nothing_refused_and_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(library) = shim(directory.path()) else {
        eprintln!("skipped: there is no C compiler here");
        return;
    };
    let step = std::env::var(STEP).ok().and_then(|step| step.parse().ok()).unwrap_or(9);
    let runs_max = if step == 1 { usize::MAX } else { 3 };
    for (offset, many, error) in
        [(1, 1, EIO), (2, 1, ENOSPC), (3, 2, ENOSPC), (1, 3, ENOSPC), (2, 100, EIO), (3, 100, ENOSPC)]
    {
        let first = if step == 1 { 1 } else { offset * 2 };
        let tried = (first..)
            .step_by(step)
            .take(runs_max)
            .take_while(|first| run(&library, *first, many, error))
            .count();
        assert!(tried > 1, "each write is synced: {tried}");
    }
}
