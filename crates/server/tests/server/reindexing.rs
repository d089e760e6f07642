//! Stored documents are processed again by changed indexing statements, in the background, and across a
//! restart.

use hyper::Method;
use serde_json::{Value, json};

use crate::support::{NOTE, SERVICES, TestServer, poll};

const APPLICATION: &str =
    "/application/v2/tenant/default/application/default/environment/default/region/default/instance/default";

/// The test schema with a field that indexing statements compute.
fn with_shout() -> String {
    NOTE.replace(
        "fieldset default",
        "field shout type string { indexing: input title . \" again\" | summary | index }\n fieldset default",
    )
}

fn deploy(server: &TestServer, schema: &str) -> Value {
    let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", schema)]);
    assert_eq!(status, 200, "{answer}");
    answer
}

fn status(server: &TestServer) -> Value {
    let (code, answer) = server.config(Method::GET, &format!("{APPLICATION}/reindexing"));
    assert_eq!((code, &answer["enabled"]), (200, &json!(true)), "{answer}");
    answer["clusters"]["notes"].clone()
}

fn reindex(server: &TestServer, method: Method, parameters: &str) -> (u16, String) {
    let (code, answer) = server.config(method, &format!("{APPLICATION}/reindex{parameters}"));
    (code, answer["message"].as_str().unwrap_or("").to_owned())
}

/// Number of ann's documents that have the word in the computed field.
fn computed_count(server: &TestServer) -> Value {
    let query = [
        ("yql", "select * from note where shout contains 'again'"),
        ("streaming.groupname", "ann"),
        ("hits", "0"),
    ];
    server.query(&query).1.pointer("/root/fields/totalCount").cloned().unwrap_or(Value::Null)
}

#[test]
fn from_the_deployment_to_the_end() {
    let server = TestServer::with_notes();
    for number in 0..300 {
        server.put(&format!("/document/v1/n/note/group/ann/{number}"), "{\"title\":\"Word\"}");
    }
    assert_eq!(status(&server), json!({ "pending": {}, "ready": {} }));
    let answer = deploy(&server, &with_shout());
    let action = &answer["configChangeActions"]["reindex"][0];
    assert_eq!(
        (&action["documentType"], &action["clusterName"]),
        (&json!("note"), &json!("notes")),
        "{answer}"
    );
    let message = action["messages"][0].as_str().expect("a message");
    assert!(
        message.starts_with("Document type 'note': Field 'shout' changed: ") && message.contains("/reindex "),
        "{message}"
    );
    assert_eq!(status(&server), json!({ "pending": { "note": 2 }, "ready": {} }));
    let printed = |expected: &str| {
        let printed = String::from_utf8_lossy(&server.millrace(&["status"]).stdout).into_owned();
        assert!(printed.contains(expected), "{expected}: {printed}");
    };
    printed("reindexing: note needs it since generation 2");
    assert_eq!(computed_count(&server), json!(0));

    let expected = "Reindexing document types [note] in 'notes' of application default.default";
    assert_eq!(
        reindex(&server, Method::POST, "?clusterId=notes&documentType=note"),
        (200, expected.to_owned())
    );
    let marked = status(&server);
    assert_eq!((&marked["pending"], &marked["ready"]["note"]["state"]), (&json!({}), &json!("pending")));
    printed("reindexing: note begins with the next deployment");
    assert_eq!(computed_count(&server), json!(0), "the next deployment begins it");

    let answer = deploy(&server, &with_shout());
    assert_eq!(answer["configChangeActions"]["reindex"], json!([]));
    poll("it ends", || status(&server)["ready"]["note"]["state"] == "successful");
    printed("nothing is to be reindexed");
    assert_eq!(computed_count(&server), json!(300));
    let ended = status(&server)["ready"]["note"].clone();
    assert!(ended["readyMillis"].as_u64() <= ended["startedMillis"].as_u64(), "{ended}");
    assert!(ended["startedMillis"].as_u64() <= ended["endedMillis"].as_u64(), "{ended}");
}

#[test]
fn it_goes_on_over_a_restart_and_is_halted_and_sped_up() {
    let mut server = TestServer::with_notes();
    for number in 0..600 {
        server.put(&format!("/document/v1/n/note/group/ann/{number}"), "{\"title\":\"Word\"}");
    }
    deploy(&server, &with_shout());
    // So slow that it is not over when the server is back: five pages, with 16 seconds between them.
    assert_eq!(reindex(&server, Method::POST, "?speed=0.004").0, 200);
    deploy(&server, &with_shout());
    poll("it begins", || computed_count(&server) != json!(0));
    let before = status(&server)["ready"]["note"].clone();
    assert_eq!(before["state"], "running");
    server.restart();
    let after = status(&server)["ready"]["note"].clone();
    assert_eq!((&after["state"], &after["startedMillis"]), (&json!("running"), &before["startedMillis"]));

    assert_eq!(reindex(&server, Method::PUT, "?speed=0").0, 200);
    deploy(&server, &with_shout());
    let halted = status(&server)["ready"]["note"].clone();
    assert_eq!((&halted["speed"], &halted["state"]), (&json!(0.0), &json!("running")));
    let (code, message) = reindex(&server, Method::PUT, "?speed=10");
    assert_eq!(
        (code, message.as_str()),
        (
            200,
            "Set reindexing speed to '10' for document types [note] in 'notes' of application default.default"
        )
    );
    assert_ne!(computed_count(&server), json!(600), "the speed counts from the next deployment on");
    deploy(&server, &with_shout());
    poll("it ends", || status(&server)["ready"]["note"]["state"] == "successful");
    assert_eq!(computed_count(&server), json!(600));
}

#[test]
fn a_document_that_the_statements_cannot_take_is_named() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", "{\"title\":\"no number\"}");
    let schema = NOTE.replace(
        "fieldset default",
        "field many type int { indexing: input title | to_int | attribute }\n fieldset default",
    );
    deploy(&server, &schema);
    assert_eq!(reindex(&server, Method::POST, "").0, 200);
    deploy(&server, &schema);
    poll("it fails", || status(&server)["ready"]["note"]["state"] == "failed");
    let failed = status(&server)["ready"]["note"].clone();
    assert!(failed["message"].as_str().is_some_and(|text| text.contains("id:n:note:g=ann:1")), "{failed}");
    assert_eq!(server.get("/document/v1/n/note/group/ann/1").1["fields"]["title"], "no number");
}

#[test]
fn what_cannot_be_reindexed_is_said() {
    let server = TestServer::with_notes();
    let check = |method: Method, parameters: &str, words: &str| {
        let (code, message) = reindex(&server, method, parameters);
        assert!(code == 400 && message.contains(words), "{parameters}: {code} {message}");
    };
    check(Method::POST, "?clusterId=nots", "only 'notes'");
    check(Method::POST, "?documentType=not", "only note");
    check(Method::POST, "?speed=11", "from 0 to 10");
    check(Method::POST, "?speed=0", "more than 0");
    check(Method::POST, "?indexedOnly=perhaps", "true or false");
    check(Method::PUT, "", "'speed'");
    let (code, message) = reindex(&server, Method::PUT, "?speed=1");
    assert!(code == 200 && message.contains("none of the document types was marked"), "{message}");
}
