//! Acknowledged writes are there after a restart, and after a crash.

use millrace_client::pack;
use serde_json::json;

use crate::support::{TestServer, services_with, write_files};

fn check(restart: impl Fn(&mut TestServer)) {
    let mut server = TestServer::with_notes();
    for number in 0..50 {
        server.put(&format!("/document/v1/n/note/group/ann/{number}"), &format!("{{\"stars\":{number}}}"));
    }
    restart(&mut server);
    assert_eq!(server.get("/document/v1/n/note/group/ann/7").1["fields"], json!({ "stars": 7 }));
    let yql = "select * from note where stars >= 25";
    let (_, answer) = server.query(&[("yql", yql), ("streaming.groupname", "ann")]);
    assert_eq!(answer.pointer("/root/fields/totalCount"), Some(&json!(25)), "{answer}");
    server.put("/document/v1/n/note/group/ann/50", "{\"stars\":50}");
}

#[test]
fn after_a_restart() {
    check(TestServer::restart);
}

#[test]
fn after_a_crash() {
    check(TestServer::kill_and_restart);
}

/// Starts over an application as an earlier version has activated it, with what a deployment refuses today.
#[test]
fn what_an_earlier_version_accepted_starts() {
    let mut server = TestServer::with_notes();
    server.put("/document/v1/n/note/group/ann/1", r#"{"title":"one","stars":7}"#);
    let services = services_with("<search/><document-api/><model-evaluation/>");
    let files = [
        ("services.xml", services.as_str()),
        (
            "schemas/note.sd",
            "schema note {
                document note {
                    field title type string { indexing: summary | index }
                    field stars type int { indexing: summary | attribute }
                }
                field decoded type string { indexing: input stars | hex_decode | to_string | summary }
                field least type long { indexing: input stars | base64decode | summary }
                field quoted type string { indexing: input title | 'index' . _ | summary }
                rank-profile quoted { first-phase { expression: fieldMatch(quoted) } }
                rank-profile heir inherits quoted { }
                rank-profile stars { first-phase { expression: attribute(stars) } }
            }",
        ),
        ("models/no-model.ubj", "Z"),
    ];
    let package = tempfile::tempdir().expect("a directory");
    write_files(package.path(), &files);
    server.terminate();
    let active = server.data_dir().join("application/1.zip");
    std::fs::write(active, pack(package.path()).expect("a package")).expect("the package is written");
    server.start_again();
    let document = "/document/v1/n/note/group/ann/1";
    assert_eq!(server.get(document).1["fields"], json!({ "title": "one", "stars": 7 }));
    server.put(document, r#"{"title":"one","stars":9}"#);
    let query = |profile: &str| {
        let yql = "select * from note where title contains 'one'";
        server.query(&[("yql", yql), ("streaming.groupname", "ann"), ("ranking", profile)])
    };
    let (status, answer) = query("stars");
    assert_eq!(status, 200, "{answer}");
    let hit = &answer["root"]["children"][0];
    assert_eq!(hit["relevance"], json!(9.0), "{answer}");
    assert_eq!(hit["fields"]["decoded"], json!(i64::MIN.to_string()), "{answer}");
    assert_eq!(hit["fields"]["least"], json!(i64::MIN), "{answer}");
    assert_eq!(hit["fields"]["quoted"], json!("indexone"), "{answer}");
    for profile in ["quoted", "heir"] {
        let (status, answer) = query(profile);
        assert_eq!(status, 500, "{answer}");
        assert!(answer.to_string().contains("mend the profile, and deploy again"), "{answer}");
    }
    let (status, answer) = server.deploy(&files);
    assert_eq!(status, 400, "{answer}");
    for mistake in ["hex_decode needs a string", "base64decode needs a string"] {
        assert!(answer.to_string().contains(mistake), "{answer}");
    }
}
