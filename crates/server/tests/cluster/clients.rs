//! Clients that an application declares, in a cluster: admitted by the node that they ask, and served by the
//! others.

use hyper::Method;
use hyper::header::AUTHORIZATION;
use millrace_client::{HttpProtocol, OutgoingRequest, pack};

use crate::certificates::{TestAuthority, TestCertificate};
use crate::nodes::{TestEtcd, node, node_with, services, until};
use crate::support::tls::{TestIdentity, TlsClient, fixture};
use crate::support::{NOTE, TestServer, create_token, poll, write_files};

const CLIENTS: &str = "<clients>
    <client id='all' permissions='read,write'><token id='everyone'/></client>
    <client id='ann' permissions='read,write'><token id='ann'/></client>
  </clients></container>";

/// services.xml with clients.
fn with_clients() -> String {
    services(1).replace("</container>", CLIENTS)
}

/// Creates an API key in a file, and returns the value of its header.
pub fn create(file: &str, arguments: &[&str]) -> &'static str {
    let token = create_token(&[&["--access-file", file], arguments].concat());
    format!("Bearer {token}").leak()
}

pub fn ask(server: &TestServer, base: &str, token: &'static str, request: OutgoingRequest) -> u16 {
    let request = if token.is_empty() { request } else { request.header(AUTHORIZATION, token) };
    server.send(base, HttpProtocol::Http1, request).status.as_u16()
}

/// Two nodes with certificates for each other, and more settings.
pub fn two_nodes(etcd: &TestEtcd, more: &[(&str, &str)]) -> Vec<TestServer> {
    let authority = TestAuthority::new();
    let start = |name: &str| {
        let files = authority.sign(&TestCertificate::default());
        let text = |path: &std::path::Path| path.to_str().expect("a path of text").to_owned();
        let [authority, certificate, key] =
            [&files.authority, &files.certificate, &files.key].map(|path| text(path));
        let settings = [
            ("MILLRACE_PEER_TLS_AUTHORITY", authority.as_str()),
            ("MILLRACE_PEER_TLS_CERTIFICATE", certificate.as_str()),
            ("MILLRACE_PEER_TLS_KEY", key.as_str()),
        ];
        node_with(etcd, name, &[&settings, more].concat())
    };
    ["a", "b"].map(start).into()
}

