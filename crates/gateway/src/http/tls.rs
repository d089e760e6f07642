//! Certificate and key: acceptors that offer HTTP/2 and HTTP/1.1, and renewal without a restart.
//!
//! A connection is asked for a certificate of its client while the application declares such certificates. It
//! may show none, or any: requests are admitted by the certificate, and those that are not get an answer that
//! says so, which a refused handshake could not.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use millrace_access::CertificateHash;
use millrace_trust::CertificateValidity;
use parking_lot::Mutex;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, Error as TlsError, ServerConfig, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::{PortError, TlsFiles};

/// Interval between checks of the files.
const RENEW: Duration = Duration::from_secs(30);

/// The certificate of the ports, and the files with it.
#[derive(Debug)]
pub(crate) struct RenewedCertificate {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
    /// Contents of both files when they were read last, valid or not.
    read: Mutex<FileContents>,
}

/// Contents of certificate and key.
#[derive(Debug, PartialEq, Eq)]
struct FileContents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Fault of the certificate for clients.
#[derive(Debug, thiserror::Error)]
enum ServerTlsFault {
    #[error("{}: {source}; name a file that this user can read", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Contents(#[from] millrace_trust::Error),
    #[error("{} with {}: {reason}", certificate.display(), key.display())]
    Pair { certificate: PathBuf, key: PathBuf, reason: String },
}

impl FileContents {
    fn read(files: &TlsFiles) -> Result<Self, ServerTlsFault> {
        let read = |path: &std::path::Path| {
            std::fs::read(path).map_err(|source| ServerTlsFault::File { path: path.to_owned(), source })
        };
        Ok(FileContents { certificate: read(&files.certificate)?, key: read(&files.key)? })
    }
}

impl RenewedCertificate {
    /// Loads the certificate in the files.
    ///
    /// # Errors
    /// A file cannot be read or has other contents; the key belongs to another certificate.
    pub(crate) fn load(files: TlsFiles) -> Result<Arc<Self>, PortError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        // Read before the certificate is loaded: a replacement in between is then seen as new.
        let read = FileContents::read(&files).map_err(|fault| PortError::Tls(fault.to_string()))?;
        let current =
            load_certificate(&files, &provider).map_err(|fault| PortError::Tls(fault.to_string()))?;
        Ok(Arc::new(RenewedCertificate {
            current: ArcSwap::from_pointee(current),
            read: Mutex::new(read),
            files,
            provider,
        }))
    }

    /// Reads the files again, every half minute. Later connections see a renewed certificate; invalid files
    /// are ignored with a warning.
    pub(crate) async fn renew_forever(self: Arc<Self>) {
        loop {
            tokio::time::sleep(RENEW).await;
            let own = Arc::clone(&self);
            // The message of a panic has been logged.
            let Ok(renewed) = tokio::task::spawn_blocking(move || own.renew()).await else { continue };
            match renewed {
                Ok(false) => {}
                Ok(true) => tracing::info!("the certificate for clients has been renewed"),
                Err(fault) => tracing::warn!(reason = %fault, "the certificate for clients stays as it was"),
            }
        }
    }

    /// Validity of the certificate that new connections see, as far as its dates can be read.
    pub(crate) fn validity(&self) -> Option<CertificateValidity> {
        CertificateValidity::of(&self.files.certificate, &self.current.load().cert)
    }

    /// Reads the files again. Returns true if the certificate has changed.
    fn renew(&self) -> Result<bool, ServerTlsFault> {
        let found = FileContents::read(&self.files)?;
        let mut read = self.read.lock();
        if *read == found {
            return Ok(false);
        }
        let renewed = load_certificate(&self.files, &self.provider)?;
        // Only once the files are valid: the warning is repeated while they are not, such as between the two
        // renames of a renewal.
        *read = found;
        self.current.store(Arc::new(renewed));
        Ok(true)
    }
}

