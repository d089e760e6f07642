//! Certificate and key, made into an acceptor that offers HTTP/2 and HTTP/1.1.

use std::sync::Arc;

use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use crate::{StartError, TlsFiles};

/// An acceptor for the certificate and key in `files`.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, StartError> {
    let (certificates, key) = millrace_trust::certificate_and_key(&files.certificate, &files.key)
        .map_err(|error| StartError::Tls(error.to_string()))?;
    let unfit = |error: rustls::Error| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        StartError::Tls(format!("{certificate} with {key}: {}", millrace_trust::in_words(&error)))
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(unfit)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
