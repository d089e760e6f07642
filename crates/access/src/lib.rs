//! Access: from the credential of a request to its [`RequestCaller`], with rights, groups and limits.
//!
//! A [`Keyring`] has all credentials that a server accepts: API keys, which are stored as hashes, and the
//! keys of signed tokens (JSON Web Tokens, RFC 7519). [`Keyring::caller`] finds the caller of a credential.
//! Ports check rights by path and method ([`AccessRule`]). Groups are checked on the result of parsing a
//! request, never on its parameters: [`RequestCaller::permit`] returns a [`Permit`], which only a caller can
//! make, and which every function that reads or writes documents for a request requires.
//!
//! An application can declare clients of its own ([`DeclaredClients`]), which are known by a certificate or
//! by an API key of the server.
//!
//! This crate has no I/O: it parses the text of files, and the caller passes the time.

mod api_key;
mod caller;
mod certificate;
mod declared;
mod error;
pub mod fuzz;
mod keyring;
mod permit;
mod provider;
mod rules;
mod signed;

pub use api_key::{ApiKey, KeyRecord};
pub use caller::{AccessRight, AccessRights, CallerGroups, CallerLimits, RequestCaller};
pub use certificate::{CertificateHash, ClientCertificate};
pub use declared::{DeclaredClient, DeclaredClients, RequestCredentials};
pub use error::Error;
pub use keyring::{AccessFile, Keyring, KeyringSources, TokenKeySet};
pub use permit::{Permit, WantedGroups};
pub use rules::{AccessRule, PortKind, RequestMethod};
