//! Hostile streams to `/feed/v1`: always an answer, and never a lost neighbour.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::Method;
use hyper::header::CONTENT_ENCODING;
use millrace_client::{HttpProtocol, OutgoingRequest};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::Value;

use crate::support::TestServer;

/// Forms in which each body is sent.
const FORMS: [&str; 3] = ["", "gzip", "zstd"];

fn pack(body: &[u8], form: &str) -> Vec<u8> {
    match form {
        "gzip" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body).expect("memory");
            encoder.finish().expect("memory")
        }
        "zstd" => compress_to_vec(body, CompressionLevel::Fastest),
        _ => body.to_vec(),
    }
}

/// Sends a packed body; returns the lines of failures and the totals.
fn feed(server: &TestServer, packed: Vec<u8>, form: &'static str) -> (Vec<Value>, Value) {
    let mut request = OutgoingRequest::new(Method::POST, "/feed/v1").body("application/jsonl", packed);
    if !form.is_empty() {
        request = request.header(CONTENT_ENCODING, form);
    }
    let answer = server.send(&server.url(), HttpProtocol::Http1, request);
    let text = String::from_utf8(answer.body.to_vec()).expect("the answer is text");
    assert_eq!(answer.status.as_u16(), 200, "{text}");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON"));
    let mut lines: Vec<Value> = lines.filter(|line: &Value| line.get("through").is_none()).collect();
    let total = lines.pop().expect("totals");
    assert!(total.get("complete").is_some(), "{text}");
    (lines, total)
}

fn put(name: &str) -> String {
    format!("{{\"put\":\"id:n:note:g=a:{name}\",\"fields\":{{\"stars\":1}}}}\n")
}

/// Sends a line between two operations, in every form, and checks its outcome: `ok`, or the beginning of its
/// status and message. The neighbours are there in any case.
#[track_caller]
fn check(server: &TestServer, line: &[u8], expected: &str) {
    for form in FORMS {
        server.call(Method::DELETE, "/document/v1/n/note/group/a/before", "");
        server.call(Method::DELETE, "/document/v1/n/note/group/a/after", "");
        let body = [put("before").as_bytes(), line, b"\n", put("after").as_bytes()].concat();
        let (failures, total) = feed(server, pack(&body, form), form);
        let found = match &failures[..] {
            [] => "ok".to_owned(),
            [failed] => {
                assert_eq!((&failed["operation"], &failed["line"]), (&2.into(), &2.into()), "{failed}");
                format!("{} {}", failed["status"], failed["message"].as_str().expect("a message"))
            }
            _ => format!("{} failures: {failures:?}", failures.len()),
        };
        let shown = String::from_utf8_lossy(&line[..line.len().min(100)]);
        assert!(found.starts_with(expected), "{form} {shown}:\n{found}\nis not\n{expected}");
        assert_eq!(total["complete"], true, "{shown}: {total}");
        for neighbour in ["before", "after"] {
            let (status, _) = server.get(&format!("/document/v1/n/note/group/a/{neighbour}"));
            assert_eq!(status, 200, "{form} {shown}: its neighbour is lost");
        }
    }
}

