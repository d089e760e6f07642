//! Certificates for connections to other nodes and to etcd.

use std::path::PathBuf;

use millrace_trust::{ClientIdentity, ServiceFiles, TrustFiles};

use crate::error::Error;

/// Trust between nodes.
pub(super) fn nodes_tls(
    authority: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<TrustFiles>, Error> {
    match (authority, certificate, key) {
        (None, None, None) => Ok(None),
        (Some(authority), Some(certificate), Some(key)) => {
            Ok(Some(TrustFiles { authority, certificate, key }))
        }
        _ => Err(Error::Argument(
            "TLS between nodes needs peer-tls-authority, peer-tls-certificate and peer-tls-key; give all three"
                .to_owned(),
        )),
    }
}

/// Trust in etcd.
pub(super) fn etcd_tls(
    authority: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<ServiceFiles>, Error> {
    match (authority, certificate, key) {
        (None, None, None) => Ok(None),
        (Some(authority), None, None) => Ok(Some(ServiceFiles { authority, own: None })),
        (Some(authority), Some(certificate), Some(key)) => {
            Ok(Some(ServiceFiles { authority, own: Some(ClientIdentity { certificate, key }) }))
        }
        _ => Err(Error::Argument(
            "TLS to etcd needs etcd-tls-authority, and of etcd-tls-certificate and etcd-tls-key both or none"
                .to_owned(),
        )),
    }
}
