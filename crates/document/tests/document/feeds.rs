//! Feeds: streams of operations as JSON.

use millrace_document::json::{self, FeedPosition, FeedReader, ParseOptions};
use millrace_document::{DataType, DocumentField, DocumentId, DocumentType, OperationKind};

/// Splits a feed, and expects its operations as `kind name offset`, errors as `!text`, and a final error as
/// `!!text`.
fn check_feed(feed: &str, expected: &[&str]) {
    // Small reads split every operation somewhere.
    struct TrickleReader<'a>(&'a [u8]);
    impl std::io::Read for TrickleReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = buffer.len().min(7).min(self.0.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }
    let found: Vec<String> = FeedReader::with_limit(TrickleReader(feed.as_bytes()), 200)
        .map(|operation| match operation {
            Ok(operation) => {
                let begin = operation.position.offset as usize;
                assert_eq!(feed.as_bytes()[begin..begin + operation.json.len()], operation.json);
                assert_eq!(operation.position, FeedPosition::default().after(&feed.as_bytes()[..begin]));
                format!("{:?} {} {begin}", operation.kind, operation.id.name())
            }
            Err(error @ millrace_document::Error::Feed { .. }) => format!("!!{error}"),
            Err(error) => format!("!{error}"),
        })
        .collect();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        let (mark, reason) = expected.split_at(expected.len() - expected.trim_start_matches('!').len());
        let (found_mark, told) = found.split_at(found.len() - found.trim_start_matches('!').len());
        assert_eq!(found_mark, mark, "{found}");
        if mark.is_empty() { assert_eq!(found, expected) } else { assert!(told.contains(reason), "{found}") }
    }
}

/// A compressed feed that was cut, for one.
#[test]
fn a_feed_that_cannot_be_read_on_ends_with_a_cure() {
    struct CutFeedReader(bool);
    impl std::io::Read for CutFeedReader {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.0, true) {
                return Err(std::io::Error::other("incomplete deflate stream"));
            }
            let put = b"{\"put\":\"id:a:music::1\"}\n";
            buffer[..put.len()].copy_from_slice(put);
            Ok(put.len())
        }
    }
    let found: Vec<_> = FeedReader::new(CutFeedReader(false)).collect();
    let [Ok(_), Err(error)] = &found[..] else { panic!("{found:?}") };
    let told = error.to_string();
    assert!(told.contains("line 2, column 1: the feed cannot be read from here on: incomplete"), "{told}");
    assert!(told.ends_with("where it is compressed, it is cut or damaged"), "{told}");
}

