//! Files fetched from a server that this test plays.

mod twin;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use millrace_remote::{Http, download};
use twin::{Reply, Twin};

#[test]
fn a_file_is_fetched_once_and_whole() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let twin = Twin::start(move |request| {
        counter.fetch_add(1, Ordering::SeqCst);
        match request.path.as_str() {
            "/model.onnx" => Reply::bytes(200, b"a model".to_vec()),
            "/moved" => Reply::bytes(302, Vec::new()).header("location", "/model.onnx"),
            "/circle" => Reply::bytes(302, Vec::new()).header("location", "/circle"),
            "/cut" => Reply::bytes(200, b"a mo".to_vec()).header("content-length", "7"),
            _ => Reply::bytes(404, b"no".to_vec()),
        }
    });
    let http = Http::new().expect("a client");
    let directory = tempfile::tempdir().expect("a directory");
    let fetch = |path: &str, bytes_max: u64| {
        let to = directory.path().join("deep").join(path.trim_start_matches('/'));
        download(&http, &twin.url(path), &to, bytes_max).map(|()| std::fs::read(&to).expect("a file"))
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
    let error = download(&http, &twin.url("/model.onnx"), &small, 3).expect_err("too large").to_string();
    assert!(error.contains("larger than 3 bytes"), "{error}");
    let left = std::fs::read_dir(directory.path().join("deep")).expect("a directory").count();
    assert_eq!(left, 2, "what did not come whole is gone");
    let error = download(&http, "no address", &small, 3).expect_err("no address").to_string();
    assert!(error.contains("no address"), "{error}");
}
