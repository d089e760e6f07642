use std::path::PathBuf;
use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

use crate::Error;
use crate::files;
use crate::words::in_words;

/// Certificates for connections to a service other than a node, as PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceFiles {
    /// Certificate of the authority that has signed the service's.
    pub authority: PathBuf,
    /// Client certificate for the service, and its key.
    pub own: Option<(PathBuf, PathBuf)>,
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
        let failed = |file: &PathBuf, error: rustls::Error| Error::File {
            file: file.clone(),
            reason: in_words(&error),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&self.authority, error))?
            .with_root_certificates(authorities);
        match &self.own {
            None => Ok(builder.with_no_client_auth()),
            Some((certificate, key)) => {
                let own = files::certificates(certificate, &files::read(certificate)?)?;
                let own_key = files::key(key, &files::read(key)?)?;
                builder.with_client_auth_cert(own, own_key).map_err(|error| failed(key, error))
            }
        }
    }
}
