//! Slices of visits, updates and removals: each document is in exactly one, also within a group.

use std::collections::{BTreeMap, BTreeSet};

use hyper::Method;
use serde_json::json;

use crate::support::TestServer;

/// Documents of one large group.
const LARGE: u32 = 240;

/// Paths of requests: one group, one number, all of a type, and all of a cluster.
const SCOPES: [&str; 4] = [
    "/document/v1/n/note/group/large/?cluster=notes",
    "/document/v1/n/note/number/7/?cluster=notes",
    "/document/v1/n/note/docid/?cluster=notes",
    "/document/v1/?cluster=notes",
];

/// Selections: everything, some documents, and one group.
const SELECTIONS: [&str; 3] =
    ["selection=true", "selection=note.stars+%25+2+%3D%3D+0", "selection=id.group%3D%3D'large'"];

fn fill(server: &TestServer) {
    let mut lines = String::new();
    let mut put = |id: String, stars: u32| {
        lines.push_str(&json!({ "put": id, "fields": { "stars": stars } }).to_string());
        lines.push('\n');
    };
    for number in 0..LARGE {
        put(format!("id:n:note:g=large:{number}"), number);
    }
    for number in 0..60 {
        put(format!("id:n:note:n=7:{number}"), number);
        put(format!("id:n:note:g=group{}:{number}", number % 20), number);
        put(format!("id:n:note::{number}"), number);
        put(format!("id:m:note:g=large:{number}"), number);
    }
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("feed.jsonl");
    std::fs::write(&file, lines).expect("written");
    let fed = server.millrace(&["feed", file.to_str().expect("a path")]);
    assert!(fed.status.success(), "{}", String::from_utf8_lossy(&fed.stderr));
}

/// Documents that a request finds, page after page, with the values of their titles.
fn visited(server: &TestServer, path: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut page = format!("{path}&wantedDocumentCount=50");
    loop {
        let (status, answer) = server.get(&page);
        assert_eq!(status, 200, "{page}: {answer}");
        for document in answer["documents"].as_array().expect("a list") {
            let id = document["id"].as_str().expect("an id").to_owned();
            let title = document["fields"]["title"].as_str().unwrap_or_default().to_owned();
            assert!(found.insert(id, title).is_none(), "{page} finds a document twice");
        }
        match answer["continuation"].as_str() {
            Some(token) => page = format!("{path}&wantedDocumentCount=50&continuation={token}"),
            None => return found,
        }
    }
}

fn ids(found: BTreeMap<String, String>) -> BTreeSet<String> {
    found.into_keys().collect()
}

const WHOLE: &str = "/document/v1/?cluster=notes";

#[test]
fn slices_of_visits_are_disjoint_complete_and_even_within_a_group() {
    let server = TestServer::with_notes();
    fill(&server);
    for scope in SCOPES {
        for selection in SELECTIONS {
            let path = format!("{scope}&{selection}");
            let whole = ids(visited(&server, &path));
            for slices in [1, 2, 4, 7] {
                let mut together = BTreeSet::new();
                for slice in 0..slices {
                    let part = ids(visited(&server, &format!("{path}&slices={slices}&sliceId={slice}")));
                    let share = whole.len() / slices;
                    assert!(
                        whole.len() < 200 || (share / 2..share * 2).contains(&part.len()),
                        "{} of {} in {slice} of {slices}: {path}",
                        part.len(),
                        whole.len()
                    );
                    for id in part {
                        assert!(together.insert(id.clone()), "{id} is in two slices: {path}");
                    }
                }
                assert_eq!(together, whole, "{slices} slices of {path}");
            }
        }
    }
}

#[test]
fn updates_and_removals_of_slices_change_what_a_visit_of_them_shows() {
    let server = TestServer::with_notes();
    for scope in &SCOPES[..3] {
        for selection in &SELECTIONS[..2] {
            fill(&server);
            let path = format!("{scope}&{selection}");
            let mut left = visited(&server, WHOLE);
            for slice in 0..4 {
                let sliced = format!("{path}&slices=4&sliceId={slice}");
                let part = ids(visited(&server, &sliced));
                assert!(!part.is_empty(), "{sliced}");
                let update = format!(r#"{{"fields":{{"title":{{"assign":"{slice}"}}}}}}"#);
                let (status, answer) = server.call(Method::PUT, &sliced, &update);
                assert_eq!((status, &answer["documentCount"]), (200, &json!(part.len())), "{answer}");
                for id in &part {
                    left.insert(id.clone(), slice.to_string());
                }
                assert_eq!(visited(&server, WHOLE), left, "PUT {sliced}");
            }
            for slice in 0..4 {
                let sliced = format!("{path}&slices=4&sliceId={slice}");
                let part = ids(visited(&server, &sliced));
                let (status, answer) = server.call(Method::DELETE, &sliced, "");
                assert_eq!((status, &answer["documentCount"]), (200, &json!(part.len())), "{answer}");
                left.retain(|id, _| !part.contains(id));
                assert_eq!(visited(&server, WHOLE), left, "DELETE {sliced}");
            }
            assert!(visited(&server, &path).is_empty(), "the slices are the whole: {path}");
        }
    }
}

#[test]
fn a_continuation_is_refused_where_documents_would_be_missing() {
    let server = TestServer::with_notes();
    fill(&server);
    let path = "/document/v1/n/note/group/large/?cluster=notes&wantedDocumentCount=3&selection=true";
    let token = |more: &str| {
        let (_, answer) = server.get(&format!("{path}{more}"));
        answer["continuation"].as_str().expect("there are more").to_owned()
    };
    let whole = token("");
    let slice = token("&slices=4&sliceId=1");
    let cases = [
        ("&slices=4&sliceId=1", &whole, "earlier version"),
        ("&slices=4&sliceId=2", &slice, "slice 1of4"),
        ("&slices=5&sliceId=1", &slice, "slice 1of4"),
        ("", &slice, "all documents"),
    ];
    for (more, token, expected) in cases {
        for method in [Method::GET, Method::PUT, Method::DELETE] {
            let path = format!("{path}{more}&continuation={token}");
            let (status, answer) = server.call(method.clone(), &path, r#"{"fields":{}}"#);
            let message = answer["message"].as_str().unwrap_or_default();
            assert!(status == 400 && message.contains(expected), "{method} {path}: {status} {answer}");
        }
    }
    for (more, token) in [("", &whole), ("&slices=1&sliceId=0", &whole), ("&slices=4&sliceId=1", &slice)] {
        let (status, answer) = server.get(&format!("{path}{more}&continuation={token}"));
        assert_eq!(status, 200, "{answer}");
    }
    assert_eq!(visited(&server, "/document/v1/n/note/group/large/?cluster=notes").len(), LARGE as usize);
}
