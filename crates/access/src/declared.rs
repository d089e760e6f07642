//! Clients that an application declares, and the credentials by which they are known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::certificate::{CertificateHash, ClientCertificate};
use crate::{AccessRights, CallerGroups, CallerLimits, Error, Keyring, RequestCaller};

/// A client that an application declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredClient {
    /// Id, which names it in logs.
    pub id: String,
    /// Rights.
    pub rights: AccessRights,
    /// Certificates, each of which identifies it.
    pub certificates: Vec<ClientCertificate>,
    /// Names of API keys that get its rights, in addition to their own.
    pub tokens: Vec<String>,
}

/// The credentials of a request, as they were received.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestCredentials<'r> {
    /// Value of the header `Authorization`.
    pub authorization: Option<&'r str>,
    /// Certificate that the client has shown on its connection.
    pub certificate: Option<CertificateHash>,
}

/// All clients that an application declares, by their credentials.
///
/// A credential of several clients has the rights of all of them. Clients use the documents of all groups;
/// an API key that is for some groups stays so.
#[derive(Debug, Default)]
pub struct DeclaredClients {
    certificates: BTreeMap<CertificateHash, (ClientCertificate, Arc<RequestCaller>)>,
    tokens: BTreeMap<String, AccessRights>,
}

impl DeclaredClients {
    /// Collects the credentials of clients.
    pub fn of(clients: &[DeclaredClient]) -> Self {
        let mut by_certificate: BTreeMap<CertificateHash, (ClientCertificate, BTreeSet<&str>, AccessRights)> =
            BTreeMap::new();
        let mut tokens: BTreeMap<String, AccessRights> = BTreeMap::new();
        for client in clients {
            for certificate in &client.certificates {
                let (_, names, rights) = by_certificate.entry(certificate.hash).or_insert((
                    *certificate,
                    BTreeSet::new(),
                    AccessRights::default(),
                ));
                names.insert(&client.id);
                *rights = rights.union(client.rights);
            }
            for token in &client.tokens {
                let rights = tokens.entry(token.clone()).or_default();
                *rights = rights.union(client.rights);
            }
        }
        let certificates = by_certificate.into_iter().map(|(hash, (certificate, names, rights))| {
            let name = names.into_iter().collect::<Vec<_>>().join(",");
            let limits = CallerLimits::default();
            let caller = RequestCaller::identified(&name, rights, CallerGroups::All, limits);
            (hash, (certificate, Arc::new(caller)))
        });
        DeclaredClients { certificates: certificates.collect(), tokens }
    }

    /// Returns true if a client is known by a certificate, so that connections should ask for one.
    pub fn has_certificates(&self) -> bool {
        !self.certificates.is_empty()
    }

    /// Names of API keys that get rights.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.tokens.keys().map(String::as_str)
    }

    /// Returns the caller of a request: an API key or a signed token of the server, or a declared client.
    /// The header `Authorization` counts more than the certificate of the connection.
    ///
    /// `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The credential is missing or not valid.
    pub fn caller(
        &self,
        keyring: &Keyring,
        credentials: RequestCredentials<'_>,
        now: u64,
    ) -> Result<Arc<RequestCaller>, Error> {
        match credentials {
            RequestCredentials { authorization: Some(header), .. } => {
                keyring.caller_of_header(header, Some(self), now)
            }
            RequestCredentials { certificate: Some(hash), .. } => {
                let (certificate, caller) = self.certificates.get(&hash).ok_or(Error::UnknownCertificate)?;
                certificate.check_time(now)?;
                Ok(Arc::clone(caller))
            }
            RequestCredentials { .. } => Err(Error::MissingOfDeclared),
        }
    }

    /// Adds the rights that clients give to the API key of this caller.
    pub(crate) fn extended(&self, caller: &Arc<RequestCaller>) -> Arc<RequestCaller> {
        match self.tokens.get(&*caller.name) {
            Some(given) if caller.rights.union(*given) != caller.rights => Arc::new(RequestCaller {
                rights: caller.rights.union(*given),
                ..RequestCaller::clone(caller)
            }),
            _ => Arc::clone(caller),
        }
    }
}
