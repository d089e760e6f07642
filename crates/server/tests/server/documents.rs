//! Single documents: written, read, changed and removed, in every form of the path.

use hyper::Method;
use serde_json::{Value, json};

use crate::support::{NOTE, SERVICES, TestServer};

#[test]
fn every_form_of_the_path_is_an_id() {
    let server = TestServer::with_notes();
    let check = |path: &str, id: &str| {
        server.put(path, r#"{"title":"hello"}"#);
        let (status, answer) = server.get(path);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer, json!({ "pathId": path, "id": id, "fields": { "title": "hello" } }));
    };
    check("/document/v1/n/note/docid/1", "id:n:note::1");
    check("/document/v1/n/note/docid/a%2Fb", "id:n:note::a/b");
    check("/document/v1/n/note/docid/a/b%20c", "id:n:note::a/b c");
    check("/document/v1/n/note/group/ann/1", "id:n:note:g=ann:1");
    check("/document/v1/n/note/number/7/1", "id:n:note:n=7:1");
}

#[test]
fn a_document_that_is_not_there_is_a_404() {
    let server = TestServer::with_notes();
    let (status, answer) = server.get("/document/v1/n/note/docid/none");
    assert_eq!(status, 404);
    assert_eq!(answer, json!({ "pathId": "/document/v1/n/note/docid/none", "id": "id:n:note::none" }));
}

