//! The group of a request in a header of a trusted proxy.

use hyper::Method;
use hyper::header::HeaderName;
use millrace_client::{ClientAnswer, HttpProtocol, OutgoingRequest};

use super::support::endpoints::ENDPOINTS;
use super::{ClosedServer, NOTE, SERVICES, TestServer, create, fill, shows_others, shows_own};

/// Headers for the name and for the number of a group.
pub const USER: HeaderName = HeaderName::from_static("x-forwarded-user");
const NUMBER: HeaderName = HeaderName::from_static("x-group-number");

/// Settings of a server whose proxy is on the same machine, as are clients that use no proxy.
pub const SETTINGS: [(&str, &str); 3] = [HEADERS[0], HEADERS[1], ("MILLRACE_GROUP_HEADER_OPTIONAL", "true")];

/// Settings of a server whose proxy names the group of each request.
const HEADERS: [(&str, &str); 2] =
    [("MILLRACE_GROUP_HEADER", "X-Forwarded-User"), ("MILLRACE_GROUP_NUMBER_HEADER", "X-Group-Number")];

const SEARCH: &str = "/search/?timeout=60s&yql=select%20*%20from%20note%20where%20true";

/// Endpoints that answer with documents of a group which the request does not name: method, path, body.
const READING: [(&str, &str, &str); 6] = [
    ("GET", SEARCH, ""),
    ("GET", "/document/v1/n/note/docid/1", ""),
    ("GET", "/document/v1/?cluster=notes", ""),
    ("GET", "/document/v1/n/note/docid/?stream=true", ""),
    ("GET", "/elastic/note/_search", ""),
    (
        "POST",
        "/mcp/",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"executeQuery","arguments":{"yql":"select * from note where true"}}}"#,
    ),
];

