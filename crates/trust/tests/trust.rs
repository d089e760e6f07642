//! Nodes with certificates of one authority communicate; all other connections fail.

mod support;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use millrace_trust::{
    CertificateValidity, ClientIdentity, ConnectionPurpose, NodeTrust, ServiceFiles, TrustFiles, blocking,
    certificate_and_key, is_of_trust,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use self::support::{OVER, TestAuthority, TestCertificate};

/// A node with a certificate of this authority for `localhost` and `127.0.0.1`.
fn node(authority: &TestAuthority) -> NodeTrust {
    NodeTrust::load(authority.sign(&TestCertificate::default()), "localhost")
        .expect("the files belong together")
}

/// Answer to one node's message to another at `host`, or the error.
async fn said(from: &NodeTrust, to: Arc<NodeTrust>, host: &str) -> Result<String, String> {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port is free");
    let address = format!("{host}:{}", listener.local_addr().expect("it is bound").port());
    let answer = tokio::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let (purpose, mut stream) = to.accept(stream).await?;
        assert_eq!(purpose, ConnectionPurpose::Peer);
        let mut text = [0; 5];
        stream.read_exact(&mut text).await?;
        stream.write_all(&text).await?;
        stream.shutdown().await
    });
    let ask = async {
        let mut stream = from.connect(&address, ConnectionPurpose::Peer).await?;
        stream.write_all(b"hello").await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    let asked = ask.await;
    let answered = answer.await.expect("it does not panic");
    match (asked, answered) {
        (Ok(text), Ok(())) => Ok(text),
        (asked, answered) => {
            let errors = [asked.err(), answered.err()];
            assert!(errors.iter().flatten().any(is_of_trust), "{errors:?}");
            Err(errors.iter().flatten().map(|error| format!("{error}\n")).collect())
        }
    }
}

#[tokio::test]
async fn only_nodes_of_the_cluster_are_heard() {
    #[track_caller]
    fn refused(outcome: Result<String, String>, expected: &str) {
        let errors = outcome.expect_err("they do not trust each other");
        assert!(errors.contains(expected), "{errors}");
    }
    let (authority, another) = (TestAuthority::new(), TestAuthority::new());
    let own = Arc::new(node(&authority));
    let stranger = Arc::new(node(&another));
    for host in ["localhost", "127.0.0.1"] {
        assert_eq!(said(&own, Arc::clone(&own), host).await.as_deref(), Ok("hello"));
    }
    refused(said(&stranger, Arc::clone(&own), "localhost").await, "invalid peer certificate");
    refused(said(&own, Arc::clone(&stranger), "localhost").await, "invalid peer certificate");
    refused(said(&own, Arc::clone(&own), "127.0.0.2").await, "127.0.0.2");
}