impl ResolvesServerCert for RenewedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// Loads the certificate and key in the files, which must match.
fn load_certificate(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, ServerTlsFault> {
    let (certificates, key) = millrace_trust::certificate_and_key(&files.certificate, &files.key)?;
    CertifiedKey::from_der(certificates, key, provider).map_err(|error| ServerTlsFault::Pair {
        certificate: files.certificate.clone(),
        key: files.key.clone(),
        reason: millrace_trust::in_words(&error),
    })
}

/// TLS of a port.
#[derive(Clone)]
pub struct PortTls {
    plain: TlsAcceptor,
    asking: Option<ClientCertificateAcceptor>,
}

/// Acceptor that asks for certificates of clients, and the condition under which it is used.
#[derive(Clone)]
struct ClientCertificateAcceptor {
    acceptor: TlsAcceptor,
    is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl PortTls {
    /// Creates the TLS of a port without certificates of clients, which shows the current certificate to each
    /// new connection.
    pub(crate) fn new(certificate: &Arc<RenewedCertificate>) -> Self {
        PortTls { plain: acceptor(certificate, None), asking: None }
    }

    /// Asks clients for their certificates while `is_wanted` returns true.
    ///
    /// The two kinds of connections have a configuration each, and so sessions of their own: one that began
    /// without a certificate is not resumed where one is asked for.
    pub(crate) fn requesting_certificates(
        &self,
        certificate: &Arc<RenewedCertificate>,
        is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Self {
        let verifier = AnyClientCertificate { provider: Arc::clone(&certificate.provider) };
        let acceptor = acceptor(certificate, Some(verifier));
        PortTls { plain: self.plain.clone(), asking: Some(ClientCertificateAcceptor { acceptor, is_wanted }) }
    }

    /// Acceptor for the next connection.
    pub(super) fn acceptor(&self) -> &TlsAcceptor {
        match &self.asking {
            Some(asking) if (asking.is_wanted)() => &asking.acceptor,
            _ => &self.plain,
        }
    }
}

/// Certificate that the client of a connection has shown.
pub(super) fn shown_certificate(stream: &TlsStream<TcpStream>) -> Option<CertificateHash> {
    let shown = stream.get_ref().1.peer_certificates()?.first()?;
    Some(CertificateHash::of(shown))
}

fn acceptor(certificate: &Arc<RenewedCertificate>, clients: Option<AnyClientCertificate>) -> TlsAcceptor {
    let builder = ServerConfig::builder_with_provider(Arc::clone(&certificate.provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for the default protocol versions");
    let builder = match clients {
        Some(verifier) => builder.with_client_cert_verifier(Arc::new(verifier)),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::clone(certificate) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Verifier that lets a client show any certificate, whose key it has to have, or none. The application
/// decides which certificates count, and may change between two requests of a connection.
#[derive(Debug)]
struct AnyClientCertificate {
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    /// Without names of authorities a client shows the certificate that it has.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _between: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, TlsError> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Certificates of the tests of the binary.
    fn fixture(name: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/fixtures/tls").join(name)
    }

    #[test]
    fn files_that_are_replaced_count_as_soon_as_both_work() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let [certificate, key] = ["c.pem", "k.pem"].map(|name| directory.path().join(name));
        let put = |name: &str, to: &Path| std::fs::copy(fixture(name), to).map(drop).expect("a file");
        put("server.pem", &certificate);
        put("server.key", &key);
        let files = TlsFiles { certificate: certificate.clone(), key: key.clone() };
        let renewed = RenewedCertificate::load(files).expect("they work");
        let shown = || renewed.current.load().cert.clone();
        let first = shown();
        assert_eq!(renewed.renew().ok(), Some(false));
        put("self.pem", &certificate);
        let error = renewed.renew().expect_err("the key is the other one's");
        assert!(error.to_string().contains("do not belong together"), "{error}");
        assert_eq!(shown(), first);
        put("self.key", &key);
        assert_eq!(renewed.renew().ok(), Some(true));
        assert_ne!(shown(), first);
        std::fs::remove_file(&key).expect("it is there");
        assert!(renewed.renew().is_err() && shown() != first);
    }
}
