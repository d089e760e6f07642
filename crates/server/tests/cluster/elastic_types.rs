//! Document types at Elasticsearch's interfaces of a cluster: on each node, searches of named groups have all
//! of their documents, and those of all groups are refused with the reason.

use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::{TestEtcd, count, node, put, services, until};
use crate::support::{NOTE, TestServer};

/// Groups, enough for each node to have some, and the documents of each.
const GROUPS: u32 = 12;
const DOCUMENTS: u32 = 2;

fn call(server: &TestServer, request: &str, body: &str) -> (u16, Value) {
    let (method, path) = request.split_once(' ').expect("a request has a method and a path");
    let method: Method = method.parse().expect("a method");
    server.call(method, &format!("/elastic{path}"), body)
}

#[test]
fn searches_of_all_groups_are_refused_and_those_of_named_ones_are_complete() {
    let Some(etcd) = TestEtcd::start() else { return };
    let nodes: Vec<TestServer> = ["a", "b", "c"].iter().map(|name| node(&etcd, name)).collect();
    let services = services(1);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for group in 0..GROUPS {
        (0..DOCUMENTS).for_each(|number| put(&nodes[group as usize % 3], group, number));
    }
    for (request, body) in [("PUT /plain/_doc/1", r#"{"a":1}"#), ("PUT /note/_alias/all", "{}")] {
        until(request, &true, || [200, 201].contains(&call(&nodes[0], request, body).0));
    }
    let groups: Vec<String> = (0..GROUPS).map(|group| format!("g{group}")).collect();
    let routed = format!("GET /note/_count?routing={}", groups.join(","));
    let everything = r#"{"size":0,"aggs":{"all":{"global":{}}}}"#;
    let filtered = r#"{"index_filter":{"term":{"stars":1}}}"#;
    let searches = "{\"index\":\"note\"}\n{}\n{\"index\":\"note\",\"routing\":\"g1\"}\n{}\n";
    for server in &nodes {
        until("all documents are found", &Some(u64::from(GROUPS * DOCUMENTS)), || count(server));
        until("groups are found", &json!(GROUPS * DOCUMENTS), || {
            call(server, &routed, "").1["count"].clone()
        });
        for (request, body) in [
            ("GET /note/_search", ""),
            ("GET /note/_count", ""),
            ("GET /note/_search?scroll=1m", ""),
            ("GET /note,plain/_search", ""),
            ("GET /all/_search", ""),
            ("GET /all/_count", ""),
            ("POST /note/_search", everything),
            ("GET /_cat/count/note", ""),
            ("POST /note/_field_caps?fields=*", filtered),
        ] {
            let (status, answer) = call(server, request, body);
            let reason = answer["error"]["reason"].as_str().unwrap_or_default();
            let is_refused = status == 400 && reason.contains("name them, or search all groups at /search/");
            assert!(is_refused, "{request}: {status} {answer}");
        }
        let (status, answer) = call(server, "POST /_msearch", searches);
        let statuses = [0, 1].map(|at| answer["responses"][at]["status"].clone());
        assert_eq!((status, statuses), (200, [json!(400), json!(200)]), "{answer}");
        assert_eq!(answer["responses"][1]["hits"]["total"]["value"], DOCUMENTS, "{answer}");
        // Patterns pass over document types.
        for request in ["GET /_count", "GET /_all/_count", "GET /*/_count", "GET /n*,p*/_count"] {
            let (status, answer) = call(server, request, "");
            assert_eq!((status, &answer["count"]), (200, &json!(1)), "{request}: {answer}");
        }
    }
}
