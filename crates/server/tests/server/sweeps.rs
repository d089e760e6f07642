//! Changes of all documents that match a selection.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::json;

use crate::support::TestServer;

fn server() -> TestServer {
    let server = TestServer::with_notes();
    for number in 0..10 {
        for (namespace, group) in [("n", "ann"), ("n", "bob"), ("m", "bob")] {
            let path = format!("/document/v1/{namespace}/note/group/{group}/{number}");
            server.put(&path, &format!("{{\"stars\":{number}}}"));
        }
    }
    server
}

/// Number of documents of a namespace and group.
fn count(server: &TestServer, namespace: &str, group: &str) -> usize {
    let (_, answer) =
        server.get(&format!("/document/v1/{namespace}/note/group/{group}?wantedDocumentCount=1000"));
    answer["documents"].as_array().expect("a list").len()
}

#[test]
fn delete_where_removes_what_matches_and_nothing_else() {
    let server = server();
    let path = "/document/v1/n/note/group/ann?cluster=notes&selection=note.stars%3C4";
    assert_eq!(server.call(Method::DELETE, path, "").1["documentCount"], json!(4));
    assert_eq!((count(&server, "n", "ann"), count(&server, "n", "bob")), (6, 10));
}

#[test]
fn a_whole_group_goes_at_once_and_no_other_namespace_with_it() {
    let server = server();
    let path = "/document/v1/n/note/group/ann?cluster=notes&selection=true";
    assert_eq!(server.call(Method::DELETE, path, "").1["documentCount"], json!(10));
    assert_eq!(count(&server, "n", "ann"), 0);
    let path = "/document/v1/n/note/group/bob?cluster=notes&selection=true";
    assert_eq!(server.call(Method::DELETE, path, "").1["documentCount"], json!(10));
    assert_eq!((count(&server, "n", "bob"), count(&server, "m", "bob")), (0, 10));
    server.put("/document/v1/n/note/group/ann/new", "{}");
    assert_eq!(count(&server, "n", "ann"), 1, "what is written after the drop stays");
}

