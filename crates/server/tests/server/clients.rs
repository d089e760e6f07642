//! Clients that an application declares, by certificates and by tokens: the rights that they have at each
//! endpoint, and their change with a deployment.

use std::process::Command;

use millrace_client::pack;

use crate::support::endpoints::{ENDPOINTS, GuardedEndpoint};
use crate::support::tls::{TestIdentity, TlsAnswer, TlsClient, fixture};
use crate::support::{MILLRACE, NOTE, TestServer, poll, services_with, write_files};

const PREPARE: &str = "/application/v2/tenant/default/prepareandactivate";
const SEARCH: &str =
    "/search/?yql=select%20*%20from%20note%20where%20true&streaming.groupname=ann&timeout=60s";
const CONTAINER: &str = "<search/><document-api/>
  <handler id='ai.vespa.mcp.McpRequestHandler' bundle='container-disc'><binding>http://*/mcp/*</binding></handler>";

/// A server with TLS.
fn start(more: &[(&str, &str)]) -> TestServer {
    let (certificate, key) = (fixture("server.pem"), fixture("server.key"));
    let tls = [("MILLRACE_TLS_CERTIFICATE", certificate.as_str()), ("MILLRACE_TLS_KEY", key.as_str())];
    TestServer::start_with(&[&tls, more].concat())
}

/// Deploys the test application with these clients and files, as an operator does.
fn deploy(server: &TestServer, token: &str, clients: &str, more: &[(&str, &str)]) -> TlsAnswer {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let services = services_with(&format!("{CONTAINER}{clients}"));
    let files = [("services.xml", services.as_str()), ("schemas/note.sd", NOTE)];
    write_files(directory.path(), &[&files, more].concat());
    let package = pack(directory.path()).expect("a package");
    TlsClient::new(None).ask(server.config_port(), "POST", PREPARE, token, &package)
}

/// Creates an API key, and returns the value of its header.
fn create(server: &TestServer, arguments: &[&str]) -> String {
    format!("Bearer {}", server.create_token(arguments))
}

/// Waits until the server uses changed keys.
fn wait_for(server: &TestServer, token: &str) {
    let client = TlsClient::new(None);
    let status = |token: &str| client.ask(server.port(), "GET", "/", token, b"").status;
    poll("the server uses the key", || status("") == 401 && status(token) != 401);
}

