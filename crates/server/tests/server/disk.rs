//! A full disk, and a disk that cannot make data durable.

use std::path::{Path, PathBuf};
use std::process::Command;

use hyper::Method;

use crate::support::{self, TestServer};

/// A separate file system in memory, which is unmounted after the test.
struct MountedDisk {
    directory: PathBuf,
    _below: tempfile::TempDir,
}

impl MountedDisk {
    /// `None` if mounting is not permitted.
    fn new(below: tempfile::TempDir, size: &str) -> Option<Self> {
        let directory = below.path().to_owned();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(&directory)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then(|| MountedDisk { directory, _below: below })
    }
}

impl Drop for MountedDisk {
    fn drop(&mut self) {
        // Lazily: the server may not be gone yet.
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
    }
}

fn path(number: usize) -> String {
    format!("/document/v1/n/note/group/ann/{number}")
}

/// Text of some 100 kB that does not become much smaller when it is compressed: otherwise segments would take
/// so little space that only a server whose sealing falls behind fills its disk.
fn incompressible(seed: usize) -> String {
    let mut state = seed as u64;
    let mut letter = |at: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if at % 50 == 49 { ' ' } else { char::from(b'a' + (state >> 33) as u8 % 26) }
    };
    (0..100_000).map(&mut letter).collect()
}

/// Puts documents of some 100 kB until one is refused; returns the number of accepted ones, and the refusal.
fn fill(server: &TestServer, first: usize) -> (usize, u16, String) {
    for number in first..first + 100_000 {
        let title = incompressible(number);
        let body = format!("{{\"fields\":{{\"title\":\"{title}\",\"stars\":{number}}}}}");
        let (status, answer) = loop {
            match server.call(Method::POST, &path(number), &body) {
                // The tail is full and about to be sealed.
                (429, _) => std::thread::sleep(std::time::Duration::from_millis(20)),
                answered => break answered,
            }
        };
        if status != 200 {
            return (number - first, status, answer["message"].as_str().unwrap_or("").to_owned());
        }
    }
    panic!("the disk does not get full");
}

/// A server that has filled a separate disk, and the number of accepted documents.
struct FullDisk {
    server: TestServer,
    taken: usize,
    mounted: MountedDisk,
}

/// Files that take space until they are removed: little, which the segments of one generation of the tail
/// need (they may become twice as large as its rows, and a tail full of generations accepts no writes), and
/// enough for all unsealed data.
const LITTLE: (&str, usize) = ("little", 96 << 20);
const ENOUGH: (&str, usize) = ("enough", 200 << 20);

impl FullDisk {
    /// `None` if mounting is not permitted.
    fn new(reserve: &str) -> Option<Self> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mounted = MountedDisk::new(directory, "500m")?;
        for (name, size) in [LITTLE, ENOUGH] {
            std::fs::write(mounted.directory.join(name), vec![1; size]).expect("there is room");
        }
        let elsewhere = tempfile::tempdir().expect("a temporary directory");
        let data_dir = mounted.directory.join("data");
        let server =
            TestServer::start_in(elsewhere, data_dir, &[("MILLRACE_DISK_RESERVE", reserve)]).deploy_notes();
        let (taken, status, message) = fill(&server, 0);
        assert_eq!(status, 507, "{message}");
        // Detected either before a file is written or during the write.
        let is_told =
            ["bytes free", "no space is left on the disk"].iter().any(|told| message.contains(told));
        assert!(taken > 0 && is_told, "{taken}: {message}");
        assert!(!message.contains("doctor"), "nothing is damaged: {message}");
        Some(FullDisk { server, taken, mounted })
    }

    fn free(&self, (name, _): (&str, usize)) {
        std::fs::remove_file(self.mounted.directory.join(name)).expect("the file is there");
    }

    /// Names of files or directories below the data directory.
    fn names(&self, below: &str) -> Vec<String> {
        let entries =
            std::fs::read_dir(self.mounted.directory.join("data").join(below)).expect("it is there");
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn check_reads(&self, numbers: impl Iterator<Item = usize>) {
        for number in numbers {
            let (_, document) = self.server.get(&path(number));
            assert_eq!(document["fields"]["stars"], number, "what was acknowledged is there");
        }
    }

    /// Polls until a document is accepted.
    fn put(&self, number: usize) {
        let body = format!("{{\"fields\":{{\"stars\":{number}}}}}");
        support::poll("writes are taken again", || {
            self.server.call(Method::POST, &path(number), &body).0 == 200
        });
    }
}

#[test]
fn a_disk_that_gets_fuller_than_the_reserve() {
    let Some(mut full) = FullDisk::new("100000000") else {
        eprintln!("skipped: mounting is not permitted here");
        return;
    };
    let query = [
        ("yql", "select * from note where stars >= 0"),
        ("streaming.groupname", "ann"),
        ("hits", "0"),
        ("timeout", "60s"),
    ];
    let (_, found) = full.server.query(&query);
    assert_eq!(found["root"]["fields"]["totalCount"], full.taken, "reads go on: {found}");
    full.free(ENOUGH);
    full.put(1_000_000);
    full.server.kill_and_restart();
    full.check_reads((0..full.taken).chain([1_000_000]));
}

