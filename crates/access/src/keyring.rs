use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quick_cache::sync::Cache;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::caller::ANONYMOUS;
use crate::signed::{TokenClaims, TokenKeys};
use crate::{ApiKey, DeclaredClients, Error, KeyRecord, RequestCaller};

/// Number of verified signed tokens that are kept.
const CACHED_MAX: usize = 10_000;
/// Maximum size of a token, in bytes.
const TOKEN_BYTES_MAX: usize = 8 << 10;
/// Maximum number of keys of one name: the old one and its replacement.
const VERSIONS_MAX: usize = 2;
/// File of the API keys, in messages.
const FILE: &str = "file of API keys (access.toml)";

/// Contents of the file of API keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct AccessFile {
    /// Ids (`jti`) of signed tokens that are refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<String>,
    /// Ids of API keys that are refused, whichever file has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub revoked: Vec<String>,
    /// API keys.
    #[serde(rename = "key", skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyRecord>,
}

impl AccessFile {
    /// Parses the text of the file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let file: AccessFile = toml::from_str(text).map_err(|error| {
            // The line itself is not repeated: the file could be another one, with other secrets.
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = 1 + before.matches('\n').count();
            Error::File { file: FILE, reason: format!("line {line}: {}", error.message()) }
        })?;
        file.check()?;
        Ok(file)
    }

    /// Adds a key.
    ///
    /// # Errors
    /// [`Error::Key`]: its id, name or groups have another form. [`Error::File`]: other values are wrong, or
    /// there are two keys of its name. Nothing is added.
    pub fn add(&mut self, key: KeyRecord) -> Result<(), Error> {
        key.check_new()?;
        self.keys.push(key);
        self.check().inspect_err(|_| drop(self.keys.pop()))
    }

    /// Revokes a key, also one that is in another file. Returns true if it was in this one.
    pub fn revoke(&mut self, id: &str) -> bool {
        let before = self.keys.len();
        self.keys.retain(|key| key.id != id);
        if !self.revoked.iter().any(|revoked| revoked == id) {
            self.revoked.push(id.to_owned());
        }
        self.keys.len() < before
    }

    /// Joins the keys of a node with those of its cluster, which count for more.
    fn joined(own: AccessFile, mut shared: AccessFile) -> AccessFile {
        let is_shared = |id: &String| shared.keys.iter().any(|key| key.id == *id);
        let is_revoked =
            |id: &String| [&own.revoked, &shared.revoked].into_iter().flatten().any(|revoked| revoked == id);
        let keys = own.keys.iter().filter(|key| !is_shared(&key.id)).chain(&shared.keys);
        let keys: Vec<KeyRecord> = keys.filter(|key| !is_revoked(&key.id)).cloned().collect();
        shared.denied.extend(own.denied);
        AccessFile { keys, ..shared }
    }

    /// Checks the values.
    fn check(&self) -> Result<(), Error> {
        let wrong = |reason: String| Error::File { file: FILE, reason };
        let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
        let mut ids = BTreeSet::new();
        for key in &self.keys {
            key.check().map_err(|error| wrong(error.to_string()))?;
            if !ids.insert(&key.id) {
                return Err(wrong(format!("two keys have the id '{}'; remove one", key.id)));
            }
            let count = versions.entry(&key.name).or_default();
            *count += 1;
            if *count > VERSIONS_MAX {
                let reason = "has more than two keys; revoke the oldest: millrace token revoke ID";
                return Err(wrong(format!("'{}' {reason}", key.name)));
            }
        }
        Ok(())
    }

    /// Returns the text of the file.
    ///
    /// # Errors
    /// [`Error::File`]: a value cannot be written.
    pub fn text(&self) -> Result<String, Error> {
        toml::to_string(self).map_err(|error| Error::File { file: FILE, reason: error.to_string() })
    }
}

/// Keys of signed tokens, as a JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKeySet {
    /// A file of the operator: each of its keys can be used.
    File(String),
    /// A set that another server publishes for all of its clients: keys that cannot be used are passed over,
    /// and so are shared secrets.
    Published(String),
    /// A published set that was not received yet: signed tokens are refused.
    Awaited,
}

/// Texts that a [`Keyring`] is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyringSources {
    /// API keys and deny list; `None` if there is no such file.
    pub access_file: Option<String>,
    /// API keys and deny list that the nodes of a cluster share; `None` if there are none.
    pub cluster_file: Option<String>,
    /// Keys of signed tokens; `None` if the server accepts none.
    pub token_keys: Option<TokenKeySet>,
    /// Required audience of signed tokens.
    pub audience: String,
}

/// All credentials that a server accepts.
///
/// A keyring without any file is open: every request is permitted. A keyring with an empty file is closed.
pub struct Keyring {
    is_open: bool,
    keys: BTreeMap<String, (KeyRecord, Arc<RequestCaller>)>,
    denied: BTreeSet<String>,
    tokens: Option<TokenKeys>,
    /// True if the keys of signed tokens were not received yet.
    awaits_tokens: bool,
    /// Verified signed tokens by their SHA-256. Times and the deny list are checked at each use.
    verified: Cache<[u8; 32], Arc<VerifiedToken>>,
    anonymous: Arc<RequestCaller>,
}