#[tokio::test]
async fn peers_without_tls_and_with_wrong_certificates_get_different_errors() {
    let node = node(&TestAuthority::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let plain = tokio::spawn(async move {
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        stream.write_all(b"MILLREQ\x01 and no more of it").await?;
        stream.read_to_end(&mut Vec::new()).await
    });
    let (stream, _) = listener.accept().await.expect("somebody comes");
    let error = node.accept(stream).await.expect_err("it is not TLS");
    assert!(error.to_string().contains("is it a node of this cluster"), "{error}");
    // Independent of the end of the connection.
    let _ = plain.await.expect("it does not panic");
}

#[test]
fn what_is_wrong_with_the_files_is_said() {
    let (authority, another) = (TestAuthority::new(), TestAuthority::new());
    let good = authority.sign(&TestCertificate::default());
    let check = |files: TrustFiles, expected: &str| {
        let error = NodeTrust::load(files, "localhost").expect_err("they do not work").to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(TrustFiles { authority: good.key.with_file_name("nothing.pem"), ..good.clone() }, "nothing.pem");
    check(
        TrustFiles { authority: good.key.clone(), ..good.clone() },
        "no CERTIFICATE block: it is a private key",
    );
    check(
        TrustFiles { certificate: good.authority.clone(), ..good.clone() },
        "it is an authority's certificate (CA:TRUE) and cannot be a server's",
    );
    check(
        TrustFiles { authority: good.certificate.clone(), ..good.clone() },
        "it is not signed by an authority that is trusted here",
    );
    check(
        TrustFiles { key: good.certificate.clone(), ..good.clone() },
        &good.certificate.display().to_string(),
    );
    check(
        TrustFiles { key: another.sign(&TestCertificate::default()).key, ..good.clone() },
        "do not belong together",
    );
    check(TrustFiles { authority: another.file(), ..good }, "signed by the authority");
    check(authority.sign(&TestCertificate { dates: OVER, ..TestCertificate::default() }), "expired");
    check(
        authority.sign(&TestCertificate { hosts: &["elsewhere"], ..TestCertificate::default() }),
        "for 'localhost'",
    );
    check(
        authority.sign(&TestCertificate { is_for_servers_alone: true, ..TestCertificate::default() }),
        "as a client's",
    );
}

#[test]
fn a_certificate_warns_before_it_expires() {
    let authority = TestAuthority::new();
    let short = [(2000, 1, 1), (2000, 1, 11)];
    let later = [(2049, 12, 1), (2051, 1, 1)];
    for (dates, now, expected) in [
        (OVER, "2000-12-17T00:00:00Z", None),
        (OVER, "2000-12-20T00:00:00Z", Some("expires at 2001-01-01T00:00:00Z; replace the file before")),
        (OVER, "2001-01-01T00:00:00Z", Some("expired at 2001-01-01T00:00:00Z")),
        (OVER, "2026-01-01T00:00:00Z", Some("expired at 2001-01-01T00:00:00Z")),
        // A fifth of ten days.
        (short, "2000-01-08T00:00:00Z", None),
        (short, "2000-01-09T12:00:00Z", Some("expires at 2000-01-11T00:00:00Z")),
        // Years from 2050 on are written with four digits.
        (later, "2050-12-01T00:00:00Z", None),
        (later, "2050-12-31T00:00:00Z", Some("expires at 2051-01-01T00:00:00Z")),
    ] {
        let files = authority.sign(&TestCertificate { dates, ..TestCertificate::default() });
        let (chain, _) = certificate_and_key(&files.certificate, &files.key).expect("both are there");
        let validity = CertificateValidity::of(&files.certificate, &chain).expect("it has dates");
        let since: jiff::Timestamp = now.parse().expect("a time");
        let since = u64::try_from(since.as_second()).expect("it is after 1970");
        let warning = validity.warning(Duration::from_secs(since));
        match (&warning, expected) {
            (None, None) => {}
            (Some(warning), Some(expected)) => {
                let file = files.certificate.display().to_string();
                assert!(warning.contains(expected) && warning.contains(&file), "{now}: {warning}");
            }
            _ => panic!("{now}: {warning:?}"),
        }
    }
    let valid =
        NodeTrust::load(authority.sign(&TestCertificate::default()), "localhost").expect("it is valid");
    let now = Duration::from_secs(1_800_000_000);
    assert_eq!(valid.validity().expect("it has dates").warning(now), None);
}

#[test]
fn what_is_wrong_with_the_files_for_a_service_is_said() {
    let (own, another) = (TestAuthority::new(), TestAuthority::new());
    let TrustFiles { authority, certificate, key } = own.sign(&TestCertificate::default());
    let load = |authority: &PathBuf, own| ServiceFiles { authority: authority.clone(), own }.load();
    assert!(load(&authority, None).is_ok());
    let identity = |key| Some(ClientIdentity { certificate: certificate.clone(), key });
    assert!(load(&authority, identity(key.clone())).is_ok());
    let error = load(&key, None).expect_err("a key is not an authority").to_string();
    assert!(error.contains("no CERTIFICATE block"), "{error}");
    let stranger = another.sign(&TestCertificate::default()).key;
    let error = load(&authority, identity(stranger.clone())).expect_err("another's key").to_string();
    assert!(error.contains(&stranger.display().to_string()), "{error}");
}

#[tokio::test]
async fn a_renewed_certificate_counts_for_the_next_connection_and_a_wrong_one_never() {
    let (first, second) = (TestAuthority::new(), TestAuthority::new());
    let renewed = Arc::new(node(&first));
    assert!(!renewed.renew().expect("nothing has changed"));
    let files = first.sign(&TestCertificate::default());
    let moving = Arc::new(NodeTrust::load(files.clone(), "localhost").expect("the files belong together"));

    std::fs::write(&files.key, "half of a key").expect("the file can be written");
    assert!(moving.renew().is_err());
    assert_eq!(said(&moving, Arc::clone(&renewed), "localhost").await.as_deref(), Ok("hello"), "as before");

    let new = second.sign(&TestCertificate::default());
    for (from, to) in
        [(&new.authority, &files.authority), (&new.certificate, &files.certificate), (&new.key, &files.key)]
    {
        std::fs::copy(from, to).expect("the files can be written");
    }
    assert!(moving.renew().expect("they belong together"));
    let other = Arc::new(node(&second));
    assert_eq!(said(&moving, Arc::clone(&other), "localhost").await.as_deref(), Ok("hello"));
    assert_eq!(said(&other, Arc::clone(&moving), "localhost").await.as_deref(), Ok("hello"));
    assert!(said(&moving, renewed, "localhost").await.is_err(), "the first authority's are strangers now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_can_block() {
    let node = Arc::new(node(&TestAuthority::new()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    let asking = Arc::clone(&node);
    let bytes: Vec<u8> = (0..3_000_000).map(|number: u32| number as u8).collect();
    let expected = bytes.clone();
    let asked = tokio::task::spawn_blocking(move || {
        let stream = std::net::TcpStream::connect(&address)?;
        let mut stream = asking.connect_over(stream, &address)?;
        stream.write_all(b"hello")?;
        let mut came = vec![0; expected.len()];
        stream.read_exact(&mut came)?;
        Ok::<_, std::io::Error>(came == expected)
    });
    let (stream, _) = listener.accept().await.expect("somebody comes");
    let (_, mut stream) = node.accept(stream).await.expect("a node");
    // The first byte is read by the runtime, the rest by a thread.
    assert_eq!(stream.read_u8().await.expect("it comes"), b'h');
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = blocking(stream, Duration::from_secs(120))?;
        let mut rest = [0; 4];
        stream.read_exact(&mut rest)?;
        assert_eq!(&rest, b"ello");
        stream.write_all(&bytes)?;
        stream.flush()
    });
    answer.await.expect("it does not panic").expect("it is sent");
    assert!(asked.await.expect("it does not panic").expect("it comes"));
}
