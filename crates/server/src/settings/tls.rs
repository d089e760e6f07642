//! Certificates of the server's ports, and for connections to other nodes and to etcd.

use std::path::PathBuf;

use millrace_gateway::TlsFiles;
use millrace_trust::{ClientIdentity, ServiceFiles, TrustFiles};

use crate::error::Error;

/// Certificate of the ports for clients.
pub(super) fn server_tls(
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<TlsFiles>, Error> {
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        _ => Err(Error::Argument(
            "TLS needs both tls-certificate and tls-key; give the other one as well".to_owned(),
        )),
    }
}

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
