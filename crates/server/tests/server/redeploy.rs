//! A new version of the application takes effect at once, without a restart and without feeding again.

use hyper::Method;
use serde_json::{Value, json};

use crate::support::{NOTE, SERVICES, TestServer, services_with};

#[test]
fn a_new_field_and_a_new_rank_profile() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"one","stars":3}"#);
    let changed = NOTE
        .replace("field stars", "field color type string { indexing: summary | attribute }\n field stars")
        .replace(
            "fieldset",
            "rank-profile stars { first-phase { expression: attribute(stars) } }\n fieldset",
        );
    let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", &changed)]);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["session-id"], json!("2"));
    server.put("/document/v1/n/note/group/ann/2", r#"{"title":"two","stars":9,"color":"red"}"#);
    let parameters =
        [("yql", "select * from note where true"), ("streaming.groupname", "ann"), ("ranking", "stars")];
    let (_, answer) = server.query(&parameters);
    let relevances: Vec<&Value> =
        answer["root"]["children"].as_array().expect("hits").iter().map(|hit| &hit["relevance"]).collect();
    assert_eq!(relevances, [&json!(9.0), &json!(3.0)]);
    let red = [("yql", "select * from note where color contains 'red'"), ("streaming.groupname", "ann")];
    assert_eq!(server.query(&red).1.pointer("/root/fields/totalCount"), Some(&json!(1)));
}

