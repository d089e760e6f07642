use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use millrace_document::{DocumentGroup, DocumentId};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;

use crate::{AccessRight, CallerGroups, CallerLimits, Error};

/// Beginning of every API key.
const PREFIX: &str = "mr_";
/// Number of characters of an id.
const ID_CHARS: usize = 12;
/// Number of random bytes of a secret.
const SECRET_BYTES: usize = 32;
/// Number of characters of a secret: those of its bytes in base 64.
const SECRET_CHARS: usize = 43;

/// An API key: `mr_ID_SECRET`. The secret is never stored.
pub struct ApiKey {
    id: String,
    secret: String,
}

impl ApiKey {
    /// Creates a key of random bytes, at least [`ApiKey::RANDOM_BYTES`] of them.
    ///
    /// # Panics
    /// There are fewer bytes.
    pub fn of_random(bytes: &[u8; Self::RANDOM_BYTES]) -> Self {
        let (id, secret) = bytes.split_at(Self::RANDOM_BYTES - SECRET_BYTES);
        let id =
            id.iter().map(|byte| char::from(b"abcdefghijklmnopqrstuvwxyz234567"[usize::from(byte & 31)]));
        ApiKey { id: id.collect(), secret: URL_SAFE_NO_PAD.encode(secret) }
    }

    /// Number of random bytes of a key.
    pub const RANDOM_BYTES: usize = ID_CHARS + SECRET_BYTES;

    /// Parses a key; `None` for text that does not begin like one.
    ///
    /// # Errors
    /// [`Error::Malformed`].
    pub fn parse(text: &str) -> Option<Result<Self, Error>> {
        let rest = text.strip_prefix(PREFIX)?;
        let parsed = rest.split_once('_').filter(|(id, secret)| is_id(id) && secret.len() == SECRET_CHARS);
        let key = parsed.map(|(id, secret)| ApiKey { id: id.to_owned(), secret: secret.to_owned() });
        Some(key.ok_or(Error::Malformed("an API key has the form mr_ID_SECRET")))
    }

    /// Id, which is not secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Text that a client sends. It is shown once, when the key is created.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}_{}", self.id, self.secret)
    }

    /// Hash of the secret, in hexadecimal. A secret of 256 random bits needs no slow hash. Each request with
    /// a key computes it.
    pub fn hash(&self) -> String {
        let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
        let hash = digest(&SHA256, self.secret.as_bytes());
        hash.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
    }
}

/// Returns true for text of the form that ids of keys have.
fn is_id(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() == ID_CHARS && text.bytes().all(is_part)
}

/// An API key as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KeyRecord {
    /// Id of the key.
    pub id: String,
    /// Name of the caller. Two keys may have one name, while one replaces the other.
    pub name: String,
    /// Hash of the secret (SHA-256), in hexadecimal.
    pub hash: String,
    /// Rights of its own; an application can give it more by `<token id="NAME"/>`.
    pub rights: Vec<AccessRight>,
    /// Names of groups; with neither names nor numbers, all documents.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Numbers of groups (`n=` in ids).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<u64>,
    /// Time at which the key expires, in seconds since 1970; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Limits on requests.
    #[serde(default)]
    pub limits: CallerLimits,
}

impl KeyRecord {
    /// Returns true if the key has the secret of this record. The time that this takes does not depend on the
    /// secret.
    pub(crate) fn is_of(&self, key: &ApiKey) -> bool {
        self.hash.as_bytes().ct_eq(key.hash().as_bytes()).into()
    }

    /// Groups of the caller.
    pub(crate) fn caller_groups(&self) -> CallerGroups {
        if self.groups.is_empty() && self.users.is_empty() {
            return CallerGroups::All;
        }
        let names = self.groups.iter().cloned().map(DocumentGroup::Name);
        CallerGroups::Only(names.chain(self.users.iter().copied().map(DocumentGroup::Number)).collect())
    }

    /// Checks the form of a new key. Older files may have keys of other forms, which then match nothing: they
    /// are accepted, since a file that is refused locks everybody out.
    ///
    /// # Errors
    /// Place, cause and cure.
    pub(crate) fn check_new(&self) -> Result<(), Error> {
        let wrong = |reason: String| Err(Error::Key { id: self.id.escape_debug().to_string(), reason });
        // An id has the last word on what its group can be.
        let is_group =
            |name: &String| DocumentId::new("any", "any", &DocumentGroup::Name(name.clone()), "any").is_ok();
        if !is_id(&self.id) {
            return wrong(format!("an id is {ID_CHARS} lower-case letters and digits"));
        }
        if self.name.is_empty() || self.name.chars().any(char::is_control) {
            return wrong("the name of a key is not empty, and has no control characters".to_owned());
        }
        match self.groups.iter().find(|name| !is_group(name)) {
            Some(name) => wrong(format!(
                "'{}' is the name of no group, as no document id can have it: it is empty, has a ':' or a control \
                 character; write it as in g=NAME of ids",
                name.escape_debug()
            )),
            None => Ok(()),
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Place, cause and cure.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let wrong = |reason: &str| Err(Error::Key { id: self.id.clone(), reason: reason.to_owned() });
        let is_hash = self.hash.len() == 64 && self.hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        match () {
            () if !is_hash => wrong("the hash is not 64 hexadecimal digits; create the key again"),
            () if self.groups.iter().any(|group| group.is_empty() || group.chars().any(char::is_control)) => {
                wrong("a group has an empty name or a control character")
            }
            () => self.limits.check().or_else(|error| wrong(&error.to_string())),
        }
    }
}
