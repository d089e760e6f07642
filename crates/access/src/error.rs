use crate::AccessRight;

/// Reason why a credential is not accepted, or does not suffice for a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The request has no credential.
    #[error(
        "the request has no credential; send the header Authorization: Bearer TOKEN (the commands of millrace send the token in \
         MILLRACE_TOKEN)"
    )]
    Missing,
    /// The request has no credential, and the application declares clients.
    #[error(
        "the request has no credential, and the application declares its clients; send the header Authorization: Bearer TOKEN \
         (the commands of millrace send the token in MILLRACE_TOKEN), or connect with one of its client certificates"
    )]
    MissingOfDeclared,
    /// The application does not declare the certificate of the connection.
    #[error(
        "the application does not have the client certificate of this connection; add its file to a <client> of services.xml, \
         or to security/clients.pem, and deploy"
    )]
    UnknownCertificate,
    /// The certificate of the connection is not valid now.
    #[error(
        "the client certificate of this connection {0}; use a certificate that is valid, and compare the clocks of both machines"
    )]
    CertificateTime(&'static str),
    /// A file of certificates cannot be used.
    #[error("{0}")]
    Certificates(String),
    /// The header does not have the form of a bearer token.
    #[error(
        "the header Authorization does not have the form 'Bearer TOKEN'; other schemes are not supported"
    )]
    Scheme,
    /// The token is neither an API key nor a signed token.
    #[error("the token is neither an API key, which begins with mr_, nor a signed token (JWT): {0}")]
    Malformed(&'static str),
    /// The API key is not known, was revoked, or has another secret.
    #[error("the API key is not known, or was revoked; create one with: millrace token create")]
    UnknownKey,
    /// The token has expired.
    #[error("the token has expired; use a newer one")]
    Expired,
    /// The signed token is not valid yet.
    #[error("the token is not valid yet (nbf); compare the clocks of both machines")]
    Early,
    /// The signed token is valid for too long.
    #[error("the token is valid for longer than {max_s} seconds; sign one with a shorter lifetime (exp)")]
    LongLived {
        /// Maximum lifetime, in seconds.
        max_s: u64,
    },
    /// The signed token names no known key.
    #[error("the token is signed with a key that the server does not have (kid); add it to the key set")]
    UnknownSigner,
    /// The keys of signed tokens were not received yet.
    #[error(
        "the server has not received the keys of signed tokens yet; send the request again, and see the log of the server if this stays"
    )]
    KeysAwaited,
    /// The signed token uses another algorithm than its key.
    #[error(
        "the token has another algorithm (alg) than its key; use EdDSA, ES256 or HS256 as the key set says"
    )]
    Algorithm,
    /// The signature is wrong.
    #[error("the signature of the token is wrong")]
    Signature,
    /// The signed token is for another audience.
    #[error("the token is not for this server; its audience (aud) must be '{expected}'")]
    Audience {
        /// Audience of the server.
        expected: String,
    },
    /// A claim of the signed token is missing or has another type.
    #[error("the claims of the token cannot be used: {0}")]
    Claims(String),
    /// A limit is out of its range.
    #[error("{0}")]
    Limit(&'static str),
    /// The token is on the deny list.
    #[error("the token was revoked; sign a new one with another jti")]
    Denied,
    /// The caller lacks the right.
    #[error("'{caller}' does not have the right to {right}; use a credential that has it")]
    Right {
        /// Name of the caller.
        caller: String,
        /// First right that would suffice.
        right: AccessRight,
    },
    /// The caller may not use the group.
    #[error("'{caller}' may not use {wanted}; name one of the groups of its credential")]
    Group {
        /// Name of the caller.
        caller: String,
        /// The requested documents, in words.
        wanted: String,
    },
    /// The path of the request is for another group.
    #[error(
        "the path of the request (or --group of the command, or a header of a proxy) is for {of_path}, and not for {wanted}; name that group, or none"
    )]
    GroupOfPath {
        /// Group of the path, in words.
        of_path: String,
        /// The requested documents, in words.
        wanted: String,
    },
    /// The caller may not use groups that a selection asks for.
    #[error(
        "'{caller}' may not use the documents of other groups, and the selection asks for them: {condition}; leave this out, or name one of \
         the groups of its credential"
    )]
    Selection {
        /// Name of the caller.
        caller: String,
        /// The condition, in words.
        condition: String,
    },
    /// The credential has lost a right or a group since the request began.
    #[error(
        "the credential of '{caller}' has lost rights or groups since this request began; send the rest as a new one"
    )]
    Lessened {
        /// Name of the caller.
        caller: String,
    },
    /// A key of a file cannot be used.
    #[error("key '{id}': {reason}")]
    Key {
        /// Id of the key.
        id: String,
        /// Cause and cure.
        reason: String,
    },
    /// A file of credentials is malformed.
    #[error("{file}: {reason}")]
    File {
        /// Kind of file.
        file: &'static str,
        /// Place, cause and cure.
        reason: String,
    },
}

impl Error {
    /// True if another credential is required: HTTP status 401. Otherwise the credential is valid, but does
    /// not suffice: 403.
    pub const fn is_unauthenticated(&self) -> bool {
        !matches!(
            self,
            Error::Right { .. }
                | Error::Group { .. }
                | Error::GroupOfPath { .. }
                | Error::Selection { .. }
                | Error::Lessened { .. }
        )
    }
}