#[test]
fn a_client_is_admitted_by_the_node_that_it_asks() {
    let Some(etcd) = TestEtcd::start() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("access.toml");
    let file = file.to_str().expect("a path of text");
    let operator = create(file, &["operator", "--deploy", "--admin"]);
    let everyone = create(file, &["everyone"]);
    let ann = create(file, &["ann", "--group", "g1"]);
    let unnamed = create(file, &["unnamed"]);
    let nodes = two_nodes(&etcd, &[("MILLRACE_ACCESS_FILE", file)]);
    let package = tempfile::tempdir().expect("a temporary directory");
    write_files(package.path(), &[("services.xml", &with_clients()), ("schemas/note.sd", NOTE)]);
    let package = pack(package.path()).expect("a package");
    let deploy = || {
        OutgoingRequest::new(Method::POST, "/application/v2/tenant/default/prepareandactivate")
            .body("application/zip", package.clone())
    };
    until("deployed", &200, || ask(&nodes[0], &nodes[0].config_url(), operator, deploy()));
    assert_eq!(ask(&nodes[0], &nodes[0].config_url(), everyone, deploy()), 403);
    let put = |group: u32| {
        OutgoingRequest::new(Method::POST, format!("/document/v1/notes/note/group/g{group}/1"))
            .body("application/json", r#"{"fields":{"stars":1}}"#)
    };
    let search = |group: u32| {
        OutgoingRequest::new(Method::GET, "/search/")
            .parameter("yql", "select * from note where true")
            .parameter("streaming.groupname", &format!("g{group}"))
            .parameter("timeout", "60s")
    };
    // Of so many groups, each node has some, and forwards the requests for the others.
    for node in &nodes {
        for group in 0..12 {
            until("put", &200, || ask(node, &node.url(), everyone, put(group)));
            assert_eq!(ask(node, &node.url(), everyone, search(group)), 200);
            let of_ann = if group == 1 { 200 } else { 403 };
            assert_eq!(ask(node, &node.url(), ann, put(group)), of_ann);
            assert_eq!(ask(node, &node.url(), ann, search(group)), of_ann);
            assert_eq!(ask(node, &node.url(), unnamed, put(group)), 403);
            assert_eq!(ask(node, &node.url(), "", search(group)), 401);
        }
        let everywhere = OutgoingRequest::new(Method::GET, "/search/")
            .parameter("yql", "select * from note where true limit 0")
            .parameter("streaming.selection", "true")
            .parameter("timeout", "60s");
        assert_eq!(ask(node, &node.url(), everyone, everywhere.clone()), 200);
        assert_eq!(ask(node, &node.url(), ann, everywhere), 403);
    }
}

#[test]
fn a_client_with_a_certificate_is_the_same_caller_at_the_node_that_answers() {
    let Some(etcd) = TestEtcd::start() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("access.toml");
    let file = file.to_str().expect("a path of text");
    let operator = create(file, &["operator", "--deploy", "--admin"]);
    let (certificate, key) = (fixture("server.pem"), fixture("server.key"));
    let nodes = two_nodes(
        &etcd,
        &[
            ("MILLRACE_ACCESS_FILE", file),
            ("MILLRACE_TLS_CERTIFICATE", &certificate),
            ("MILLRACE_TLS_KEY", &key),
        ],
    );
    let [reader, writer, stranger] = [(); 3].map(|()| TestIdentity::new());
    let clients = "<clients>
        <client id='reader' permissions='read'><certificate file='security/reader.pem'/></client>
        <client id='writer' permissions='read,write'><certificate file='security/writer.pem'/></client>
      </clients></container>";
    let services = services(1).replace("</container>", clients);
    let package = tempfile::tempdir().expect("a temporary directory");
    write_files(
        package.path(),
        &[
            ("services.xml", &services),
            ("schemas/note.sd", NOTE),
            ("security/reader.pem", &reader.pem),
            ("security/writer.pem", &writer.pem),
        ],
    );
    let package = pack(package.path()).expect("a package");
    let none = TlsClient::new(None);
    until("deployed", &200, || {
        let path = "/application/v2/tenant/default/prepareandactivate";
        none.ask(nodes[0].config_port(), "POST", path, operator, &package).status
    });
    let [reader, writer, stranger] =
        [&reader, &writer, &stranger].map(|identity| TlsClient::new(Some(identity)));
    // Of so many groups, each node has some, and forwards the requests for the others.
    for node in &nodes {
        for group in 0..12 {
            let document = format!("/document/v1/notes/note/group/g{group}/1");
            let search = format!(
                "/search/?timeout=60s&yql=select%20*%20from%20note%20where%20true&streaming.groupname=g{group}"
            );
            let put = |client: &TlsClient, prefix: &str| {
                let path = format!("{prefix}{document}");
                client.ask(node.port(), "POST", &path, "", br#"{"fields":{"stars":1}}"#).status
            };
            let get = |client: &TlsClient, path: &str| client.ask(node.port(), "GET", path, "", b"");
            until("put", &200, || put(&writer, ""));
            assert_eq!(put(&reader, ""), 403, "g{group}");
            for client in [&reader, &writer] {
                assert_eq!(get(client, &document).status, 200, "g{group}");
                let found = get(client, &search);
                assert_eq!((found.status, &found.json()["root"]["fields"]["totalCount"]), (200, &1.into()));
                // The group of the path goes with the caller.
                let expected = if group == 1 { 200 } else { 403 };
                for path in [&document, &search] {
                    assert_eq!(get(client, &format!("/person/g1{path}")).status, expected, "g{group} {path}");
                }
            }
            // Ids leave out the group of the path, whichever node answers.
            let complete = format!("id:notes:note:g=g{group}:1");
            assert_eq!(get(&writer, &document).json()["id"], complete.as_str());
            let by_name = "/document/v1/notes/note/docid/1";
            for path in [document.as_str(), &search, by_name, "/document/v1/?cluster=notes"] {
                let own = get(&writer, &format!("/person/g{group}{path}")).json().to_string();
                let is_short = own.contains("\"id:notes:note::1\"") && !own.contains(&complete);
                assert!(is_short, "g{group} {path}: {own}");
            }
            assert_eq!(put(&writer, "/person/g1"), if group == 1 { 200 } else { 403 }, "g{group}");
            for (client, name) in [(&stranger, "an unknown certificate"), (&none, "none")] {
                assert_eq!((get(client, &search).status, put(client, "")), (401, 401), "{name}");
            }
        }
    }
}

#[test]
fn a_cluster_without_certificates_of_nodes_refuses_clients() {
    let Some(etcd) = TestEtcd::start() else { return };
    let node = node(&etcd, "a");
    let deploy = |services: &str| node.deploy(&[("services.xml", services), ("schemas/note.sd", NOTE)]);
    poll("the node is in the cluster", || deploy(&services(1)).0 == 200);
    let (status, answer) = deploy(&with_clients());
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(status == 400 && message.contains("--peer-tls-authority"), "{answer}");
}

#[test]
fn the_group_of_the_path_goes_along_to_the_node_of_the_interfaces_of_elasticsearch() {
    let Some(etcd) = TestEtcd::start() else { return };
    let nodes = [node(&etcd, "a"), node(&etcd, "b")];
    until("deployed", &200, || {
        nodes[0].deploy(&[("services.xml", &services(1)), ("schemas/note.sd", NOTE)]).0
    });
    for group in ["ann", "bob"] {
        let path = format!("/document/v1/notes/note/group/{group}/1");
        until("put", &200, || nodes[0].call(Method::POST, &path, r#"{"fields":{"stars":1}}"#).0);
    }
    // One of the nodes answers for both, and they have no certificates to trust each other by.
    for node in &nodes {
        let count = || node.get("/person/ann/elastic/note/_count").1["count"].as_u64();
        until("counted", &Some(1), count);
        let (status, answer) = node.get("/person/ann/elastic/note/_count?routing=bob");
        assert_eq!(status, 403, "{answer}");
        let (status, answer) = node.call(Method::POST, "/person/ann/v1/logs", "{}");
        assert_eq!(status, 403, "log records belong to no group: {answer}");
    }
    // Each writes for both, whichever owns the group.
    for (node, name) in nodes.iter().zip(["2", "3"]) {
        for group in ["ann", "bob"] {
            let path = format!("/person/{group}/elastic/note/_doc/{name}");
            let put = || node.call(Method::PUT, &path, r#"{"title":"kept","stars":2}"#).0;
            until("written", &true, || [200, 201].contains(&put()));
            let update = format!("/person/{group}/elastic/note/_update/{name}");
            let (status, answer) = node.call(Method::POST, &update, r#"{"doc":{"stars":3}}"#);
            assert_eq!(status, 200, "{answer}");
            let (_, found) = node.get(&format!("/document/v1/note/note/group/{group}/{name}"));
            assert_eq!(found["fields"], serde_json::json!({ "title": "kept", "stars": 3 }), "{found}");
        }
        let (status, answer) = node.call(Method::PUT, "/person/ann/elastic/note/_doc/4?routing=bob", "{}");
        assert_eq!(status, 403, "{answer}");
    }
}
