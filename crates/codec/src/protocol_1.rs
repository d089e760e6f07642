//! Protocol 1: messages about queries, and their answers, as CBOR.
//!
//! Spoken where the cluster state names this protocol, and understood always. Goes when protocol 1 does.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// Encodes a message after other bytes.
///
/// # Errors
/// The message is one that is not sent, such as a variant for the own process.
pub fn append(mut out: Vec<u8>, message: &impl Serialize) -> Result<Vec<u8>, Error> {
    ciborium::into_writer(message, &mut out).map_err(Error::EncodeCbor)?;
    Ok(out)
}

/// Decodes a message. Fields that are not known are passed over.
///
/// # Errors
/// The bytes are not CBOR, or not this message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    ciborium::from_reader(bytes).map_err(Error::DecodeCbor)
}
