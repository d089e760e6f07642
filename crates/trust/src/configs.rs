use std::sync::Arc;

use rustls::client::{Resumption, WebPkiServerVerifier, danger::ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::files::TrustContents;
use crate::words::{in_words, of_certificate};
use crate::{CertificateFault, ConnectionPurpose, Error, TrustFiles};

/// TLS configurations from the files: for outgoing and for incoming connections of this node.
///
/// Sessions are never resumed: a certificate is checked for every connection.
pub(crate) struct TlsConfigs {
    pub(crate) server: Arc<ServerConfig>,
    peer: Arc<ClientConfig>,
    http: Arc<ClientConfig>,
}

impl TlsConfigs {
    /// Creates the configurations. Checks that others will accept the node's own certificate for `host`.
    pub(crate) fn new(files: &TrustFiles, contents: &TrustContents, host: &str) -> Result<Self, Error> {
        let no_authority = |reason: String| Error::File {
            file: files.authority.clone(),
            reason: format!("it is not the certificate of an authority: {reason}"),
        };
        let mut authorities = RootCertStore::empty();
        for certificate in files.authorities(contents)? {
            authorities.add(certificate).map_err(|error| no_authority(error.to_string()))?;
        }
        let authorities = Arc::new(authorities);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let servers =
            WebPkiServerVerifier::builder_with_provider(Arc::clone(&authorities), Arc::clone(&provider))
                .build()
                .map_err(|error| no_authority(error.to_string()))?;
        let clients = WebPkiClientVerifier::builder_with_provider(authorities, Arc::clone(&provider))
            .build()
            .map_err(|error| no_authority(error.to_string()))?;
        let (own, key) = (files.own(contents)?, files.own_key(contents)?);
        let refused = |reason: CertificateFault| Error::Own {
            certificate: files.certificate.clone(),
            host: host.to_owned(),
            reason,
        };
        check(&own, host, &*servers, &*clients).map_err(refused)?;
        let unfit = |error: rustls::Error| Error::File {
            file: files.key.clone(),
            reason: format!("with {}: {}", files.certificate.display(), in_words(&error)),
        };
        let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| {
                builder.with_client_cert_verifier(clients).with_single_cert(own.clone(), key.clone_key())
            })
            .map_err(unfit)?;
        server.alpn_protocols =
            [ConnectionPurpose::Peer, ConnectionPurpose::Http].map(|purpose| purpose.name().to_vec()).into();
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut peer = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|builder| builder.with_webpki_verifier(servers).with_client_auth_cert(own, key))
            .map_err(unfit)?;
        peer.resumption = Resumption::disabled();
        let mut http = peer.clone();
        peer.alpn_protocols = vec![ConnectionPurpose::Peer.name().to_vec()];
        http.alpn_protocols = vec![ConnectionPurpose::Http.name().to_vec()];
        Ok(TlsConfigs { server: Arc::new(server), peer: Arc::new(peer), http: Arc::new(http) })
    }

    pub(crate) fn client(&self, purpose: ConnectionPurpose) -> Arc<ClientConfig> {
        Arc::clone(match purpose {
            ConnectionPurpose::Peer => &self.peer,
            ConnectionPurpose::Http => &self.http,
        })
    }
}

/// Checks that a node's certificate will be accepted, both as server and as client.
fn check(
    own: &[CertificateDer<'_>],
    host: &str,
    servers: &dyn ServerCertVerifier,
    clients: &dyn ClientCertVerifier,
) -> Result<(), CertificateFault> {
    let [certificate, between @ ..] = own else { return Err(CertificateFault::Missing) };
    let name = name_of(host)?;
    let now = UnixTime::now();
    servers
        .verify_server_cert(certificate, between, &name, &[], now)
        .map_err(|error| CertificateFault::AsServer(own_words(&error)))?;
    clients
        .verify_client_cert(certificate, between, now)
        .map_err(|error| CertificateFault::AsClient(own_words(&error)))?;
    Ok(())
}

fn own_words(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(reason) => of_certificate(reason),
        other => other.to_string(),
    }
}

/// Parses a host for certificates: a name, or an address, which may be in brackets.
pub(crate) fn name_of(host: &str) -> Result<ServerName<'static>, CertificateFault> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(bare.to_owned()).map_err(|_| CertificateFault::Host(host.to_owned()))
}