#[test]
fn update_where_changes_what_matches() {
    let server = server();
    let path = "/document/v1/n/note/docid?cluster=notes&selection=note.stars%3D%3D5";
    let (status, answer) = server.call(Method::PUT, path, r#"{"fields":{"title":{"assign":"five"}}}"#);
    assert_eq!((status, &answer["documentCount"]), (200, &json!(2)), "{answer}");
    assert_eq!(server.get("/document/v1/n/note/group/bob/5").1["fields"]["title"], json!("five"));
    assert_eq!(server.get("/document/v1/m/note/group/bob/5").1["fields"].get("title"), None);
}

/// The time of a request ends between documents that were selected together.
#[test]
fn a_change_that_continues_changes_each_document_once() {
    let server = TestServer::with_notes();
    for number in 0..700 {
        server.put(&format!("/document/v1/n/note/group/ann/{number}"), "{\"stars\":0}");
    }
    let (mut changed, mut requests, mut continuation) = (0, 0, String::new());
    loop {
        let path =
            format!("/document/v1/n/note/group/ann?cluster=notes&selection=true&timeChunk=1ms{continuation}");
        let (status, answer) = server.call(Method::PUT, &path, r#"{"fields":{"stars":{"increment":1}}}"#);
        assert_eq!(status, 200, "{answer}");
        changed += answer["documentCount"].as_u64().expect("a number");
        requests += 1;
        match answer["continuation"].as_str() {
            Some(place) => continuation = format!("&continuation={place}"),
            None => break,
        }
    }
    assert!(requests > 1, "one request had the time for all");
    assert_eq!(changed, 700);
    for (selection, expected) in [("note.stars%3D%3D1", 700), ("note.stars%3C1", 0), ("note.stars%3E1", 0)] {
        let path = format!(
            "/document/v1/n/note/group/ann?selection={selection}&cluster=notes&wantedDocumentCount=1000"
        );
        let (_, answer) = server.get(&path);
        assert_eq!(answer["documents"].as_array().map(Vec::len), Some(expected), "{selection}");
    }
}

#[test]
fn a_sweep_says_what_it_is_about() {
    let server = server();
    let check = |method: Method, path: &str, expected: &str| {
        let (status, answer) = server.call(method, path, "{}");
        let message = answer["message"].as_str().unwrap_or("");
        assert!(status == 400 && message.contains(expected), "{path}: {status} {answer}");
    };
    check(Method::DELETE, "/document/v1/n/note/docid?cluster=notes", "selection");
    check(Method::DELETE, "/document/v1/n/note/docid?selection=true", "cluster");
    check(Method::PUT, "/document/v1/?cluster=notes&selection=true", "document type");
    check(Method::POST, "/document/v1/?cluster=notes&destinationCluster=x&selection=true", "not supported");
}

/// Parameters that can narrow a request about many documents.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SweepNarrowing {
    /// Documents that were written from a time on.
    From,
    /// Documents that were written before a time.
    To,
    /// The slice that the first document is in, or another.
    OwnSlice,
    OtherSlice,
    GlobalSpace,
    /// All documents after the first two.
    Continuation,
    /// A selection of every second document.
    Selection,
    /// Parameters that do not concern the documents.
    Nothing,
}

use SweepNarrowing::{Continuation, From, GlobalSpace, Nothing, OtherSlice, OwnSlice, Selection, To};

const NARROWINGS: [SweepNarrowing; 8] =
    [From, To, OwnSlice, OtherSlice, GlobalSpace, Continuation, Selection, Nothing];

/// A separate group with documents of two namespaces, and their known properties.
struct NarrowedSweep {
    path: String,
    /// Documents of namespace n in the order of storage, with their numbers.
    ids: Vec<(String, usize)>,
    from: u64,
    to: u64,
    slice: u32,
    continuation: String,
}

/// Slice of four of a document, by the bits of its location that are not its group's.
fn slice_of_four(id: &str) -> u32 {
    let location = millrace_document::DocumentId::parse(id).expect("an id").location();
    location.reversed().low() >> 30
}

fn now_us() -> u64 {
    millrace_env::unix_time().as_micros() as u64
}

impl NarrowedSweep {
    fn new(server: &TestServer, group: u64) -> Self {
        let place = match group % 2 {
            0 => format!("note/group/narrowed{group}"),
            _ => format!("note/number/{group}"),
        };
        let (mut from, mut to) = (0, 0);
        for number in 0..6 {
            if number == 1 {
                from = now_us();
            }
            server.put(&format!("/document/v1/n/{place}/{number}"), &format!("{{\"stars\":{number}}}"));
            if number == 4 {
                to = now_us();
            }
        }
        if group.is_multiple_of(3) {
            server.put(&format!("/document/v1/m/{place}/0"), "{}");
        }
        let path = format!("/document/v1/n/{place}/");
        let (_, answer) = server.get(&path);
        let documents = answer["documents"].as_array().expect("a list");
        let ids = documents.iter().map(|document| {
            let stars = document["fields"]["stars"].as_u64().expect("a number");
            (document["id"].as_str().expect("an id").to_owned(), stars as usize)
        });
        let ids: Vec<_> = ids.collect();
        let (_, two) = server.get(&format!("{path}?wantedDocumentCount=2"));
        let continuation = two["continuation"].as_str().expect("there are more").to_owned();
        let slice = slice_of_four(&ids[0].0);
        NarrowedSweep { path, ids, from, to, slice, continuation }
    }

    fn parameter(&self, narrowing: SweepNarrowing, narrowings: &[SweepNarrowing]) -> String {
        let other = (self.slice + 1) % 4;
        let sliced = match narrowings {
            of if of.contains(&OwnSlice) => Some(self.slice),
            of if of.contains(&OtherSlice) => Some(other),
            _ => None,
        };
        match narrowing {
            From => format!("fromTimestamp={}", self.from),
            To => format!("toTimestamp={}", self.to),
            OwnSlice => format!("slices=4&sliceId={}", self.slice),
            OtherSlice => format!("slices=4&sliceId={other}"),
            GlobalSpace => "bucketSpace=global".to_owned(),
            Continuation => match sliced {
                Some(slice) => format!("continuation={}~{slice}of4", self.continuation),
                None => format!("continuation={}", self.continuation),
            },
            Selection => "selection=note.stars+%25+2+%3D%3D+1".to_owned(),
            Nothing => {
                "bucketSpace=default&timeChunk=30s&concurrency=3&timeout=60s&fromTimestamp=0".to_owned()
            }
        }
    }

    /// Documents that a request with these narrowings covers.
    fn expected(&self, narrowings: &[SweepNarrowing]) -> BTreeSet<String> {
        let slice = |place: usize| slice_of_four(&self.ids[place].0);
        let takes = |place: usize, number: usize, narrowing: SweepNarrowing| match narrowing {
            From => number >= 1,
            To => number <= 4,
            OwnSlice => slice(place) == self.slice,
            OtherSlice => slice(place) == (self.slice + 1) % 4,
            Nothing => true,
            GlobalSpace => false,
            Continuation => place >= 2,
            Selection => number % 2 == 1,
        };
        let taken = self.ids.iter().enumerate().filter(|(place, (_, number))| {
            narrowings.iter().all(|narrowing| takes(*place, *number, *narrowing))
        });
        taken.map(|(_, (id, _))| id.clone()).collect()
    }

    /// Documents of both namespaces, and the ones that the update has changed.
    fn left(&self, server: &TestServer) -> (BTreeSet<String>, BTreeSet<String>) {
        let mut all = (BTreeSet::new(), BTreeSet::new());
        for path in [self.path.clone(), self.path.replace("/v1/n/", "/v1/m/")] {
            let (_, answer) = server.get(&path);
            for document in answer["documents"].as_array().expect("a list") {
                let id = document["id"].as_str().expect("an id").to_owned();
                if document["fields"]["title"] == json!("changed") {
                    all.1.insert(id.clone());
                }
                all.0.insert(id);
            }
        }
        all
    }
}

#[test]
fn every_subset_of_what_narrows_a_request_is_heeded_by_visits_updates_and_removals() {
    let server = TestServer::with_notes();
    for subset in 0..1_u64 << NARROWINGS.len() {
        let narrowings: Vec<SweepNarrowing> =
            (0..).zip(NARROWINGS).filter(|(bit, _)| subset >> bit & 1 == 1).map(|(_, of)| of).collect();
        let has = |narrowing| narrowings.contains(&narrowing);
        // One value for each parameter: a request cannot contain both.
        if has(OwnSlice) && has(OtherSlice) || has(Nothing) && (has(From) || has(GlobalSpace)) {
            continue;
        }
        let narrowed = NarrowedSweep::new(&server, 1000 + subset);
        let (before, _) = narrowed.left(&server);
        let expected = narrowed.expected(&narrowings);
        let parameters: Vec<String> =
            narrowings.iter().map(|of| narrowed.parameter(*of, &narrowings)).collect();
        let given = parameters.join("&");
        let selection = if has(Selection) { "" } else { "&selection=true" };
        let path = format!("{}?cluster=notes{selection}&{given}", narrowed.path);

        let (status, answer) = server.get(&path);
        let visited = answer["documents"].as_array().unwrap_or_else(|| panic!("{path}: {status} {answer}"));
        let visited: BTreeSet<String> =
            visited.iter().map(|document| document["id"].as_str().expect("an id").to_owned()).collect();
        assert_eq!(visited, expected, "GET {path}");

        // Changed documents have a new timestamp, but the removal has to match the earlier ones if the
        // request has a time range.
        if !has(To) && !has(From) {
            let update = r#"{"fields":{"title":{"assign":"changed"}}}"#;
            let (status, answer) = server.call(Method::PUT, &path, update);
            assert_eq!(
                (status, &answer["documentCount"]),
                (200, &json!(expected.len())),
                "PUT {path}: {answer}"
            );
            assert_eq!(narrowed.left(&server), (before.clone(), expected.clone()), "PUT {path}");
        }
        let (status, answer) = server.call(Method::DELETE, &path, "");
        assert_eq!(
            (status, &answer["documentCount"]),
            (200, &json!(expected.len())),
            "DELETE {path}: {answer}"
        );
        let rest: BTreeSet<String> = before.difference(&expected).cloned().collect();
        assert_eq!(narrowed.left(&server).0, rest, "DELETE {path}");
    }
}

#[test]
fn updates_of_many_heed_times() {
    let server = TestServer::with_notes();
    for (number, narrowings) in (0..).zip([vec![From], vec![To], vec![From, To], vec![To, OwnSlice]]) {
        let narrowed = NarrowedSweep::new(&server, 5000 + number);
        let given: Vec<String> = narrowings.iter().map(|of| narrowed.parameter(*of, &narrowings)).collect();
        let path = format!("{}?cluster=notes&selection=true&{}", narrowed.path, given.join("&"));
        let (status, answer) =
            server.call(Method::PUT, &path, r#"{"fields":{"title":{"assign":"changed"}}}"#);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(narrowed.left(&server).1, narrowed.expected(&narrowings), "{path}");
    }
}

#[test]
fn a_condition_is_refused_where_many_documents_are_changed() {
    let server = server();
    for method in [Method::DELETE, Method::PUT] {
        let path = "/document/v1/n/note/group/ann?cluster=notes&selection=true&condition=note.stars%3C4";
        let (status, answer) = server.call(method, path, r#"{"fields":{}}"#);
        assert!(status == 400 && answer["message"].to_string().contains("selection"), "{status} {answer}");
    }
    assert_eq!(count(&server, "n", "ann"), 10);
}
