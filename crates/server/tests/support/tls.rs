//! Clients over TLS, each with a certificate of its own or none.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

/// A file of the tests of TLS.
pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tls").join(name);
    path.to_str().expect("a path of text").to_owned()
}

/// A self-signed certificate with its key, like that of `vespa auth cert`.
pub struct TestIdentity {
    pub pem: String,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    /// The key as a file has it.
    pub key_pem: String,
}

impl TestIdentity {
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = CertificateParams::new(Vec::new()).and_then(|params| params.self_signed(&key));
        let certificate = certificate.expect("it signs itself");
        TestIdentity {
            pem: certificate.pem(),
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
            key_pem: key.serialize_pem(),
        }
    }
}

/// A client that trusts the authority of the fixtures.
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

/// Status and body of an answer.
#[derive(Debug)]
pub struct TlsAnswer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl TlsAnswer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl TlsClient {
    pub fn new(identity: Option<&TestIdentity>) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = std::fs::read(fixture("authority.pem")).expect("a file");
        roots.add(CertificateDer::from_pem_slice(&authority).expect("a certificate")).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(TestIdentity { certificate, key, .. }) => {
                let key = PrivateKeyDer::try_from(key.clone()).expect("a key");
                builder.with_client_auth_cert(vec![certificate.clone()], key).expect("they belong together")
            }
        };
        TlsClient { config: Arc::new(config) }
    }

    pub fn connect(&self, port: u16) -> TlsConnection {
        let name = "localhost".try_into().expect("a name");
        let connection = ClientConnection::new(Arc::clone(&self.config), name).expect("a configuration");
        let socket = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        socket.set_read_timeout(Some(Duration::from_secs(120))).expect("a timeout");
        TlsConnection(StreamOwned::new(connection, socket))
    }

    /// Sends one request over a connection of its own.
    pub fn ask(&self, port: u16, method: &str, path: &str, token: &str, body: &[u8]) -> TlsAnswer {
        self.connect(port).ask(method, path, token, body)
    }
}

/// A connection, for one request after another.
pub struct TlsConnection(StreamOwned<ClientConnection, TcpStream>);

impl TlsConnection {
    pub fn ask(&mut self, method: &str, path: &str, token: &str, body: &[u8]) -> TlsAnswer {
        let media_type = if body.starts_with(b"PK") { "application/zip" } else { "application/json" };
        let credential = if token.is_empty() { String::new() } else { format!("Authorization: {token}\r\n") };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{credential}Content-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.0.write_all(&[head.as_bytes(), body].concat()).expect("it is sent");
        let mut received = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let text = String::from_utf8_lossy(&received).into_owned();
            if let Some((head, rest)) = text.split_once("\r\n\r\n") {
                let head = head.to_ascii_lowercase();
                let is_whole = match head.split("content-length: ").nth(1) {
                    Some(length) => {
                        let length: usize =
                            length.lines().next().and_then(|text| text.parse().ok()).expect("a length");
                        received.len() >= head.len() + 4 + length
                    }
                    None => rest.ends_with("0\r\n\r\n"),
                };
                if is_whole {
                    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a status");
                    return TlsAnswer { status, body: received.split_off(head.len() + 4), head };
                }
            }
            let length = self.0.read(&mut piece).expect("it answers");
            assert!(length > 0, "it hung up after {method} {path}: {text}");
            received.extend_from_slice(&piece[..length]);
        }
    }
}
