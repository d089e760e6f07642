//! The bytes of messages between the nodes of a cluster, from protocol 2 on: their `serde` form in postcard.
//!
//! Fields and variants are identified by their order, so that a message takes little more than its own bytes.
//! Therefore a message type cannot have fields that are left out (`skip_serializing_if`), flattened, or
//! untagged (a reader would have to try its variants), and a later protocol adds variants, not fields.
//!
//! Lengths are checked against the rest of the message before memory is allocated for them. Postcard does
//! not bound nesting: a message type that contains itself bounds its own depth.
//!
//! Messages about queries were CBOR in protocol 1; that lives in a module of its own ([`protocol_1`]) until
//! the protocol is given up. This crate knows neither the messages nor how they travel.

mod error;
pub mod protocol_1;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use error::Error;

/// Encodes a message; `expected` is its approximate size, in bytes.
///
/// # Errors
/// The message is one that is not sent, such as a variant for the own process.
pub fn encode(message: &impl Serialize, expected: usize) -> Result<Vec<u8>, Error> {
    append(Vec::with_capacity(expected), message)
}

/// Encodes a message after others.
///
/// # Errors
/// Those of [`encode`].
pub fn append(out: Vec<u8>, message: &impl Serialize) -> Result<Vec<u8>, Error> {
    postcard::to_extend(message, out).map_err(Error::Encode)
}

/// Decodes a message.
///
/// # Errors
/// [`Error::Malformed`] if it breaks off; [`Error::Unknown`] if it contains, or is followed by, more than
/// this program knows.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let (message, rest) = decode_first(bytes)?;
    if rest.is_empty() { Ok(message) } else { Err(Error::Unknown("bytes are left after a message")) }
}

/// Decodes the first of several messages; also returns the bytes of the others.
///
/// # Errors
/// Those of [`decode`].
pub fn decode_first<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), Error> {
    postcard::take_from_bytes(bytes).map_err(|error| match error {
        postcard::Error::DeserializeUnexpectedEnd => Error::Malformed("a message breaks off"),
        // Either the number of a variant, or a value that its type refuses, such as a document id.
        postcard::Error::SerdeDeCustom => Error::Unknown("a message has a part of no known kind"),
        _ => Error::Malformed("a message is not encoded as one"),
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    enum Sample {
        Rows(Vec<(u8, String)>),
        #[serde(skip)]
        Local,
    }

    #[test]
    fn a_length_that_a_message_does_not_have_is_refused_before_memory_is_allocated() {
        // 4,294,967,295 bytes of text, bytes, or rows.
        let length = [0xff, 0xff, 0xff, 0xff, 0x0f];
        assert!(matches!(decode::<String>(&length), Err(Error::Malformed(_))));
        let text = [&[1][..], &length, &[0; 14]].concat();
        assert!(matches!(decode::<(u8, String)>(&text), Err(Error::Malformed(_))));
        let rows = [&[0][..], &length, &[7, 1, b'a']].concat();
        assert!(matches!(decode::<Sample>(&rows), Err(Error::Malformed(_))));
        // Longer than any number.
        assert!(matches!(decode::<String>(&[0xff; 20]), Err(Error::Malformed(_))));
    }

    #[test]
    fn what_follows_a_message_is_of_a_newer_protocol() {
        assert!(matches!(decode::<u8>(&[1]), Ok(1)));
        assert!(matches!(decode::<u8>(&[1, 2]), Err(Error::Unknown(_))));
        assert!(matches!(decode::<Option<u8>>(&[2]), Err(Error::Malformed(_))));
        assert!(matches!(decode::<Sample>(&[200, 1]), Err(Error::Unknown(_))));
    }

    #[test]
    fn what_is_not_sent_is_not_encoded() {
        assert!(matches!(encode(&Sample::Local, 0), Err(Error::Encode(_))));
        assert!(matches!(protocol_1::append(Vec::new(), &Sample::Local), Err(Error::EncodeCbor(_))));
        let rows = Sample::Rows(vec![(7, "a".to_owned())]);
        assert_eq!(decode::<Sample>(&encode(&rows, 8).unwrap()).unwrap(), rows);
        assert_eq!(encode(&rows, 8).unwrap(), [0, 1, 7, 1, b'a']);
    }
}