#[test]
fn a_disk_that_gets_full_to_the_last_byte() {
    let Some(mut full) = FullDisk::new("0") else {
        eprintln!("skipped: mounting is not permitted here");
        return;
    };
    full.check_reads([0, full.taken / 2, full.taken - 1].into_iter());
    support::poll("a segment that found no space gives back what it had", || {
        !full.names("segments").iter().any(|name| name.ends_with(".writing"))
    });
    full.server.kill_and_restart();
    full.check_reads([0, full.taken / 2, full.taken - 1].into_iter());
    full.free(LITTLE);
    full.put(1_000_000);
    full.free(ENOUGH);
    full.put(1_000_001);
    support::poll("what was not sealed is sealed by itself", || full.names("tail").len() <= 2);
    full.server.kill_and_restart();
    full.check_reads((0..full.taken).chain([1_000_000, 1_000_001]));
}

/// Overrides functions of the system: they fail while the file exists.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int failing(void) {
    const char *file = getenv("SYNC_FAILS_WHILE");
    return file && access(file, F_OK) == 0;
}

int fsync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (failing()) { errno = EIO; return -1; }
    return real(fd);
}

int fdatasync(int fd) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (failing()) { errno = EIO; return -1; }
    return real(fd);
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

/// A server whose syncs fail while a file exists; `None` if there is no C compiler.
fn server_with_shim(directory: &Path, trigger: &Path) -> Option<TestServer> {
    let Some(library) = shim(directory) else {
        eprintln!("skipped: there is no C compiler here");
        return None;
    };
    let text = |path: &Path| path.to_str().expect("a path of text").to_owned();
    let (library, trigger) = (text(&library), text(trigger));
    Some(TestServer::start_with(&[("LD_PRELOAD", &library), ("SYNC_FAILS_WHILE", &trigger)]))
}

#[test]
fn a_sync_that_fails_ends_writing_and_acknowledges_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let trigger = directory.path().join("fail");
    let Some(server) = server_with_shim(directory.path(), &trigger) else { return };
    let mut server = server.deploy_notes();
    server.put(&path(1), "{\"stars\":1}");
    std::fs::write(&trigger, "").expect("a file");
    for attempt in 0..3 {
        let (status, answer) = server.call(Method::POST, &path(2), "{\"fields\":{\"stars\":2}}");
        assert_eq!(status, 503, "attempt {attempt}: {answer}");
        let message = answer["message"].as_str().unwrap_or("");
        assert!(
            message.contains("could not be made durable") && message.contains("check the disk"),
            "{answer}"
        );
    }
    assert_eq!(server.get(&path(1)).1["fields"]["stars"], 1, "reads go on");
    let (status, health) = server.get("/state/v1/health");
    let message = health["status"]["message"].as_str().unwrap_or_default();
    assert_eq!((status, &health["status"]["code"]), (503, &"down".into()), "{health}");
    assert!(message.contains("cannot be made durable") && message.contains("started again"), "{message}");
    std::fs::remove_file(&trigger).expect("the file is there");
    let (status, answer) = server.call(Method::POST, &path(3), "{\"fields\":{}}");
    assert_eq!(status, 503, "a sync that failed once proves nothing when it works again: {answer}");
    server.set_environment(&[]);
    server.kill_and_restart();
    assert_eq!(server.get(&path(1)).1["fields"]["stars"], 1);
    assert_eq!(server.get(&path(3)).0, 404);
    server.put(&path(2), "{\"stars\":2}");
}

/// A document that is there only if the first is written: no later operation of it has a certain answer.
#[test]
fn operations_on_a_document_whose_sync_failed_have_unknown_outcomes() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let trigger = directory.path().join("fail");
    let Some(server) = server_with_shim(directory.path(), &trigger) else { return };
    let (status, answer) = server.call(Method::PUT, "/elastic/a/_doc/1", r#"{"n":1}"#);
    assert_eq!(status, 201, "{answer}");
    std::fs::write(&trigger, "").expect("a file");
    let bulk = r#"{"index":{"_index":"a","_id":"2"}}
{"n":2}
{"create":{"_index":"a","_id":"2"}}
{"n":3}
{"index":{"_index":"a","_id":"3"}}
{"n":4}
{"update":{"_index":"a","_id":"3"}}
{"doc":{"n":4}}
"#;
    let (status, answer) = server.call(Method::POST, "/elastic/_bulk", bulk);
    assert_eq!(status, 200, "{answer}");
    for (number, action) in ["index", "create", "index", "update"].into_iter().enumerate() {
        assert_eq!(answer["items"][number][action]["status"], 503, "operation {number}: {answer}");
    }
}
