//! The table of the edge: every route of both ports, by host, origin, method and media type.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use hyper::{Method, StatusCode};
use millrace_node::Node;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::{NodeServer, Settings, data_port, server};

/// A node with running ports, and everything needed to stop it.
struct ServedNode {
    runtime: tokio::runtime::Runtime,
    data: SocketAddr,
    config: SocketAddr,
    /// Paths of the routes of both ports, with their parameters filled in.
    routes: [Vec<String>; 2],
    log: std::path::PathBuf,
    _directory: tempfile::TempDir,
}

impl ServedNode {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let log = directory.path().join("access.log");
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        let mut settings = Settings {
            port: 0,
            config_port: 0,
            access_log: Some(log.clone()),
            hosts: HostNames::parse(&["search.example.com"]).expect("a name"),
            origins: WebOrigins::parse(&["https://app.example.com"]).expect("an origin"),
            ..Settings::new(directory.path().join("data"))
        };
        settings.node.disk_reserve = 0;
        let node = Node::open(settings.node.clone()).expect("it opens");
        let state = GatewayState::open(node, settings).expect("its log can be written");
        let routers = [
            data_port::router(Arc::clone(&state)),
            server::config_router(
                Arc::clone(&state),
                Router::new().route("/cluster/v2", axum::routing::any(|| async {})),
            ),
        ];
        let routes = routers.map(|router| routes_of(&router));
        let server = runtime.block_on(NodeServer::over(state)).expect("ports are free");
        let (data, config) = server.addresses().expect("they are bound");
        runtime.spawn(server.run(std::future::pending()));
        ServedNode { runtime, data, config, routes, log, _directory: directory }
    }

    /// Sends a request verbatim, and returns the head of the response in lower case.
    fn send(&self, to: SocketAddr, request: &str) -> String {
        self.runtime.block_on(async {
            let mut stream = TcpStream::connect(to).await.expect("it listens");
            stream.write_all(request.as_bytes()).await.expect("it reads");
            let mut answer = Vec::new();
            let mut piece = [0; 4096];
            while !answer.windows(4).any(|window| window == b"\r\n\r\n") {
                let length = stream.read(&mut piece).await.expect("it answers");
                assert!(length > 0, "it hung up after {request}");
                answer.extend_from_slice(&piece[..length]);
            }
            let head = String::from_utf8_lossy(&answer).into_owned();
            head.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase()
        })
    }
}

/// Paths of a router, by its debug form, with a value in place of each parameter.
fn routes_of(router: &Router) -> Vec<String> {
    let text = format!("{router:?}");
    let quoted = text.split('"').skip(1).step_by(2).filter(|text| text.starts_with('/'));
    let mut paths: Vec<String> = quoted
        .filter(|path| !path.contains("__private"))
        .map(|path| path.replace("{*path}", "n/note/group/ann/1").replace("{name}", "host"))
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line")
}

/// Creates a request with a body.
fn request(method: &Method, path: &str, headers: &[(&str, &str)]) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: 2\r\n{headers}\r\n{{}}")
}

/// True if bodies at a path are documents.
fn takes_documents(path: &str) -> bool {
    ["/document/v1", "/feed/v1", "/group/v1"].iter().any(|prefix| path.starts_with(prefix))
}

/// Expected status of the edge; `None` if it admits the request, and the handler may give any response.
fn expected(method: &Method, path: &str, headers: &[(&str, &str)], own: &str) -> Option<u16> {
    let header = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let host = header("host").unwrap_or_default();
    if host.starts_with("evil.example") || host.is_empty() {
        return Some(421);
    }
    let origin = header("origin");
    match origin {
        Some(origin) if origin != "https://app.example.com" && origin != format!("http://{host}") => {
            return Some(403);
        }
        Some("https://app.example.com")
            if *method == Method::OPTIONS && header("access-control-request-method").is_some() =>
        {
            return Some(204);
        }
        None if header("sec-fetch-site") == Some("cross-site") => return Some(403),
        _ => {}
    }
    assert!(host == own || host == "localhost" || host == "search.example.com:8080", "{host}");
    let is_document = takes_documents(path) && [Method::POST, Method::PUT].contains(method);
    let refused = match header("content-type") {
        Some(media_type) => media_type != "application/json",
        None => origin.is_some(),
    };
    (is_document && refused).then_some(415)
}

