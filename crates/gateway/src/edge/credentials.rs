//! Credentials of requests: the keyring of the server, and its renewal when a file changes.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use millrace_access::{
    AccessFile, DeclaredClients, Error as AccessError, Keyring, KeyringSources, RequestCaller,
    RequestCredentials, TokenKeySet,
};
use millrace_env::{RealDisk, replace_file};
use millrace_node::metrics::MetricGauge;

use super::published::{PublishedKeys, TokenKeyUrl, TokenKeyUrlFault};
use crate::PortError;

/// Name of the note in coordination that has the API keys and the deny list of a cluster.
pub(crate) const SHARED_KEYS: &str = "api-keys";

/// Time between two looks at the files.
const RENEWAL: Duration = Duration::from_secs(1);

/// Files with the credentials that a server accepts. Without any file, requests need no credential.
#[derive(Debug, Clone)]
pub struct CredentialFiles {
    /// API keys and deny list (TOML).
    pub access: PathBuf,
    /// True if that file may not be absent: a setting names it.
    pub is_access_required: bool,
    /// API keys and deny list of the cluster, as this node has last received them from coordination.
    pub of_cluster: PathBuf,
    /// Keys of signed tokens (JSON Web Key Set), if the server accepts such tokens.
    pub token_keys: Option<TokenKeySource>,
    /// Required audience of signed tokens.
    pub audience: String,
}

/// Place of the keys of signed tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKeySource {
    /// A file.
    File(PathBuf),
    /// An address at which another server publishes them.
    Url(TokenKeyUrl),
}

impl FromStr for TokenKeySource {
    type Err = TokenKeyUrlFault;

    /// Parses an address, which has `://`, or else a path.
    fn from_str(text: &str) -> Result<Self, TokenKeyUrlFault> {
        match text.contains("://") {
            true => text.parse().map(TokenKeySource::Url),
            false => Ok(TokenKeySource::File(PathBuf::from(text))),
        }
    }
}

impl CredentialFiles {
    /// True if there are credentials, so that each request needs one.
    pub fn are_required(&self) -> bool {
        self.token_keys.is_some()
            || self.is_access_required
            || self.access.exists()
            || self.of_cluster.exists()
    }

    /// Reads the files. The file of API keys may be absent, unless a setting names it. Keys that are
    /// published elsewhere count as awaited.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&self) -> Result<KeyringSources, PortError> {
        let failed = |path: &PathBuf, source| PortError::CredentialFile { path: path.clone(), source };
        let access_file = match fs::read_to_string(&self.access) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_access_required => None,
            Err(error) => return Err(failed(&self.access, error)),
        };
        let cluster_file = match fs::read_to_string(&self.of_cluster) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&self.of_cluster, error)),
        };
        let token_keys = match &self.token_keys {
            None => None,
            Some(TokenKeySource::Url(_)) => Some(TokenKeySet::Awaited),
            Some(TokenKeySource::File(path)) => {
                let text = fs::read_to_string(path).map_err(|error| failed(path, error))?;
                Some(TokenKeySet::File(text))
            }
        };
        Ok(KeyringSources { access_file, cluster_file, token_keys, audience: self.audience.clone() })
    }
}

/// The keyring in use.
pub(crate) struct CurrentKeyring {
    files: CredentialFiles,
    published: Option<Arc<PublishedKeys>>,
    keyring: ArcSwap<(KeyringSources, Keyring)>,
}

impl CurrentKeyring {
    /// Loads the keyring. Published keys that cannot be fetched are fetched later.
    ///
    /// # Errors
    /// A file cannot be read, or is malformed.
    pub(crate) fn load(files: CredentialFiles) -> Result<Self, PortError> {
        let published = match &files.token_keys {
            Some(TokenKeySource::Url(url)) => Some(PublishedKeys::new(url.clone())?),
            Some(TokenKeySource::File(_)) | None => None,
        };
        let sources = sources(&files, published.as_deref())?;
        let keyring = parsed(&sources)?;
        Ok(CurrentKeyring { files, published, keyring: ArcSwap::from_pointee((sources, keyring)) })
    }

    /// Gauges of published keys.
    pub(crate) fn gauges(&self) -> [MetricGauge; 2] {
        PublishedKeys::gauges(self.published.as_deref())
    }

    /// Returns true if requests need no credential.
    pub(crate) fn is_open(&self) -> bool {
        self.keyring.load().1.is_open()
    }