/// A key of an operation that is there twice is refused where it decides which document is meant; elsewhere
/// the last one counts, as in Vespa. Rows: the line, its outcome, and the stars of the document afterwards.
#[test]
fn keys_that_are_there_twice() {
    let server = TestServer::with_notes();
    const ONE_KIND: &str = "400 an operation has one of put, update and remove";
    for (line, expected, stars) in [
        (r#"{"put":"id:n:note:g=a:1","put":"id:n:note:g=a:2","fields":{}}"#, "400 duplicate field `put`", 7),
        (r#"{"put":"id:n:note:g=a:1","remove":"id:n:note:g=a:2"}"#, ONE_KIND, 7),
        (r#"{"put":"id:n:note:g=a:1","update":"id:n:note:g=a:1","fields":{}}"#, ONE_KIND, 7),
        (r#"{"remove":"id:n:note:g=a:1","remove":"id:n:note:g=a:1"}"#, "400 duplicate field `remove`", 7),
        (r#"{"put":"id:n:note:g=a:1","id":"id:n:note:g=a:2","fields":{"stars":1}}"#, "ok", 1),
        (r#"{"put":"id:n:note:g=a:1","fields":{"stars":1},"fields":{"stars":2}}"#, "ok", 2),
        (r#"{"put":"id:n:note:g=a:1","fields":{"stars":1,"stars":2}}"#, "ok", 2),
        (r#"{"put":"id:n:note:g=a:1","fields":{"stars":1,"\u0073tars":2}}"#, "ok", 2),
        (r#"{"put":"id:n:note:g=a:1","condition":"true","condition":"false","fields":{}}"#, "412", 7),
        (r#"{"update":"id:n:note:g=a:1","create":true,"create":false,"fields":{}}"#, "ok", 7),
        (r#"{"update":"id:n:note:g=a:1","fields":{"stars":{"assign":1,"assign":2}}}"#, "ok", 2),
        (r#"{"update":"id:n:note:g=a:1","fields":{"stars":{"assign":1,"increment":2}}}"#, "ok", 3),
    ] {
        server.put("/document/v1/n/note/group/a/1", "{\"stars\":7}");
        check(&server, line.as_bytes(), expected);
        let (_, answer) = server.get("/document/v1/n/note/group/a/1");
        assert_eq!(answer["fields"]["stars"], stars, "{line}: {answer}");
        assert_eq!(server.get("/document/v1/n/note/group/a/2").0, 404, "{line}: another document is made");
    }
}

const NOTHING: &str = "400 this is not an operation; expected '{'";

#[test]
fn bytes_that_are_not_text() {
    let server = TestServer::with_notes();
    const UTF8: &str = "400 malformed JSON: Invalid UTF-8 characters";
    const SURROGATE: &str = "400 field 'title': malformed JSON: Invalid surrogate";
    for (line, expected) in [
        (&b"{\"put\":\"id:n:note:g=a:\xff\",\"fields\":{}}"[..], UTF8),
        (b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"\xff\":1}}", UTF8),
        (b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"\xc3\x28\"}}", UTF8),
        (b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"\xc0\x80\"}}", UTF8),
        (b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"\xed\xa0\x80\"}}", UTF8),
        (b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"\xf4\x90\x80\x80\"}}", UTF8),
        (b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"cut \xe2\x82\"}}", UTF8),
        (b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"\\ud800\"}}", SURROGATE),
        (b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"\\udc00\\ud800\"}}", SURROGATE),
        (b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"\\u0000\"}}", "ok"),
        (
            b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"\x00\"}}",
            "400 malformed JSON: Control character found",
        ),
        (
            b"{\"put\":\"id:n:note:g=a:\\u0000\",\"fields\":{}}",
            "400 document id 'id:n:note:g=a:\u{0}': it has a control character",
        ),
        (b"\xff\xfe", NOTHING),
        (b"\x00", NOTHING),
        (b"\xef\xbb\xbf{\"put\":\"id:n:note:g=a:1\",\"fields\":{}}", NOTHING),
    ] {
        check(&server, line, expected);
    }
}

#[test]
fn operations_that_are_too_much() {
    let server = TestServer::start_with(&[("MILLRACE_REQUEST_BYTES_MAX", "4194304")]).deploy_notes();
    let many = |each: &dyn Fn(usize) -> String| (0..100_000).map(each).collect::<Vec<_>>().join(",");
    let names = many(&|number| format!("\"f{number}\":1"));
    let same = many(&|_| "\"stars\":1".to_owned());
    const DEEP: &str = "400 an operation is nested deeper than 64";
    let head = "\"put\":\"id:n:note:g=a:1\"";
    let deep = |open: &str| format!("{{{head},\"fields\":{{\"title\":{}", open.repeat(100_000));
    // It unpacks to less than 100 times its size.
    let long: String = (0..800_000).map(|number| format!("{number} ")).collect();
    for (line, expected) in [
        (
            format!("{{{head},\"fields\":{{{names}}}}}"),
            "400 Field 'f0' is not defined in document type 'note'",
        ),
        (format!("{{{head},\"fields\":{{{same}}}}}"), "ok"),
        (format!("{{{names},{head},\"fields\":{{}}}}"), "ok"),
        (format!("{{{names},{head}}}"), "400 unknown member 'f0' of an operation"),
        (
            format!("{{\"update\":\"id:n:note:g=a:1\",\"fields\":{{\"stars\":{{{names}}}}}}}"),
            "400 field 'stars': unknown update operation 'f0'",
        ),
        (format!("{{{head},\"fields\":{{\"tags\":[{}]}}}}", many(&|number| format!("\"{number}\""))), "ok"),
        (format!("{{{head},\"fields\":{{\"tags\":{{{names}}}}}}}"), "400 field 'tags': invalid type: map"),
        (deep("["), DEEP),
        (deep("{\"a\":"), DEEP),
        ("[".repeat(100_000), NOTHING),
        (
            format!("{{{head},\"fields\":{{\"title\":\"{long}\"}}}}"),
            "400 an operation is larger than 4194304 bytes",
        ),
        (
            format!("{{{head},\"fields\":{{\"stars\":1{}}}}}", "0".repeat(1 << 19)),
            "400 field 'stars': malformed JSON: Float number must be finite",
        ),
        (
            format!("{{{head},\"condition\":\"{}\",\"fields\":{{}}}}", "(".repeat(100_000)),
            "400 parameter 'condition': selection '(((",
        ),
        (
            format!("{{\"put\":\"id:n:note:g=a:{}\",\"fields\":{{}}}}", "x".repeat(100_000)),
            "400 document id 'id:n:note:g=a:xxx",
        ),
    ] {
        check(&server, line.as_bytes(), expected);
    }
}

/// Highest memory of a process in kilobytes.
fn memory_peak_kb(server: &TestServer) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the system tells it");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn bodies_that_unpack_to_much_more() {
    let server = TestServer::start_with(&[("MILLRACE_REQUEST_BYTES_MAX", "4194304")]).deploy_notes();
    feed(&server, put("before").into_bytes(), "");
    let idle_kb = memory_peak_kb(&server);
    const BYTES: usize = 256 << 20;
    let blank = vec![b' '; BYTES];
    let text =
        [put("before").as_bytes(), b"{\"put\":\"id:n:note:g=a:1\",\"fields\":{\"title\":\"", &blank].concat();
    for form in ["gzip", "zstd"] {
        // Blanks between operations are part of the form, but these would keep a thread busy; and a text that
        // never ends.
        let blanks = [put("1").as_bytes(), &blank, put("2").as_bytes()].concat();
        for body in [&blanks, &text] {
            let (_, total) = feed(&server, pack(body, form), form);
            assert_eq!((&total["ok"], &total["complete"]), (&1.into(), &false.into()), "{form}: {total}");
            assert_eq!(total["status"], 413, "{form}: {total}");
            let message = total["message"].as_str().unwrap_or_default();
            assert!(message.contains("more than 100 times"), "{form}: {total}");
        }
    }
    let grown_kb = memory_peak_kb(&server) - idle_kb;
    assert!(grown_kb < 100 << 10, "{grown_kb} KB for a stream of any length");
}

#[test]
fn bodies_that_are_cut_anywhere() {
    let server = TestServer::with_notes();
    let body = [put("1"), put("2"), put("3")].concat();
    let ends: Vec<usize> = (0..3).map(|index| (index + 1) * put("1").len()).collect();
    for list in [false, true] {
        let text = if list { format!("[{}]", body.trim_end().replace('\n', ",")) } else { body.clone() };
        for form in FORMS {
            let packed = pack(text.as_bytes(), form);
            for cut in 0..packed.len() {
                let (failures, total) = feed(&server, packed[..cut].to_vec(), form);
                let ok = total["ok"].as_u64().expect("a number");
                let place = format!("{form} list={list} cut at {cut}: {total} {failures:?}");
                assert!(ok <= 3 && failures.len() <= 1, "{place}");
                assert!(total["complete"] == true || total["message"].is_string(), "{place}");
                if form.is_empty() && !list {
                    // The last line needs no end of its own.
                    let whole = ends.iter().filter(|end| cut + 1 >= **end).count() as u64;
                    assert_eq!((ok, &total["complete"]), (whole, &true.into()), "{place}");
                    assert_eq!(
                        failures.is_empty(),
                        cut == 0 || ends.contains(&cut) || ends.contains(&(cut + 1)),
                        "{place}"
                    );
                } else {
                    // Neither a list nor a packed body is whole without its end.
                    assert!(total["complete"] != true || cut == 0, "{place}");
                }
            }
        }
    }
    assert_eq!(server.get("/document/v1/n/note/group/a/1").0, 200);
}
