use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::Error;

/// Files with the certificates of a node, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustFiles {
    /// Certificate of the authority that signs those of all nodes, and no others; several during a change of
    /// authorities.
    pub authority: PathBuf,
    /// The node's own certificate: for the host by which others reach it, as server and as client.
    pub certificate: PathBuf,
    /// Key of the node's certificate.
    pub key: PathBuf,
}

/// Contents of the files.
#[derive(PartialEq)]
pub(crate) struct TrustContents {
    authority: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl TrustFiles {
    pub(crate) fn read(&self) -> Result<TrustContents, Error> {
        Ok(TrustContents {
            authority: read(&self.authority)?,
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
        })
    }

    pub(crate) fn authorities(
        &self,
        contents: &TrustContents,
    ) -> Result<Vec<CertificateDer<'static>>, Error> {
        certificates(&self.authority, &contents.authority)
    }

    pub(crate) fn own(&self, contents: &TrustContents) -> Result<Vec<CertificateDer<'static>>, Error> {
        certificates(&self.certificate, &contents.certificate)
    }

    pub(crate) fn own_key(&self, contents: &TrustContents) -> Result<PrivateKeyDer<'static>, Error> {
        key(&self.key, &contents.key)
    }
}

pub(crate) fn read(file: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(file).map_err(|error| Error::File {
        file: file.to_owned(),
        reason: format!("{error}; name a file that this user can read"),
    })
}

pub(crate) fn certificates(file: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let failed = |reason: String| Error::File { file: file.to_owned(), reason };
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| failed(error.to_string()))?;
    match certificates.is_empty() {
        true => {
            let what = if key(file, pem).is_ok() { ": it is a private key" } else { "" };
            Err(failed(format!("it has no CERTIFICATE block{what}; name a file of certificates in PEM form")))
        }
        false => Ok(certificates),
    }
}

pub(crate) fn key(file: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, Error> {
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| {
        let reason = match error {
            PemError::NoItemsFound => {
                "it has no PRIVATE KEY block that can be read; name a private key in PEM form, not encrypted \
                                       (openssl pkey -in FILE -out CLEAR takes the encryption away)"
                    .to_owned()
            }
            other => other.to_string(),
        };
        Error::File { file: file.to_owned(), reason }
    })
}

/// Reads a server's certificate for its clients: the chain in one file, and the key in another.
///
/// # Errors
/// [`Error::File`].
pub fn certificate_and_key(
    certificate: &Path,
    own_key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    Ok((certificates(certificate, &read(certificate)?)?, key(own_key, &read(own_key)?)?))
}
