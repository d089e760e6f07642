//! The cluster over HTTP.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use millrace_cluster::NodeKey;
use millrace_membership::rest::{ShownMembership, SingleNodeStatus, router};
use millrace_membership::{BucketStats, NodeStats, PackagePublication};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{MemberCluster, configuration, reaches};

async fn ask(router: &Router, method: Method, path: &str, body: &str) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(path).body(Body::from(body.to_owned()));
    let answer = router.clone().oneshot(request.expect("it is a request")).await.expect("it is answered");
    let status = answer.status();
    let body = answer.into_body().collect().await.expect("it has a body").to_bytes();
    (status, serde_json::from_slice(&body).expect("it is JSON"))
}

#[tokio::test]
async fn a_node_that_is_alone_has_a_tree_of_its_own() {
    let stats = || NodeStats {
        buckets: BucketStats { owned: 3, replicas: 3, incomplete: 0 },
        documents: 70,
        bytes: 900,
        ..NodeStats::default()
    };
    let clusters = || vec!["music".to_owned()];
    let router = router(Arc::new(SingleNodeStatus { url: "http://a:8080".to_owned(), clusters, stats }));
    let (_, all) = ask(&router, Method::GET, "/cluster/v2/?recursive=true", "").await;
    let music = &all["cluster"]["music"];
    assert_eq!((&music["state"]["generated"]["state"], &music["alone"]), (&json!("up"), &json!(true)));
    let node = &music["service"]["storage"]["node"]["0"];
    for state in ["generated", "unit", "user"] {
        assert_eq!(node["state"][state], json!({ "state": "up", "reason": "" }), "{state}");
    }
    let metrics =
        json!({ "bucket-count": 3, "unique-document-count": 70, "unique-document-total-size": 900 });
    assert_eq!((&node["metrics"], &node["attributes"]["url"]), (&metrics, &json!("http://a:8080")));
    let path = "/cluster/v2/music/storage/0";
    assert_eq!(&ask(&router, Method::GET, path, "").await.1, node);
    assert_eq!(ask(&router, Method::GET, "/cluster/v2/music/storage/1", "").await.0, StatusCode::NOT_FOUND);
    let request = r#"{"state": {"user": {"state": "maintenance"}}}"#;
    let (status, refused) = ask(&router, Method::PUT, path, request).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(refused["message"].as_str().is_some_and(|message| message.contains("in no cluster")));
}

