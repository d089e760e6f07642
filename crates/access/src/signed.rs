//! Signed tokens: JSON Web Tokens (RFC 7519) by keys of a JSON Web Key Set (RFC 7517).

use std::collections::BTreeMap;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, JwkSet, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use millrace_document::DocumentGroup;
use serde::Deserialize;

use crate::{AccessRights, CallerGroups, CallerLimits, Error, provider};

/// Maximum lifetime of a signed token, in seconds: a day.
const LIFETIME_MAX_S: u64 = 24 * 3600;
/// Permitted difference between the clocks of the signer and the server, in seconds.
const LEEWAY_S: u64 = 30;
/// Minimum size of a shared secret (HS256), in bytes.
const SECRET_BYTES_MIN: usize = 32;
/// Maximum number of groups of a token.
const GROUPS_MAX: usize = 1_000;
/// Maximum number of reasons in a message.
const REASONS_MAX: usize = 5;
/// File of the keys, in messages.
const FILE: &str = "key set of signed tokens";

/// Keys of signed tokens, by their ids.
pub(crate) struct TokenKeys {
    keys: BTreeMap<String, TokenKey>,
    audience: String,
    /// Reasons for which other keys of a published set are not used.
    passed_over: Vec<String>,
}

/// A key, with the only algorithm that its tokens may have.
struct TokenKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

/// Claims of a token. Their types are strict: a claim of another type is an error, never absent, and so is
/// one that is there twice.
#[derive(Debug, Deserialize)]
pub(crate) struct TokenClaims {
    pub(crate) sub: String,
    aud: TokenAudience,
    pub(crate) exp: u64,
    #[serde(default)]
    pub(crate) nbf: u64,
    #[serde(default)]
    pub(crate) jti: Option<String>,
    pub(crate) permissions: AccessRights,
    groups: ClaimedGroups,
    #[serde(default)]
    pub(crate) limits: CallerLimits,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TokenAudience {
    One(String),
    Several(Vec<String>),
}

impl TokenAudience {
    fn has(&self, audience: &str) -> bool {
        match self {
            TokenAudience::One(one) => one == audience,
            TokenAudience::Several(several) => several.iter().any(|one| one == audience),
        }
    }
}

/// Groups of a token: a list, or `"all"`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ClaimedGroups {
    These(Vec<ClaimedGroup>),
    Word(String),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ClaimedGroup {
    Number(u64),
    Name(String),
}

impl TokenClaims {
    /// Groups of the caller.
    pub(crate) fn caller_groups(&self) -> Result<CallerGroups, Error> {
        let wrong = |reason: &str| Err(Error::Claims(reason.to_owned()));
        match &self.groups {
            ClaimedGroups::Word(word) if word == "all" => Ok(CallerGroups::All),
            ClaimedGroups::Word(_) => wrong("'groups' is a list of groups, or \"all\""),
            ClaimedGroups::These(groups) if groups.len() > GROUPS_MAX => {
                wrong(&format!("'groups' has more than {GROUPS_MAX} groups"))
            }
            ClaimedGroups::These(groups) => {
                let group = |group: &ClaimedGroup| match group {
                    ClaimedGroup::Number(number) => DocumentGroup::Number(*number),
                    ClaimedGroup::Name(name) => DocumentGroup::Name(name.clone()),
                };
                Ok(CallerGroups::Only(groups.iter().map(group).collect()))
            }
        }
    }

    /// Checks the times, in seconds since 1970.
    pub(crate) fn check_times(&self, now: u64) -> Result<(), Error> {
        match () {
            () if self.exp.saturating_add(LEEWAY_S) <= now => Err(Error::Expired),
            () if self.nbf > now.saturating_add(LEEWAY_S) => Err(Error::Early),
            () if self.exp > now.saturating_add(LIFETIME_MAX_S + LEEWAY_S) => {
                Err(Error::LongLived { max_s: LIFETIME_MAX_S })
            }
            () => Ok(()),
        }
    }
}

impl TokenKeys {
    /// Parses a key set.
    ///
    /// # Errors
    /// [`Error::File`]: the text is not a key set, or has a key that cannot be used.
    pub(crate) fn parse(text: &str, audience: &str) -> Result<Self, Error> {
        provider::install();
        let wrong = |reason: String| Error::File { file: FILE, reason };
        let set: JwkSet = serde_json::from_str(text)
            .map_err(|error| wrong(format!("it is not a JSON Web Key Set ({{\"keys\": […]}}): {error}")))?;
        let mut keys = BTreeMap::new();
        for (at, jwk) in set.keys.iter().enumerate() {
            let name = jwk.common.key_id.clone().unwrap_or_default();
            let of_key = |reason: String| wrong(format!("key {} ('{name}'): {reason}", at + 1));
            let key = TokenKey::of(jwk).map_err(|error| wrong(error.to_string()))?;
            if keys.insert(name.clone(), key).is_some() {
                return Err(of_key("another key has the same id; give each its own kid".to_owned()));
            }
        }
        if keys.is_empty() {
            return Err(wrong("it has no keys; add the public key of the signer".to_owned()));
        }
        Ok(TokenKeys { keys, audience: audience.to_owned(), passed_over: Vec::new() })
    }

