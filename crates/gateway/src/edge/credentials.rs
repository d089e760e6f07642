//! Credentials of requests: the keyring of the server, and its renewal when a file changes.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use millrace_access::{DeclaredClients, Keyring, KeyringSources, RequestCaller, RequestCredentials};

use crate::PortError;

/// Time between two looks at the files.
const RENEWAL: Duration = Duration::from_secs(1);

/// Files with the credentials that a server accepts. Without any file, requests need no credential.
#[derive(Debug, Clone)]
pub struct CredentialFiles {
    /// API keys and deny list (TOML).
    pub access: PathBuf,
    /// True if that file may not be absent: a setting names it.
    pub is_access_required: bool,
    /// Keys of signed tokens (JSON Web Key Set), if there is such a file.
    pub token_keys: Option<PathBuf>,
    /// Required audience of signed tokens.
    pub audience: String,
}

impl CredentialFiles {
    /// Returns true if there are credentials, so that requests need one.
    pub fn is_given(&self) -> bool {
        self.token_keys.is_some() || self.is_access_required || self.access.exists()
    }

    /// Reads the files. The file of API keys may be absent, unless a setting names it.
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
        let keys = |path: &PathBuf| fs::read_to_string(path).map_err(|error| failed(path, error));
        let token_keys = self.token_keys.as_ref().map(keys).transpose()?;
        Ok(KeyringSources { access_file, token_keys, audience: self.audience.clone() })
    }
}

/// The keyring in use.
pub(crate) struct CredentialDesk {
    files: CredentialFiles,
    keyring: ArcSwap<(KeyringSources, Keyring)>,
}

impl CredentialDesk {
    /// Loads the keyring.
    ///
    /// # Errors
    /// A file cannot be read, or is malformed.
    pub(crate) fn load(files: CredentialFiles) -> Result<Self, PortError> {
        let sources = files.read()?;
        let keyring = Keyring::parse(&sources)?;
        Ok(CredentialDesk { files, keyring: ArcSwap::from_pointee((sources, keyring)) })
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
    ) -> Result<Arc<RequestCaller>, millrace_access::Error> {
        let (keyring, now) = (self.keyring.load(), millrace_env::unix_time().as_secs());
        match declared {
            Some(declared) => declared.caller(&keyring.1, credentials, now),
            None => keyring.1.caller(credentials.authorization, now),
        }
    }

    /// Names of the API keys.
    pub(crate) fn key_names(&self) -> Vec<String> {
        self.keyring.load().1.names().map(str::to_owned).collect()
    }

    /// Loads the files again whenever they change. If that fails, the keyring in use stays: a damaged or
    /// removed file never opens the server.
    pub(crate) async fn renew_forever(self: Arc<Self>) {
        let mut last_failure = String::new();
        loop {
            tokio::time::sleep(RENEWAL).await;
            let desk = Arc::clone(&self);
            let renewed = tokio::task::spawn_blocking(move || desk.renew()).await;
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

    fn renew(&self) -> Result<(), PortError> {
        let sources = self.files.read()?;
        let current = self.keyring.load();
        if sources == current.0 {
            return Ok(());
        }
        if sources.access_file.is_none() && current.0.access_file.is_some() {
            let source = io::Error::new(io::ErrorKind::NotFound, "it was removed while the server runs");
            return Err(PortError::CredentialFile { path: self.files.access.clone(), source });
        }
        let keyring = Keyring::parse(&sources)?;
        self.keyring.store(Arc::new((sources, keyring)));
        tracing::info!("the credentials have changed, and the new ones are in use");
        Ok(())
    }
}