#[tokio::test]
async fn the_tree_and_the_states() {
    let cluster = MemberCluster::new();
    let (a, b) = (cluster.join("a").await, cluster.join("b").await);
    let stats = |key: NodeKey| {
        let buckets = BucketStats { owned: 1, replicas: 5 * u64::from(key.0), incomplete: 0 };
        Some(NodeStats { buckets, documents: 70, bytes: 900, ..NodeStats::default() })
    };
    let clusters = || vec!["music".to_owned(), "books".to_owned()];
    let router = router(Arc::new(ShownMembership { membership: a.clone(), clusters, stats }));
    let get = async |path: &str| ask(&router, Method::GET, path, "").await;
    let put = async |path: &str, body: &str| ask(&router, Method::PUT, path, body).await;
    let delete = async |path: &str| ask(&router, Method::DELETE, path, "").await;

    let (_, before) = get("/cluster/v2/music").await;
    let generated = &before["state"]["generated"];
    let reason = generated["reason"].as_str().unwrap_or_default();
    assert!(generated["state"] == "down" && reason.contains("has no application"), "{before}");
    a.publish(PackagePublication::unconditional(b"package", &configuration(["a", "b", "c"])))
        .await
        .expect("it is published");
    reaches(&a, "a:up b:up c:down").await;

    let links = json!({ "cluster": {
        "music": { "link": "/cluster/v2/music" }, "books": { "link": "/cluster/v2/books" },
    }});
    assert_eq!(get("/cluster/v2/").await, (StatusCode::OK, links.clone()));
    assert_eq!(get("/cluster/v2").await, (StatusCode::OK, links));
    let (_, music) = get("/cluster/v2/music").await;
    assert_eq!(music["service"]["storage"], json!({ "link": "/cluster/v2/music/storage" }));
    assert_eq!(music["state"]["generated"], json!({ "state": "up", "reason": "" }));
    let (_, nodes) = get("/cluster/v2/music/distributor/").await;
    assert_eq!(nodes["node"]["2"], json!({ "link": "/cluster/v2/music/distributor/2" }));
    let (_, node) = get("/cluster/v2/music/storage/1").await;
    assert_eq!(node["attributes"]["hierarchical-group"], "rack");
    assert_eq!(
        (&node["attributes"]["name"], &node["attributes"]["url"]),
        (&json!("b"), &json!("http://b:8080"))
    );
    for state in ["generated", "unit", "user"] {
        assert_eq!(node["state"][state], json!({ "state": "up", "reason": "" }), "{state}");
    }
    let metrics =
        json!({ "bucket-count": 5, "unique-document-count": 70, "unique-document-total-size": 900 });
    assert_eq!(node["metrics"], metrics);
    let (_, absent) = get("/cluster/v2/music/storage/2").await;
    let reason = json!({ "state": "down", "reason": "it has not registered yet" });
    assert_eq!(absent["state"]["generated"], reason);
    assert_eq!(get("/cluster/v2/books/distributor/2").await.1["state"]["generated"]["state"], "down");
    // Several levels at once are equal to the single ones.
    let (_, all) = get("/cluster/v2/?recursive=true").await;
    assert_eq!(all["cluster"]["music"]["service"]["storage"]["node"]["1"], node);
    let (_, some) = get("/cluster/v2/?recursive=2").await;
    assert_eq!(some["cluster"]["music"]["service"]["storage"], get("/cluster/v2/music/storage").await.1);

    // A state that an operator requests, and its effect.
    let state = |state: &str, more: &str| {
        format!(r#"{{"state": {{"user": {{"state": "{state}", "reason": "it is replaced"}}}}{more}}}"#)
    };
    let b_path = "/cluster/v2/music/storage/1";
    let done = json!({ "wasModified": true, "reason": "ok" });
    assert_eq!(put(b_path, &state("retired", "")).await, (StatusCode::OK, done.clone()));
    reaches(&b, "a:up b:retired c:down").await;
    let again = json!({ "wasModified": false, "reason": "ok" });
    assert_eq!(put(b_path, &state("retired", "")).await.1, again);
    let (_, node) = get(b_path).await;
    assert_eq!(node["state"]["user"], json!({ "state": "retired", "reason": "it is replaced" }));
    assert_eq!(node["state"]["generated"]["state"], "retired");
    assert_eq!(get("/cluster/v2/books/distributor/1").await.1["state"]["generated"]["state"], "up");
    let unsafe_now = put(b_path, &state("maintenance", r#", "condition": "SAFE""#)).await.1;
    assert_eq!(unsafe_now["wasModified"], false);
    assert!(unsafe_now["reason"].as_str().is_some_and(|reason| reason.contains("c does not serve either")));
    // A node can be removed if it is not needed, or by force.
    let kept = delete(b_path).await.1;
    assert!(kept["reason"].as_str().is_some_and(|reason| reason.contains("has 5 buckets still")), "{kept}");
    assert!(
        delete("/cluster/v2/music/storage/0").await.1["reason"].as_str().is_some_and(|r| r.contains("is up"))
    );
    assert_eq!(delete("/cluster/v2/music/storage/2").await.1, done);
    assert_eq!(delete("/cluster/v2/music/storage/1?force=true").await.1, done);
    reaches(&a, "a:up").await;
    // While the node runs, its removal can be revoked.
    assert_eq!(get(b_path).await.1["state"]["user"]["state"], "removed");
    assert_eq!(put(b_path, &state("up", "")).await.1, done);
    reaches(&a, "a:up b:up").await;

    // Errors are reported.
    for (method, path, body, status, expected) in [
        (Method::GET, "/cluster/v2/films", "", 404, "no cluster 'films'; there are: music, books"),
        (Method::GET, "/cluster/v2/music/disks", "", 404, "no service 'disks'"),
        (Method::GET, "/cluster/v2/music/storage/9", "", 404, "no node 9; there are: 0, 1, 2"),
        (Method::GET, "/cluster/v2/music/storage/a", "", 404, "named by its distribution key"),
        (
            Method::GET,
            "/cluster/v2/music/storage/0/1",
            "",
            404,
            "nothing is at /cluster/v2/music/storage/0/1",
        ),
        (Method::GET, "/cluster/v2/music?recursive=deep", "", 400, "recursive is 'deep'"),
        (Method::PUT, "/cluster/v2/music/storage", "{}", 400, "a state is set for one node"),
        (Method::PUT, "/cluster/v2/music/distributor/0", "{}", 400, "under storage"),
        (Method::PUT, "/cluster/v2/music/storage/0", "{}", 400, "missing field `state`"),
        (
            Method::PUT,
            "/cluster/v2/music/storage/0",
            &state("gone", ""),
            400,
            "'gone' is not what a node can be",
        ),
        (Method::PUT, "/cluster/v2/music/storage/0", &state("removed", ""), 400, "send DELETE"),
        (Method::PUT, "/cluster/v2/music/storage/0", &state("up", r#", "condition": "MAYBE""#), 400, "MAYBE"),
        (Method::PUT, "/cluster/v2/music/storage/0", &" ".repeat(70_000), 400, "the body"),
    ] {
        let (answered_status, answer) = ask(&router, method, path, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(
            answered_status.as_u16() == status && message.contains(expected),
            "{path}: {answered_status} {message}"
        );
    }
}