#[test]
fn every_route_by_host_origin_method_and_media_type() {
    let node = ServedNode::start();
    let [data, config] = &node.routes;
    for (routes, some) in [
        (data, ["/search/", "/feed/v1", "/document/v1/n/note/group/ann/1", "/state/v1/health"]),
        (config, ["/application/v2/tenant/", "/state/v1/health", "/cluster/v2", "/application/v2/host/host"]),
    ] {
        for path in some {
            assert!(routes.iter().any(|route| route == path), "{path} is not in {routes:?}");
        }
    }
    let methods = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS];
    let media_types = [
        None,
        Some("application/json"),
        Some("text/plain;charset=UTF-8"),
        Some("multipart/form-data; boundary=x"),
    ];
    let mut tried = 0;
    for (address, routes) in [(node.data, data), (node.config, config)] {
        let own = address.to_string();
        let own_origin = format!("http://{own}");
        let hosts = [own.as_str(), "localhost", "search.example.com:8080", "evil.example:8080", ""];
        let origins = [
            None,
            Some(own_origin.as_str()),
            Some("https://app.example.com"),
            Some("https://evil.example"),
            Some("null"),
        ];
        for (number, path) in routes.iter().chain([&"/nosuch".to_owned()]).enumerate() {
            for method in &methods {
                for (at, host) in hosts.iter().enumerate() {
                    for origin in origins {
                        // Media types take turns on routes for which they make no difference.
                        let all = takes_documents(path);
                        let turns = media_types.iter().enumerate();
                        for (_, media_type) in
                            turns.filter(|(turn, _)| all || *turn == (number + at) % media_types.len())
                        {
                            let headers =
                                [("host", Some(*host)), ("origin", origin), ("content-type", *media_type)];
                            let headers: Vec<(&str, &str)> = headers
                                .into_iter()
                                .filter_map(|(name, value)| Some((name, value?)))
                                .collect();
                            let head = node.send(address, &request(method, path, &headers));
                            check(
                                &head,
                                expected(method, path, &headers, &own),
                                origin,
                                &format!("{method} {path} {headers:?}"),
                            );
                            tried += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(tried > 2_000, "{tried}");
    let refused = std::fs::read_to_string(&node.log).unwrap_or_default();
    assert!(
        refused.contains("\"code\":421") && refused.contains("\"code\":403"),
        "refused requests are logged"
    );
}

#[track_caller]
fn check(head: &str, expected: Option<u16>, origin: Option<&str>, request: &str) {
    let found = status(head);
    match expected {
        Some(expected) => assert_eq!(found, expected, "{request}"),
        None => assert!(![421, 403, 415].contains(&found), "{request}: {head}"),
    }
    let may_read = head.contains("access-control-allow-origin: https://app.example.com");
    let is_shared = origin == Some("https://app.example.com") && !matches!(found, 421 | 403 | 415);
    assert_eq!(may_read, is_shared, "{request}: {head}");
    assert_eq!(head.contains("access-control-allow-origin"), is_shared, "{request}: {head}");
}

#[test]
fn no_application_binds_a_path_of_the_node_itself() {
    let node = ServedNode::start();
    let of_persons = ["/person", "/person/", "/person/ann", "/person//search/", "/person-number/x/search/"];
    let others = ["/elastic/_search", "/v1/logs", "/cluster/v2/", "/state/v1/cluster/groups"];
    for path in node.routes[0].iter().map(String::as_str).chain(of_persons).chain(others) {
        assert!(!bound::is_free(path), "{path}");
    }
    for path in ["/find/", "/search/notes", "/persons/", "/documents/v1", "/api/document/v1/"] {
        assert!(bound::is_free(path), "{path}");
    }
}

/// Preflights: the questions of browsers before they send requests that a form cannot send.
#[test]
fn preflights() {
    let node = ServedNode::start();
    let ask = |to: SocketAddr, origin: &str, more: &[(&str, &str)]| {
        let host = to.to_string();
        let headers =
            [("host", host.as_str()), ("origin", origin), ("access-control-request-method", "POST")];
        node.send(
            to,
            &request(&Method::OPTIONS, "/document/v1/n/note/group/ann/1", &[&headers, more].concat()),
        )
    };
    let asked = ("access-control-request-headers", "content-type, millrace-hop,authorization");
    for to in [node.data, node.config] {
        let head =
            ask(to, "https://app.example.com", &[asked, ("access-control-request-private-network", "true")]);
        for part in [
            " 204 ",
            "access-control-allow-origin: https://app.example.com",
            "access-control-allow-methods: get, head, post, put, delete",
            "access-control-allow-headers: content-type, authorization",
            "access-control-allow-private-network: true",
            "access-control-max-age: 600",
            "vary: origin",
        ] {
            assert!(head.contains(part), "{part}: {head}");
        }
        assert!(!head.contains("millrace-hop") && !head.contains("allow-credentials"), "{head}");
        for origin in ["https://evil.example", "null", "http://app.example.com", "http://localhost:3000"] {
            let head = ask(to, origin, &[asked]);
            assert!(status(&head) == 403 && !head.contains("access-control-allow"), "{origin}: {head}");
        }
    }
}

/// Requests without an origin, by the fetch metadata of newer browsers; requests that nodes forward; hosts in
/// odd places.
#[test]
fn other_heads() {
    let node = ServedNode::start();
    let own = node.data.to_string();
    let check = |method: Method, target: &str, headers: &[(&str, &str)], expected: u16| {
        let head = node.send(node.data, &request(&method, target, headers));
        assert_eq!(status(&head), expected, "{method} {target} {headers:?}: {head}");
    };
    let host = ("host", own.as_str());
    let site = |value| ("sec-fetch-site", value);
    check(Method::GET, "/", &[host, site("cross-site"), ("sec-fetch-mode", "no-cors")], 403);
    check(Method::GET, "/", &[host, site("cross-site")], 403);
    check(Method::GET, "/", &[host, site("cross-site"), ("sec-fetch-mode", "navigate")], 200);
    check(Method::POST, "/", &[host, site("cross-site"), ("sec-fetch-mode", "navigate")], 403);
    check(Method::GET, "/", &[host, site("same-origin"), ("sec-fetch-mode", "cors")], 200);
    check(Method::GET, "/", &[host, site("none")], 200);
    check(Method::GET, "/", &[host, host], 400);
    check(Method::GET, "/", &[("host", "evil.example"), ("millrace-hop", "x")], 421);
    check(Method::OPTIONS, "/", &[host, ("origin", "https://evil.example"), ("millrace-hop", "x")], 403);
    check(Method::GET, "/", &[host, ("origin", "https://evil.example"), ("millrace-hop", "x")], 200);
    // Nodes forward nothing to the deployment port.
    let config = node.config.to_string();
    for method in [Method::GET, Method::DELETE, Method::OPTIONS] {
        let forged = [("host", config.as_str()), ("millrace-hop", "owner 1")];
        let head = node.send(node.config, &request(&method, "/application/v2/tenant/", &forged));
        assert_eq!(status(&head), 403, "{method}: {head}");
    }
    check(Method::GET, "http://evil.example/", &[host], 421);
    check(Method::GET, &format!("http://{own}/"), &[("host", "evil.example")], 421);
    check(Method::GET, &format!("http://{own}/"), &[host], 200);
    for name in ["LOCALHOST:1", "localhost.", "[::1]:8080", "10.0.0.7", "Search.Example.Com"] {
        check(Method::GET, "/", &[("host", name)], 200);
    }
    for name in
        ["2130706433", "0x7f.1", "user@localhost", "localhost:x", "localhost.evil.example", "a b", "\u{e9}"]
    {
        check(Method::GET, "/", &[("host", name)], 421);
    }
    // A client so old that it has no Host is not a browser.
    let head = node.send(node.data, "GET / HTTP/1.0\r\n\r\n");
    assert_eq!(status(&head), 200, "{head}");
    assert_eq!(StatusCode::MISDIRECTED_REQUEST.as_u16(), 421);
}
