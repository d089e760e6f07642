use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use crate::Error;
use crate::files;
use crate::words::in_words;

/// Certificates for connections to a service other than a node, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceFiles {
    /// Certificate of the authority that has signed the service's.
    pub authority: PathBuf,
    /// Client certificate for the service.
    pub own: Option<ClientIdentity>,
}

/// A client certificate and its key, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The certificate, with those between it and an authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

impl ClientIdentity {
    /// Completes a configuration, which then shows the certificate to servers that ask for one.
    pub(crate) fn complete(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<ClientConfig, Error> {
        let own = files::certificates(&self.certificate, &files::read(&self.certificate)?)?;
        let key = files::key(&self.key, &files::read(&self.key)?)?;
        builder
            .with_client_auth_cert(own, key)
            .map_err(|error| Error::File { file: self.key.clone(), reason: in_words(&error) })
    }
}

impl ServiceFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be read or has other contents, or the key belongs to another certificate.
    pub fn load(&self) -> Result<ClientConfig, Error> {
        let mut authorities = RootCertStore::empty();
        for certificate in files::certificates(&self.authority, &files::read(&self.authority)?)? {
            authorities.add(certificate).map_err(|error| Error::File {
                file: self.authority.clone(),
                reason: format!("it is not the certificate of an authority: {error}"),
            })?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Tls(error.to_string()))?
            .with_root_certificates(authorities);
        match &self.own {
            None => Ok(builder.with_no_client_auth()),
            Some(own) => own.complete(builder),
        }
    }
}
