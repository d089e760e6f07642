//! Document types at Elasticsearch's interfaces of a cluster: on each node, searches of named groups and of
//! all groups have all of their documents, also while these move to other nodes.

use std::collections::BTreeSet;

use hyper::Method;
use serde_json::{Value, json};

use crate::nodes::{TestEtcd, are_ideal, count, node, put, services, until};
use crate::support::{NOTE, TestServer};

/// Groups, enough for each node to have some, and the documents of each.
const GROUPS: u32 = 12;
const DOCUMENTS: u32 = 2;

/// Documents of groups that move, and the words of each: together they are larger than the pages of all
/// nodes.
const MOVED: u32 = 60;
const WORDS: usize = 20_000;

fn call(server: &TestServer, request: &str, body: &str) -> (u16, Value) {
    let (method, path) = request.split_once(' ').expect("a request has a method and a path");
    let method: Method = method.parse().expect("a method");
    server.call(method, &format!("/elastic{path}"), body)
}

/// Number of the notes that a search of all groups finds here; `None` if it is refused.
pub fn counted(server: &TestServer) -> Option<u64> {
    let (status, answer) = call(server, "GET /note/_count", "");
    assert!(status == 200 || status >= 500, "{status} {answer}");
    (status == 200).then(|| answer["count"].as_u64()).flatten()
}

/// Ids of all notes, as a scroll here has them page by page; each once.
pub fn scrolled(server: &TestServer) -> BTreeSet<String> {
    let asked = r#"{"size":50,"sort":["_doc"],"_source":false}"#;
    let (mut status, mut page) = call(server, "POST /note/_search?scroll=1m", asked);
    let mut found = BTreeSet::new();
    loop {
        assert_eq!(status, 200, "{page}");
        let hits = page["hits"]["hits"].as_array().cloned().unwrap_or_default();
        if hits.is_empty() {
            return found;
        }
        for hit in hits {
            let id = format!("{} {}", hit["_routing"], hit["_id"]);
            assert!(found.insert(id.clone()), "{id} comes once");
        }
        let next = json!({ "scroll": "1m", "scroll_id": page["_scroll_id"] }).to_string();
        (status, page) = call(server, "POST /_search/scroll", &next);
    }
}

#[test]
fn searches_of_all_groups_and_of_named_ones_are_complete() {
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
        let all = GROUPS * DOCUMENTS;
        for (request, body, pointer, expected) in [
            ("GET /note/_search", "", "/hits/total/value", json!(all)),
            ("GET /note/_count", "", "/count", json!(all)),
            ("GET /note/_search?scroll=1m", "", "/hits/total/value", json!(all)),
            ("GET /note,plain/_search", "", "/hits/total/value", json!(all + 1)),
            ("GET /all/_search", "", "/hits/total/value", json!(all)),
            ("GET /all/_count", "", "/count", json!(all)),
            ("POST /note/_search", everything, "/aggregations/all/doc_count", json!(all)),
            ("GET /_cat/count/note?format=json", "", "/0/count", json!(all.to_string())),
            ("POST /note/_field_caps?fields=*", filtered, "/indices/0", json!("note")),
        ] {
            let (status, answer) = call(server, request, body);
            assert_eq!((status, answer.pointer(pointer)), (200, Some(&expected)), "{request}: {answer}");
        }
        assert_eq!(scrolled(server).len(), all as usize);
        let (status, answer) = call(server, "POST /_msearch", searches);
        let totals = [0, 1].map(|at| answer["responses"][at]["hits"]["total"]["value"].clone());
        assert_eq!((status, totals), (200, [json!(all), json!(DOCUMENTS)]), "{answer}");
        // Patterns pass over document types.
        for request in ["GET /_count", "GET /_all/_count", "GET /*/_count", "GET /n*,p*/_count"] {
            let (status, answer) = call(server, request, "");
            assert_eq!((status, &answer["count"]), (200, &json!(1)), "{request}: {answer}");
        }
    }
}

#[test]
fn searches_of_all_groups_are_complete_or_refused_while_documents_move() {
    let Some(etcd) = TestEtcd::start() else { return };
    let names = ["a", "b", "c"];
    let nodes: Vec<TestServer> = names.iter().map(|name| node(&etcd, name)).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for number in 0..MOVED {
        let path = format!("/document/v1/notes/note/group/g{}/{number}", number % GROUPS);
        let body = json!({ "fields": { "title": "word ".repeat(WORDS), "stars": number } }).to_string();
        until(&path, &200, || nodes[0].call(Method::POST, &path, &body).0);
    }
    until("settled", &true, || are_ideal(&nodes));
    let all = Some(u64::from(MOVED));
    let documents_of = |server: &TestServer| server.get("/state/v1/cluster").1["documents"].as_u64();
    let retired = nodes[0].millrace(&["node", "retire", names[1]]);
    assert!(retired.status.success(), "{}", String::from_utf8_lossy(&retired.stderr));
    let mut asked = 0;
    until("moved", &Some(0), || {
        for server in &nodes {
            let found = counted(server);
            assert!(found.is_none() || found == all, "{found:?}, after {asked} searches");
            asked += 1;
        }
        documents_of(&nodes[1])
    });
    for server in &nodes {
        until("all are found", &all, || counted(server));
    }
}