/// A signed token whose signature is right.
struct VerifiedToken {
    claims: TokenClaims,
    caller: Arc<RequestCaller>,
}

impl Keyring {
    /// Creates the keyring of these files.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn parse(sources: &KeyringSources) -> Result<Self, Error> {
        let [file, shared] = [&sources.access_file, &sources.cluster_file]
            .map(|text| text.as_deref().map(AccessFile::parse).transpose());
        let (file, shared) = (file?, shared?);
        let tokens = match &sources.token_keys {
            Some(TokenKeySet::File(text)) => Some(TokenKeys::parse(text, &sources.audience)?),
            Some(TokenKeySet::Published(text)) => Some(TokenKeys::parse_published(text, &sources.audience)?),
            Some(TokenKeySet::Awaited) | None => None,
        };
        let is_open = file.is_none() && shared.is_none() && sources.token_keys.is_none();
        let AccessFile { denied, keys, .. } =
            AccessFile::joined(file.unwrap_or_default(), shared.unwrap_or_default());
        let keys = keys.into_iter().map(|key| {
            let rights = key.rights.clone().into();
            let caller = RequestCaller::identified(&key.name, rights, key.caller_groups(), key.limits);
            (key.id.clone(), (key, Arc::new(caller)))
        });
        Ok(Keyring {
            is_open,
            keys: keys.collect(),
            denied: denied.into_iter().collect(),
            tokens,
            awaits_tokens: sources.token_keys == Some(TokenKeySet::Awaited),
            verified: Cache::new(CACHED_MAX),
            anonymous: Arc::new(RequestCaller::unrestricted(ANONYMOUS)),
        })
    }

    /// Creates the keyring of a server without credentials: every request is permitted.
    pub fn open() -> Self {
        Keyring::parse(&KeyringSources::default()).expect("without a file, nothing is malformed")
    }

    /// Returns true if requests need no credential.
    pub const fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns the caller of a request, by the value of its `Authorization` header.
    ///
    /// `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The credential is missing or not valid.
    pub fn caller(&self, authorization: Option<&str>, now: u64) -> Result<Arc<RequestCaller>, Error> {
        if self.is_open {
            return Ok(Arc::clone(&self.anonymous));
        }
        self.caller_of_header(authorization.ok_or(Error::Missing)?, None, now)
    }

    /// Reasons for which keys of a published set are not used, each with its key.
    pub fn passed_over(&self) -> &[String] {
        self.tokens.as_ref().map_or(&[], TokenKeys::passed_over)
    }

    /// Returns true if there is an API key of this id.
    pub fn has_key(&self, id: &str) -> bool {
        self.keys.contains_key(id)
    }

    /// Names of the API keys.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.values().map(|(record, _)| record.name.as_str())
    }

    /// Returns the caller of a header, also if requests need none. An API key gets the rights that an
    /// application gives it.
    pub(crate) fn caller_of_header(
        &self,
        header: &str,
        declared: Option<&DeclaredClients>,
        now: u64,
    ) -> Result<Arc<RequestCaller>, Error> {
        let (scheme, token) = header.split_once(' ').ok_or(Error::Scheme)?;
        let token = token.trim();
        if !scheme.eq_ignore_ascii_case("bearer") || token.is_empty() {
            return Err(Error::Scheme);
        }
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Error::Malformed("it has more than 8192 bytes"));
        }
        match ApiKey::parse(token) {
            Some(key) => {
                let caller = self.caller_of_key(&key?, now)?;
                Ok(declared.map_or_else(|| Arc::clone(&caller), |declared| declared.extended(&caller)))
            }
            None => self.caller_of_token(token, now),
        }
    }

    fn caller_of_key(&self, key: &ApiKey, now: u64) -> Result<Arc<RequestCaller>, Error> {
        let (record, caller) = self.keys.get(key.id()).ok_or(Error::UnknownKey)?;
        match () {
            () if !record.is_of(key) => Err(Error::UnknownKey),
            () if record.expires.is_some_and(|expires| expires <= now) => Err(Error::Expired),
            () => Ok(Arc::clone(caller)),
        }
    }

    fn caller_of_token(&self, token: &str, now: u64) -> Result<Arc<RequestCaller>, Error> {
        let tokens = self.tokens.as_ref().ok_or(match self.awaits_tokens {
            true => Error::KeysAwaited,
            false => Error::Malformed("the server has no keys of signed tokens"),
        })?;
        let hash: [u8; 32] =
            digest(&SHA256, token.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes");
        let verified = match self.verified.get(&hash) {
            Some(verified) => verified,
            None => {
                let claims = tokens.verify(token)?;
                let groups = claims.caller_groups()?;
                let caller =
                    RequestCaller::identified(&claims.sub, claims.permissions, groups, claims.limits);
                let verified = Arc::new(VerifiedToken { claims, caller: Arc::new(caller) });
                // An expired token is not worth a place.
                if verified.claims.check_times(now).is_ok() {
                    self.verified.insert(hash, Arc::clone(&verified));
                }
                verified
            }
        };
        verified.claims.check_times(now)?;
        if verified.claims.jti.as_ref().is_some_and(|id| self.denied.contains(id)) {
            return Err(Error::Denied);
        }
        Ok(Arc::clone(&verified.caller))
    }
}
