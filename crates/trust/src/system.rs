use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::Error as TrustError;
use crate::client::ClientIdentity;
use crate::words::is_authority;

/// Creates a configuration that trusts the system's authorities; with `SSL_CERT_FILE` in the environment, the
/// certificates in that file instead. A server that presents one of these itself is trusted too, though it is
/// an authority's, like those that `openssl req -x509` makes.
/// `own` is shown to servers that ask for a client certificate.
///
/// # Errors
/// [`TrustError::NoRoots`]: there are no certificates to trust. [`TrustError::File`]: a file of `own` is
/// unusable.
pub fn by_system(own: Option<&ClientIdentity>) -> Result<ClientConfig, TrustError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    if roots.add_parsable_certificates(found.certs.iter().cloned()).0 == 0 {
        let reasons: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(TrustError::NoRoots(reasons));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .build()
        .map_err(|error| TrustError::Tls(error.to_string()))?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Tls(error.to_string()))?;
    let verifier = Arc::new(CustomRoots { chains, certificates: found.certs });
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    match own {
        Some(own) => own.complete(builder),
        None => Ok(builder.with_no_client_auth()),
    }
}

/// Verifier that accepts certificates signed by one of these, and these themselves.
#[derive(Debug)]
struct CustomRoots {
    chains: Arc<WebPkiServerVerifier>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for CustomRoots {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The validity period was checked before the kind of certificate; the name was not.
            Err(error) if is_authority(&error) && self.certificates.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}
