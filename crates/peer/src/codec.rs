//! The codec of all messages between nodes from protocol 2 on: their `serde` form in postcard.
//!
//! Fields and variants are identified by their order, so that a row takes little more than its own bytes.
//! Lengths are checked against the rest of the message before memory is allocated for them; message types
//! contain no type that contains itself, so nesting is bounded.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// Encodes a message; `expected` is its approximate size, in bytes.
pub(crate) fn encode(message: &impl Serialize, expected: usize) -> Vec<u8> {
    append(Vec::with_capacity(expected), message)
}

/// Encodes a message after others.
pub(crate) fn append(out: Vec<u8>, message: &impl Serialize) -> Vec<u8> {
    // Lists and maps know their lengths, and a vector takes all bytes.
    postcard::to_extend(message, out).expect("a message of plain data can be encoded")
}

/// Decodes a message.
///
/// # Errors
/// [`Error::Message`] if it breaks off; [`Error::Unknown`] if it contains, or is followed by, more than this
/// program knows.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    let (message, rest) = decode_first(bytes)?;
    if rest.is_empty() { Ok(message) } else { Err(Error::Unknown("bytes are left after a message")) }
}

/// Decodes the first of several messages; also returns the bytes of the others.
///
/// # Errors
/// As [`decode`].
pub(crate) fn decode_first<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), Error> {
    postcard::take_from_bytes(bytes).map_err(|error| match error {
        postcard::Error::DeserializeUnexpectedEnd => Error::Message("a message breaks off"),
        // Either the number of a variant, or a value that its type refuses, such as a document id.
        postcard::Error::SerdeDeCustom => Error::Unknown("a message has a part of no known kind"),
        _ => Error::Message("a message is not encoded as one"),
    })
}

#[cfg(test)]
mod tests {
    use millrace_cluster::{NodeReply, NodeRequest};

    use super::*;

    #[test]
    fn a_length_that_a_message_does_not_have_is_refused_before_memory_is_allocated() {
        // Kind 3, and 4,294,967,295 rows; kind 2, and as many replicas.
        let length = [0xff, 0xff, 0xff, 0xff, 0x0f];
        let row = [10, 77, 0, 0x7f, b'i', b'd', b':'];
        let rows = [&[3][..], &length, &row].concat();
        assert!(matches!(decode::<NodeRequest>(&rows), Err(Error::Message(_))));
        let replicas = [&[7, 2][..], &length, &[0; 13]].concat();
        assert!(matches!(decode::<NodeReply>(&replicas), Err(Error::Message(_))));
        // A text, and bytes.
        assert!(matches!(decode::<String>(&length), Err(Error::Message(_))));
        assert!(matches!(
            decode::<(u8, String)>(&[&[1][..], &length, &[0; 14]].concat()),
            Err(Error::Message(_))
        ));
        // Longer than any number.
        assert!(matches!(decode::<String>(&[0xff; 20]), Err(Error::Message(_))));
    }

    #[test]
    fn what_follows_a_message_is_of_a_newer_protocol() {
        assert!(matches!(decode::<u8>(&[1]), Ok(1)));
        assert!(matches!(decode::<u8>(&[1, 2]), Err(Error::Unknown(_))));
        assert!(matches!(decode::<Option<u8>>(&[2]), Err(Error::Message(_))));
        assert!(matches!(decode::<NodeRequest>(&[200, 1]), Err(Error::Unknown(_))));
    }
}