#[test]
fn values_stay_while_their_field_is_removed_or_has_another_type() {
    let server = TestServer::with_notes();
    let note = |of: &str| format!("/document/v1/n/note/group/ann/{of}");
    let deploy = |schema: &str| {
        let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", schema)]);
        assert_eq!(status, 200, "{answer}");
    };
    let fields = |of: &str| {
        let (status, answer) = server.get(&format!("{}?fieldSet=[all]", note(of)));
        assert_eq!(status, 200, "{answer}");
        answer["fields"].clone()
    };
    let update = |of: &str, fields: &str| {
        let (status, answer) = server.call(Method::PUT, &note(of), &format!("{{\"fields\":{fields}}}"));
        assert_eq!(status, 200, "{answer}");
    };
    let found = |condition: &str| {
        let yql = format!("select * from note where {condition}");
        let (_, answer) = server.query(&[("yql", &yql), ("streaming.groupname", "ann")]);
        answer.pointer("/root/fields/totalCount").cloned()
    };
    server.put(&note("1"), r#"{"title":"one","stars":3}"#);
    server.put(&note("2"), r#"{"title":"two","stars":4}"#);
    let without = NOTE.replace("field stars type int { indexing: summary | attribute }", "");
    deploy(&without);
    assert_eq!(fields("1"), json!({"title": "one"}));
    update("1", r#"{"title":{"assign":"eins"}}"#);

    // As another type it needs no permission: nothing is lost.
    let texts = NOTE.replace(
        "field stars type int { indexing: summary | attribute }",
        "field stars type string { indexing: summary | attribute }",
    );
    deploy(&texts);
    assert_eq!(fields("2"), json!({"title": "two"}));
    assert_eq!(found("stars contains '4'"), Some(json!(0)));
    update("2", r#"{"stars":{"assign":"many"}}"#);
    assert_eq!(found("stars contains 'many'"), Some(json!(1)));
    let (status, _) = server.call(
        Method::PUT,
        &format!("{}?condition=note.stars", note("1")),
        r#"{"fields":{"title":{"assign":"uno"}}}"#,
    );
    assert_eq!(status, 412, "a hidden value meets no condition");

    deploy(&without);
    deploy(NOTE);
    assert_eq!(fields("1"), json!({"title": "eins", "stars": 3}), "it stayed over the update");
    assert_eq!(found("stars = 3"), Some(json!(1)));
    assert_eq!(
        fields("2"),
        json!({"title": "two"}),
        "what was written to the field took the place of what it had"
    );
    update("2", r#"{"stars":{"increment":1}}"#);
    assert_eq!(fields("2"), json!({"title": "two"}), "a number that is not there is not incremented");
}

#[test]
fn words_of_stored_documents_follow_the_schema() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", r#"{"tags":["Deep Water"]}"#);
    let query = [("yql", "select * from note where tags contains 'water'"), ("streaming.groupname", "ann")];
    assert_eq!(server.query(&query).1.pointer("/root/fields/totalCount"), Some(&json!(0)));
    let changed = NOTE.replace(
        "array<string> { indexing: summary | attribute }",
        "array<string> { indexing: summary | index }",
    );
    assert_eq!(server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", &changed)]).0, 200);
    assert_eq!(server.query(&query).1.pointer("/root/fields/totalCount"), Some(&json!(1)));
}

#[test]
fn sessions_are_prepared_then_activated() {
    let server = TestServer::with_notes();
    const TENANT: &str = "/application/v2/tenant/default";
    let (status, session) = server.config(
        Method::POST,
        &format!("{TENANT}/session?from=http://localhost/application/v2/tenant/default/application/default"),
    );
    assert_eq!((status, &session["session-id"]), (200, &json!("2")), "{session}");
    assert_eq!(server.config(Method::PUT, &format!("{TENANT}/session/2/active")).0, 400, "not prepared yet");
    assert_eq!(server.config(Method::PUT, &format!("{TENANT}/session/2/prepared")).0, 200);
    let (status, answer) = server.config(Method::PUT, &format!("{TENANT}/session/2/active"));
    assert_eq!(status, 200, "{answer}");
    let long = format!("{TENANT}/application/default/environment/prod/region/default/instance/default");
    assert_eq!(server.config(Method::GET, &long).1["generation"], json!(2));
    let (_, converged) = server.config(Method::GET, &format!("{long}/serviceconverge"));
    assert_eq!(converged["converged"], json!(true));
    assert_eq!(converged["services"][0]["port"], json!(server.port()));
    let (_, files) = server.config(Method::GET, &format!("{long}/content/"));
    assert_eq!(files.as_array().map(Vec::len), Some(2), "{files}");
}

#[test]
fn files_of_a_session_say_what_became_of_them() {
    let server = TestServer::with_notes();
    const SESSION: &str = "/application/v2/tenant/default/session";
    let from = "from=http://localhost/application/v2/tenant/default/application/default";
    assert_eq!(server.config(Method::POST, &format!("{SESSION}?{from}")).0, 200);
    let content = format!("{SESSION}/2/content");
    for (method, file) in [
        (Method::PUT, "schemas/note.sd"),
        (Method::PUT, "files/a.txt"),
        (Method::PUT, "files/b.txt"),
        (Method::DELETE, "files/b.txt"),
    ] {
        let (status, answer) = server.config(method, &format!("{content}/{file}"));
        let prepared = answer["prepared"].as_str().unwrap_or_default();
        let is_address =
            prepared.starts_with("http://") && prepared.ends_with(&format!("{SESSION}/2/prepared"));
        assert!(status == 200 && is_address, "{file}: {answer}");
    }
    let status = |path: &str| server.config(Method::GET, &format!("{content}/{path}?return=status")).1;
    for (file, expected) in [
        ("services.xml", "new"),
        ("schemas/note.sd", "changed"),
        ("files/a.txt", "new"),
        ("files/b.txt", "deleted"),
    ] {
        assert_eq!(status(file)["status"], json!(expected), "{file}");
    }
    let listed = status("files/");
    let states = [&listed[0]["status"], &listed[1]["status"], &listed[2]];
    assert_eq!(json!(states), json!(["new", "deleted", null]), "{listed}");
    assert_eq!(server.config(Method::GET, &format!("{content}/files/b.txt")).0, 404);
    assert_eq!(server.config(Method::PUT, &format!("{content}/files/b.txt")).0, 200);
    assert_eq!(status("files/b.txt")["status"], json!("new"));
}

#[test]
fn handlers_answer_at_the_paths_that_an_application_binds_them_to() {
    let server = TestServer::with_notes();
    let find = "/find/notes?yql=select+*+from+note+where+true&streaming.groupname=ann&timeout=60s";
    let note = "/api/document/v1/n/note/group/ann/1";
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"one"}"#);
    assert_eq!((server.get(find).0, server.get(note).0), (404, 404), "nothing is bound yet");
    let bound = services_with(
        "<search><binding>http://*:8080/find/*</binding></search>
<document-api><binding>http://*/api</binding></document-api>",
    );
    let (status, answer) = server.deploy(&[("services.xml", &bound), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(server.get(find).1["root"]["fields"]["totalCount"], json!(1));
    assert_eq!(server.get(note).1["fields"]["title"], json!("one"));
    assert_eq!(server.get("/document/v1/n/note/group/ann/1").0, 200, "their own paths stay");
    let nowhere = services_with("<search><binding>find</binding></search>");
    let (status, answer) = server.deploy(&[("services.xml", &nowhere), ("schemas/note.sd", NOTE)]);
    assert!(status == 400 && answer.to_string().contains("the binding 'find' has no path"), "{answer}");
}

#[test]
fn an_application_shows_the_version_that_its_author_gave_it() {
    let server = TestServer::with_notes();
    let version = || server.get("/ApplicationStatus").1["application"]["user"]["version"].clone();
    assert_eq!(version(), json!(""));
    let config =
        "<config name='container.handler.observability.application-userdata'><version>42</version></config>";
    let services = SERVICES.replace("<services version='1.0'>", &format!("<services version='1.0'>{config}"));
    let (status, answer) = server.deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]);
    assert!(status == 200 && !answer["log"].to_string().contains("config"), "{answer}");
    assert_eq!(version(), json!("42"));
}

#[test]
fn a_deleted_application_takes_its_documents_along() {
    let server = TestServer::with_notes();
    server.put("/document/v1/n/note/docid/1", "{}");
    const APPLICATION: &str = "/application/v2/tenant/default/application/default";
    assert_eq!(server.config(Method::DELETE, APPLICATION).0, 200);
    assert_eq!(server.config(Method::GET, APPLICATION).0, 404);
    assert_eq!(server.get("/document/v1/n/note/docid/1").0, 503);
    assert_eq!(server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]).0, 200);
    assert_eq!(server.get("/document/v1/n/note/docid/1").0, 404);
}