fn request(
    (method, path, body): (&str, &str, &str),
    headers: &[(HeaderName, &'static str)],
) -> OutgoingRequest {
    let request = OutgoingRequest::new(super::method_of(method), path);
    let request = if body.is_empty() { request } else { request.body("application/json", body.to_owned()) };
    headers.iter().fold(request, |request, &(ref name, value)| request.header(name.clone(), value))
}

#[test]
fn a_request_is_restricted_to_the_group_that_a_proxy_names() {
    let closed = ClosedServer::start_in(&SETTINGS, &[]);
    let send = |token, (method, path, body): (&str, &str, &str), headers: &[(HeaderName, &'static str)]| {
        closed.send(token, request((method, path, body), headers))
    };
    let shown = |answer: &ClientAnswer| String::from_utf8_lossy(&answer.body).into_owned();
    for token in [closed.all, closed.ann] {
        for reading in READING {
            let answer = send(token, reading, &[(USER, "ann")]);
            assert_eq!(answer.status, 200, "{reading:?}: {}", shown(&answer));
            assert!(shows_own(&answer) && !shows_others(&answer), "{reading:?}: {}", shown(&answer));
        }
        let named = format!("{SEARCH}&streaming.groupname=bob");
        for (path, user) in [
            (named.as_str(), "ann"),
            ("/document/v1/n/note/group/bob/1", "ann"),
            ("/document/v1/n/note/number/7/1", "ann"),
            ("/group/v1/bob", "ann"),
            ("/person/bob/document/v1/n/note/docid/1", "ann"),
        ] {
            let answer = send(token, ("GET", path, ""), &[(USER, user)]);
            assert_eq!(answer.status, 403, "{path}: {}", shown(&answer));
            assert!(!shows_others(&answer), "{path}: {}", shown(&answer));
        }
    }
    // The credential still counts.
    for reading in READING {
        assert_eq!(send(closed.ann, reading, &[(USER, "bob")]).status, 403, "{reading:?}");
        assert_eq!(send("", reading, &[(USER, "ann")]).status, 401, "{reading:?}");
    }
    // A group by its number, which no name stands for.
    for (header, value, status) in [
        (NUMBER, "7", 200),
        (USER, "n=7", 404),
        (USER, "7", 404),
        (NUMBER, "ann", 400),
        (USER, "", 400),
        (USER, "a:b", 400),
        (USER, "ann,bob", 400),
        (USER, "ann, ann", 400),
    ] {
        let answer = send(closed.all, ("GET", "/document/v1/n/note/docid/1", ""), &[(header.clone(), value)]);
        assert_eq!(answer.status, status, "{header}: {value}: {}", shown(&answer));
    }
    let twice = send(closed.all, READING[0], &[(USER, "ann"), (NUMBER, "7")]);
    assert_eq!(twice.status, 400, "{}", shown(&twice));
    // Ids are those of the person's endpoint.
    let short = (HeaderName::from_static("millrace-ids"), "short");
    let answer = send(closed.all, READING[1], &[(USER, "ann"), short]);
    assert_eq!(answer.json()["id"], "id:n:note::1");
    let put = ("POST", "/document/v1/n/note/docid/5", r#"{"fields":{"title":"five"}}"#);
    assert_eq!(send(closed.all, put, &[(USER, "ann")]).status, 200);
    let own = closed.ask(closed.ann, Method::GET, "/document/v1/n/note/group/ann/5", "");
    assert_eq!(own.status, 200);
}

/// Names of the rights that suffice for endpoints of the whole node at the data port.
const OF_WHOLE_NODE: &str = "read admin";

#[test]
fn a_request_for_a_group_is_none_for_the_whole_server() {
    let closed = ClosedServer::start_in(&SETTINGS, &[]);
    let open = TestServer::start_with(&SETTINGS);
    let (status, answer) = open.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    let whole = ENDPOINTS.iter().filter(|endpoint| {
        endpoint.is_config_port || endpoint.permitted == OF_WHOLE_NODE || endpoint.permitted == "admin"
    });
    let mut count = 0;
    for endpoint in whole {
        for (server, token) in [(&closed.server, closed.all), (&open, "")] {
            let base = if endpoint.is_config_port { server.config_url() } else { server.url() };
            let request = OutgoingRequest::new(super::method_of(endpoint.method), endpoint.path)
                .body("application/json", "{}")
                .header(USER, "ann");
            let answer = server.send(&base, HttpProtocol::Http1, super::with_token(token, request));
            let (method, path, shown) = (endpoint.method, endpoint.path, answer.json());
            // Some are refused before, as the node runs alone.
            let is_alone = answer.status == 404 && shown.to_string().contains("not one of a cluster");
            assert!(answer.status == 403 || is_alone, "{method} {path}: {} {shown}", answer.status);
            count += 1;
        }
    }
    assert!(count > 30, "{count} requests");
    let application = "/application/v2/tenant/default/application/default";
    let deleted = OutgoingRequest::new(Method::DELETE, application).header(USER, "ann");
    assert_eq!(open.send(&open.config_url(), HttpProtocol::Http1, deleted).status, 403);
    assert_eq!(open.config(Method::GET, application).0, 200, "the application is there");
    let health = OutgoingRequest::new(Method::GET, "/state/v1/health").header(USER, "ann");
    assert_eq!(open.send(&open.config_url(), HttpProtocol::Http1, health).status, 200);
}

#[test]
fn a_request_in_which_the_proxy_names_no_group_is_refused() {
    let server = TestServer::start_with(&HEADERS);
    let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "the config port needs no header: {answer}");
    let put = ("POST", "/document/v1/n/note/docid/1", r#"{"fields":{"title":"annsword"}}"#);
    let send = |token, asked, headers: &[(HeaderName, &'static str)]| {
        let request = super::with_token(token, request(asked, headers));
        server.send(&server.url(), HttpProtocol::Http1, request)
    };
    assert_eq!(send("", put, &[(USER, "ann")]).status, 200);
    for asked in READING.into_iter().chain([put, ("GET", "/group/v1/", ""), ("PUT", "/cluster/v2/c", "")]) {
        let answer = send("", asked, &[]);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let has_reason = text.contains("--group-header-optional");
        assert!(answer.status == 403 && has_reason, "{asked:?}: {} {text}", answer.status);
    }
    let of_path = ("GET", "/person/ann/document/v1/n/note/docid/1", "");
    assert_eq!(send("", of_path, &[]).status, 403, "the path is the client's");
    for path in ["/state/v1/health", "/state/v1/metrics", "/prometheus/v1/values"] {
        assert_eq!(send("", ("GET", path, ""), &[]).status, 200, "{path}");
    }
    for reading in READING {
        assert_eq!(send("", reading, &[(USER, "ann")]).status, 200, "{reading:?}");
    }
    let all = create(&server, &["all", "--read", "--write", "--admin"]);
    let several = create(&server, &["several", "--read", "--write", "--group", "ann", "--group", "bob"]);
    let ann = create(&server, &["ann", "--read", "--write", "--group", "ann"]);
    let closed = ClosedServer { server, all, ann };
    closed.until("", |status| status == 401);
    closed.until(ann, |status| status == 200);
    let server = &closed.server;
    let refused = |token: &'static str| {
        let request = super::with_token(token, request(READING[0], &[]));
        server.send(&server.url(), HttpProtocol::Http1, request).status == 403
    };
    assert!(refused(all) && refused(several), "the key can be the proxy's");
    assert!(!refused(ann), "a key of one group says for whom it is");
}

#[test]
fn another_sender_may_not_name_a_group() {
    let elsewhere = [&SETTINGS[..], &[("MILLRACE_TRUSTED_PROXIES", "192.0.2.0/24")]].concat();
    let closed = ClosedServer::start_in(&elsewhere, &[]);
    for reading in READING {
        for header in [USER, NUMBER] {
            let answer = closed.send(closed.all, request(reading, &[(header.clone(), "7")]));
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status, 403, "{reading:?}: {text}");
            assert!(
                text.contains("--trusted-proxies") && text.contains(header.as_str()),
                "{reading:?}: {text}"
            );
        }
    }
    assert_eq!(closed.send(closed.ann, request(READING[0], &[])).status, 200);
    // Without the setting, the header is one that the server does not know.
    let closed = ClosedServer::start();
    let answer = closed.send(closed.ann, request(READING[0], &[(USER, "bob")]));
    assert!(answer.status == 200 && shows_own(&answer) && !shows_others(&answer));
}

#[test]
fn a_proxy_restricts_requests_without_credentials() {
    let server = TestServer::start_with(&SETTINGS);
    let (status, answer) = server.deploy(&[("services.xml", SERVICES), ("schemas/note.sd", NOTE)]);
    assert_eq!(status, 200, "{answer}");
    fill(&server);
    for reading in READING {
        let answer = server.send(&server.url(), HttpProtocol::Http1, request(reading, &[(USER, "ann")]));
        assert_eq!(answer.status, 200, "{reading:?}");
        assert!(shows_own(&answer) && !shows_others(&answer), "{reading:?}");
    }
    let bobs = ("GET", "/document/v1/n/note/group/bob/1", "");
    let answer = server.send(&server.url(), HttpProtocol::Http1, request(bobs, &[(USER, "ann")]));
    assert_eq!(answer.status, 403);
}