#[test]
fn feeds_are_split() {
    let put = r#"{"put":"id:a:music::1","fields":{"title":"}{\"\\"}}"#;
    check_feed(put, &["Put 1 0"]);
    check_feed(&format!("[{put}, {put}\n]\n"), &["Put 1 1", "Put 1 54"]);
    check_feed(
        &format!("{put}\n{{\"update\":\"id:a:music::2\"}}\n\n{{\"remove\":\"id:a:music::3\"}}"),
        &["Put 1 0", "Update 2 52", "Remove 3 80"],
    );
    check_feed(r#"[{"fields":{},"id":"id:a:music::4"}]"#, &["Put 4 1"]);
    check_feed("\u{feff} ", &[]);
    check_feed("[]", &[]);
    check_feed(
        "[{\"put\":\"x\"},{\"putt\":\"id:a:b::c\"},{\"put\":\"id:a:b::c\"}]",
        &[
            "!line 1, column 2: document id 'x'",
            "!line 1, column 14: an operation has one of put, update and remove",
            "Put c 34",
        ],
    );
    check_feed("{\"put\": tru}{\"put\":\"id:a:b::c\"}", &["!malformed JSON", "Put c 12"]);
    check_feed("[{\"put\":\"id:a:b::c\"}", &["Put c 1", "!!ends inside its list"]);
    check_feed("[{\"put\":\"id:a:b::c\"} {}]", &["Put c 1", "!!expected ','"]);
    check_feed("{\"put\":\"id:a:b::c", &["!ends inside an operation"]);
    // A truncated line does not affect the others.
    for cut in [r#"{"put":"id:a:b::c","fields":{"t":"x"#, r#"{"put":"id:a:b::c","fields":{"t":1"#, "{"] {
        let feed = format!("{cut}\n{put}\n{cut}\n\n{put}");
        let (first, second) =
            (format!("Put 1 {}", cut.len() + 1), format!("Put 1 {}", 2 * cut.len() + put.len() + 4));
        check_feed(
            &feed,
            &["!line 1, column 1: the line ends", &first, "!line 3, column 1: the line ends", &second],
        );
    }
    check_feed("{\"put\":\"id:a:b::c\",\n \"fields\":\n {\"a\":[\n {}]}}\n", &["Put c 0"]);
    check_feed("nonsense", &["!expected '{'"]);
    check_feed("[] {}", &["!!text after the list"]);
}

#[test]
fn a_line_that_is_no_operation_takes_no_other_with_it() {
    let large = format!("{{\"put\":\"{}\"}}", "x".repeat(300));
    let deep = format!("{{\"put\":\"id:a:b::c\",\"x\":{}", "[".repeat(100));
    let put = r#"{"put":"id:a:b::c"}"#;
    for (bad, reason) in [
        ("foo", "column 1: this is not an operation; expected '{'"),
        ("[1]", "column 1: this is not an operation"),
        ("  7 {}, {\"put\":", "column 3: this is not an operation"),
        ("æ{}", "column 1: this is not an operation"),
        (&large, "column 1: an operation is larger than 200 bytes"),
        (&deep, "column 1: an operation is nested deeper than 64"),
        (r#"{"put": 7}"#, "column 9: "),
    ] {
        let feed = format!("{put}\n{bad}\r\n{put}\n\n{bad}\n{put}");
        let second = put.len() + bad.len() + 3;
        let third = second + put.len() + bad.len() + 3;
        let [two, five] = [2, 5].map(|line| format!("!line {line}, {reason}"));
        let [second, third] = [second, third].map(|begin| format!("Put c {begin}"));
        check_feed(&feed, &["Put c 0", &two, &second, &five, &third]);
        check_feed(&format!("{put} {bad}"), &["Put c 0", "!line 1, column "]);
    }
    check_feed(
        &format!("[{put}, foo, {put}]"),
        &["Put c 1", "!!line 1, column 23: this is not an operation"],
    );
    check_feed(&format!("[{put},\n{large}]"), &["Put c 1", "!!line 2, column 1: an operation is larger"]);
}

#[test]
fn a_place_within_an_operation_is_one_in_the_feed() {
    #[track_caller]
    fn check(feed: &str, begin: &str, told: &str, expected: &str) {
        let at = feed.find(begin).expect("it is in the feed");
        let (reason, line, column) = json::split_position(told).expect("it says where");
        let position = FeedPosition::default().after(&feed.as_bytes()[..at]);
        let within = position.within(&feed.as_bytes()[at..feed.len() - 1], line, column);
        assert_eq!(format!("{reason}: {within}"), expected);
    }
    let feed = "[{},\n æ{\"æ\": 1,\n \"b\": x}]";
    // Columns of a parser are bytes, those of a feed characters.
    check(feed, "{\"æ", "no (good) (line 1, column 8)", "no (good): line 2, column 9");
    check(feed, "{\"æ", "no (line 2, column 7)", "no: line 3, column 7");
    check(feed, "{\"æ", "no (line 9, column 9)", "no: line 3, column 9");
    assert_eq!(json::split_position("no (line 1)"), None);
    let year = DocumentField { name: "year".into(), data_type: DataType::Int };
    let music = DocumentType::new("music", vec![year]);
    let id = DocumentId::parse("id:mine:music:g=me:1").expect("an id");
    let body = b"{\"fields\": {\n\"year\": \"x\"}}";
    let error = json::parse(body, OperationKind::Put, id, &music, ParseOptions::default());
    let error = error.expect_err("no number").to_string();
    let (reason, line, _) = json::split_position(&error).expect("it says where");
    assert!(reason.starts_with("field 'year': ") && !reason.contains("(line") && line == 2, "{error}");
}