#[test]
fn endpoints_require_the_rights_of_declared_clients() {
    let server = start(&[]);
    let operator = create(&server, &["operator", "--read", "--write", "--deploy", "--admin"]);
    let tokens = ["reader", "writer"].map(|name| create(&server, &[name]));
    wait_for(&server, &tokens[1]);
    let [reader, writer, stranger] = [(); 3].map(|()| TestIdentity::new());
    let clients = "<clients>
      <client id='reading' permissions='read'><certificate file='security/reader.pem'/></client>
      <client id='writing' permissions='write'><certificate file='security/writer.pem'/></client>
      <client id='by-token' permissions='read'><token id='reader'/></client>
      <client id='by-other-token' permissions=' write '><token id='writer'/></client>
    </clients>";
    let files = [("security/reader.pem", reader.pem.as_str()), ("security/writer.pem", writer.pem.as_str())];
    let deployed = deploy(&server, &operator, clients, &files);
    assert_eq!(deployed.status, 200, "{}", String::from_utf8_lossy(&deployed.body));
    assert!(!String::from_utf8_lossy(&deployed.body).contains("clients"), "no warning is about them");
    let none = TlsClient::new(None);
    let put =
        none.ask(server.port(), "POST", "/document/v1/n/note/group/ann/1", &operator, br#"{"fields":{}}"#);
    assert_eq!(put.status, 200);
    let [by_reader, by_writer, by_stranger] =
        [&reader, &writer, &stranger].map(|identity| TlsClient::new(Some(identity)));
    for GuardedEndpoint { is_config_port, method, path, permitted } in &ENDPOINTS {
        let port = if *is_config_port { server.config_port() } else { server.port() };
        for (client, token, name, right) in [
            (&by_reader, "", "certificate of the reader", "read"),
            (&by_writer, "", "certificate of the writer", "write"),
            (&none, tokens[0].as_str(), "token of the reader", "read"),
            (&none, tokens[1].as_str(), "token of the writer", "write"),
            // The token counts more.
            (&by_writer, tokens[0].as_str(), "token of the reader, certificate of the writer", "read"),
            (&by_stranger, tokens[0].as_str(), "token of the reader, unknown certificate", "read"),
            (&none, operator.as_str(), "operator", "read write deploy admin"),
        ] {
            let status = client.ask(port, method, path, token, b"{}").status;
            let is_named = token.is_empty() && *is_config_port;
            let is_operator = name == "operator";
            let expected_refusal = match () {
                // Certificates of clients are for documents alone.
                () if is_named => Some(401),
                () if *is_config_port && !is_operator => Some(403),
                () if !right.split(' ').any(|one| permitted.contains(one)) => Some(403),
                () => None,
            };
            let refusal = Some(status).filter(|status| [401, 403].contains(status));
            assert_eq!(refusal, expected_refusal, "{name}: {method} {path}: {status}");
        }
        for (client, token, expected) in [
            (&none, "", "its client certificates"),
            (&by_stranger, "", "does not have the client certificate"),
            (&by_reader, "Bearer mr_unknown", "mr_ID_SECRET"),
        ] {
            let answer = client.ask(port, method, path, token, b"{}");
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert_eq!(answer.status, 401, "{method} {path}: {text}");
            assert!(answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
            assert!(text.contains(expected) || *is_config_port, "{method} {path}: {text}");
        }
    }
    let health = none.ask(server.port(), "GET", "/state/v1/health", "", b"");
    assert_eq!(health.status, 200);
}

#[test]
fn a_deployment_decides_at_once_who_may_enter() {
    let server = start(&[]);
    let [first, second] = [(); 2].map(|()| TestIdentity::new());
    let none = TlsClient::new(None);
    let mut before = none.connect(server.port());
    // Without clients, and without keys, the server is open.
    assert_eq!(deploy(&server, "", "", &[]).status, 200);
    assert_eq!(before.ask("GET", SEARCH, "", b"").status, 200);
    let clients =
        "<clients><client id='a' permissions='read,write'><certificate file='a.pem'/></client></clients>";
    assert_eq!(deploy(&server, "", clients, &[("a.pem", &first.pem)]).status, 200);
    let refused = before.ask("GET", SEARCH, "", b"");
    assert_eq!(refused.status, 401, "also on a connection that began before");
    let message = refused.json().pointer("/root/errors/0/message").cloned().unwrap_or_default();
    assert!(message.as_str().is_some_and(|message| message.contains("declares its clients")), "{message}");
    let (by_first, by_second) = (TlsClient::new(Some(&first)), TlsClient::new(Some(&second)));
    let mut kept = by_first.connect(server.port());
    assert_eq!(kept.ask("GET", SEARCH, "", b"").status, 200);
    assert_eq!(by_second.ask(server.port(), "GET", SEARCH, "", b"").status, 401);
    // A session that began without a certificate is not resumed without one.
    assert_eq!(
        by_first
            .ask(server.port(), "POST", "/document/v1/n/note/group/ann/1", "", br#"{"fields":{}}"#)
            .status,
        200
    );
    // The operator deploys as before, and another certificate takes its place.
    assert_eq!(deploy(&server, "", clients, &[("a.pem", &second.pem)]).status, 200);
    assert_eq!(kept.ask("GET", SEARCH, "", b"").status, 401);
    assert_eq!(by_first.ask(server.port(), "GET", SEARCH, "", b"").status, 401);
    assert_eq!(by_second.ask(server.port(), "GET", SEARCH, "", b"").status, 200);
    // What is refused changes nothing.
    let broken = deploy(&server, "", clients, &[("a.pem", "nothing")]);
    assert_eq!(broken.status, 400);
    let message = broken.json()["message"].clone();
    assert!(
        message.as_str().is_some_and(|text| text.contains("a.pem: it has no CERTIFICATE block")),
        "{message}"
    );
    assert_eq!(by_second.ask(server.port(), "GET", SEARCH, "", b"").status, 200);
    // The file of Vespa's command line, without the element.
    assert_eq!(deploy(&server, "", "", &[("security/clients.pem", &first.pem)]).status, 200);
    assert_eq!(by_first.ask(server.port(), "GET", SEARCH, "", b"").status, 200);
    assert_eq!(by_second.ask(server.port(), "GET", SEARCH, "", b"").status, 401);
    assert_eq!(deploy(&server, "", "", &[]).status, 200);
    assert_eq!(none.ask(server.port(), "GET", SEARCH, "", b"").status, 200);
}

#[test]
fn commands_show_the_certificate_that_the_environment_names() {
    let server = start(&[]);
    let [own, other] = [(); 2].map(|()| TestIdentity::new());
    assert_eq!(deploy(&server, "", "", &[("security/clients.pem", &own.pem)]).status, 200);
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (name, identity) in [("own", &own), ("other", &other)] {
        write_files(
            directory.path(),
            &[(&format!("{name}.pem"), &identity.pem), (&format!("{name}.key"), &identity.key_pem)],
        );
    }
    let put = |certificate: &str, key: &str| {
        let file = |name: &str| match name {
            "" => String::new(),
            name => directory.path().join(name).to_str().expect("a path of text").to_owned(),
        };
        let done = Command::new(MILLRACE)
            .args(["put", "id:n:note:g=ann:1", "{\"fields\":{\"title\":\"x\"}}", "--url"])
            .arg(format!("https://localhost:{}", server.port()))
            .env("SSL_CERT_FILE", fixture("authority.pem"))
            .env("MILLRACE_CLIENT_CERTIFICATE", file(certificate))
            .env("MILLRACE_CLIENT_KEY", file(key))
            .output()
            .expect("the command runs");
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (done, error) = put("own.pem", "own.key");
    assert!(done, "{error}");
    for (certificate, key, expected) in [
        ("", "", "its client certificates"),
        ("other.pem", "other.key", "does not have the client certificate"),
        ("own.pem", "", "MILLRACE_CLIENT_CERTIFICATE is set without MILLRACE_CLIENT_KEY"),
        ("", "own.key", "MILLRACE_CLIENT_KEY is set without MILLRACE_CLIENT_CERTIFICATE"),
        ("own.pem", "other.key", "other.key: "),
        ("absent.pem", "own.key", "absent.pem: No such file"),
    ] {
        let (done, error) = put(certificate, key);
        assert!(!done && error.contains(expected), "{certificate} {key}: {error}");
    }
}

#[test]
fn clients_are_kept_by_a_restart_and_can_be_switched_off() {
    let mut server = start(&[]);
    let [own, other] = [(); 2].map(|()| TestIdentity::new());
    assert_eq!(deploy(&server, "", "", &[("security/clients.pem", &own.pem)]).status, 200);
    server.restart();
    let status = |server: &TestServer, identity: Option<&TestIdentity>| {
        TlsClient::new(identity).ask(server.port(), "GET", SEARCH, "", b"").status
    };
    assert_eq!([None, Some(&own), Some(&other)].map(|identity| status(&server, identity)), [401, 200, 401]);
    let (certificate, key) = (fixture("server.pem"), fixture("server.key"));
    server.set_environment(&[
        ("MILLRACE_TLS_CERTIFICATE", certificate.as_str()),
        ("MILLRACE_TLS_KEY", key.as_str()),
        ("MILLRACE_APPLICATION_CLIENTS", "false"),
    ]);
    server.restart();
    assert_eq!([None, Some(&own), Some(&other)].map(|identity| status(&server, identity)), [200, 200, 200]);
    let deployed = deploy(&server, "", "", &[("security/clients.pem", &own.pem)]);
    let text = String::from_utf8_lossy(&deployed.body).into_owned();
    assert!(text.contains("--application-clients=false"), "{text}");
}

#[test]
fn certificates_need_tls() {
    let server = TestServer::start();
    let own = TestIdentity::new();
    let deploy = |clients: &str| {
        let services = services_with(&format!("{CONTAINER}{clients}"));
        let files = [
            ("services.xml", services.as_str()),
            ("schemas/note.sd", NOTE),
            ("security/clients.pem", &own.pem),
        ];
        let (status, answer) = server.deploy(&files);
        assert_eq!(status, 200, "{answer}");
        answer["log"].to_string()
    };
    // A package for Vespa's cloud, on a laptop.
    let log = deploy("");
    assert!(log.contains("security/clients.pem has no effect, as the data port has no TLS"), "{log}");
    assert_eq!(server.get(SEARCH).0, 200);
    // What services.xml declares is in effect, although clients cannot show certificates.
    let log = deploy(
        "<clients>
           <client id='c' permissions='read'><certificate file='security/clients.pem'/></client>
           <client id='t' permissions='read'><token id='missing'/></client>
         </clients>",
    );
    assert!(log.contains("the data port has no TLS, so that clients cannot show them"), "{log}");
    assert!(log.contains("millrace token create missing"), "{log}");
    assert_eq!(server.get(SEARCH).0, 401);
}
