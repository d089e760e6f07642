//! A disk that is full, and one that cannot make anything durable.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use hyper::Method;
use support::Server;

/// A file system of its own in memory, which goes with the test.
struct Mounted {
    directory: PathBuf,
}

impl Mounted {
    /// `None` where one may not mount.
    fn new(directory: &Path, size: &str) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(directory)
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then(|| Mounted { directory: directory.to_owned() })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: the server may not be gone yet.
        let _ = Command::new("umount").arg("-l").arg(&self.directory).status();
    }
}

fn path(number: usize) -> String {
    format!("/document/v1/n/note/group/ann/{number}")
}

/// Puts documents of some 100 kB until one is refused; answers how many were taken, and the refusal.
fn fill(server: &Server, first: usize) -> (usize, u16, String) {
    let title = "word ".repeat(20_000);
    for number in first..first + 100_000 {
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

fn fills_and_recovers(reserve: &str) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(mounted) = Mounted::new(directory.path(), "500m") else {
        eprintln!("skipped: mounting is not permitted here");
        return;
    };
    let ballast = mounted.directory.join("ballast");
    // Sealing writes all rows of the tail once more before it takes the log away, so that much must come free.
    std::fs::write(&ballast, vec![1; 300 << 20]).expect("there is room for the ballast");
    let data_dir = mounted.directory.join("data");
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let mut server =
        Server::start_in(elsewhere, data_dir, &[("MILLRACE_DISK_RESERVE", reserve)]).deploy_notes();
    let (taken, status, message) = fill(&server, 0);
    assert_eq!(status, 507, "{message}");
    assert!(taken > 0 && message.contains("bytes free"), "{taken}: {message}");
    for number in [0, taken / 2, taken - 1] {
        assert_eq!(server.get(&path(number)).1["fields"]["stars"], number, "reads go on");
    }
    let query = [
        ("yql", "select * from note where stars >= 0"),
        ("streaming.groupname", "ann"),
        ("hits", "0"),
        ("timeout", "60s"),
    ];
    let (_, found) = server.query(&query);
    assert_eq!(found["root"]["fields"]["totalCount"], taken, "{found}");
    std::fs::remove_file(&ballast).expect("the ballast is there");
    support::poll("writes are taken again", || {
        server.call(Method::POST, &path(1_000_000), "{\"fields\":{\"stars\":1}}").0 == 200
    });
    server.kill_and_restart();
    for number in 0..taken {
        assert_eq!(server.get(&path(number)).1["fields"]["stars"], number, "what was acknowledged is there");
    }
    assert_eq!(server.get(&path(1_000_000)).0, 200);
    drop(server);
}

#[test]
fn a_disk_that_gets_fuller_than_the_reserve() {
    fills_and_recovers("100000000");
}

#[test]
fn a_disk_that_gets_full_to_the_last_byte() {
    fills_and_recovers("0");
}

/// Stands before the system's own functions: they fail while the file is there.
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

/// The shim, compiled; `None` where there is no C compiler.
fn shim(directory: &Path) -> Option<PathBuf> {
    let (source, library) = (directory.join("shim.c"), directory.join("shim.so"));
    std::fs::write(&source, SHIM).expect("a file");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).arg("-ldl");
    compiler.output().is_ok_and(|output| output.status.success()).then_some(library)
}

#[test]
fn a_sync_that_fails_ends_writing_and_acknowledges_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(library) = shim(directory.path()) else {
        eprintln!("skipped: there is no C compiler here");
        return;
    };
    let trigger = directory.path().join("fail");
    let text = |path: &Path| path.to_str().expect("a path of text").to_owned();
    let environment = [("LD_PRELOAD", text(&library)), ("SYNC_FAILS_WHILE", text(&trigger))];
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut server = Server::start_with(&environment).deploy_notes();
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
    std::fs::remove_file(&trigger).expect("the file is there");
    let (status, answer) = server.call(Method::POST, &path(3), "{\"fields\":{}}");
    assert_eq!(status, 503, "a sync that failed once proves nothing when it works again: {answer}");
    server.set_environment(&[]);
    server.kill_and_restart();
    assert_eq!(server.get(&path(1)).1["fields"]["stars"], 1);
    assert_eq!(server.get(&path(3)).0, 404);
    server.put(&path(2), "{\"stars\":2}");
}
