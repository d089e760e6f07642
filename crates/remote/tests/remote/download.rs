//! Files fetched from a server that this test plays.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_remote::{FileSource, OutboundHttp, OutboundPolicy, Sha256Digest, download};

use crate::mock::{MockReply, MockServer};

#[test]
fn a_file_is_fetched_once_and_whole() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let service = MockServer::start(move |request| {
        counter.fetch_add(1, Ordering::SeqCst);
        match request.path.as_str() {
            "/model.onnx" => MockReply::bytes(200, b"a model".to_vec()),
            "/moved" => MockReply::bytes(302, Vec::new()).header("location", "/model.onnx"),
            "/circle" => MockReply::bytes(302, Vec::new()).header("location", "/circle"),
            "/cut" => MockReply::bytes(200, b"a mo".to_vec()).header("content-length", "7"),
            _ => MockReply::bytes(404, b"no".to_vec()),
        }
    });
    let http = OutboundHttp::new(loopback()).expect("a client");
    let directory = tempfile::tempdir().expect("a directory");
    let fetch = |path: &str, bytes_max: u64| {
        let to = directory.path().join("deep").join(path.trim_start_matches('/'));
        download(&http, &source(service.url(path), bytes_max), &to)
            .map(|()| std::fs::read(&to).expect("a file"))
    };
    for _ in 0..2 {
        assert_eq!(fetch("/model.onnx", 100), Ok(b"a model".to_vec()));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(fetch("/moved", 100), Ok(b"a model".to_vec()));
    for (path, bytes_max, part) in [
        ("/nothing", 100, "cannot be fetched: the answer is 404"),
        ("/circle", 100, "redirected more than 8 times"),
        ("/cut", 100, "cut off"),
    ] {
        let error = fetch(path, bytes_max).expect_err(path).to_string();
        assert!(error.contains(part), "{path}: {error}");
    }
    let small = directory.path().join("small");
    let large = source(service.url("/model.onnx"), 3);
    let error = download(&http, &large, &small).expect_err("too large").to_string();
    assert!(error.contains("larger than 3 bytes"), "{error}");
    let left = std::fs::read_dir(directory.path().join("deep")).expect("a directory").count();
    assert_eq!(left, 2, "what did not come whole is gone");
    let nowhere = source("no address".to_owned(), 3);
    let error = download(&http, &nowhere, &small).expect_err("no address").to_string();
    assert!(error.contains("this is not an address"), "{error}");
}

#[test]
fn a_digest_that_is_given_is_checked() {
    let service = MockServer::start(|_| MockReply::bytes(200, b"a model".to_vec()));
    let http = OutboundHttp::new(loopback()).expect("a client");
    let directory = tempfile::tempdir().expect("a directory");
    let to = directory.path().join("model");
    let fetch = |content: &[u8]| {
        let source = FileSource { sha256: Some(Sha256Digest::of(content)), ..source(service.url("/m"), 100) };
        download(&http, &source, &to)
    };
    let error = fetch(b"another model").expect_err("another digest").to_string();
    assert!(error.contains("its SHA-256 is 97ff8a35") && error.contains("and should be"), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
    fetch(b"a model").expect("the digest is right");
}

#[test]
fn the_reserve_of_the_disk_stays_free() {
    let service = MockServer::start(|_| MockReply::bytes(200, b"a model".to_vec()));
    let http = OutboundHttp::new(loopback()).expect("a client");
    let directory = tempfile::tempdir().expect("a directory");
    let source = FileSource { disk_reserve: u64::MAX, ..source(service.url("/m"), 100) };
    let error = download(&http, &source, &directory.path().join("model")).expect_err("no room").to_string();
    assert!(error.contains("must stay free"), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 0);
}

/// Two deployments that fetch the same file, whose pieces come in turns: each writes its own.
#[test]
fn two_fetches_of_one_file_do_not_mix() {
    const LENGTH: usize = 4 << 20;
    let count = Arc::new(AtomicUsize::new(0));
    let service = MockServer::start(move |_| {
        let number = count.fetch_add(1, Ordering::SeqCst) as u8;
        MockReply::bytes(200, vec![number; LENGTH])
    });
    let http = OutboundHttp::new(loopback()).expect("a client");
    let directory = tempfile::tempdir().expect("a directory");
    let to = directory.path().join("model");
    let source = source(service.url("/m"), 1 << 30);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| download(&http, &source, &to).expect("it is fetched"));
        }
    });
    let content = std::fs::read(&to).expect("a file");
    assert_eq!(content.len(), LENGTH);
    assert!(content.iter().all(|byte| *byte == content[0]), "the file is of one answer");
    assert_eq!(std::fs::read_dir(directory.path()).expect("a directory").count(), 1);
}

/// A server that redirects to an address that only this machine reaches; a name that resolves to one.
#[test]
fn no_connection_where_no_rule_permits_it() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let inner = MockServer::start(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
        MockReply::bytes(200, b"a secret".to_vec())
    });
    let target = inner.url("/");
    let outer = MockServer::start(move |_| MockReply::bytes(302, Vec::new()).header("location", &target));
    let directory = tempfile::tempdir().expect("a directory");
    let fetch = |rules: &[&str], url: String| {
        let policy = OutboundPolicy::parse(rules).expect("these are rules");
        let http = OutboundHttp::new(policy).expect("a client");
        let outcome = download(&http, &source(url, 100), &directory.path().join("file"));
        outcome.expect_err("it is refused").to_string()
    };
    let by_name = |service: &MockServer| service.url("/").replace("127.0.0.1", "localhost");
    let only_outer = outer.url("").trim_end_matches('/').to_owned();
    for (rules, url, part) in [
        (&["public"][..], inner.url("/"), "an address of this machine itself (loopback)"),
        (&["public"], by_name(&inner), "localhost is at"),
        (&["none"], inner.url("/"), "--outbound-allow"),
        (&["none"], "http://unresolved.invalid/".to_owned(), "no rule of --outbound-allow permits it"),
        (&[&only_outer], outer.url("/"), "an address of this machine itself (loopback)"),
        (&["public"], "http://169.254.169.254/latest/".to_owned(), "where clouds have their metadata"),
        (&["public"], "http://[::1]:1/".to_owned(), "loopback"),
        (&["public"], "http://2130706433/".to_owned(), "loopback"),
    ] {
        let error = fetch(rules, url.clone());
        assert!(error.contains(part) && error.contains("--outbound-allow"), "{rules:?} {url}: {error}");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 0, "the inner server was never asked");
}

fn loopback() -> OutboundPolicy {
    OutboundPolicy::parse(&["127.0.0.1"]).expect("a rule")
}

fn source(url: String, bytes_max: u64) -> FileSource {
    FileSource { url, sha256: None, bytes_max, disk_reserve: 0 }
}