#[test]
fn an_empty_text_is_no_value() {
    let server = TestServer::with_notes();
    let path = "/document/v1/n/note/group/ann/1";
    let found = |selection: &str| {
        let selection = selection.replace(' ', "%20").replace('"', "%22").replace('=', "%3D");
        let (status, answer) = server.get(&format!("/document/v1/n/note/group/ann/?selection={selection}"));
        assert_eq!(status, 200, "{answer}");
        answer["documentCount"].clone()
    };
    for (method, body) in [
        (Method::POST, r#"{"fields":{"title":"","stars":1}}"#),
        (Method::PUT, r#"{"fields":{"title":{"assign":""}}}"#),
    ] {
        server.put(path, r#"{"title":"one","stars":1}"#);
        assert_eq!(found("note.title == null"), json!(0));
        assert_eq!(server.call(method.clone(), path, body).0, 200);
        assert_eq!(server.get(path).1["fields"], json!({ "stars": 1 }), "{method}");
        for (selection, count) in [
            ("note.title == null", 1),
            ("note.title == \"\"", 0),
            ("note.title != \"\"", 1),
            ("note.title", 0),
        ] {
            assert_eq!(found(selection), json!(count), "{method} {selection}");
        }
        let (_, answer) =
            server.query(&[("yql", "select * from note where true"), ("streaming.groupname", "ann")]);
        let fields = &answer["root"]["children"][0]["fields"];
        assert_eq!((&fields["stars"], fields.get("title")), (&json!(1), None), "{method}: {answer}");
    }
}

#[test]
fn updates_change_what_they_name() {
    let server = TestServer::with_notes();
    let path = "/document/v1/n/note/docid/1";
    server.put(path, r#"{"title":"one","stars":1,"tags":["a"]}"#);
    let body = r#"{"fields":{"stars":{"increment":2},"tags":{"add":["b"]}}}"#;
    assert_eq!(server.call(Method::PUT, path, body).0, 200);
    let (_, answer) = server.get(path);
    assert_eq!(answer["fields"], json!({ "title": "one", "stars": 3, "tags": ["a", "b"] }));
}

#[test]
fn an_update_creates_only_where_it_is_asked_to() {
    let server = TestServer::with_notes();
    let path = "/document/v1/n/note/docid/1";
    let body = r#"{"fields":{"stars":{"assign":4}}}"#;
    assert_eq!(server.call(Method::PUT, path, body).0, 200);
    assert_eq!(server.get(path).0, 404);
    assert_eq!(server.call(Method::PUT, &format!("{path}?create=true"), body).0, 200);
    assert_eq!(server.get(path).1["fields"], json!({ "stars": 4 }));
}

#[test]
fn conditions_guard_every_kind_of_write() {
    let server = TestServer::with_notes();
    let path = "/document/v1/n/note/docid/1";
    let holds = format!("{path}?condition=note.stars%3D%3D1");
    let fails = format!("{path}?condition=note.stars%3D%3D2");
    let put = r#"{"fields":{"stars":1}}"#;
    let update = r#"{"fields":{"title":{"assign":"x"}}}"#;
    assert_eq!(server.call(Method::POST, &holds, put).0, 412, "no document yet");
    assert_eq!(server.call(Method::POST, &format!("{holds}&create=true"), put).0, 200);
    for (method, body) in [(Method::POST, put), (Method::PUT, update), (Method::DELETE, "")] {
        let (status, answer) = server.call(method.clone(), &fails, body);
        assert_eq!(status, 412, "{method}: {answer}");
        assert!(
            answer["message"].as_str().is_some_and(|message| message.contains("note.stars==2")),
            "{answer}"
        );
    }
    assert_eq!(server.call(Method::PUT, &holds, update).0, 200);
    assert_eq!(server.call(Method::DELETE, &holds, "").0, 200);
    assert_eq!(server.get(path).0, 404);
}

#[test]
fn removing_what_is_not_there_is_fine() {
    let server = TestServer::with_notes();
    assert_eq!(server.call(Method::DELETE, "/document/v1/n/note/docid/none", "").0, 200);
}

#[test]
fn field_sets_choose_fields() {
    let server = TestServer::with_notes();
    let path = "/document/v1/n/note/docid/1";
    server.put(path, r#"{"title":"one","stars":1}"#);
    assert_eq!(server.get(&format!("{path}?fieldSet=note:stars")).1["fields"], json!({ "stars": 1 }));
    assert_eq!(server.get(&format!("{path}?fieldSet=[id]")).1["fields"], json!({}));
    let visited = |set: &str| {
        let path = format!("/document/v1/n/note/docid/?fieldSet={set}");
        server.get(&path).1["documents"][0]["fields"].clone()
    };
    assert_eq!(visited("note:stars"), json!({ "stars": 1 }));
    assert_eq!(visited("[id]"), json!({}));
    assert_eq!(visited("[document]"), json!({ "title": "one", "stars": 1 }));
    assert_eq!(visited("note:stars,title,stars"), json!({ "title": "one", "stars": 1 }));
    // A selection reads other fields than are shown.
    assert_eq!(visited("note:stars&selection=note.title%3D%3D'one'"), json!({ "stars": 1 }));
    assert_eq!(visited("[id]&selection=note.stars%3E1"), Value::Null);
}

#[test]
fn fields_that_are_made_are_shown_where_they_are_asked_for() {
    let server = TestServer::start();
    let made =
        "field made type string { indexing: input title . \" again\" | summary | index }\n  fieldset default";
    let schema = NOTE.replace("fieldset default", made);
    let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", &schema)]);
    assert_eq!(status, 200, "{answer}");
    let path = "/document/v1/n/note/docid/1";
    server.put(path, r#"{"title":"one","stars":1}"#);
    for (set, expected) in [
        ("[document]", json!({ "title": "one", "stars": 1 })),
        ("[all]", json!({ "title": "one", "stars": 1, "made": "one again" })),
        ("note:made", json!({ "made": "one again" })),
        ("note:made,default", json!({ "title": "one", "made": "one again" })),
    ] {
        let (_, read) = server.get(&format!("{path}?fieldSet={set}"));
        assert_eq!(read["fields"], expected, "{set}");
        let (_, visited) = server.get(&format!("/document/v1/n/note/docid/?fieldSet={set}"));
        assert_eq!(visited["documents"][0]["fields"], expected, "{set}");
    }
}

#[test]
fn feed_clients_may_shake_hands() {
    let server = TestServer::start();
    let path = "/document/v1/feeder/handshake/docid/dummy?dryRun=true";
    assert_eq!(server.call(Method::POST, path, "").0, 200);
    assert_eq!(server.call(Method::OPTIONS, "/document/v1/n/note/docid/1", "").0, 204);
}

#[test]
fn dry_runs_are_writes_of_one_document() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/docid/1", r#"{"title":"one"}"#);
    let many = "cluster=notes&selection=true&";
    for (method, place, others, body, status) in [
        (Method::POST, "n/note/docid/1", "", r#"{"fields":{"title":"two"}}"#, 200),
        (Method::PUT, "n/note/docid/1", "", r#"{"fields":{"title":{"assign":"two"}}}"#, 200),
        (Method::DELETE, "n/note/docid/1", "", "", 200),
        (Method::DELETE, "n/note/group/ann/1", "", "", 200),
        (Method::GET, "n/note/docid/1", "", "", 400),
        (Method::GET, "n/note/group/ann/1", "", "", 400),
        (Method::GET, "n/note/number/7/1", "", "", 400),
        (Method::GET, "", "", "", 400),
        (Method::GET, "n/note/docid/", "", "", 400),
        (Method::GET, "n/note/group/ann/", "", "", 400),
        (Method::POST, "n/note/docid/", "", r#"{"fields":{"title":"two"}}"#, 400),
        (Method::PUT, "n/note/docid/", many, r#"{"fields":{"title":{"assign":"two"}}}"#, 400),
        (Method::DELETE, "n/note/docid/", many, "", 400),
    ] {
        for value in ["true", "false"].into_iter().filter(|value| status == 400 || *value == "true") {
            let path = format!("/document/v1/{place}?{others}dryRun={value}");
            let (found, answer) = server.call(method.clone(), &path, body);
            assert_eq!(found, status, "{method} {path}: {answer}");
            let names = answer["message"].as_str().is_some_and(|message| message.contains("dryRun"));
            assert_eq!(names, status == 400, "{method} {path}: {answer}");
        }
    }
    assert_eq!(server.get("/document/v1/n/note/docid/1").1["fields"], json!({ "title": "one" }));
}

#[test]
fn writes_are_traced() {
    let server = TestServer::with_notes();
    let trace = |level: &str| {
        let path = format!("/document/v1/n/note/docid/1?tracelevel={level}");
        let (status, answer) = server.call(Method::POST, &path, r#"{"fields":{"stars":1}}"#);
        assert_eq!(status, 200, "{answer}");
        answer["trace"].clone()
    };
    assert_eq!(trace("0"), Value::Null);
    let timestamp = |trace: Value| {
        let message = trace[0]["message"].as_str().expect("a message").to_owned();
        message.strip_prefix("Modification timestamp: ").and_then(|text| text.parse::<u64>().ok())
    };
    let (first, second) = (timestamp(trace("1")), timestamp(trace("9")));
    assert!(first.is_some() && first < second, "{first:?} {second:?}");
    let (status, answer) = server.get("/document/v1/n/note/docid/2?tracelevel=9");
    assert_eq!((status, &answer["trace"][0]["message"]), (404, &json!("The document does not exist")));
}

#[test]
fn documents_of_unknown_types_are_not_found() {
    let server = TestServer::with_notes();
    let (status, answer) = server.get("/document/v1/n/nosuch/docid/1");
    assert_eq!(status, 404, "{answer}");
    assert!(answer["message"].to_string().contains("Document type nosuch does not exist"), "{answer}");
    assert_eq!(server.call(Method::POST, "/document/v1/n/nosuch/docid/1", r#"{"fields":{}}"#).0, 400);
}
