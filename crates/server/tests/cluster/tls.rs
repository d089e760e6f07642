//! Nodes with encrypted connections, to each other and to etcd, which refuse peers without a certificate of
//! their authority.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use hyper::Method;
use hyper::header::HeaderName;
use millrace_client::{HttpProtocol, OutgoingRequest};
use millrace_trust::TrustFiles;

use crate::certificates::{OVER, TestAuthority, TestCertificate};
use crate::nodes::{TestEtcd, are_ideal, count, node_with, put, services, until};
use crate::support::{MILLRACE, NOTE, TestServer, free_port};

/// Settings that name these files.
fn settings<'a>(prefix: &str, files: &'a TrustFiles) -> Vec<(String, &'a str)> {
    let all = [("AUTHORITY", &files.authority), ("CERTIFICATE", &files.certificate), ("KEY", &files.key)];
    all.map(|(name, file)| (format!("MILLRACE_{prefix}_TLS_{name}"), file.to_str().expect("a path of text")))
        .into()
}

#[test]
fn a_cluster_with_certificates_works_and_refuses_all_others() {
    let authority = TestAuthority::new();
    let of_etcd = authority.sign(&TestCertificate::default());
    let file = |path: &std::path::Path| path.to_str().expect("a path of text").to_owned();
    let (certificate, key, trusted) =
        (file(&of_etcd.certificate), file(&of_etcd.key), file(&of_etcd.authority));
    let arguments = [
        "--cert-file",
        &certificate,
        "--key-file",
        &key,
        "--client-cert-auth",
        "--trusted-ca-file",
        &trusted,
    ];
    let Some(etcd) = TestEtcd::start_with("https", &arguments) else { return };
    let files: Vec<TrustFiles> = (0..3).map(|_| authority.sign(&TestCertificate::default())).collect();
    let start = |(name, files): (&&str, &TrustFiles)| {
        let all = [settings("PEER", files), settings("ETCD", files)].concat();
        node_with(&etcd, name, &all.iter().map(|(name, file)| (&**name, *file)).collect::<Vec<_>>())
    };
    let mut nodes: Vec<TestServer> = ["a", "b", "c"].iter().zip(&files).map(start).collect();
    let services = services(2);
    until("deployed", &200, || nodes[0].deploy(&[("services.xml", &services), ("schemas/note.sd", NOTE)]).0);
    for number in 0..40 {
        put(&nodes[number as usize % 3], number % 20, number);
    }
    for node in &nodes {
        until("all are there", &Some(40), || count(node));
    }
    // Its data is replicated to the others: replicas are transferred.
    nodes[1].kill();
    put(&nodes[0], 1, 40);
    until("healed", &true, || are_ideal([&nodes[0], &nodes[2]]));
    nodes[1].start_again();
    until("balanced", &true, || are_ideal(&nodes));
    nodes[2].kill();
    until("without c", &Some(41), || count(&nodes[0]));
    nodes[2].start_again();
    until("all are back", &Some(41), || count(&nodes[1]));

    let hop = OutgoingRequest::new(Method::GET, "/document/v1/notes/note/group/g1/1")
        .header(HeaderName::from_static("millrace-hop"), "reader");
    let answer = nodes[0].send(&nodes[0].url(), HttpProtocol::Http1, hop);
    assert_eq!(answer.status, 403, "a node would come with its certificate: {:?}", answer.json());
    let mut stream =
        TcpStream::connect(("127.0.0.1", nodes[0].setting("MILLRACE_PEER_PORT").parse().expect("a port")))
            .expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(120))).expect("it can be set");
    stream.write_all(b"MILLREQ\x01\x03\0\0\0\0\0\0\0\0\0\0\0abc").expect("it reads");
    let mut answer = Vec::new();
    // A connection that is reset has said nothing either.
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer[0] == 0x15, "nothing but an alert: {answer:?}");
}

#[test]
fn certificates_that_others_would_not_take_end_the_start_with_the_reason() {
    let authority = TestAuthority::new();
    let check = |files: &TrustFiles, advertise: &str, expected: &str| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let ports = [free_port(), free_port(), free_port()].map(|port| port.to_string());
        let output = Command::new(MILLRACE)
            .envs(settings("PEER", files))
            .args(["serve", "--cluster", "etcd://127.0.0.1:1", "--name", "a", "--advertise", advertise])
            .args(["--port", &ports[0], "--config-port", &ports[1], "--peer-port", &ports[2], "--data-dir"])
            .arg(directory.path())
            .output()
            .expect("the binary runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(expected), "{error}");
    };
    let good = authority.sign(&TestCertificate::default());
    let over = authority.sign(&TestCertificate { dates: OVER, ..TestCertificate::default() });
    check(&over, "localhost", "expired");
    check(&good, "n0.example.com", "be for 'n0.example.com'");
    check(
        &TrustFiles { authority: TestAuthority::new().file(), ..good },
        "localhost",
        "signed by the authority",
    );
}