    /// Parses a key set that is published for clients of any kind. Keys that cannot be used are passed over;
    /// so are shared secrets, which are none once they are published.
    ///
    /// # Errors
    /// [`Error::File`]: the text is not a key set, or no key can be used.
    pub(crate) fn parse_published(text: &str, audience: &str) -> Result<Self, Error> {
        provider::install();
        let wrong = |reason: String| Error::File { file: FILE, reason };
        let set: PublishedSet = serde_json::from_str(text)
            .map_err(|error| wrong(format!("it is not a JSON Web Key Set ({{\"keys\": […]}}): {error}")))?;
        let (mut keys, mut passed_over) = (BTreeMap::new(), Vec::new());
        for (at, value) in set.keys.into_iter().enumerate() {
            let name = value["kid"].as_str().unwrap_or_default().to_owned();
            let key = TokenKey::of_published(value);
            let reason = match key {
                Ok(key) if !keys.contains_key(&name) => {
                    keys.insert(name, key);
                    continue;
                }
                Ok(_) => "another key has the same id".to_owned(),
                Err(Error::Key { reason, .. }) => reason,
                Err(error) => error.to_string(),
            };
            passed_over.push(format!("key {} ('{name}'): {reason}", at + 1));
        }
        if keys.is_empty() {
            passed_over.truncate(REASONS_MAX);
            return Err(wrong(format!("it has no key that can be used: {}", passed_over.join("; "))));
        }
        Ok(TokenKeys { keys, audience: audience.to_owned(), passed_over })
    }

    /// Reasons for which keys of a published set are not used.
    pub(crate) fn passed_over(&self) -> &[String] {
        &self.passed_over
    }

    /// Verifies a token, except for its times and the deny list, which change after it was verified.
    ///
    /// # Errors
    /// The signature is wrong, or the token is for another server.
    pub(crate) fn verify(&self, token: &str) -> Result<TokenClaims, Error> {
        let header = decode_header(token).map_err(|error| error_of(error.kind()))?;
        if header.crit.is_some() {
            return Err(Error::Claims("the header has 'crit', which is not supported".to_owned()));
        }
        let key = match header.kid {
            Some(id) => self.keys.get(&id),
            None if self.keys.len() == 1 => self.keys.values().next(),
            None => None,
        };
        let TokenKey { algorithm, key } = key.ok_or(Error::UnknownSigner)?;
        if header.alg != *algorithm {
            return Err(Error::Algorithm);
        }
        let mut validation = Validation::new(*algorithm);
        // The claims are checked here: strictly typed, and again at each use of a cached token.
        validation.required_spec_claims.clear();
        validation.validate_exp = false;
        validation.validate_nbf = false;
        validation.validate_aud = false;
        // They are read from the text itself: a map would keep the last of two claims with one name.
        let claims = decode::<TokenClaims>(token, key, &validation)
            .map_err(|error| match error.kind() {
                ErrorKind::Json(reason) if reason.is_data() => Error::Claims(reason.to_string()),
                kind => error_of(kind),
            })?
            .claims;
        if !claims.aud.has(&self.audience) {
            return Err(Error::Audience { expected: self.audience.clone() });
        }
        if claims.sub.is_empty() || claims.permissions.is_empty() {
            return Err(Error::Claims("'sub' and 'permissions' are not empty".to_owned()));
        }
        claims.limits.check().map_err(|error| Error::Claims(error.to_string()))?;
        Ok(claims)
    }
}

/// A key set whose keys are parsed one by one.
#[derive(Deserialize)]
struct PublishedSet {
    keys: Vec<serde_json::Value>,
}

impl TokenKey {
    fn of_published(value: serde_json::Value) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Key { id: String::new(), reason };
        let jwk: Jwk = serde_json::from_value(value).map_err(|error| wrong(error.to_string()))?;
        match jwk.algorithm {
            AlgorithmParameters::OctetKey(_) => {
                Err(wrong("it is a shared secret (oct), which is not one once it is published".to_owned()))
            }
            _ => TokenKey::of(&jwk),
        }
    }

    fn of(jwk: &Jwk) -> Result<Self, Error> {
        let wrong = |reason: String| {
            let id = jwk.common.key_id.clone().unwrap_or_default();
            Error::Key { id, reason }
        };
        if jwk.common.public_key_use.as_ref().is_some_and(|of| *of != PublicKeyUse::Signature) {
            return Err(wrong("its use is not 'sig'; leave keys for encryption out".to_owned()));
        }
        let (algorithm, bytes) = match &jwk.algorithm {
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => {
                (Algorithm::EdDSA, 32..=32)
            }
            AlgorithmParameters::EllipticCurve(point) if point.curve == EllipticCurve::P256 => {
                (Algorithm::ES256, 65..=65)
            }
            AlgorithmParameters::OctetKey(_) => (Algorithm::HS256, SECRET_BYTES_MIN..=1024),
            _ => {
                return Err(wrong(
                    "its kind is not supported; use Ed25519, P-256 or a shared secret (oct)".to_owned(),
                ));
            }
        };
        if jwk.common.key_algorithm.is_some_and(|named| named.to_string() != format!("{algorithm:?}")) {
            return Err(wrong(format!("its 'alg' is not {algorithm:?}, which its kind has")));
        }
        let key = DecodingKey::from_jwk(jwk).map_err(|error| wrong(error.to_string()))?;
        let length = key.try_get_as_bytes().map_err(|error| wrong(error.to_string()))?.len();
        match bytes.contains(&length) {
            true => Ok(TokenKey { algorithm, key }),
            false => Err(wrong(format!(
                "its length of {length} bytes is not in the range of {algorithm:?}: {bytes:?}"
            ))),
        }
    }
}

fn error_of(kind: &ErrorKind) -> Error {
    match kind {
        ErrorKind::InvalidSignature => Error::Signature,
        ErrorKind::InvalidAlgorithm
        | ErrorKind::InvalidAlgorithmName
        | ErrorKind::UnsupportedAlgorithm
        | ErrorKind::MissingAlgorithm => Error::Algorithm,
        _ => Error::Malformed("it does not have three parts of base 64 with JSON in them"),
    }
}