    /// Returns the caller of a request, which may be one of the clients that an application declares.
    ///
    /// # Errors
    /// The credential is missing or not valid.
    pub(crate) fn caller(
        &self,
        credentials: RequestCredentials<'_>,
        declared: Option<&DeclaredClients>,
    ) -> Result<Arc<RequestCaller>, AccessError> {
        let (keyring, now) = (self.keyring.load(), millrace_env::unix_time().as_secs());
        let caller = match declared {
            Some(declared) => declared.caller(&keyring.1, credentials, now),
            None => keyring.1.caller(credentials.authorization, now),
        };
        if let (Err(AccessError::UnknownSigner), Some(published)) = (&caller, &self.published) {
            published.want();
        }
        caller
    }

    /// Returns true if this node accepts an API key of this id.
    pub(crate) fn has_key(&self, id: &str) -> bool {
        self.keyring.load().1.has_key(id)
    }

    /// Names of the API keys.
    pub(crate) fn key_names(&self) -> Vec<String> {
        self.keyring.load().1.names().map(str::to_owned).collect()
    }

    /// Loads the files again whenever they change, and the keys that the cluster shares, as `shared` returns
    /// them; `None` as long as they were not received. If that fails, the keyring in use stays: a damaged or
    /// removed file never opens the server.
    pub(crate) async fn renew_forever(
        self: Arc<Self>,
        shared: impl Fn() -> Option<Arc<[u8]>> + Send + 'static,
    ) {
        let mut last_failure = String::new();
        loop {
            tokio::time::sleep(RENEWAL).await;
            let (desk, shared) = (Arc::clone(&self), shared());
            let renewed = tokio::task::spawn_blocking(move || desk.renew(shared.as_deref())).await;
            let failure = match renewed {
                Ok(Ok(())) => String::new(),
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            if !failure.is_empty() && failure != last_failure {
                tracing::error!(
                    failure,
                    "the credentials in use stay, because the changed ones cannot be loaded"
                );
            }
            last_failure = failure;
        }
    }

    /// Keeps the keys of the cluster in a file, so that they are valid after a restart without coordination.
    fn keep(&self, shared: &[u8]) -> Result<(), PortError> {
        let path = &self.files.of_cluster;
        let failed = |source| PortError::CredentialFile { path: path.clone(), source };
        let text = std::str::from_utf8(shared).map_err(|error| failed(io::Error::other(error)))?;
        if self.keyring.load().0.cluster_file.as_deref() == Some(text) && path.exists() {
            return Ok(());
        }
        AccessFile::parse(text)?;
        replace_file(&RealDisk, path, shared).map_err(failed)
    }

    fn renew(&self, shared: Option<&[u8]>) -> Result<(), PortError> {
        shared.map_or(Ok(()), |shared| self.keep(shared))?;
        let sources = sources(&self.files, self.published.as_deref())?;
        let current = self.keyring.load();
        if sources == current.0 {
            return Ok(());
        }
        if sources.access_file.is_none() && current.0.access_file.is_some() {
            let source = io::Error::new(io::ErrorKind::NotFound, "it was removed while the server runs");
            return Err(PortError::CredentialFile { path: self.files.access.clone(), source });
        }
        if sources.cluster_file.is_none() && current.0.cluster_file.is_some() {
            let source = io::Error::new(io::ErrorKind::NotFound, "it was removed while the server runs");
            return Err(PortError::CredentialFile { path: self.files.of_cluster.clone(), source });
        }
        let keyring = parsed(&sources)?;
        self.keyring.store(Arc::new((sources, keyring)));
        tracing::info!("the credentials have changed, and the new ones are in use");
        Ok(())
    }
}

/// Reads the files, and fetches published keys if it is time to.
fn sources(files: &CredentialFiles, published: Option<&PublishedKeys>) -> Result<KeyringSources, PortError> {
    // First, so that a damaged file does not keep new keys away.
    published.inspect(|published| published.renew());
    let sources = files.read()?;
    Ok(match published {
        Some(published) => KeyringSources { token_keys: Some(published.set()), ..sources },
        None => sources,
    })
}

/// Parses the sources. Published keys that are not used are logged.
fn parsed(sources: &KeyringSources) -> Result<Keyring, PortError> {
    let keyring = Keyring::parse(sources)?;
    for reason in keyring.passed_over() {
        tracing::info!(reason, "a published key of signed tokens is not used");
    }
    Ok(keyring)
}
